//! Generated from talon.proto by internal/abigen.

use crate::filter::Filter;
use crate::key::{view, Key};
use crate::message::message;
use crate::message::names;
use crate::request::Origin;
use crate::wire;

names! {
    /// Why something ended, or what a relay complains about.
    Class {
        Other = 0,
        /// Too much in too short a time.
        RateLimited = 1,
        /// The relay wants another key, or any (NIP-42).
        AuthRequired = 2,
        /// Not for us: "restricted", "blocked".
        Restricted = 3,
        /// The relay does not know the message or the filter.
        Unsupported = 4,
        /// Too many subscriptions, filters or values for the relay.
        TooMuch = 5,
        /// The relay failed.
        Error = 6,
        /// Name, network, TLS or handshake failed.
        Unreachable = 7,
        /// The connection ended.
        Lost = 8,
        /// The strategy asked for it.
        Asked = 9,
        /// The host did not do it: one of its limits is reached.
        Limit = 10,
        /// The host does not do it: our own address, a private or malformed one.
        Forbidden = 11,
    }
}

names! {
    /// Whether a relay can do something.
    Support {
        Unknown = 0,
        Yes = 1,
        No = 2,
    }
}

names! {
    /// The part of a repository's events that is wanted.
    SyncLevel {
        Unspecified = 0,
        /// Its announcement is stored: everything.
        Full = 1,
        /// Its announcement is held: announcements and states only.
        State = 2,
    }
}

names! {
    /// The protocol that fetches past events.
    Method {
        /// Negentropy, or REQ if the relay has no NIP-77.
        Auto = 0,
        /// NIP-77 only.
        Negentropy = 1,
        /// REQ and EOSE, page by page.
        Req = 2,
    }
}

names! {
    /// The reason for asking for events; metrics name it as their source.
    Purpose {
        Live = 0,
        /// The first request for this to this relay.
        Startup = 1,
        /// Events missed during an absence.
        Reconnect = 2,
        /// Everything again, from time to time.
        Daily = 3,
    }
}

message! {
    /// The list of the host's limits for actions. 0: none of it.
    Limits [] {
        /// Relays connected to at once.
        connections: u32 = 1,
        /// Open on one relay.
        subscriptions: u32 = 2,
        /// Of one subscription.
        filters: u32 = 3,
        /// Of one filter: ids, authors, kinds and tag values together.
        values: u32 = 4,
        /// Running on one relay; others wait for their turn.
        historics: u32 = 5,
        /// Set at once.
        timers: u32 = 6,
        /// Of one answer.
        actions: u32 = 7,
        /// Of one answer; 0: not known.
        bytes: u32 = 8,
    }
}

message! {
    /// The list of known limits of a relay, from its document (NIP-11) and answers. 0:
    /// not known.
    Capabilities [] {
        negentropy: Support = 1,
        max_subscriptions: u32 = 2,
        max_filters: u32 = 3,
        /// Events that it returns for one filter.
        max_limit: u32 = 4,
        /// Bytes.
        max_message: u32 = 5,
        auth_required: bool = 6,
        /// Of all filters of all open subscriptions together.
        max_values: u32 = 7,
    }
}

message! {
    /// A subscription that was asked for and not closed.
    OpenSubscription ['a] {
        id: &'a str = 1,
        live: bool = 3,
        /// Everything stored has arrived.
        eose: bool = 4,
    }
}

impl<'a> OpenSubscription<'a> {
    pub fn filters(&self) -> impl Iterator<Item = Filter<'a>> {
        wire::values(self.raw, 2).map(Filter)
    }
}

message! {
    /// A historic that was asked for and is not done.
    RunningHistoric ['a] {
        id: &'a str = 1,
        method: Method = 3,
        purpose: Purpose = 4,
    }
}

impl<'a> RunningHistoric<'a> {
    pub fn filter(&self) -> Filter<'a> {
        Filter(wire::data(self.raw, 2))
    }
}

message! {
    /// A relay that the operator named, that the host keeps a connection to, or that it
    /// knows from before.
    RelayState ['a] {
        url: &'a str = 1,
        /// The operator named it: the host never drops it.
        bootstrap: bool = 2,
        /// A strategy asked for the connection: the host keeps it up.
        wanted: bool = 3,
        connected: bool = 4,
        capabilities: Capabilities = 5,
        /// Start of the latest connection.
        last_connected: i64 = 6,
        /// End of the latest connection that ended.
        disconnected_at: i64 = 7,
    }
}

impl<'a> RelayState<'a> {
    pub fn subscriptions(&self) -> impl Iterator<Item = OpenSubscription<'a>> {
        wire::values(self.raw, 8).map(OpenSubscription::read)
    }

    pub fn historics(&self) -> impl Iterator<Item = RunningHistoric<'a>> {
        wire::values(self.raw, 9).map(RunningHistoric::read)
    }
}

message! {
    /// A repository that is followed: it lists this service, or this service archives it.
    Repository ['a] {
        /// 30617:pubkey:d.
        address: &'a str = 1,
        level: SyncLevel = 2,
    }
}

