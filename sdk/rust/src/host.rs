//! The functions of the host for a policy. Each one needs the capability that its description
//! names.
//!
//! If the host cannot answer, nothing is found. The host then replaces the answer of the
//! policy, and asks the client to try again.

use crate::event::{Event, Events};
use crate::filter::Search;
use crate::key::Key;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

/// The imports. Natively they are not there: a policy that calls one there panics.
#[cfg(target_arch = "wasm32")]
mod import {
    #[link(wasm_import_module = "talon")]
    extern "C" {
        #[link_name = "store.get"]
        pub fn store_get(id: *const u8, out: *mut u8, cap: usize) -> i32;
        #[link_name = "store.query"]
        pub fn store_query(filter: *const u8, len: usize, out: *mut u8, cap: usize) -> i32;
        #[link_name = "store.referenced"]
        pub fn store_referenced(text: *const u8, len: usize) -> i32;
        #[link_name = "held.get"]
        pub fn held_get(id: *const u8, out: *mut u8, cap: usize) -> i32;
        #[link_name = "held.query"]
        pub fn held_query(filter: *const u8, len: usize, out: *mut u8, cap: usize) -> i32;
        #[link_name = "git.has"]
        pub fn git_has(repo: *const u8, rlen: usize, object: *const u8, olen: usize) -> i32;
        #[link_name = "git.ref"]
        pub fn git_ref(
            repo: *const u8,
            rlen: usize,
            name: *const u8,
            len: usize,
            out: *mut u8,
            cap: usize,
        ) -> i32;
        #[link_name = "usage.get"]
        pub fn usage_get(name: *const u8, len: usize, out: *mut u8, cap: usize) -> i32;
        #[link_name = "kv.get"]
        pub fn kv_get(key: *const u8, len: usize, out: *mut u8, cap: usize) -> i32;
        #[link_name = "kv.set"]
        pub fn kv_set(key: *const u8, len: usize, value: *const u8, vlen: usize, ttl: i64) -> i32;
        #[link_name = "kv.delete"]
        pub fn kv_delete(key: *const u8, len: usize);
        #[link_name = "kv.incr"]
        pub fn kv_incr(key: *const u8, len: usize, delta: i64, ttl: i64) -> i64;
        #[link_name = "sets.contains"]
        pub fn sets_contains(name: *const u8, len: usize, member: *const u8, mlen: usize) -> i32;
        #[link_name = "bucket.take"]
        pub fn bucket_take(key: *const u8, len: usize, n: u32, burst: u32, per_ms: i64) -> i64;
        #[link_name = "log"]
        pub fn log(level: i32, text: *const u8, len: usize);
        #[link_name = "metric"]
        pub fn metric(kind: i32, name: *const u8, len: usize, value: f64);
    }
}

#[cfg(not(target_arch = "wasm32"))]
#[allow(clippy::too_many_arguments)]
mod import {
    macro_rules! absent {
        ($($name:ident($($arg:ident: $type:ty),*) $(-> $result:ty)?;)*) => {
            $(pub unsafe fn $name($(_: $type),*) $(-> $result)? {
                unimplemented!("there is no host outside of a module")
            })*
        };
    }
    absent! {
        store_get(id: *const u8, out: *mut u8, cap: usize) -> i32;
        store_query(filter: *const u8, len: usize, out: *mut u8, cap: usize) -> i32;
        store_referenced(text: *const u8, len: usize) -> i32;
        held_get(id: *const u8, out: *mut u8, cap: usize) -> i32;
        held_query(filter: *const u8, len: usize, out: *mut u8, cap: usize) -> i32;
        git_has(repo: *const u8, rlen: usize, object: *const u8, olen: usize) -> i32;
        git_ref(repo: *const u8, rlen: usize, name: *const u8, len: usize, out: *mut u8, cap: usize) -> i32;
        usage_get(name: *const u8, len: usize, out: *mut u8, cap: usize) -> i32;
        kv_get(key: *const u8, len: usize, out: *mut u8, cap: usize) -> i32;
        kv_set(key: *const u8, len: usize, value: *const u8, vlen: usize, ttl: i64) -> i32;
        kv_delete(key: *const u8, len: usize);
        kv_incr(key: *const u8, len: usize, delta: i64, ttl: i64) -> i64;
        sets_contains(name: *const u8, len: usize, member: *const u8, mlen: usize) -> i32;
        bucket_take(key: *const u8, len: usize, n: u32, burst: u32, per_ms: i64) -> i64;
        log(level: i32, text: *const u8, len: usize);
        metric(kind: i32, name: *const u8, len: usize, value: f64);
    }
}

/// Calls a function that answers with data, again with a larger buffer if the answer
/// did not fit.
fn ask(call: impl Fn(*mut u8, usize) -> i32) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(4 << 10);
    for _ in 0..2 {
        let n = usize::try_from(call(out.as_mut_ptr(), out.capacity())).ok()?;
        if n <= out.capacity() {
            // The host has written n bytes.
            unsafe { out.set_len(n) };
            return Some(out);
        }
        out.reserve(n);
    }
    None
}

/// An event that the host has answered with.
pub struct Stored(Vec<u8>);

impl Stored {
    pub fn event(&self) -> Event<'_> {
        Event::read(&self.0)
    }
}

/// The stored event with this id: "store.get".
pub fn get(id: &Key) -> Option<Stored> {
    ask(|out, cap| unsafe { import::store_get(id.as_ptr(), out, cap) }).map(Stored)
}

/// The event in purgatory with this id: "held.get".
pub fn held(id: &Key) -> Option<Stored> {
    ask(|out, cap| unsafe { import::held_get(id.as_ptr(), out, cap) }).map(Stored)
}

