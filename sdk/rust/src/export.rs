//! The exports that [`policy!`](crate::policy!), [`strategy!`](crate::strategy!) and
//! [`throttle!`](crate::throttle!) make.

use crate::config::{Config, WrongValue};
use crate::request::{Admit, Connect, Push, Query};
use crate::strategy::{Actions, Step, Strategy};
use crate::throttle::{self, Throttle};
use crate::verdict::Verdict;
use crate::{wire, Policy};
use alloc::vec::Vec;
use core::cell::UnsafeCell;

/// One instance: the policy, strategy or throttle, the buffer that the host writes, and the one
/// that it reads.
pub struct Module<P>(UnsafeCell<State<P>>);

struct State<P> {
    made: Option<P>,
    input: Vec<u8>,
    output: Vec<u8>,
}

// A module has no threads: the host makes one call at a time.
unsafe impl<P> Sync for Module<P> {}

/// The largest output buffer that is kept for the next call, of a policy or a throttle,
/// and of a strategy.
const MOST_KEPT: usize = 64 << 10;
const MOST_KEPT_ACTIONS: usize = 1 << 20;

impl<P> Module<P> {
    #[allow(clippy::new_without_default)]
    pub const fn new() -> Self {
        Module(UnsafeCell::new(State {
            made: None,
            input: Vec::new(),
            output: Vec::new(),
        }))
    }

    #[allow(clippy::mut_from_ref)]
    fn state(&self) -> &mut State<P> {
        // No call begins before the one before it has returned.
        unsafe { &mut *self.0.get() }
    }

    /// A larger buffer is at least twice as large, so that requests that grow byte by
    /// byte cost little.
    pub fn buffer(&self, size: u32) -> u32 {
        let input = &mut self.state().input;
        if size as usize > input.len() {
            let larger = (size as usize).max(2 * input.len());
            *input = Vec::new();
            input.resize(larger, 0);
        }
        input.as_ptr() as usize as u32
    }

    /// Makes the policy, strategy or throttle, and reports it to the host. The host finds the
    /// manifest in the data.
    fn make(
        &self,
        len: u32,
        manifest: &'static [u8],
        configure: impl FnOnce(&Config) -> Result<P, WrongValue>,
        tell: impl FnOnce(&P, &mut Vec<u8>),
    ) -> u64 {
        keep(manifest);
        keep(SDK);
        let s = self.state();
        s.output.clear();
        match configure(&Config(request(&s.input, len))) {
            Ok(made) => {
                tell(&made, &mut s.output);
                s.made = Some(made);
            }
            Err(wrong) => wire::put_text(&mut s.output, 1, &wrong.0),
        }
        answered(&s.output)
    }

    /// Has a request answered at the end of the output.
    #[inline(always)]
    fn answer(
        &self,
        len: u32,
        most_kept: usize,
        ask: impl FnOnce(&mut P, &[u8], &mut Vec<u8>),
    ) -> u64 {
        let s = self.state();
        let made = s.made.as_mut().unwrap_or_else(|| wire::malformed());
        if s.output.capacity() > most_kept {
            s.output = Vec::new();
        }
        s.output.clear();
        ask(made, request(&s.input, len), &mut s.output);
        answered(&s.output)
    }
}

impl<P: Policy> Module<P> {
    pub fn configure_policy(&self, len: u32, manifest: &'static [u8]) -> u64 {
        self.make(len, manifest, P::configure, |policy, output| {
            policy.configured().write(output)
        })
    }

    pub fn admit(&self, len: u32) -> u64 {
        self.decide(len, |policy, message| policy.admit(&Admit::read(message)))
    }

    pub fn query(&self, len: u32) -> u64 {
        self.decide(len, |policy, message| policy.query(&Query::read(message)))
    }

    pub fn connect(&self, len: u32) -> u64 {
        self.decide(len, |policy, message| {
            policy.connect(&Connect::read(message))
        })
    }

    pub fn push(&self, len: u32) -> u64 {
        self.decide(len, |policy, message| policy.push(&Push::read(message)))
    }

    pub fn audience(&self, len: u32) -> u64 {
        self.decide(len, |policy, message| {
            policy.audience(&Admit::read(message))
        })
    }

    #[inline(always)]
    fn decide(&self, len: u32, ask: impl FnOnce(&mut P, &[u8]) -> Verdict) -> u64 {
        self.answer(len, MOST_KEPT, |policy, message, output| {
            ask(policy, message).write(output)
        })
    }
}

impl<S: Strategy> Module<S> {
    pub fn configure_strategy(&self, len: u32, manifest: &'static [u8]) -> u64 {
        self.make(len, manifest, S::configure, |_, _| {})
    }