impl<'a> Repository<'a> {
    /// Of its announcement, normalised, without our own; if it is held, those that may be
    /// contacted now.
    pub fn relays(&self) -> impl Iterator<Item = &'a str> {
        wire::values(self.raw, 3).map(wire::text)
    }

    /// Ids of its root events (1617 1618 1619 1621), 32 bytes each, one after the other.
    pub fn roots(&self) -> impl Iterator<Item = &'a Key> {
        wire::data(self.raw, 4).chunks_exact(32).map(view)
    }

    /// Of each of these, in unix seconds, the latest known activity.
    pub fn active(&self) -> impl Iterator<Item = u32> + 'a {
        wire::numbers(self.raw, 5).map(wire::uint)
    }

    /// Keys of those whose comments, statuses and updates about these are the latest, 32
    /// bytes each, one after the other.
    pub fn authors(&self) -> impl Iterator<Item = &'a Key> {
        wire::data(self.raw, 6).chunks_exact(32).map(view)
    }

    /// For each of these authors, in unix seconds, created_at of the latest of these
    /// events.
    pub fn author_latest(&self) -> impl Iterator<Item = u32> + 'a {
        wire::numbers(self.raw, 7).map(wire::uint)
    }
}

message! {
    /// The state of the world. It is the first input of a strategy, and comes again when
    /// the strategy takes over from another. The strategy starts from it and forgets the
    /// rest. Timers of the earlier strategy are gone. Subscriptions, historics and
    /// connections go on until an action ends them. A large world comes in parts of about
    /// 64 KiB, one input each, with nothing in between. Limits, own and relays are in the
    /// first part. A repository may be in several parts: their roots add up.
    World ['a] {
        /// Counted from 0.
        part: u32 = 1,
        /// Another part follows.
        more: bool = 2,
        /// For random numbers; the same in each part.
        seed: i64 = 3,
        limits: Limits = 4,
    }
}

impl<'a> World<'a> {
    /// Our own relay's addresses; never contacted.
    pub fn own(&self) -> impl Iterator<Item = &'a str> {
        wire::values(self.raw, 5).map(wire::text)
    }

    pub fn relays(&self) -> impl Iterator<Item = RelayState<'a>> {
        wire::values(self.raw, 6).map(RelayState::read)
    }

    pub fn repositories(&self) -> impl Iterator<Item = Repository<'a>> {
        wire::values(self.raw, 7).map(Repository::read)
    }
}

message! {
    /// An event that was accepted here, from any source: kind 30617, 1617, 1618, 1619,
    /// 1621 or 10317.
    LocalEvent ['a] {
        kind: u32 = 3,
        /// Unix seconds.
        created_at: i64 = 4,
        /// 30617: of the repository.
        level: SyncLevel = 7,
        origin: Origin = 8,
        /// Its source, for `Origin::Sync`.
        relay: &'a str = 9,
    }
}

impl<'a> LocalEvent<'a> {
    /// 32 bytes.
    pub fn id(&self) -> &'a Key {
        view(wire::data(self.raw, 1))
    }

    /// 32 bytes.
    pub fn pubkey(&self) -> &'a Key {
        view(wire::data(self.raw, 2))
    }

    /// Known repositories that it announces or tags, 30617:pubkey:d.
    pub fn repositories(&self) -> impl Iterator<Item = &'a str> {
        wire::values(self.raw, 5).map(wire::text)
    }

    /// 30617, 10317: all that it lists now, normalised, without our own; if a 30617 is
    /// held, those that may be contacted now.
    pub fn relays(&self) -> impl Iterator<Item = &'a str> {
        wire::values(self.raw, 6).map(wire::text)
    }
}

message! {
    /// A repository that Talon stopped following. It was deleted or it expired, or its
    /// announcement dropped this service and Talon does not archive it.
    RepoGone ['a] {
        /// 30617:pubkey:d.
        repository: &'a str = 1,
    }
}

message! {
    /// A connection that is up. It has no subscriptions.
    RelayConnected ['a] {
        relay: &'a str = 1,
        capabilities: Capabilities = 2,
        /// Start of the connection before this one; 0: there was none.
        last_connected: i64 = 3,
        /// End of the connection before this one.
        disconnected_at: i64 = 4,
        /// The operator asks to compare everything again, also known content.
        anew: bool = 5,
    }
}

message! {
    /// A connection that ended, or an attempt that failed. The subscriptions and
    /// historics of the connection end with it.
    RelayDisconnected ['a] {
        relay: &'a str = 1,
        class: Class = 2,
        reason: &'a str = 3,
        /// It was connected; false: an attempt failed.
        connected: bool = 4,
        /// In a row.
        failures: u32 = 5,
        /// When the host tries again; 0: only if asked to connect.
        retry_at: i64 = 6,
    }
}

message! {
    /// All stored events of a subscription have arrived from a relay.
    Eose ['a] {
        relay: &'a str = 1,
        id: &'a str = 2,
        /// That the relay sent.
        events: u32 = 3,
        /// Of them, those that were new here.
        new: u32 = 4,
        /// Unix seconds, of all that it sent.
        min_created_at: i64 = 5,
    }
}

