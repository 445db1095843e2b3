//! Throttles: how hard to press on other people's servers, and how much clients may
//! press on this one.
//!
//! A throttle is a type that implements [`Throttle`], given to
//! [`throttle!`](crate::throttle!) together with its manifest. Each request carries the
//! facts, so that a module need not remember. The guide is
//! docs/how-to-write-a-throttle.md; what the fields mean is written in
//! sdk/abi/talon.proto.
//!
//! A point in time is in unix milliseconds, a length of time in milliseconds; 0 is
//! "never" or "not known".

use crate::config::{Config, WrongValue};
use crate::message::{message, names};
use crate::request::Origin;
use crate::strategy::MOST_REASON;
use crate::verdict::cut_to;
use crate::wire;
use alloc::borrow::Cow;
use alloc::vec::Vec;

pub const SECOND: i64 = 1000;
pub const MINUTE: i64 = 60 * SECOND;
pub const HOUR: i64 = 60 * MINUTE;
pub const DAY: i64 = 24 * HOUR;

/// A throttle. Which of its methods the host calls is in "functions" of the manifest,
/// all of them where that is absent. One instance answers all.
pub trait Throttle: Sized {
    /// Makes the throttle of its settings. An error refuses the configuration.
    fn configure(config: &Config) -> Result<Self, WrongValue>;

    /// How long to wait before the first attempt: for a repository, whose event was
    /// held, or for a relay that was not connected before?
    fn delay(&mut self, input: &Delay) -> DelayAnswer;

    /// May one more request to a domain, or a connection to a relay, start now?
    fn admit(&mut self, input: &Admit) -> AdmitAnswer;

    /// A request, a connection or a round for a repository ended: when to go on?
    fn after(&mut self, input: &After) -> AfterAnswer;

    /// Which of the repositories that wait for a domain is next?
    fn pick(&mut self, input: &Pick) -> PickAnswer;

    /// How this server is doing, every few seconds: what may clients do?
    fn tick(&mut self, input: &Tick) -> TickAnswer;
}

names! {
    /// What a throttle is asked about.
    SubjectKind {
        Unspecified = 0,
        /// Git requests to a domain.
        Domain = 1,
        /// Connections to a relay.
        Relay = 2,
        /// The search for a repository's git data, over all its domains.
        Repository = 3,
    }
}

names! {
    /// How something ended.
    Outcome {
        Unspecified = 0,
        /// Relay: connected; domain: everything that was asked for.
        Ok = 1,
        /// Some of it.
        Partial = 2,
        /// The server answered, and has none of it.
        NotFound = 3,
        /// 429; a NOTICE or CLOSED that says so.
        RateLimited = 4,
        /// 401, 403; not for us.
        Refused = 5,
        /// 5xx
        Server = 6,
        Timeout = 7,
        /// No connection, or it broke.
        Unreachable = 8,
        /// The name has no address.
        Dns = 9,
        /// The certificate or handshake is wrong.
        Tls = 10,
        /// Not what git or nostr allow.
        Protocol = 11,
        /// The host stopped reading.
        TooLarge = 12,
        /// Relay: a connection that was up ended.
        Disconnected = 13,
    }
}

names! {
    /// What a throttle thinks of a domain or relay; kept across restarts.
    Health {
        /// As it was.
        Unchanged = 0,
        Healthy = 1,
        /// Failing, tried again soon.
        Degraded = 2,
        /// Failing for long, tried again seldom.
        Dead = 3,
        /// Its name, certificate or protocol is broken: set aside.
        Barred = 4,
    }
}

message! {
    /// What a throttle is asked about, and what happened with it lately.
    Subject ['a] {
        kind: SubjectKind = 1,
        /// A host name, with the port if it is another; a relay's URL; 30617:pubkey:d.
        name: &'a str = 2,
        /// Requests, connection attempts.
        in_flight: u32 = 3,
        /// In a row.
        failures: u32 = 5,
        /// The first of them.
        failing_since: i64 = 6,
        last_success: i64 = 7,
        /// What the throttle last said.
        not_before: i64 = 8,
        /// What the throttle last said.
        health: Health = 9,
    }
}