    pub fn step(&self, len: u32) -> u64 {
        self.answer(len, MOST_KEPT_ACTIONS, |strategy, message, output| {
            strategy.step(&Step::read(message), &mut Actions::new(output))
        })
    }
}

impl<T: Throttle> Module<T> {
    pub fn configure_throttle(&self, len: u32, manifest: &'static [u8]) -> u64 {
        self.make(len, manifest, T::configure, |_, _| {})
    }

    pub fn throttle_delay(&self, len: u32) -> u64 {
        self.answer(len, MOST_KEPT, |t, message, output| {
            t.delay(&throttle::Delay::read(message)).write(output)
        })
    }

    pub fn throttle_admit(&self, len: u32) -> u64 {
        self.answer(len, MOST_KEPT, |t, message, output| {
            t.admit(&throttle::Admit::read(message)).write(output)
        })
    }

    pub fn throttle_after(&self, len: u32) -> u64 {
        self.answer(len, MOST_KEPT, |t, message, output| {
            t.after(&throttle::After::read(message)).write(output)
        })
    }

    pub fn throttle_pick(&self, len: u32) -> u64 {
        self.answer(len, MOST_KEPT, |t, message, output| {
            t.pick(&throttle::Pick::read(message)).write(output)
        })
    }

    pub fn throttle_tick(&self, len: u32) -> u64 {
        self.answer(len, MOST_KEPT, |t, message, output| {
            t.tick(&throttle::Tick::read(message)).write(output)
        })
    }
}

fn request(input: &[u8], len: u32) -> &[u8] {
    input
        .get(..len as usize)
        .unwrap_or_else(|| wire::malformed())
}

/// The result that points the host to an answer: 0 for a message without fields.
fn answered(output: &[u8]) -> u64 {
    match output.len() {
        0 => 0,
        len => (output.as_ptr() as usize as u64) << 32 | len as u64,
    }
}

/// Says which SDK the module is built with.
static SDK: &[u8] = concat!("talon-sdk/rust ", env!("CARGO_PKG_VERSION"), "\0").as_bytes();

/// Reads a byte in a way that the compiler cannot leave out.
fn keep(manifest: &'static [u8]) {
    if let Some(first) = manifest.first() {
        unsafe { core::ptr::read_volatile(first) };
    }
}

/// Makes the exports of a module: those that every one has, its configure, and the
/// functions by which the host calls it.
#[doc(hidden)]
#[macro_export]
macro_rules! module {
    ($made:ty, $manifest:expr, $configure:ident, $($export:ident => $method:ident,)*) => {
        #[cfg(target_arch = "wasm32")]
        const _: () = {
            static MANIFEST: &[u8] = $manifest;
            static MODULE: $crate::export::Module<$made> = $crate::export::Module::new();

            #[no_mangle]
            pub extern "C" fn talon_abi_1() {}
            #[no_mangle]
            pub extern "C" fn talon_buffer(size: u32) -> u32 {
                MODULE.buffer(size)
            }
            #[no_mangle]
            pub extern "C" fn talon_configure(len: u32) -> u64 {
                MODULE.$configure(len, MANIFEST)
            }
            $(
                #[no_mangle]
                pub extern "C" fn $export(len: u32) -> u64 {
                    MODULE.$method(len)
                }
            )*
        };
    };
}

/// Makes a [`Policy`](crate::Policy) the policy of this module:
///
/// ```ignore
/// talon::policy!(Rules, include_bytes!("../manifest.json"));
/// ```
#[macro_export]
macro_rules! policy {
    ($policy:ty, $manifest:expr) => {
        $crate::module!($policy, $manifest, configure_policy,
            talon_admit => admit,
            talon_query => query,
            talon_connect => connect,
            talon_push => push,
            talon_audience => audience,
        );
    };
}

/// Makes a [`Strategy`](crate::strategy::Strategy) the strategy of this module.
#[macro_export]
macro_rules! strategy {
    ($strategy:ty, $manifest:expr) => {
        $crate::module!($strategy, $manifest, configure_strategy, talon_step => step,);
    };
}

/// Makes a [`Throttle`](crate::throttle::Throttle) the throttle of this module.
#[macro_export]
macro_rules! throttle {
    ($throttle:ty, $manifest:expr) => {
        $crate::module!($throttle, $manifest, configure_throttle,
            talon_throttle_delay => throttle_delay,
            talon_throttle_admit => throttle_admit,
            talon_throttle_after => throttle_after,
            talon_throttle_pick => throttle_pick,
            talon_throttle_tick => throttle_tick,
        );
    };
}
