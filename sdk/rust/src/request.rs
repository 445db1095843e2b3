//! The requests to a policy. Everything is a view of the request.

use crate::event::{keys, Event};
use crate::key::Key;
use crate::wire::{self, Field};

mod messages;

pub use messages::*;

/// One event, and where it comes from.
pub struct Admit<'a> {
    event: Event<'a>,
    source: &'a [u8],
    now: i64,
}

impl<'a> Admit<'a> {
    pub(crate) fn read(message: &'a [u8]) -> Self {
        let (mut event, mut source, mut now) = (&[][..], &[][..], 0);
        for field in wire::fields(message) {
            match field {
                Field::Data(1, data) => event = data,
                Field::Data(2, data) => source = data,
                Field::Number(3, v) => now = v as i64,
                _ => {}
            }
        }
        Admit {
            event: Event::read(event),
            source,
            now,
        }
    }

    pub fn event(&self) -> &Event<'a> {
        &self.event
    }

    /// In unix seconds, the only clock there is.
    pub fn now(&self) -> i64 {
        self.now
    }

    pub fn origin(&self) -> Origin {
        wire::numbers(self.source, 1)
            .last()
            .map_or(Origin::Unknown, Origin::of)
    }

    /// The client's IP address, or empty if there is none.
    pub fn address(&self) -> &'a str {
        wire::text(wire::data(self.source, 2))
    }

    /// The URL of the relay that sent the event, for [`Origin::Sync`].
    pub fn relay(&self) -> &'a str {
        wire::text(wire::data(self.source, 3))
    }

    /// The keys that the client has proven (NIP-42).
    pub fn authed(&self) -> impl Iterator<Item = &'a Key> {
        keys(self.source, 4)
    }
}