impl<'a> Subject<'a> {
    /// Milliseconds since each of the latest starts, newest first, at most 256.
    pub fn ages(&self) -> impl Iterator<Item = u32> + 'a {
        wire::numbers(self.raw, 4).map(wire::uint)
    }

    /// How long to wait until one more start keeps to at most that many in any window of
    /// this length: 0 if it may be now.
    pub fn until_free(&self, most: u32, window: i64) -> i64 {
        match (most as usize).checked_sub(1).map(|i| self.ages().nth(i)) {
            Some(Some(age)) => (window - i64::from(age)).max(0),
            Some(None) => 0,
            None => window,
        }
    }
}

message! {
    /// What [`Throttle::delay`] is asked.
    Delay ['a] {
        now: i64 = 1,
        /// A repository or a relay.
        subject: Subject<'a> = 2,
        /// Of the event.
        origin: Origin = 3,
        /// Of the event.
        event_kind: u32 = 4,
        /// The attempt that is planned already; the sooner one counts.
        planned: i64 = 5,
    }
}

message! {
    /// What [`Throttle::admit`] is asked.
    Admit ['a] {
        now: i64 = 1,
        /// A domain or a relay.
        subject: Subject<'a> = 2,
        /// That it is for; empty for a relay.
        repository: &'a str = 3,
        /// Of this kind, to everybody.
        all_in_flight: u32 = 4,
    }
}

message! {
    /// What [`Throttle::after`] is told. For a repository: one round over all its URLs
    /// that left something missing.
    After ['a] {
        now: i64 = 1,
        /// Failures and ages with what is told here.
        subject: Subject<'a> = 2,
        outcome: Outcome = 3,
        /// That a request to a domain was for.
        repository: &'a str = 4,
        /// Of HTTP.
        status: u32 = 5,
        /// What the server asked for, from now.
        retry_after: i64 = 6,
        took: i64 = 7,
        /// Received.
        bytes: i64 = 8,
        /// Objects that were missing and are there now.
        found: u32 = 9,
        /// Objects that are still missing.
        missing: u32 = 10,
        /// Repository: rounds since its latest event.
        attempts: u32 = 11,
        /// Repository: when its search began; relay: when the connection was made.
        since: i64 = 12,
        /// What the server or the network said.
        reason: &'a str = 13,
    }
}

message! {
    /// What [`Throttle::pick`] is asked.
    Pick ['a] {
        now: i64 = 1,
        /// The domain.
        subject: Subject<'a> = 2,
    }
}

impl<'a> Pick<'a> {
    /// At most 16, those first who were served longest ago.
    pub fn waiting(&self) -> impl Iterator<Item = Waiting<'a>> {
        wire::values(self.raw, 3).map(Waiting::read)
    }
}

message! {
    /// A repository that waits for a domain.
    Waiting ['a] {
        repository: &'a str = 1,
        /// When it came into this queue.
        since: i64 = 2,
        /// When this domain was last asked for it; 0: not yet.
        last_tried: i64 = 3,
        /// Rounds since its latest event.
        attempts: u32 = 4,
        /// Objects.
        missing: u32 = 5,
        /// Of this domain that are not tried yet.
        urls: u32 = 6,
    }
}

message! {
    /// What [`Throttle::tick`] is told. The host keeps to `least` and `most`, the
    /// operator's, whatever the answer.
    Tick [] {
        now: i64 = 1,
        telemetry: Telemetry = 2,
        current: ClientLimits = 3,
        least: ClientLimits = 4,
        most: ClientLimits = 5,
    }
}

message! {
    /// What one client may do. 0: no limit.
    ClientLimits [] {
        /// From one address.
        connections: u32 = 1,
        /// Open on one connection.
        subscriptions: u32 = 2,
        /// Of one subscription.
        filters: u32 = 3,
        /// EVENT messages in a minute.
        events: u32 = 4,
        /// REQ, COUNT and NEG-OPEN in a minute.
        queries: u32 = 5,
        /// In a second.
        bytes_in: i64 = 6,
        /// In a second.
        bytes_out: i64 = 7,
    }
}

