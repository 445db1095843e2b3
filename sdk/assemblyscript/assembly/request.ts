// The requests to a policy. There is one object of each class, which is used again.

import { Bytes } from "./bytes";
import { Event } from "./event";
import { Origin } from "./messages";
import { Reader, Values, dataKey, find, numberKey } from "./wire";

// One event, and where it comes from.
export class Admit {
  readonly event: Event = new Event();
  readonly address: Bytes = new Bytes(); // the client's IP address; empty where there is none
  readonly relay: Bytes = new Bytes(); // that sent the event, for Origin.Sync
  origin: Origin = Origin.Unknown;
  now: i64 = 0; // unix seconds, the only clock there is
  private source: Bytes = new Bytes();
  private keys: Values = new Values();
  private reader: Reader = new Reader();

  read(ptr: usize, length: i32): this {
    this.event.read(0, 0);
    this.source.set(0, 0);
    this.address.set(0, 0);
    this.relay.set(0, 0);
    this.origin = Origin.Unknown;
    this.now = 0;
    const r = this.reader.start(ptr, length);
    while (r.next()) {
      switch (r.key) {
        case dataKey(1): this.event.read(r.ptr, r.length); break;
        case dataKey(2): this.source.set(r.ptr, r.length); break;
        case numberKey(3): this.now = <i64>r.num; break;
      }
    }
    r.start(this.source.ptr, this.source.length);
    while (r.next()) {
      switch (r.key) {
        case numberKey(1): this.origin = <u32>r.num > 3 ? Origin.Unknown : <Origin>r.num; break;
        case dataKey(2): this.address.set(r.ptr, r.length); break;
        case dataKey(3): this.relay.set(r.ptr, r.length); break;
      }
    }
    return this;
  }

  // The keys that the client has proven (NIP-42).
  //
  //   for (const keys = input.authed(); keys.next(); ) { … keys.value … }
  authed(): Values {
    return this.keys.start(this.source.ptr, this.source.length, 4);
  }
}

// Updates walks the ref updates of a push. An object name is hex digits, all zeros for
// "does not exist".
export class Updates {
  readonly ref: Bytes = new Bytes(); // in full, such as refs/heads/main
  readonly from: Bytes = new Bytes();
  readonly to: Bytes = new Bytes();
  private list: Values = new Values();

  start(ptr: usize, length: i32): this {
    this.list.start(ptr, length, 4);
    return this;
  }

  next(): bool {
    if (!this.list.next()) return false;
    const u = this.list.value;
    find(u.ptr, u.length, 1, this.ref);
    find(u.ptr, u.length, 2, this.from);
    find(u.ptr, u.length, 3, this.to);
    return true;
  }
}
