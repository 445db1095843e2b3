// The functions of the host, as docs/reference-abi.md has them.

// @ts-ignore: decorator
@external("talon", "store.get")
export declare function storeGet(id: usize, out: usize, cap: i32): i32;
// @ts-ignore: decorator
@external("talon", "store.query")
export declare function storeQuery(filter: usize, length: i32, out: usize, cap: i32): i32;
// @ts-ignore: decorator
@external("talon", "store.referenced")
export declare function storeReferenced(text: usize, length: i32): i32;
// @ts-ignore: decorator
@external("talon", "held.get")
export declare function heldGet(id: usize, out: usize, cap: i32): i32;
// @ts-ignore: decorator
@external("talon", "held.query")
export declare function heldQuery(filter: usize, length: i32, out: usize, cap: i32): i32;
// @ts-ignore: decorator
@external("talon", "git.has")
export declare function hasObject(repo: usize, repoLength: i32, object: usize, objectLength: i32): i32;
// @ts-ignore: decorator
@external("talon", "git.ref")
export declare function readRef(repo: usize, repoLength: i32, ref: usize, length: i32, out: usize, cap: i32): i32;
// @ts-ignore: decorator
@external("talon", "usage.get")
export declare function getUsage(name: usize, length: i32, out: usize, cap: i32): i32;
// @ts-ignore: decorator
@external("talon", "kv.get")
export declare function getValue(key: usize, length: i32, out: usize, cap: i32): i32;
// @ts-ignore: decorator
@external("talon", "kv.set")
export declare function setValue(key: usize, length: i32, value: usize, valueLength: i32, ttl: i64): i32;
// @ts-ignore: decorator
@external("talon", "kv.delete")
export declare function deleteValue(key: usize, length: i32): void;
// @ts-ignore: decorator
@external("talon", "kv.incr")
export declare function addValue(key: usize, length: i32, delta: i64, ttl: i64): i64;
// @ts-ignore: decorator
@external("talon", "sets.contains")
export declare function setContains(name: usize, length: i32, member: usize, memberLength: i32): i32;
// @ts-ignore: decorator
@external("talon", "bucket.take")
export declare function takeTokens(key: usize, length: i32, n: i32, burst: i32, perMillis: i64): i64;
// @ts-ignore: decorator
@external("talon", "log")
export declare function logLine(level: i32, text: usize, length: i32): void;
// @ts-ignore: decorator
@external("talon", "metric")
export declare function setMetric(kind: i32, name: usize, length: i32, value: f64): void;
