//! The answers of a policy.

pub use crate::request::Action;
use crate::filter::Search;
use crate::wire;
use alloc::borrow::Cow;
use alloc::vec::Vec;

/// A policy's decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    pub action: Action,
    /// Stable code of the rule that decided: a-z 0-9 - . _, at most 64 bytes.
    pub rule: &'static str,
    /// Standard prefix of the reason (NIP-01, NIP-42).
    pub prefix: &'static str,
    /// The reason after its prefix, for people. The host cuts a longer one to 1 KiB.
    pub text: Cow<'static, str>,
    /// Seconds, see [`Verdict::retry_for`].
    pub retry: u32,
    /// See [`Verdict::only_keys`].
    pub keys: Vec<u8>,
    /// See [`Verdict::only_members`].
    pub set: &'static str,
    /// An encoded filter, see [`Verdict::awaiting`].
    pub wake: Vec<u8>,
    /// Seconds, see [`Verdict::awaiting`].
    pub wait: u32,
    /// See [`Verdict::ending`].
    pub end: bool,
    /// See [`Verdict::within`].
    pub max_author_bytes: u64,
    /// See [`Verdict::within`].
    pub max_repository_bytes: u64,
}

impl Verdict {
    fn new(action: Action, prefix: &'static str, text: Cow<'static, str>) -> Self {
        Verdict {
            action,
            rule: "",
            prefix,
            text,
            retry: 0,
            keys: Vec::new(),
            set: "",
            wake: Vec::new(),
            wait: 0,
            end: false,
            max_author_bytes: 0,
            max_repository_bytes: 0,
        }
    }

    /// No opinion: the next policy decides. If all pass, an event is refused; a query, a
    /// connection and a push are allowed.
    pub fn pass() -> Self {
        Verdict::new(Action::Pass, "", Cow::Borrowed(""))
    }

    /// Stores the event, or allows the request. Later policies are not asked.
    pub fn accept() -> Self {
        Verdict::new(Action::Accept, "", Cow::Borrowed(""))
    }

    /// Refuses. The prefix is "blocked", "invalid", "pow", "rate-limited", "restricted", "mute",
    /// "error" or "duplicate".
    pub fn reject(prefix: &'static str, text: impl Into<Cow<'static, str>>) -> Self {
        Verdict::new(Action::Reject, prefix, text.into())
    }

    /// Refuses the event, and tells the client that it was stored. Answers a query as if
    /// nothing were here.
    pub fn shadow_reject() -> Self {
        Verdict::new(Action::ShadowReject, "", Cow::Borrowed(""))
    }

    /// Keeps the event in purgatory. Only an event can be held.
    pub fn hold(text: impl Into<Cow<'static, str>>) -> Self {
        Verdict::new(Action::Hold, "purgatory", text.into())
    }

    /// Refuses the event or the query until the client authenticates (NIP-42).
    pub fn require_auth(text: impl Into<Cow<'static, str>>) -> Self {
        Verdict::new(Action::RequireAuth, "auth-required", text.into())
    }

    /// Lets only clients that prove one of the keys receive the event: 32 bytes each, one
    /// after the other, at most 1,000 keys.
    pub fn only_keys(keys: Vec<u8>) -> Self {
        let mut verdict = Verdict::nobody();
        verdict.keys = keys;
        verdict
    }

    /// Lets only members of a set of the module receive the event.
    pub fn only_members(set: &'static str) -> Self {
        let mut verdict = Verdict::nobody();
        verdict.set = set;
        verdict
    }

    /// Lets nobody receive the event.
    pub fn nobody() -> Self {
        Verdict::new(Action::Restrict, "", Cow::Borrowed(""))
    }

    /// The same with the code of the rule that decided, for metrics and logs. It must
    /// not change between versions of a module.
    pub fn by(mut self, rule: &'static str) -> Self {
        self.rule = rule;
        self
    }

    /// The refusal of an event, such that the host decides about the event once more when
    /// another of its author is accepted within so many seconds, at most 60. The client is
    /// answered at once.
    pub fn retry_for(mut self, seconds: u32) -> Self {
        self.retry = seconds;
        self
    }

    /// Has a held event wait for another event that the filter matches: one that is stored or held
    /// later. The filter has ids, authors or tags, and at most 4 KiB as JSON. The host then decides
    /// about the held event again, with all policies. It may do that at other times too. It holds
    /// the event for so many seconds, at most 30 days; 0 is 7 days.
    pub fn awaiting(mut self, filter: Search, seconds: u32) -> Self {
        self.wake = filter.0;
        self.wait = seconds;
        self
    }

    /// Has the host refuse the event or the push if the author would then have more than so
    /// many bytes of events and git data, or the repository of a push more bytes of git data.
    /// The author of a push is the owner of the repository. 0 is no limit.
    pub fn within(mut self, author: u64, repository: u64) -> Self {
        self.max_author_bytes = author;
        self.max_repository_bytes = repository;
        self
    }

    /// Has the host end the connection after it has answered: an event or a query of a client.
    pub fn ending(mut self) -> Self {
        self.end = true;
        self
    }

    pub(crate) fn write(&self, b: &mut Vec<u8>) {
        if self.action != Action::Pass {
            wire::put_number(b, 1, self.action as u64);
        }
        wire::put_text(b, 2, self.rule);
        let text = cut(&self.text);
        match self.prefix {
            "" => wire::put_text(b, 3, text),
            prefix => wire::put_parts(b, 3, &[prefix.as_bytes(), b": ", text.as_bytes()]),
        }
        if self.end {
            wire::put_number(b, 4, 1);
        }
        if self.retry > 0 {
            wire::put_number(b, 10, self.retry as u64);
        }
        if !self.keys.is_empty() {
            wire::put_data(b, 12, &self.keys);
        }
        wire::put_text(b, 13, self.set);
        if !self.wake.is_empty() {
            if self.wait > 0 {
                wire::put_number(b, 7, self.wait as u64);
            }
            wire::put_data(b, 14, &self.wake);
        }
        if self.max_author_bytes > 0 {
            wire::put_number(b, 5, self.max_author_bytes);
        }
        if self.max_repository_bytes > 0 {
            wire::put_number(b, 6, self.max_repository_bytes);
        }
    }
}

/// The part of a text that the host keeps.
pub(crate) fn cut(text: &str) -> &str {
    cut_to(text, 1024)
}

/// The start of a text, at most so many bytes.
pub(crate) fn cut_to(text: &str, most: usize) -> &str {
    let mut n = text.len().min(most);
    while !text.is_char_boundary(n) {
        n -= 1;
    }
    &text[..n]
}
