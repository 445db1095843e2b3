//! Throttles: how hard to press on other people's servers, and how much clients may
//! press on this one.
//!
//! A throttle is a type that implements [`Throttle`], given to
//! [`throttle!`](crate::throttle!) together with its manifest. Each request carries the
//! facts, so that a module need not remember. The guide is
//! docs/how-to-write-a-throttle.md. sdk/abi/talon.proto describes the fields.
//!
//! A point in time is in unix milliseconds, a length of time in milliseconds; 0 is
//! "never" or "not known".

use crate::config::{Config, WrongValue};
use crate::strategy::MOST_REASON;
use crate::verdict::cut_to;
use crate::wire;
use alloc::borrow::Cow;
use alloc::vec::Vec;

mod messages;

pub use messages::*;

pub const SECOND: i64 = 1000;
pub const MINUTE: i64 = 60 * SECOND;
pub const HOUR: i64 = 60 * MINUTE;
pub const DAY: i64 = 24 * HOUR;

/// A throttle. "functions" of the manifest names the methods that the host calls. Without it, the
/// host calls all of them. One instance answers all.
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

impl<'a> Subject<'a> {
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
    /// For the operator, who sees the start of a long one.
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

/// The repository that is next.
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

/// The new limits of clients.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TickAnswer {
    /// The limits stay.
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
