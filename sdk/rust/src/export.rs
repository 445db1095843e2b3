//! What [`policy!`](crate::policy) makes exports of.

use crate::config::Config;
use crate::request::{Admit, Connect, Push, Query};
use crate::verdict::Verdict;
use crate::{wire, Policy};
use alloc::vec::Vec;
use core::cell::UnsafeCell;

/// One instance: the policy, the buffer that the host writes to and the one that it
/// reads.
pub struct Module<P>(UnsafeCell<State<P>>);

struct State<P> {
    policy: Option<P>,
    input: Vec<u8>,
    output: Vec<u8>,
}

// A module has no threads: the host makes one call at a time.
unsafe impl<P> Sync for Module<P> {}

/// The largest output buffer that is kept for the next call.
const MOST_KEPT: usize = 64 << 10;

impl<P: Policy> Module<P> {
    #[allow(clippy::new_without_default)]
    pub const fn new() -> Self {
        Module(UnsafeCell::new(State {
            policy: None,
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

    /// The manifest is only kept for the host to find.
    pub fn configure(&self, len: u32, manifest: &'static [u8]) -> u64 {
        keep(manifest);
        let s = self.state();
        s.output.clear();
        match P::configure(&Config(request(&s.input, len))) {
            Ok(policy) => {
                policy.configured().write(&mut s.output);
                s.policy = Some(policy);
            }
            Err(wrong) => wire::put_text(&mut s.output, 1, &wrong.0),
        }
        answered(&s.output)
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

    #[inline(always)]
    fn decide(&self, len: u32, ask: impl FnOnce(&mut P, &[u8]) -> Verdict) -> u64 {
        let s = self.state();
        let policy = s.policy.as_mut().unwrap_or_else(|| wire::malformed());
        let verdict = ask(policy, request(&s.input, len));
        if s.output.capacity() > MOST_KEPT {
            s.output = Vec::new();
        }
        s.output.clear();
        verdict.write(&mut s.output);
        answered(&s.output)
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

/// Reads a byte in a way that the compiler cannot leave out.
fn keep(manifest: &'static [u8]) {
    if let Some(first) = manifest.first() {
        unsafe { core::ptr::read_volatile(first) };
    }
}

/// Makes a [`Policy`](crate::Policy) the policy of this module:
///
/// ```ignore
/// talon::policy!(Rules, include_bytes!("../manifest.json"));
/// ```
#[macro_export]
macro_rules! policy {
    ($policy:ty, $manifest:expr) => {
        #[cfg(target_arch = "wasm32")]
        const _: () = {
            static MANIFEST: &[u8] = $manifest;
            static MODULE: $crate::export::Module<$policy> = $crate::export::Module::new();

            #[no_mangle]
            pub extern "C" fn talon_abi_1() {}
            #[no_mangle]
            pub extern "C" fn talon_buffer(size: u32) -> u32 {
                MODULE.buffer(size)
            }
            #[no_mangle]
            pub extern "C" fn talon_configure(len: u32) -> u64 {
                MODULE.configure(len, MANIFEST)
            }
            #[no_mangle]
            pub extern "C" fn talon_admit(len: u32) -> u64 {
                MODULE.admit(len)
            }
            #[no_mangle]
            pub extern "C" fn talon_query(len: u32) -> u64 {
                MODULE.query(len)
            }
            #[no_mangle]
            pub extern "C" fn talon_connect(len: u32) -> u64 {
                MODULE.connect(len)
            }
            #[no_mangle]
            pub extern "C" fn talon_push(len: u32) -> u64 {
                MODULE.push(len)
            }
        };
    };
}
