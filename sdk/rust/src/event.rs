//! Events and their parts.

use crate::key::{view, Key};
use crate::wire::{self, Field, Values};
use alloc::vec::Vec;

/// A nostr event (NIP-01), read in place. Its id and signature are right.
#[derive(Clone, Copy)]
pub struct Event<'a> {
    message: &'a [u8],
    id: &'a [u8],
    pubkey: &'a [u8],
    content: &'a [u8],
    sig: &'a [u8],
    created_at: i64,
    kind: u32,
}

impl<'a> Event<'a> {
    pub(crate) fn read(message: &'a [u8]) -> Self {
        let mut e = Event {
            message,
            id: &[],
            pubkey: &[],
            content: &[],
            sig: &[],
            created_at: 0,
            kind: 0,
        };
        for field in wire::fields(message) {
            match field {
                Field::Data(1, data) => e.id = data,
                Field::Data(2, data) => e.pubkey = data,
                Field::Number(3, v) => e.created_at = v as i64,
                Field::Number(4, v) => e.kind = v as u32,
                Field::Data(6, data) => e.content = data,
                Field::Data(7, data) => e.sig = data,
                _ => {}
            }
        }
        e
    }

    pub fn id(&self) -> &'a Key {
        view(self.id)
    }

    /// The author.
    pub fn pubkey(&self) -> &'a Key {
        view(self.pubkey)
    }

    /// 64 bytes.
    pub fn sig(&self) -> &'a [u8] {
        self.sig
    }

    /// In unix seconds.
    pub fn created_at(&self) -> i64 {
        self.created_at
    }

    /// 0 to 65535.
    pub fn kind(&self) -> u32 {
        self.kind
    }

    pub fn content(&self) -> &'a str {
        wire::text(self.content)
    }

    /// The content's bytes, which costs less than [`Event::content`]: that looks
    /// whether they are UTF-8.
    pub fn content_bytes(&self) -> &'a [u8] {
        self.content
    }

    pub fn tags(&self) -> impl Iterator<Item = Tag<'a>> {
        wire::values(self.message, 5).map(Tag)
    }

    /// The value of the first tag with this name.
    pub fn tag(&self, name: &str) -> Option<&'a str> {
        self.tags()
            .find(|tag| tag.name() == name)
            .map(|tag| tag.value())
    }
}

/// A tag of an event: its name, then its values.
#[derive(Clone, Copy)]
pub struct Tag<'a>(&'a [u8]);

impl<'a> Tag<'a> {
    /// All items, the name included.
    pub fn items(&self) -> impl Iterator<Item = &'a str> {
        wire::values(self.0, 1).map(wire::text)
    }

    /// The first item, empty if there is none.
    pub fn name(&self) -> &'a str {
        self.items().next().unwrap_or("")
    }

    /// The second item, empty if there is none.
    pub fn value(&self) -> &'a str {
        self.items().nth(1).unwrap_or("")
    }
}

/// Events that the host has answered with, newest first.
pub struct Events(pub(crate) Vec<u8>);

impl Events {
    pub fn iter(&self) -> impl Iterator<Item = Event<'_>> {
        wire::values(&self.0, 1).map(Event::read)
    }

    /// Whether others may match: the list is as long as it may be, or an event was too
    /// large for it.
    pub fn more(&self) -> bool {
        wire::numbers(&self.0, 2).last().unwrap_or(0) != 0
    }
}

/// The keys in a repeated field.
pub(crate) fn keys(message: &[u8], field: u32) -> impl Iterator<Item = &Key> {
    let keys: Values = wire::values(message, field);
    keys.map(view)
}
