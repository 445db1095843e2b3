//! What a policy is asked about. Everything is a view of the request.

use crate::event::{keys, Event};
use crate::filter::Filter;
use crate::key::Key;
use crate::wire::{self, Field};

/// The door through which an event came in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// The host does not say, or says what this version does not know.
    #[default]
    Unknown,
    /// A client of this relay.
    Client,
    /// The operator's import.
    Import,
    /// Another relay.
    Sync,
}

impl Origin {
    pub(crate) fn of(v: u64) -> Self {
        match v as u32 {
            1 => Origin::Client,
            2 => Origin::Import,
            3 => Origin::Sync,
            _ => Origin::Unknown,
        }
    }
}

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

    /// The client's IP address, empty where there is none.
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

/// Who is at the other end of a connection.
#[derive(Clone, Copy)]
pub struct Client<'a>(&'a [u8]);

impl<'a> Client<'a> {
    /// The IP address, empty where there is none.
    pub fn address(&self) -> &'a str {
        wire::text(wire::data(self.0, 1))
    }

    /// The keys that the client has proven (NIP-42).
    pub fn authed(&self) -> impl Iterator<Item = &'a Key> {
        keys(self.0, 2)
    }

    /// What the client says of itself.
    pub fn user_agent(&self) -> &'a str {
        wire::text(wire::data(self.0, 3))
    }

    /// The page that a browser was on, empty for other clients.
    pub fn origin(&self) -> &'a str {
        wire::text(wire::data(self.0, 4))
    }

    /// That of the request, "/" for most.
    pub fn path(&self) -> &'a str {
        wire::text(wire::data(self.0, 5))
    }
}

/// What a client does with filters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// The host does not say, or says what this version does not know.
    Unknown,
    /// REQ: stored and live events.
    Req,
    /// COUNT (NIP-45).
    Count,
    /// NEG-OPEN (NIP-77).
    Neg,
}

/// The filters of one message.
pub struct Query<'a> {
    message: &'a [u8],
    client: &'a [u8],
    verb: u64,
    now: i64,
}

impl<'a> Query<'a> {
    pub(crate) fn read(message: &'a [u8]) -> Self {
        let mut q = Query {
            message,
            client: &[],
            verb: 0,
            now: 0,
        };
        for field in wire::fields(message) {
            match field {
                Field::Data(2, data) => q.client = data,
                Field::Number(3, v) => q.verb = v,
                Field::Number(4, v) => q.now = v as i64,
                _ => {}
            }
        }
        q
    }

    /// A filter that can match nothing is left out.
    pub fn filters(&self) -> impl Iterator<Item = Filter<'a>> {
        wire::values(self.message, 1).map(Filter)
    }

    pub fn client(&self) -> Client<'a> {
        Client(self.client)
    }

    pub fn verb(&self) -> Verb {
        match self.verb {
            1 => Verb::Req,
            2 => Verb::Count,
            3 => Verb::Neg,
            _ => Verb::Unknown,
        }
    }

    /// In unix seconds, the only clock there is.
    pub fn now(&self) -> i64 {
        self.now
    }
}

/// A client that has just come.
pub struct Connect<'a> {
    client: &'a [u8],
    open: u32,
    from_address: u32,
    now: i64,
}

impl<'a> Connect<'a> {
    pub(crate) fn read(message: &'a [u8]) -> Self {
        let mut c = Connect {
            client: &[],
            open: 0,
            from_address: 0,
            now: 0,
        };
        for field in wire::fields(message) {
            match field {
                Field::Data(1, data) => c.client = data,
                Field::Number(2, v) => c.open = wire::uint(v),
                Field::Number(3, v) => c.from_address = wire::uint(v),
                Field::Number(4, v) => c.now = v as i64,
                _ => {}
            }
        }
        c
    }

    pub fn client(&self) -> Client<'a> {
        Client(self.client)
    }

    /// Connections of the relay, this one included.
    pub fn open(&self) -> u32 {
        self.open
    }

    /// How many of them come from the client's address, or its IPv6 /64.
    pub fn from_address(&self) -> u32 {
        self.from_address
    }

    /// In unix seconds, the only clock there is.
    pub fn now(&self) -> i64 {
        self.now
    }
}

/// Ref updates of one repository, which GRASP's own rules allow.
pub struct Push<'a> {
    message: &'a [u8],
    client: &'a [u8],
    repo: &'a [u8],
    bytes: i64,
    stored: i64,
    now: i64,
    prs: bool,
}

impl<'a> Push<'a> {
    pub(crate) fn read(message: &'a [u8]) -> Self {
        let mut p = Push {
            message,
            client: &[],
            repo: &[],
            bytes: 0,
            stored: 0,
            now: 0,
            prs: false,
        };
        for field in wire::fields(message) {
            match field {
                Field::Data(1, data) => p.client = data,
                Field::Data(2, data) => p.repo = data,
                Field::Number(5, v) => p.bytes = v as i64,
                Field::Number(6, v) => p.stored = v as i64,
                Field::Number(7, v) => p.now = v as i64,
                Field::Number(8, v) => p.prs = v != 0,
                _ => {}
            }
        }
        p
    }

    pub fn client(&self) -> Client<'a> {
        Client(self.client)
    }

    /// The address of the announcement, 30617:pubkey:d.
    pub fn repo(&self) -> &'a str {
        wire::text(self.repo)
    }

    /// Whether the push goes to the repository under /prs/ (GRASP-06), which needs no
    /// announcement, and not to that of repo's announcement.
    pub fn prs(&self) -> bool {
        self.prs
    }

    /// Keys whose state counts for the repository.
    pub fn maintainers(&self) -> impl Iterator<Item = &'a Key> {
        keys(self.message, 3)
    }

    pub fn updates(&self) -> impl Iterator<Item = RefUpdate<'a>> {
        wire::values(self.message, 4).map(|update| RefUpdate {
            name: wire::text(wire::data(update, 1)),
            old: wire::text(wire::data(update, 2)),
            new: wire::text(wire::data(update, 3)),
        })
    }

    /// Size of the pack, 0 if it is not known.
    pub fn bytes(&self) -> i64 {
        self.bytes
    }

    /// Bytes that the repository takes on disk.
    pub fn stored(&self) -> i64 {
        self.stored
    }

    /// In unix seconds, the only clock there is.
    pub fn now(&self) -> i64 {
        self.now
    }
}

/// One ref update. An object name is hex digits, all zeros for "does not exist".
pub struct RefUpdate<'a> {
    /// In full, such as refs/heads/main.
    pub name: &'a str,
    pub old: &'a str,
    pub new: &'a str,
}