message! {
    /// A subscription that the relay ended, or that the host did not open.
    Closed ['a] {
        relay: &'a str = 1,
        id: &'a str = 2,
        class: Class = 3,
        reason: &'a str = 4,
    }
}

message! {
    /// A historic that ended.
    HistoricDone ['a] {
        relay: &'a str = 1,
        id: &'a str = 2,
        /// That was used.
        method: Method = 3,
        /// All matching events of the relay are here, or were refused here.
        complete: bool = 4,
        /// Why it is not complete.
        class: Class = 5,
        reason: &'a str = 6,
        /// Events that the relay lacks (negentropy); with holdings, that it has lost.
        have: u32 = 7,
        /// Events that were fetched.
        need: u32 = 8,
        /// Of them, those that were new here.
        new: u32 = 9,
        /// Received.
        bytes: i64 = 10,
        /// Messages of negentropy, or pages.
        rounds: u32 = 11,
        /// Unix seconds, of all that were fetched.
        min_created_at: i64 = 12,
        /// Of the new events, those that were stored or held.
        kept: u32 = 13,
        /// Bytes, of the messages that asked.
        sent: i64 = 14,
        /// Events that match only under another letter of the tag: such a relay answers a
        /// filter for one letter with all letters.
        other_letter: u32 = 15,
    }
}

message! {
    /// A NOTICE of a relay.
    Notice ['a] {
        relay: &'a str = 1,
        class: Class = 2,
        text: &'a str = 3,
    }
}

message! {
    /// Counts new events that a relay's subscriptions delivered, and that another relay
    /// had delivered before. It has those since the last such input. It comes at most
    /// once in ten seconds for each relay. Announcements and states do not count, since
    /// they are at all relays.
    Repeats ['a] {
        relay: &'a str = 1,
        events: u32 = 2,
        /// Of their messages.
        bytes: i64 = 3,
    }
}

message! {
    /// A timer whose time has come. It is no longer set.
    TimerFired ['a] {
        id: &'a str = 1,
        /// The time for which it was set.
        at: i64 = 2,
    }
}

message! {
    /// Reports root events to which other events refer that were accepted here: comments,
    /// statuses, updates. The host gathers them for a moment.
    RootActivity ['a] {
    }
}

impl<'a> RootActivity<'a> {
    /// Ids in the tags e, E and q of these events, of root events and others, 32 bytes
    /// each, one after the other.
    pub fn roots(&self) -> impl Iterator<Item = &'a Key> {
        wire::data(self.raw, 1).chunks_exact(32).map(view)
    }

    /// For each of these ids, in unix seconds, created_at of the latest event that tags
    /// it.
    pub fn latest(&self) -> impl Iterator<Item = u32> + 'a {
        wire::numbers(self.raw, 2).map(wire::uint)
    }

    /// Keys of the authors of these events, 32 bytes each, one after the other.
    pub fn authors(&self) -> impl Iterator<Item = &'a Key> {
        wire::data(self.raw, 3).chunks_exact(32).map(view)
    }

    /// For each of these authors, the index in roots of one that an event of this author
    /// tags; an author may be in the list several times.
    pub fn author_roots(&self) -> impl Iterator<Item = u32> + 'a {
        wire::numbers(self.raw, 4).map(wire::uint)
    }
}

/// An input of a strategy.
#[non_exhaustive]
pub enum Input<'a> {
    Init(World<'a>),
    LocalEvent(LocalEvent<'a>),
    RepoGone(RepoGone<'a>),
    RelayConnected(RelayConnected<'a>),
    RelayDisconnected(RelayDisconnected<'a>),
    Eose(Eose<'a>),
    Closed(Closed<'a>),
    HistoricDone(HistoricDone<'a>),
    Notice(Notice<'a>),
    TimerFired(TimerFired<'a>),
    RootActivity(RootActivity<'a>),
    Repeats(Repeats<'a>),
    /// An input that this version does not know.
    Other,
}

impl<'a> Input<'a> {
    pub(super) fn read(field: u32, data: &'a [u8]) -> Option<Self> {
        Some(match field {
            2 => Input::Init(World::read(data)),
            3 => Input::LocalEvent(LocalEvent::read(data)),
            4 => Input::RepoGone(RepoGone::read(data)),
            5 => Input::RelayConnected(RelayConnected::read(data)),
            6 => Input::RelayDisconnected(RelayDisconnected::read(data)),
            7 => Input::Eose(Eose::read(data)),
            8 => Input::Closed(Closed::read(data)),
            9 => Input::HistoricDone(HistoricDone::read(data)),
            10 => Input::Notice(Notice::read(data)),
            11 => Input::TimerFired(TimerFired::read(data)),
            12 => Input::RootActivity(RootActivity::read(data)),
            13 => Input::Repeats(Repeats::read(data)),
            _ => return None,
        })
    }
}
