//! Policies, strategies and throttles for Talon in Rust.
//!
//! A policy is a type that implements [`Policy`], given to [`policy!`] together with
//! its manifest:
//!
//! ```ignore
//! use talon::{Admit, Config, Configured, Policy, Verdict, WrongValue};
//!
//! struct Rules { most: i64 }
//!
//! impl Policy for Rules {
//!     fn configure(config: &Config) -> Result<Self, WrongValue> {
//!         Ok(Rules { most: config.int("most") })
//!     }
//!
//!     fn admit(&mut self, input: &Admit) -> Verdict { … }
//! }
//!
//! talon::policy!(Rules, include_bytes!("../manifest.json"));
//! ```
//!
//! and is compiled as a `cdylib` for `wasm32-unknown-unknown`. The guide is
//! docs/how-to-write-a-policy-in-rust.md, the ABI is docs/reference-abi.md, the
//! messages are sdk/abi/talon.proto. Modules [`strategy`] and [`throttle`] are for the
//! other worlds.
//!
//! Invariants:
//!
//! 1. Reading a request and answering allocates nothing, except for values that
//!    a policy makes itself and for answers of the store.
//! 2. Readers stay within the bytes and end, for any bytes. A malformed request
//!    ends the instance: the host never sends one.
//! 3. A module imports only the host functions that its code can reach.
//!
//! The crate needs nothing but `core` and `alloc`, no other crate, and Rust 1.63.
#![no_std]

extern crate alloc;

mod config;
mod event;
#[doc(hidden)]
pub mod export;
mod filter;
pub mod host;
mod key;
mod message;
mod request;
pub mod strategy;
pub mod throttle;
mod verdict;
mod wire;

pub use config::{Config, Configured, Limitation, Writes, WrongValue};
pub use event::{Event, Events, Tag};
pub use filter::{Condition, Filter, Search, BY_ADDRESS, BY_MAINTAINER};
pub use key::{hex, npub, parse_key, Key};
pub use request::{Admit, Client, Connect, Origin, Push, Query, RefUpdate, Verb};
pub use verdict::{Action, Verdict};

/// A policy decides which events an operator's relay accepts.
///
/// The host calls the functions that "functions" of the manifest names. Each has no opinion until
/// you write it. A module has several instances, and the host replaces one that failed. So keep
/// values with [`host`], not in fields.
pub trait Policy: Sized {
    /// Makes the policy of its settings, once for each instance. An error refuses the
    /// configuration.
    fn configure(config: &Config) -> Result<Self, WrongValue>;

    /// Describes the configured policy to the host.
    fn configured(&self) -> Configured {
        Configured::default()
    }

    /// May this event be stored? If all policies pass, it is refused.
    fn admit(&mut self, _input: &Admit) -> Verdict {
        Verdict::pass()
    }

    /// May this client ask with these filters? If all policies pass, it may.
    fn query(&mut self, _input: &Query) -> Verdict {
        Verdict::pass()
    }

    /// May this client connect? If all policies pass, it may.
    fn connect(&mut self, _input: &Connect) -> Verdict {
        Verdict::pass()
    }

    /// May these ref updates happen? If all policies pass, they may, unless GRASP's own
    /// rules refuse them.
    fn push(&mut self, _input: &Push) -> Verdict {
        Verdict::pass()
    }

    /// Decides who may receive this event. [`Verdict::pass`] is everybody. The strictest answer of
    /// all policies counts. The answer does not depend on the sender.
    fn audience(&mut self, _input: &Admit) -> Verdict {
        Verdict::pass()
    }
}
