//! Strategies: what this service subscribes to on which relay, and when.
//!
//! A strategy is a type that implements [`Strategy`], given to
//! [`strategy!`](crate::strategy!) together with its manifest. It is told what happens,
//! one input at a time and in order, and says what to do; the host does it. The guide
//! is docs/how-to-write-a-strategy.md; what inputs and actions mean is written in
//! sdk/abi/talon.proto.
//!
//! A point in time is in unix milliseconds, what belongs to events in unix seconds; 0 is
//! "never" or "not known".

use crate::config::{Config, WrongValue};
use crate::filter::{Filter, Search};
use crate::key::{view, Key};
use crate::message::{message, names};
use crate::request::Origin;
use crate::verdict::cut_to;
use crate::wire::{self, Field};
use alloc::vec::Vec;

/// A strategy. One instance sees every input. The same inputs after the same
/// configuration must give the same actions.
pub trait Strategy: Sized {
    /// Makes the strategy of its settings. An error refuses the configuration.
    fn configure(config: &Config) -> Result<Self, WrongValue>;

    /// Takes one input and adds what is to be done to `out`. The first one is
    /// [`Input::Init`].
    fn step(&mut self, step: &Step, out: &mut Actions);
}

/// One thing that happened.
pub struct Step<'a> {
    /// In unix milliseconds, the only clock there is. It never goes back.
    pub now: i64,
    pub input: Input<'a>,
}

/// What happened.
#[non_exhaustive]
pub enum Input<'a> {
    /// The world as it is: forget the rest.
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
    /// What this version does not know.
    Other,
}

impl<'a> Step<'a> {
    pub(crate) fn read(message: &'a [u8]) -> Self {
        let mut step = Step {
            now: 0,
            input: Input::Other,
        };
        for field in wire::fields(message) {
            let data = match field {
                Field::Number(1, v) => {
                    step.now = v as i64;
                    continue;
                }
                Field::Data(_, data) => data,
                _ => continue,
            };
            step.input = match field.number() {
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
                _ => continue,
            };
        }
        step
    }
}

names! {
    /// Why something ended, or what a relay complains about.
    Class {
        Other = 0,
        /// Too much in too short a time.
        RateLimited = 1,
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
        /// One of the host's limits is reached.
        Limit = 10,
        /// Our own address, a private or malformed one.
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
    /// How much of a repository is wanted.
    SyncLevel {
        Unspecified = 0,
        /// Its announcement is stored: everything.
        Full = 1,
        /// Its announcement is held: announcements and states only.
        State = 2,
    }
}

names! {
    /// How past events are fetched.
    Method {
        /// Negentropy; REQ where the relay cannot.
        Auto = 0,
        Negentropy = 1,
        Req = 2,
    }
}

names! {
    /// Why events are asked for; their source in metrics.
    Purpose {
        Live = 0,
        /// The first time that this is asked of this relay.
        Startup = 1,
        /// What was missed while disconnected.
        Reconnect = 2,
        /// All again, from time to time.
        Daily = 3,
    }
}

message! {
    /// The most that the host carries out. 0: none of it.
    Limits [] {
        connections: u32 = 1,
        /// Open on one relay.
        subscriptions: u32 = 2,
        /// Of one subscription.
        filters: u32 = 3,
        /// Of one filter: ids, authors, kinds, tag names and values together.
        values: u32 = 4,
        /// Running on one relay; what is above waits for its turn.
        historics: u32 = 5,
        timers: u32 = 6,
        /// Of one answer.
        actions: u32 = 7,
        /// Of one answer; 0: not known.
        bytes: u32 = 8,
    }
}

message! {
    /// What is known of a relay. 0: not known.
    Capabilities [] {
        negentropy: Support = 1,
        max_subscriptions: u32 = 2,
        max_filters: u32 = 3,
        /// Events that it returns for one filter.
        max_limit: u32 = 4,
        /// Bytes.
        max_message: u32 = 5,
        auth_required: bool = 6,
    }
}

message! {
    /// The world as it is. A large one comes in parts, with nothing in between; a
    /// repository may be in several: their roots add up.
    World ['a] {
        /// Counted from 0. Limits, own addresses and relays are in part 0.
        part: u32 = 1,
        /// Another part follows.
        more: bool = 2,
        /// For random numbers; the same in each part.
        seed: i64 = 3,
        limits: Limits = 4,
    }
}

impl<'a> World<'a> {
    /// Our own relay's addresses, which are never contacted.
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
    /// A relay that the operator named, that the host keeps a connection to, or that it
    /// knows from before.
    RelayState ['a] {
        url: &'a str = 1,
        /// The operator named it: the host never drops it.
        bootstrap: bool = 2,
        /// A strategy asked for the connection.
        wanted: bool = 3,
        connected: bool = 4,
        capabilities: Capabilities = 5,
        last_connected: i64 = 6,
        disconnected_at: i64 = 7,
    }
}

impl<'a> RelayState<'a> {
    /// Subscriptions that were asked for and not closed.
    pub fn subscriptions(&self) -> impl Iterator<Item = OpenSubscription<'a>> {
        wire::values(self.raw, 8).map(OpenSubscription::read)
    }

    /// Historics that were asked for and are not done.
    pub fn historics(&self) -> impl Iterator<Item = RunningHistoric<'a>> {
        wire::values(self.raw, 9).map(RunningHistoric::read)
    }
}

