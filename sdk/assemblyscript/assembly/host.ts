// The functions of the host for a policy. Each one needs the capability that its description names.
// The next call of get, query and the like reuses the object that the call before returned.
//
// If the host cannot answer, nothing is found. The host then replaces the answer of the policy, and
// asks the client to try again.

import { Bytes, Line } from "./bytes";
import { Event, Events, asKey } from "./event";
import { Search } from "./filter";
import * as imports from "./imports";
import { Writer } from "./wire";

// How much a line of the log matters.
export enum Level {
  Debug = 0,
  Info = 1,
  Warn = 2,
  Error = 3,
}

export const NOT_FOUND: i32 = -1; // of inSet: there is no such set
export const NEVER: i64 = -1; // of take: more than the bucket holds

// The buffer for answers; it grows when one needs more.
let out: usize = 0;
let capacity: i32 = 0;
const answer = new Bytes();
const event = new Event();
const events = new Events();
const name = new Line();
const line = new Writer();

function firstRoom(): void {
  if (capacity == 0) {
    capacity = 16 << 10;
    out = heap.alloc(capacity);
  }
}

// Reports whether an answer of n bytes needs a larger buffer, which is there then.
function grew(n: i32): bool {
  if (n <= capacity) return false;
  heap.free(out);
  capacity = max(n, 2 * capacity);
  out = heap.alloc(capacity);
  return true;
}

function answered(n: i32): Bytes | null {
  return n < 0 || n > capacity ? null : answer.set(out, n);
}

// The stored event with this id, null if there is none: "store.get".
export function get(id: Bytes): Event | null {
  asKey(id);
  firstRoom();
  let n = imports.storeGet(id.ptr, out, capacity);
  if (grew(n)) n = imports.storeGet(id.ptr, out, capacity);
  const a = answered(n);
  return a ? event.read(a.ptr, a.length) : null;
}

// The event in purgatory with this id, null if there is none: "held.get".
export function held(id: Bytes): Event | null {
  asKey(id);
  firstRoom();
  let n = imports.heldGet(id.ptr, out, capacity);
  if (grew(n)) n = imports.heldGet(id.ptr, out, capacity);
  const a = answered(n);
  return a ? event.read(a.ptr, a.length) : null;
}

// The stored events that match, newest first, at most 500 of 512 KiB together:
// "store.query".
//
//   for (const found = query(search); found.next(); ) { … found.event … }
export function query(s: Search): Events {
  firstRoom();
  let n = imports.storeQuery(s.message.ptr, s.message.length, out, capacity);
  if (grew(n)) n = imports.storeQuery(s.message.ptr, s.message.length, out, capacity);
  const a = answered(n);
  return a ? events.start(a.ptr, a.length) : events.start(0, 0);
}

// The events in purgatory that match, likewise: "held.query".
export function queryHeld(s: Search): Events {
  firstRoom();
  let n = imports.heldQuery(s.message.ptr, s.message.length, out, capacity);
  if (grew(n)) n = imports.heldQuery(s.message.ptr, s.message.length, out, capacity);
  const a = answered(n);
  return a ? events.start(a.ptr, a.length) : events.start(0, 0);
}

// Whether a stored event names the id (64 hex digits) or address (kind:pubkey:d) in an
// e, E, q, a or A tag: "store.referenced".
export function referenced(idOrAddress: Bytes): bool {
  return imports.storeReferenced(idOrAddress.ptr, idOrAddress.length) == 1;
}

// Whether the repository (30617:pubkey:d) has the object (40 or 64 hex digits, then
// ^{commit} where only a commit will do); with empty bytes, whether it is here:
// "git.has".
export function gitHas(repo: Bytes, object: Bytes): bool {
  return imports.hasObject(repo.ptr, repo.length, object.ptr, object.length) == 1;
}

// The object name that a ref in full has, as hex digits, null if there is none:
// "git.ref".
export function gitRef(repo: Bytes, ref: Bytes): Bytes | null {
  firstRoom();
  return answered(imports.readRef(repo.ptr, repo.length, ref.ptr, ref.length, out, capacity));
}

// How much of the store an author or a repository takes.
export class Usage {
  events: i64 = 0;
  bytes: i64 = 0; // of the JSON of the events
  git: i64 = 0; // bytes of git data
}

// How much of the store an author (the 32 bytes of the key, or 64 hex digits) or a repository
// (30617:pubkey:d) takes, null if the host cannot tell now: "usage.get". The result is valid
// until the next call. Others write at the same time, so what a policy allows by it is not
// exact. Verdict.within is.
export function usage(name: Bytes): Usage | null {
  firstRoom();
  if (imports.getUsage(name.ptr, name.length, out, 24) < 0) return null;
  lastUsage.events = load<i64>(out);
  lastUsage.bytes = load<i64>(out, 8);
  lastUsage.git = load<i64>(out, 16);
  return lastUsage;
}

const lastUsage = new Usage();

// The value that the module has kept under a key of at most 256 bytes, null if there is
// none: "kv.get".
export function kvGet(key: Bytes): Bytes | null {
  firstRoom();
  let n = imports.getValue(key.ptr, key.length, out, capacity);
  if (grew(n)) n = imports.getValue(key.ptr, key.length, out, capacity);
  return answered(n);
}

// Keeps a value of at most 64 KiB for ttl seconds, for ever if ttl is 0. False if there
// is no room: then nothing changes. "kv.set".
export function kvSet(key: Bytes, value: Bytes, ttl: i64): bool {
  return imports.setValue(key.ptr, key.length, value.ptr, value.length, ttl) == 0;
}

// Forgets a key: "kv.delete".
export function kvDelete(key: Bytes): void {
  imports.deleteValue(key.ptr, key.length);
}

// Adds to a counter and returns the sum. A key that is new begins at 0 and lives for
// ttl seconds, for ever if ttl is 0. "kv.incr".
export function kvIncr(key: Bytes, delta: i64, ttl: i64): i64 {
  return imports.addValue(key.ptr, key.length, delta, ttl);
}

// Returns 1 if a set of the operator has the member, 32 bytes or text, 0 if not, and NOT_FOUND if
// there is no such set. "sets.contains".
export function inSet(set: string, member: Bytes): i32 {
  name.clear().add(set);
  return imports.setContains(name.ptr, name.length, member.ptr, member.length);
}

// Takes n tokens from a bucket that holds burst and gets one back every perMillis
// milliseconds. 0: taken; else the milliseconds until they would be there, or NEVER.
// "bucket.take".
export function take(key: Bytes, n: i32, burst: i32, perMillis: i64): i64 {
  return imports.takeTokens(key.ptr, key.length, n, burst, perMillis);
}

// Writes a line to the operator's log: "log".
export function log(level: Level, text: string): void {
  line.clear().utf8(text);
  imports.logLine(level, line.ptr, line.length);
}

// Adds to a counter of the operator's metrics, named a-z 0-9 _: "metric".
export function count(counter: string, add: f64): void {
  name.clear().add(counter);
  imports.setMetric(0, name.ptr, name.length, add);
}

// Sets a gauge of the operator's metrics: "metric".
export function gauge(gauge: string, value: f64): void {
  name.clear().add(gauge);
  imports.setMetric(1, name.ptr, name.length, value);
}
