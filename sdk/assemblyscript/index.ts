// Policies for Talon in AssemblyScript.
//
//   import { Admit, Config, Policy, Verdict, register } from "talon-policy";
//   export { talon_abi_1, talon_admit, talon_buffer, talon_configure } from "talon-policy";
//
//   class Rules extends Policy {
//     configure(config: Config): string | null { … }
//     admit(input: Admit): Verdict { … }
//   }
//
//   register(new Rules());
//
// The guide is docs/how-to-write-a-policy-in-assemblyscript.md, the ABI is
// docs/reference-abi.md, the messages are sdk/abi/talon.proto.
//
// Invariants:
//
//  1. Reading a request and answering allocates nothing, except in functions whose
//     description says that they make a string.
//  2. The objects of a request are views of it, and are used again. They are valid until
//     the function returns, those of an iterator until its next step.
//  3. Readers stay within the bytes and end, for any bytes. A malformed request ends the
//     instance: the host never sends one.
//  4. A module imports only the host functions that its code can reach.

export { Bytes, Line } from "./assembly/bytes";
export { Config, wrongValue } from "./assembly/config";
export { Event, Events, Tags } from "./assembly/event";
export { BY_ADDRESS, BY_MAINTAINER, Conditions, Filter, Filters, Search } from "./assembly/filter";
export { KeySet, hex, npub, parseKey } from "./assembly/key";
export {
  Level, NEVER, NOT_FOUND, count, gauge, get, gitHas, gitRef, held, inSet, kvDelete, kvGet, kvIncr, kvSet, log, query,
  queryHeld, referenced, take,
} from "./assembly/host";
export { Action, Client, Connect, Origin, Push, Query, Verb } from "./assembly/messages";
export { Admit, Updates } from "./assembly/request";
export { Verdict } from "./assembly/verdict";
export {
  Limitation, Policy, Writes, register, talon_abi_1, talon_admit, talon_audience, talon_buffer, talon_configure, talon_connect, talon_push,
  talon_query,
} from "./assembly/policy";