message! {
    /// How this server is doing, over the time since the last tick.
    Telemetry [] {
        interval: i64 = 1,
        /// Share of all processors, 0 to 1.
        cpu: f64 = 2,
        /// Bytes in use.
        memory: i64 = 3,
        /// Bytes; 0: none.
        memory_limit: i64 = 4,
        connections: u32 = 5,
        subscriptions: u32 = 6,
        /// In a second, that clients sent.
        events: f64 = 7,
        /// In a second.
        queries: f64 = 8,
        /// In a second.
        bytes_in: f64 = 9,
        /// In a second.
        bytes_out: f64 = 10,
        /// Events that wait to be decided or written.
        queue: u32 = 11,
        queue_limit: u32 = 12,
        /// EVENT to OK, 99 of 100, in microseconds.
        answer_time: i64 = 13,
        /// That do not read fast enough.
        slow_clients: u32 = 14,
    }
}

/// The time to wait after that many failures in a row: `first` after the first one,
/// then twice as long each time, at most `most`.
pub fn backoff(first: i64, most: i64, failures: u32) -> i64 {
    let doublings = failures.saturating_sub(1).min(62);
    first.saturating_mul(1 << doublings).min(most)
}

/// When to try, from now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DelayAnswer {
    pub delay: i64,
    /// When to give the event up; 0: the host's own.
    pub expiry: i64,
}

impl DelayAnswer {
    pub(crate) fn write(&self, b: &mut Vec<u8>) {
        wire::put_some(b, 1, self.delay as u64);
        wire::put_some(b, 2, self.expiry as u64);
    }
}

/// Whether a request may start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdmitAnswer {
    Start,
    /// Ask again after this time, at least a millisecond.
    Wait(i64),
    /// Ask again when another request to the same subject has ended.
    WaitForEnd,
}

impl AdmitAnswer {
    pub(crate) fn write(&self, b: &mut Vec<u8>) {
        match *self {
            AdmitAnswer::Start => wire::put_number(b, 1, 1),
            AdmitAnswer::Wait(millis) => wire::put_number(b, 2, millis.max(1) as u64),
            AdmitAnswer::WaitForEnd => {}
        }
    }
}

/// When to go on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AfterAnswer {
    /// From now: not before.
    pub delay: i64,
    /// Repository: end the search.
    pub give_up: bool,
    /// Of a domain or relay.
    pub health: Health,
    /// For the operator; of one that is too long, the start is told.
    pub reason: Cow<'static, str>,
}

impl AfterAnswer {
    pub(crate) fn write(&self, b: &mut Vec<u8>) {
        wire::put_some(b, 1, self.delay as u64);
        wire::put_some(b, 2, self.give_up.into());
        wire::put_some(b, 3, self.health as u64);
        wire::put_text(b, 4, cut_to(&self.reason, MOST_REASON));
    }
}

/// Who is next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PickAnswer {
    /// The repository at this place of those that wait.
    Next(usize),
    /// Nobody until another request has ended.
    Nobody,
}

impl PickAnswer {
    pub(crate) fn write(&self, b: &mut Vec<u8>) {
        match *self {
            PickAnswer::Next(index) => wire::put_some(b, 1, index as u64),
            PickAnswer::Nobody => wire::put_number(b, 2, 1),
        }
    }
}

/// What clients may do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TickAnswer {
    /// What they may now.
    Keep,
    /// The host brings the limits within the operator's.
    Limit(ClientLimits),
}

impl TickAnswer {
    pub(crate) fn write(&self, b: &mut Vec<u8>) {
        let l = match self {
            TickAnswer::Keep => return,
            TickAnswer::Limit(limits) => limits,
        };
        wire::put_message(b, 1, |b| {
            for (field, v) in (1..).zip([
                l.connections,
                l.subscriptions,
                l.filters,
                l.events,
                l.queries,
            ]) {
                wire::put_some(b, field, v.into());
            }
            wire::put_some(b, 6, l.bytes_in as u64);
            wire::put_some(b, 7, l.bytes_out as u64);
        });
    }
}
