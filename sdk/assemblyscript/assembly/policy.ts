import { Config } from "./config";
import { Connect, Push, Query } from "./messages";
import { Admit } from "./request";
import { Verdict } from "./verdict";
import { Writer } from "./wire";

// Whether a client must know the rules of a policy before it writes.
export enum Writes {
  Unsaid = 0,
  Open = 1, // every valid event is accepted, but for spam and excess
  Restricted = 2, // only events of some authors, some kinds, about something
}

// Figures that a policy enforces, as the relay's information document (NIP-11) names them. The
// document shows the strictest of all policies. 0 is no limit.
export class Limitation {
  maxContentLength: i64 = 0; // bytes
  maxEventTags: i64 = 0;
  createdAtLowerLimit: i64 = 0; // seconds in the past
  createdAtUpperLimit: i64 = 0; // seconds in the future
  minPowDifficulty: i64 = 0; // bits that an event of some class must have
  authRequired: bool = false; // nothing can be read without authentication (NIP-42)

  write(w: Writer): void {
    if (this.maxContentLength) w.number(1, this.maxContentLength);
    if (this.maxEventTags) w.number(2, this.maxEventTags);
    if (this.createdAtLowerLimit) w.number(3, this.createdAtLowerLimit);
    if (this.createdAtUpperLimit) w.number(4, this.createdAtUpperLimit);
    if (this.minPowDifficulty) w.number(5, this.minPowDifficulty);
    if (this.authRequired) w.number(6, 1);
  }
}

// A policy decides which events an operator's relay accepts.
//
// The host calls the functions that "functions" of the manifest names, and the module must export
// each: talon_admit for admit. A module has several instances, and the host replaces one that
// failed. So keep values with kvSet, kvIncr and take, not in fields.
export abstract class Policy {
  // Takes the settings, once for each instance. A sentence refuses them: wrongValue.
  configure(config: Config): string | null {
    return null;
  }

  // Functions that pass every request, configured like this: the host does not call
  // them.
  idle(): Array<string> {
    return [];
  }

  // The specifications that the policy implements: GRASP-01, …; at most 16. A policy that names
  // GRASP-01 hosts repositories. It may hold an event of kind 30617, 30618, 1618 or 1619 that an
  // earlier policy accepts.
  grasps(): Array<string> {
    return [];
  }

  // The repositories that are accepted, and the operator's rule for choosing among them: one line
  // each for the relay's information document.
  criteria(): string {
    return "";
  }
  curation(): string {
    return "";
  }

  // The authors whose events this policy accepts.
  writes(): Writes {
    return Writes.Unsaid;
  }

  // Figures that this policy enforces.
  limits(): Limitation {
    return new Limitation();
  }

  // May this event be stored? If all policies pass, it is refused.
  admit(input: Admit): Verdict {
    return Verdict.pass();
  }

  // May this client ask with these filters? If all policies pass, it may.
  query(input: Query): Verdict {
    return Verdict.pass();
  }

  // May this client connect? If all policies pass, it may.
  connect(input: Connect): Verdict {
    return Verdict.pass();
  }

  // May these ref updates happen, which GRASP's own rules allow? If all policies pass,
  // they may.
  push(input: Push): Verdict {
    return Verdict.pass();
  }

  // Decides who may receive this event. Verdict.pass is everybody. The strictest answer of all
  // policies counts. The answer does not depend on the sender, and the input has no source.
  audience(input: Admit): Verdict {
    return Verdict.pass();
  }
}

class None extends Policy {}

let policy: Policy = new None();

// Makes p the policy of this module.
export function register(p: Policy): void {
  policy = p;
}

let input: usize = 0;
let capacity: u32 = 0;
const output = new Writer();
const config = new Config();
const admit = new Admit();
const query = new Query();
const connect = new Connect();
const push = new Push();

export function talon_abi_1(): void {}

// A larger buffer is at least twice as large, so that requests that grow byte by byte
// do not use up the memory of a runtime that frees nothing.
export function talon_buffer(size: u32): usize {
  if (size > capacity) {
    capacity = max(size, capacity < 1 << 30 ? 2 * capacity : 0);
    if (input != 0) heap.free(input);
    input = heap.alloc(capacity);
  }
  return input;
}

function received(length: u32): i32 {
  if (length > capacity) unreachable();
  return length;
}

// The result that points the host to the answer: 0 for a message without fields.
function answered(): i64 {
  return output.length == 0 ? 0 : <i64>output.ptr << 32 | output.length;
}

function answer(verdict: Verdict): i64 {
  verdict.write(output.clear());
  return answered();
}

export function talon_configure(length: u32): i64 {
  const failure = policy.configure(config.read(input, received(length)));
  output.clear();
  if (failure) {
    output.text(1, failure);
    return answered();
  }
  const idle = policy.idle();
  for (let i = 0; i < idle.length; i++) output.text(2, idle[i]);
  const about = new Writer(), grasps = policy.grasps();
  for (let i = 0; i < grasps.length; i++) about.text(1, grasps[i]);
  about.text(2, policy.criteria());
  about.text(3, policy.curation());
  if (policy.writes() != Writes.Unsaid) about.number(4, policy.writes());
  const limits = new Writer();
  policy.limits().write(limits);
  if (limits.length > 0) about.bytes(5, limits.ptr, limits.length);
  if (about.length > 0) output.bytes(3, about.ptr, about.length);
  return answered();
}

export function talon_admit(length: u32): i64 {
  return answer(policy.admit(admit.read(input, received(length))));
}

export function talon_query(length: u32): i64 {
  return answer(policy.query(query.read(input, received(length))));
}

export function talon_connect(length: u32): i64 {
  return answer(policy.connect(connect.read(input, received(length))));
}

export function talon_push(length: u32): i64 {
  return answer(policy.push(push.read(input, received(length))));
}

export function talon_audience(length: u32): i64 {
  return answer(policy.audience(admit.read(input, received(length))));
}
