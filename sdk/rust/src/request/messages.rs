//! Generated from talon.proto by internal/abigen.

use crate::event::keys;
use crate::filter::Filter;
use crate::key::Key;
use crate::wire::{self, Field};

/// The door through which an event came in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// The host does not say, or says what this version does not know.
    #[default]
    Unknown = 0,
    /// An EVENT message on this relay.
    Client = 1,
    /// The operator's import.
    Import = 2,
    /// Another relay.
    Sync = 3,
}

impl Origin {
    pub(crate) fn of(v: u64) -> Self {
        match v {
            1 => Origin::Client,
            2 => Origin::Import,
            3 => Origin::Sync,
            _ => Origin::Unknown,
        }
    }
}

/// The answer of a policy to an event, a query, a connection or a push.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// No opinion: the next policy of the chain decides.
    Pass = 0,
    /// Allow it; store the event.
    Accept = 1,
    /// Refuse it, with a reason.
    Reject = 2,
    /// Event: answer OK true, do not store; query: answer as if nothing were here.
    ShadowReject = 3,
    /// Event: keep it in purgatory.
    Hold = 4,
    /// Event, query: refuse it until the client authenticates (NIP-42).
    RequireAuth = 5,
    /// Audience: only the readers that the verdict names receive the event.
    Restrict = 6,
}

/// The client of a connection, as far as it is known.
#[derive(Clone, Copy)]
pub struct Client<'a> {
    message: &'a [u8],
}

impl<'a> Client<'a> {
    pub(crate) fn read(message: &'a [u8]) -> Self {
        Client { message }
    }

    /// Its IP address; empty where there is none.
    pub fn address(&self) -> &'a str {
        wire::text(wire::data(self.message, 1))
    }

    /// Keys that it has proven (NIP-42), 32 bytes each.
    pub fn authed(&self) -> impl Iterator<Item = &'a Key> {
        keys(self.message, 2)
    }

    /// Its User-Agent header.
    pub fn user_agent(&self) -> &'a str {
        wire::text(wire::data(self.message, 3))
    }

    /// The page that a browser was on.
    pub fn origin(&self) -> &'a str {
        wire::text(wire::data(self.message, 4))
    }

    /// Of the request, "/" for most.
    pub fn path(&self) -> &'a str {
        wire::text(wire::data(self.message, 5))
    }
}

/// The message in which a client sends filters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verb {
    /// The host does not say, or says what this version does not know.
    #[default]
    Unknown = 0,
    /// REQ: stored and live events.
    Req = 1,
    /// COUNT (NIP-45).
    Count = 2,
    /// NEG-OPEN (NIP-77).
    Neg = 3,
}

impl Verb {
    pub(crate) fn of(v: u64) -> Self {
        match v {
            1 => Verb::Req,
            2 => Verb::Count,
            3 => Verb::Neg,
            _ => Verb::Unknown,
        }
    }
}

/// Asks a policy about the filters of one message. A filter that can match nothing, since
/// one of its lists is empty, is left out.
#[derive(Clone, Copy)]
pub struct Query<'a> {
    message: &'a [u8],
    client: &'a [u8],
    verb: Verb,
    now: i64,
}

impl<'a> Query<'a> {
    pub(crate) fn read(message: &'a [u8]) -> Self {
        let mut m = Query {
            message,
            client: &[],
            verb: Verb::default(),
            now: 0,
        };
        for field in wire::fields(message) {
            match field {
                Field::Data(2, v) => m.client = v,
                Field::Number(3, v) => m.verb = Verb::of(v),
                Field::Number(4, v) => m.now = v as i64,
                _ => {}
            }
        }
        m
    }

    pub fn filters(&self) -> impl Iterator<Item = Filter<'a>> {
        wire::values(self.message, 1).map(Filter)
    }

    pub fn client(&self) -> Client<'a> {
        Client::read(self.client)
    }

    pub fn verb(&self) -> Verb {
        self.verb
    }

    /// Unix seconds.
    pub fn now(&self) -> i64 {
        self.now
    }
}

