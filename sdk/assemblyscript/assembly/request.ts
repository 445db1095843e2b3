// What a policy is asked about. There is one object of each class, which is used again.

import { Bytes } from "./bytes";
import { Event } from "./event";
import { Filters } from "./filter";
import { Reader, Values, dataKey, find, numberKey } from "./wire";

// The door through which an event came in.
export enum Origin {
  Unknown = 0,
  Client = 1,
  Import = 2,
  Sync = 3,
}

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

// Who is at the other end of a connection.
export class Client {
  readonly address: Bytes = new Bytes(); // IP address; empty where there is none
  readonly userAgent: Bytes = new Bytes();
  readonly origin: Bytes = new Bytes(); // the page that a browser was on
  readonly path: Bytes = new Bytes(); // of the request, "/" for most
  private message: Bytes = new Bytes();
  private keys: Values = new Values();

  read(ptr: usize, length: i32): this {
    this.message.set(ptr, length);
    find(ptr, length, 1, this.address);
    find(ptr, length, 3, this.userAgent);
    find(ptr, length, 4, this.origin);
    find(ptr, length, 5, this.path);
    return this;
  }

  // The keys that the client has proven (NIP-42).
  authed(): Values {
    return this.keys.start(this.message.ptr, this.message.length, 2);
  }
}

// What a client does with filters.
export enum Verb {
  Unknown = 0,
  Req = 1, // REQ: stored and live events
  Count = 2, // COUNT (NIP-45)
  Neg = 3, // NEG-OPEN (NIP-77)
}

// The filters of one message.
export class Query {
  readonly client: Client = new Client();
  verb: Verb = Verb.Unknown;
  now: i64 = 0; // unix seconds
  private message: Bytes = new Bytes();
  private list: Filters = new Filters();
  private reader: Reader = new Reader();

  read(ptr: usize, length: i32): this {
    this.message.set(ptr, length);
    this.client.read(0, 0);
    this.verb = Verb.Unknown;
    this.now = 0;
    const r = this.reader.start(ptr, length);
    while (r.next()) {
      switch (r.key) {
        case dataKey(2): this.client.read(r.ptr, r.length); break;
        case numberKey(3): this.verb = r.num > 3 ? Verb.Unknown : <Verb>r.num; break;
        case numberKey(4): this.now = <i64>r.num; break;
      }
    }
    return this;
  }

  // A filter that can match nothing is left out.
  //
  //   for (const filters = input.filters(); filters.next(); ) { … filters.filter … }
  filters(): Filters {
    return this.list.start(this.message.ptr, this.message.length);
  }
}

// A client that has just come.
export class Connect {
  readonly client: Client = new Client();
  open: u32 = 0; // connections of the relay, this one included
  fromAddress: u32 = 0; // of them from the client's address, or its IPv6 /64
  now: i64 = 0; // unix seconds
  private reader: Reader = new Reader();

  read(ptr: usize, length: i32): this {
    this.client.read(0, 0);
    this.open = 0;
    this.fromAddress = 0;
    this.now = 0;
    const r = this.reader.start(ptr, length);
    while (r.next()) {
      switch (r.key) {
        case dataKey(1): this.client.read(r.ptr, r.length); break;
        case numberKey(2): this.open = <u32>min(r.num, u32.MAX_VALUE); break;
        case numberKey(3): this.fromAddress = <u32>min(r.num, u32.MAX_VALUE); break;
        case numberKey(4): this.now = <i64>r.num; break;
      }
    }
    return this;
  }
}

// Ref updates of one repository, which GRASP's own rules allow.
export class Push {
  readonly client: Client = new Client();
  readonly repo: Bytes = new Bytes(); // 30617:pubkey:d
  bytes: i64 = 0; // of the pack; 0 if it is not known
  stored: i64 = 0; // bytes that the repository takes on disk
  prs: bool = false; // to the repository under /prs/ (GRASP-06), not to that of repo's announcement
  now: i64 = 0; // unix seconds
  private message: Bytes = new Bytes();
  private keys: Values = new Values();
  private list: Updates = new Updates();
  private reader: Reader = new Reader();

  read(ptr: usize, length: i32): this {
    this.message.set(ptr, length);
    this.client.read(0, 0);
    this.repo.set(0, 0);
    this.bytes = 0;
    this.stored = 0;
    this.prs = false;
    this.now = 0;
    const r = this.reader.start(ptr, length);
    while (r.next()) {
      switch (r.key) {
        case dataKey(1): this.client.read(r.ptr, r.length); break;
        case dataKey(2): this.repo.set(r.ptr, r.length); break;
        case numberKey(5): this.bytes = <i64>r.num; break;
        case numberKey(6): this.stored = <i64>r.num; break;
        case numberKey(7): this.now = <i64>r.num; break;
        case numberKey(8): this.prs = r.num != 0; break;
      }
    }
    return this;
  }

  // Keys whose state counts for the repository.
  maintainers(): Values {
    return this.keys.start(this.message.ptr, this.message.length, 3);
  }

  updates(): Updates {
    return this.list.start(this.message.ptr, this.message.length);
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
