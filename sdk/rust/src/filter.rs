//! Filters: those that a client asks with, and those that a policy asks with.

use crate::event::keys;
use crate::key::Key;
use crate::wire::{self, Field};
use alloc::vec::Vec;

/// A client's filter (NIP-01), read in place. A list that is empty is no condition.
#[derive(Clone, Copy)]
pub struct Filter<'a>(pub(crate) &'a [u8]);

impl<'a> Filter<'a> {
    pub fn ids(&self) -> impl Iterator<Item = &'a Key> {
        keys(self.0, 1)
    }

    pub fn authors(&self) -> impl Iterator<Item = &'a Key> {
        keys(self.0, 2)
    }

    pub fn kinds(&self) -> impl Iterator<Item = u32> + 'a {
        wire::numbers(self.0, 3).map(wire::uint)
    }

    pub fn tags(&self) -> impl Iterator<Item = Condition<'a>> {
        wire::values(self.0, 4).map(Condition)
    }

    fn number(&self, want: u32) -> Option<u64> {
        let mut found = None;
        for field in wire::fields(self.0) {
            match field {
                Field::Number(number, v) if number == want => found = Some(v),
                _ => {}
            }
        }
        found
    }

    /// In unix seconds, inclusive.
    pub fn since(&self) -> Option<i64> {
        self.number(5).map(|v| v as i64)
    }

    /// In unix seconds, inclusive.
    pub fn until(&self) -> Option<i64> {
        self.number(6).map(|v| v as i64)
    }

    pub fn limit(&self) -> Option<u32> {
        self.number(7).map(wire::uint)
    }
}

/// A condition on a tag of one letter: it has one of the values.
#[derive(Clone, Copy)]
pub struct Condition<'a>(&'a [u8]);

impl<'a> Condition<'a> {
    pub fn name(&self) -> &'a str {
        wire::text(wire::data(self.0, 1))
    }

    pub fn values(&self) -> impl Iterator<Item = &'a str> {
        wire::values(self.0, 2).map(wire::text)
    }
}

/// Asks for the events at addresses, kind:pubkey:d. There is at most one stored event for each,
/// however many others have announced under the same d. A name for [`Search::tag`].
pub const BY_ADDRESS: &str = "address";

/// Asks for the repository announcements (NIP-34) that list a maintainer. Its values are
/// pubkey:identifier. A name for [`Search::tag`].
pub const BY_MAINTAINER: &str = "maintainer";

/// A filter to ask with: the host, or, in a strategy, a relay.
///
/// ```ignore
/// let profiles = host::query(&Search::new().author(author).kind(0).limit(1));
/// ```
#[derive(Clone, Default)]
pub struct Search(pub(crate) Vec<u8>);

impl Search {
    pub fn new() -> Self {
        Search::default()
    }

    pub fn id(mut self, id: &Key) -> Self {
        wire::put_data(&mut self.0, 1, id);
        self
    }

    pub fn author(mut self, key: &Key) -> Self {
        wire::put_data(&mut self.0, 2, key);
        self
    }

    pub fn kind(self, kind: u32) -> Self {
        self.kinds(&[kind])
    }

    pub fn kinds(mut self, kinds: &[u32]) -> Self {
        if !kinds.is_empty() {
            wire::put_message(&mut self.0, 3, |b| {
                kinds
                    .iter()
                    .for_each(|&kind| wire::put_varint(b, kind.into()));
            });
        }
        self
    }

    /// A tag whose name is one letter, or [`BY_ADDRESS`] or [`BY_MAINTAINER`], with one of
    /// the values.
    pub fn tag(mut self, name: &str, values: &[impl AsRef<str>]) -> Self {
        wire::put_message(&mut self.0, 4, |b| {
            wire::put_text(b, 1, name);
            for value in values {
                wire::put_data(b, 2, value.as_ref().as_bytes());
            }
        });
        self
    }

    /// In unix seconds, inclusive.
    pub fn since(mut self, t: i64) -> Self {
        wire::put_number(&mut self.0, 5, t as u64);
        self
    }

    /// In unix seconds, inclusive.
    pub fn until(mut self, t: i64) -> Self {
        wire::put_number(&mut self.0, 6, t as u64);
        self
    }

    pub fn limit(mut self, n: u32) -> Self {
        wire::put_number(&mut self.0, 7, n.into());
        self
    }

    /// The events may come without tags, content and signature, which costs no fuel for
    /// their size.
    pub fn header(mut self) -> Self {
        wire::put_number(&mut self.0, 8, 1);
        self
    }
}