/// Asks a policy about a client that has just come.
#[derive(Clone, Copy)]
pub struct Connect<'a> {
    client: &'a [u8],
    open: u32,
    from_address: u32,
    now: i64,
}

impl<'a> Connect<'a> {
    pub(crate) fn read(message: &'a [u8]) -> Self {
        let mut m = Connect {
            client: &[],
            open: 0,
            from_address: 0,
            now: 0,
        };
        for field in wire::fields(message) {
            match field {
                Field::Data(1, v) => m.client = v,
                Field::Number(2, v) => m.open = wire::uint(v),
                Field::Number(3, v) => m.from_address = wire::uint(v),
                Field::Number(4, v) => m.now = v as i64,
                _ => {}
            }
        }
        m
    }

    pub fn client(&self) -> Client<'a> {
        Client::read(self.client)
    }

    /// Connections of the relay, this one included.
    pub fn open(&self) -> u32 {
        self.open
    }

    /// Of them from the client's address, or its IPv6 /64.
    pub fn from_address(&self) -> u32 {
        self.from_address
    }

    /// Unix seconds.
    pub fn now(&self) -> i64 {
        self.now
    }
}

/// One command of a push. An object name is hex digits, all zeros for "does not exist".
pub struct RefUpdate<'a> {
    /// In full, such as refs/heads/main.
    pub name: &'a str,
    pub old: &'a str,
    pub new: &'a str,
}

impl<'a> RefUpdate<'a> {
    fn read(message: &'a [u8]) -> Self {
        RefUpdate {
            name: wire::text(wire::data(message, 1)),
            old: wire::text(wire::data(message, 2)),
            new: wire::text(wire::data(message, 3)),
        }
    }
}

/// Asks a policy about ref updates. An update that GRASP's own rules refuse stays
/// refused, with the policy's reason if the policy refuses it too.
#[derive(Clone, Copy)]
pub struct Push<'a> {
    message: &'a [u8],
    client: &'a [u8],
    bytes: i64,
    stored: i64,
    now: i64,
    prs: bool,
    fetch: bool,
}

impl<'a> Push<'a> {
    pub(crate) fn read(message: &'a [u8]) -> Self {
        let mut m = Push {
            message,
            client: &[],
            bytes: 0,
            stored: 0,
            now: 0,
            prs: false,
            fetch: false,
        };
        for field in wire::fields(message) {
            match field {
                Field::Data(1, v) => m.client = v,
                Field::Number(5, v) => m.bytes = v as i64,
                Field::Number(6, v) => m.stored = v as i64,
                Field::Number(7, v) => m.now = v as i64,
                Field::Number(8, v) => m.prs = v != 0,
                Field::Number(9, v) => m.fetch = v != 0,
                _ => {}
            }
        }
        m
    }

    pub fn client(&self) -> Client<'a> {
        Client::read(self.client)
    }

    /// Address of the announcement, 30617:pubkey:d.
    pub fn repo(&self) -> &'a str {
        wire::text(wire::data(self.message, 2))
    }

    /// The keys whose states count for the repository, 32 bytes each.
    pub fn maintainers(&self) -> impl Iterator<Item = &'a Key> {
        keys(self.message, 3)
    }

    pub fn updates(&self) -> impl Iterator<Item = RefUpdate<'a>> {
        wire::values(self.message, 4).map(RefUpdate::read)
    }

    /// Of the pack, as far as it is known; 0 if it is not.
    pub fn bytes(&self) -> i64 {
        self.bytes
    }

    /// Bytes that the repository takes on disk.
    pub fn stored(&self) -> i64 {
        self.stored
    }

    /// Unix seconds.
    pub fn now(&self) -> i64 {
        self.now
    }

    /// To the repository under /prs/ (GRASP-06): repo names its owner, and needs no
    /// announcement.
    pub fn prs(&self) -> bool {
        self.prs
    }

    /// Nobody pushes: the host is about to fetch git data from another server; only
    /// limits of the verdict count.
    pub fn fetch(&self) -> bool {
        self.fetch
    }
}