/// The stored events that match, newest first, at most 500 of 512 KiB together:
/// "store.query".
pub fn query(filter: &Search) -> Events {
    let f = &filter.0;
    Events(
        ask(|out, cap| unsafe { import::store_query(f.as_ptr(), f.len(), out, cap) })
            .unwrap_or_default(),
    )
}

/// The events in purgatory that match, likewise: "held.query".
pub fn query_held(filter: &Search) -> Events {
    let f = &filter.0;
    Events(
        ask(|out, cap| unsafe { import::held_query(f.as_ptr(), f.len(), out, cap) })
            .unwrap_or_default(),
    )
}

/// Whether a stored event names the id (hex) or address (kind:pubkey:d) in an e, E, q,
/// a or A tag: "store.referenced".
pub fn referenced(id_or_address: &str) -> bool {
    unsafe { import::store_referenced(id_or_address.as_ptr(), id_or_address.len()) == 1 }
}

/// Whether the repository (30617:pubkey:d) has the object (40 or 64 hex digits, then
/// ^{commit} where only a commit will do); with an empty object, whether it is here:
/// "git.has".
pub fn git_has(repo: &str, object: &str) -> bool {
    unsafe { import::git_has(repo.as_ptr(), repo.len(), object.as_ptr(), object.len()) == 1 }
}

/// The object name that a ref in full has, as hex digits: "git.ref".
pub fn git_ref(repo: &str, name: &str) -> Option<String> {
    let answer = ask(|out, cap| unsafe {
        import::git_ref(
            repo.as_ptr(),
            repo.len(),
            name.as_ptr(),
            name.len(),
            out,
            cap,
        )
    })?;
    String::from_utf8(answer).ok()
}

/// How much of the store an author or a repository takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    pub events: i64,
    /// Of the JSON of the events.
    pub bytes: i64,
    /// Bytes of git data.
    pub git: i64,
}

/// How much of the store an author (the 32 bytes of the key, or 64 hex digits) or a repository
/// (30617:pubkey:d) takes; None if the host cannot tell now: "usage.get". Others write at the
/// same time, so what a policy allows by it is not exact. Verdict::within is.
pub fn usage(name: &[u8]) -> Option<Usage> {
    let mut out = [0u8; 24];
    let n = unsafe { import::usage_get(name.as_ptr(), name.len(), out.as_mut_ptr(), out.len()) };
    if n < 0 {
        return None;
    }
    let number = |i: usize| {
        let mut bytes = [0u8; 8];
        bytes.copy_from_slice(&out[8 * i..8 * i + 8]);
        i64::from_le_bytes(bytes)
    };
    Some(Usage {
        events: number(0),
        bytes: number(1),
        git: number(2),
    })
}

/// The value that the module has kept under a key of at most 256 bytes: "kv.get".
pub fn kv_get(key: &[u8]) -> Option<Vec<u8>> {
    ask(|out, cap| unsafe { import::kv_get(key.as_ptr(), key.len(), out, cap) })
}

/// Keeps a value of at most 64 KiB for ttl seconds, for ever if ttl is 0. False if there
/// is no room: then nothing changes. "kv.set".
pub fn kv_set(key: &[u8], value: &[u8], ttl: i64) -> bool {
    unsafe { import::kv_set(key.as_ptr(), key.len(), value.as_ptr(), value.len(), ttl) == 0 }
}

/// Forgets a key: "kv.delete".
pub fn kv_delete(key: &[u8]) {
    unsafe { import::kv_delete(key.as_ptr(), key.len()) }
}

/// Adds to a counter and returns the sum. A key that is new begins at 0 and lives for
/// ttl seconds, for ever if ttl is 0. "kv.incr".
pub fn kv_incr(key: &[u8], delta: i64, ttl: i64) -> i64 {
    unsafe { import::kv_incr(key.as_ptr(), key.len(), delta, ttl) }
}

/// Why tokens were not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// They would be there after this time.
    For(Duration),
    /// They are more than the bucket holds.
    Never,
}

/// Takes n tokens from a bucket that holds burst and gets one back in each interval
/// every, counted in milliseconds: "bucket.take".
pub fn take(key: &[u8], n: u32, burst: u32, every: Duration) -> Result<(), Wait> {
    let every = i64::try_from(every.as_millis()).unwrap_or(i64::MAX).max(1);
    match unsafe { import::bucket_take(key.as_ptr(), key.len(), n, burst, every) } {
        0 => Ok(()),
        wait => {
            Err(u64::try_from(wait).map_or(Wait::Never, |ms| Wait::For(Duration::from_millis(ms))))
        }
    }
}

/// Reports whether a set of the operator has the member, 32 bytes or text; `None` if there is no
/// such set: "sets.contains".
pub fn in_set(name: &str, member: &[u8]) -> Option<bool> {
    match unsafe { import::sets_contains(name.as_ptr(), name.len(), member.as_ptr(), member.len()) }
    {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    }
}

/// How much a line of the log matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    Debug = 0,
    Info = 1,
    Warn = 2,
    Error = 3,
}

/// Writes a line to the operator's log: "log".
pub fn log(level: Level, text: &str) {
    unsafe { import::log(level as i32, text.as_ptr(), text.len()) }
}

/// Adds to a counter of the operator's metrics, named a-z 0-9 _: "metric".
pub fn count(name: &str, add: f64) {
    unsafe { import::metric(0, name.as_ptr(), name.len(), add) }
}

/// Sets a gauge of the operator's metrics: "metric".
pub fn gauge(name: &str, value: f64) {
    unsafe { import::metric(1, name.as_ptr(), name.len(), value) }
}