message! {
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
    /// A repository that lists this service.
    Repository ['a] {
        /// 30617:pubkey:d
        address: &'a str = 1,
        level: SyncLevel = 2,
    }
}

impl<'a> Repository<'a> {
    /// Those of its announcement, normalised, without our own.
    pub fn relays(&self) -> impl Iterator<Item = &'a str> {
        wire::values(self.raw, 3).map(wire::text)
    }

    /// Ids of its root events (1617 1618 1619 1621).
    pub fn roots(&self) -> impl Iterator<Item = &'a Key> {
        wire::data(self.raw, 4).chunks_exact(32).map(view)
    }
}

message! {
    /// An event that was accepted here: kind 30617, 1617, 1618, 1619, 1621 or 10317.
    LocalEvent ['a] {
        kind: u32 = 3,
        /// In unix seconds.
        created_at: i64 = 4,
        /// 30617: of the repository.
        level: SyncLevel = 7,
        origin: Origin = 8,
        /// That it came from, for [`Origin::Sync`].
        relay: &'a str = 9,
    }
}

impl<'a> LocalEvent<'a> {
    pub fn id(&self) -> &'a Key {
        view(wire::data(self.raw, 1))
    }

    pub fn pubkey(&self) -> &'a Key {
        view(wire::data(self.raw, 2))
    }

    /// Known repositories that it announces or tags.
    pub fn repositories(&self) -> impl Iterator<Item = &'a str> {
        wire::values(self.raw, 5).map(wire::text)
    }

    /// 30617, 10317: all that it lists now, normalised, without our own.
    pub fn relays(&self) -> impl Iterator<Item = &'a str> {
        wire::values(self.raw, 6).map(wire::text)
    }
}

message! {
    /// A repository that is no longer ours.
    RepoGone ['a] {
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
    }
}

message! {
    /// A connection that ended, or that could not be made. With it end its subscriptions
    /// and historics.
    RelayDisconnected ['a] {
        relay: &'a str = 1,
        class: Class = 2,
        reason: &'a str = 3,
        /// It was connected; false: an attempt failed.
        connected: bool = 4,
        /// In a row.
        failures: u32 = 5,
        /// When the host tries again; 0: it does not, unless asked to connect.
        retry_at: i64 = 6,
    }
}

message! {
    /// What a relay has stored for a subscription has arrived.
    Eose ['a] {
        relay: &'a str = 1,
        id: &'a str = 2,
        /// That the relay sent.
        events: u32 = 3,
        /// Of them, those that were not known here.
        new: u32 = 4,
        /// In unix seconds, of all that it sent.
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
        /// All that the relay has is here, or was refused here.
        complete: bool = 4,
        /// Why it is not complete.
        class: Class = 5,
        reason: &'a str = 6,
        /// Events that the relay lacks (negentropy).
        have: u32 = 7,
        /// Events that were fetched.
        need: u32 = 8,
        /// Of them, those that were not known here.
        new: u32 = 9,
        /// Received.
        bytes: i64 = 10,
        /// Messages of negentropy, or pages.
        rounds: u32 = 11,
        /// In unix seconds, of all that were fetched.
        min_created_at: i64 = 12,
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
    /// A timer whose time has come. It is no longer set.
    TimerFired ['a] {
        id: &'a str = 1,
        /// That it was set for.
        at: i64 = 2,
    }
}

/// What the host is to do, in this order. It refuses an answer that goes over its
/// limits: a strategy with more to do sets a timer for now.
pub struct Actions<'b> {
    b: &'b mut Vec<u8>,
    n: usize,
}

