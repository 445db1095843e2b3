//! Strategies: what this service subscribes to on which relay, and when.
//!
//! A strategy is a type that implements [`Strategy`], given to
//! [`strategy!`](crate::strategy!) together with its manifest. It receives events of
//! the world as inputs, one at a time and in order, and returns actions for the host. The
//! guide is docs/how-to-write-a-strategy.md. sdk/abi/talon.proto describes the inputs and
//! actions.
//!
//! A point in time is in unix milliseconds. Times of events are in unix seconds. 0 is
//! "never" or "not known".

use crate::config::{Config, WrongValue};
use crate::filter::Search;
use crate::verdict::cut_to;
use crate::wire::{self, Field};
use alloc::vec::Vec;

mod messages;

pub use messages::*;

/// A strategy. One instance sees every input. The same inputs after the same
/// configuration must give the same actions.
pub trait Strategy: Sized {
    /// Makes the strategy of its settings. An error refuses the configuration.
    fn configure(config: &Config) -> Result<Self, WrongValue>;

    /// Takes one input and adds its actions to `out`. The first one is [`Input::Init`].
    fn step(&mut self, step: &Step, out: &mut Actions);
}

/// One thing that happened.
pub struct Step<'a> {
    /// In unix milliseconds, the only clock there is. It never goes back.
    pub now: i64,
    pub input: Input<'a>,
}

impl<'a> Step<'a> {
    pub(crate) fn read(message: &'a [u8]) -> Self {
        let mut step = Step {
            now: 0,
            input: Input::Other,
        };
        for field in wire::fields(message) {
            match field {
                Field::Number(1, v) => step.now = v as i64,
                Field::Data(number, data) => {
                    if let Some(input) = Input::read(number, data) {
                        step.input = input;
                    }
                }
                _ => {}
            }
        }
        step
    }
}

/// The actions for the host, in order. It refuses an answer that exceeds its limits: a strategy
/// with more to do sets a timer for now.
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

    /// Keeps a connection to the relay up. The higher priority comes first if limits do not allow
    /// all. The reason is for the operator, who sees the start of a long one.
    pub fn connect(&mut self, relay: &str, priority: u32, reason: &str) {
        self.add(1, |b| {
            wire::put_text(b, 1, relay);
            wire::put_some(b, 2, priority.into());
            wire::put_text(b, 3, cut_to(reason, MOST_REASON));
        });
    }

    /// Ends a `connect`.
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

    /// Fetches the stored events of a relay that we do not have. The answer is a [`HistoricDone`].
    pub fn historic(&mut self, h: &Historic) {
        self.add(5, |b| {
            wire::put_text(b, 1, h.relay);
            wire::put_text(b, 2, h.id);
            wire::put_data(b, 3, &h.filter.0);
            wire::put_some(b, 4, h.method as u64);
            wire::put_some(b, 5, h.purpose as u64);
            wire::put_some(b, 6, h.page.into());
            wire::put_some(b, 7, h.push.into());
            wire::put_some(b, 8, h.holdings.into());
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

    /// Reports how many repositories, root events and authors (of whom deletions are wanted)
    /// have no subscription at a relay, because it has no room for them. It replaces the report
    /// before; with zeros all have one.
    pub fn uncovered(&mut self, relay: &str, repositories: u32, roots: u32, authors: u32) {
        self.add(7, |b| {
            wire::put_text(b, 1, relay);
            wire::put_number(b, 2, repositories.into());
            wire::put_number(b, 3, roots.into());
            wire::put_number(b, 4, authors.into());
        });
    }

    /// Reports how far the strategy has come with a relay. It replaces the report before, and
    /// ends with the connection.
    pub fn progress(&mut self, relay: &str, p: &Progress) {
        self.add(8, |b| {
            wire::put_text(b, 1, relay);
            wire::put_some(b, 2, p.past.into());
            wire::put_some(b, 3, p.closed.into());
            wire::put_some(b, 4, p.old_dates.into());
            wire::put_some(b, 5, p.anew.into());
            wire::put_some(b, 6, p.next_check.max(0) as u64);
        });
    }
}

/// The progress of a strategy with a relay. The host does not call the relay complete while `past`,
/// `closed` or `old_dates` is set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// The strategy has not fetched all wanted events that the relay has stored.
    pub past: bool,
    /// The relay closed a subscription, which the strategy will open again.
    pub closed: bool,
    /// Events with old dates that came there during an absence are not fetched.
    pub old_dates: bool,
    /// The absence was too long to continue: all is fetched again.
    pub anew: bool,
    /// Unix milliseconds: when all is compared again; 0: not known.
    pub next_check: i64,
}

/// The argument of [`Actions::subscribe`].
pub struct Subscription<'s> {
    pub relay: &'s str,
    /// 1 to 64 bytes from ! to ~; shared with the relay's historics.
    pub id: &'s str,
    pub filters: &'s [Search],
    /// Nothing that is stored.
    pub live: bool,
    pub purpose: Purpose,
}

/// The argument of [`Actions::historic`].
pub struct Historic<'s> {
    pub relay: &'s str,
    /// As of [`Subscription`].
    pub id: &'s str,
    pub filter: &'s Search,
    pub method: Method,
    pub purpose: Purpose,
    /// Events of one page of [`Method::Req`]; 0: the host chooses.
    pub page: u32,
    /// Also send the events that the relay lacks, after negentropy.
    pub push: bool,
    /// Compare with the events that this relay is believed to hold, instead of with all events
    /// here. This has an effect once the same filter was compared to the end. Without new events
    /// the comparison then costs little more than the filter, however many events the relay lacks.
    pub holdings: bool,
}