/// The longest reason that the host takes.
pub(crate) const MOST_REASON: usize = 256;

impl<'b> Actions<'b> {
    pub(crate) fn new(b: &'b mut Vec<u8>) -> Self {
        Actions { b, n: 0 }
    }

    /// The number of actions so far.
    pub fn len(&self) -> usize {
        self.n
    }

    pub fn is_empty(&self) -> bool {
        self.n == 0
    }

    /// The number of bytes so far.
    pub fn size(&self) -> usize {
        self.b.len()
    }

    fn add(&mut self, action: u32, write: impl FnOnce(&mut Vec<u8>)) {
        wire::put_message(self.b, 1, |b| wire::put_message(b, action, write));
        self.n += 1;
    }

    /// Keeps a connection to the relay up. The higher priority comes first where limits
    /// do not allow all. The reason is for the operator; of one that is too long, the
    /// start is told.
    pub fn connect(&mut self, relay: &str, priority: u32, reason: &str) {
        self.add(1, |b| {
            wire::put_text(b, 1, relay);
            wire::put_some(b, 2, priority.into());
            wire::put_text(b, 3, cut_to(reason, MOST_REASON));
        });
    }

    /// Ends what `connect` began.
    pub fn disconnect(&mut self, relay: &str, reason: &str) {
        self.add(2, |b| {
            wire::put_text(b, 1, relay);
            wire::put_text(b, 2, cut_to(reason, MOST_REASON));
        });
    }

    /// Opens a subscription on a connected relay, in place of one with the same id. The
    /// answer is an [`Eose`] or [`Closed`].
    pub fn subscribe(&mut self, s: &Subscription) {
        self.add(3, |b| {
            wire::put_text(b, 1, s.relay);
            wire::put_text(b, 2, s.id);
            for filter in s.filters {
                wire::put_data(b, 3, &filter.0);
            }
            wire::put_some(b, 4, s.live.into());
            wire::put_some(b, 5, s.purpose as u64);
        });
    }

    /// Closes a subscription, or ends a historic. There is no answer.
    pub fn unsubscribe(&mut self, relay: &str, id: &str) {
        self.add(4, |b| {
            wire::put_text(b, 1, relay);
            wire::put_text(b, 2, id);
        });
    }

    /// Fetches what a relay has stored and we have not. The answer is a
    /// [`HistoricDone`].
    pub fn historic(&mut self, h: &Historic) {
        self.add(5, |b| {
            wire::put_text(b, 1, h.relay);
            wire::put_text(b, 2, h.id);
            wire::put_data(b, 3, &h.filter.0);
            wire::put_some(b, 4, h.method as u64);
            wire::put_some(b, 5, h.purpose as u64);
            wire::put_some(b, 6, h.page.into());
            wire::put_some(b, 7, h.push.into());
        });
    }

    /// Sets a timer to a time in unix milliseconds, in place of one with the same id. A
    /// time that has passed is answered at once.
    pub fn set_timer(&mut self, id: &str, at: i64) {
        self.add(6, |b| {
            wire::put_text(b, 1, id);
            wire::put_number(b, 2, at.max(1) as u64);
        });
    }

    pub fn stop_timer(&mut self, id: &str) {
        self.add(6, |b| wire::put_text(b, 1, id));
    }
}

/// What [`Actions::subscribe`] opens.
pub struct Subscription<'s> {
    pub relay: &'s str,
    /// 1 to 64 bytes from ! to ~; shared with the relay's historics.
    pub id: &'s str,
    pub filters: &'s [Search],
    /// Nothing that is stored.
    pub live: bool,
    pub purpose: Purpose,
}

/// What [`Actions::historic`] fetches.
pub struct Historic<'s> {
    pub relay: &'s str,
    /// As of [`Subscription`].
    pub id: &'s str,
    pub filter: &'s Search,
    pub method: Method,
    pub purpose: Purpose,
    /// Events of one page of [`Method::Req`]; 0: the host chooses.
    pub page: u32,
    /// Also send what the relay lacks, after negentropy.
    pub push: bool,
}
