// Generated from talon.proto by internal/abigen. There is one object of each class, which
// is used again.

import { Bytes } from "./bytes";
import { Filters } from "./filter";
import { Updates } from "./request";
import { Reader, Values, dataKey, numberKey } from "./wire";

// The door through which an event came in.
export enum Origin {
  Unknown = 0,
  Client = 1, // an EVENT message on this relay
  Import = 2, // the operator's import
  Sync = 3, // another relay
}

// The answer of a policy to an event, a query, a connection or a push.
export enum Action {
  Pass = 0, // no opinion: the next policy of the chain decides
  Accept = 1, // allow it; store the event
  Reject = 2, // refuse it, with a reason
  ShadowReject = 3, // event: answer OK true, do not store; query: answer as if nothing were here
  Hold = 4, // event: keep it in purgatory
  RequireAuth = 5, // event, query: refuse it until the client authenticates (NIP-42)
  Restrict = 6, // audience: only the readers that the verdict names receive the event
}

// The client of a connection, as far as it is known.
export class Client {
  readonly address: Bytes = new Bytes(); // its IP address; empty where there is none
  readonly userAgent: Bytes = new Bytes(); // its User-Agent header
  readonly origin: Bytes = new Bytes(); // the page that a browser was on
  readonly path: Bytes = new Bytes(); // of the request, "/" for most
  private message: Bytes = new Bytes();
  private authedList: Values = new Values();
  private reader: Reader = new Reader();

  read(ptr: usize, length: i32): this {
    this.message.set(ptr, length);
    this.address.set(0, 0);
    this.userAgent.set(0, 0);
    this.origin.set(0, 0);
    this.path.set(0, 0);
    const r = this.reader.start(ptr, length);
    while (r.next()) {
      switch (r.key) {
        case dataKey(1): this.address.set(r.ptr, r.length); break;
        case dataKey(3): this.userAgent.set(r.ptr, r.length); break;
        case dataKey(4): this.origin.set(r.ptr, r.length); break;
        case dataKey(5): this.path.set(r.ptr, r.length); break;
      }
    }
    return this;
  }

  // Keys that it has proven (NIP-42), 32 bytes each.
  authed(): Values {
    return this.authedList.start(this.message.ptr, this.message.length, 2);
  }
}

// The message in which a client sends filters.
export enum Verb {
  Unknown = 0,
  Req = 1, // REQ: stored and live events
  Count = 2, // COUNT (NIP-45)
  Neg = 3, // NEG-OPEN (NIP-77)
}

// Asks a policy about the filters of one message. A filter that can match nothing, since
// one of its lists is empty, is left out.
export class Query {
  readonly client: Client = new Client();
  verb: Verb = Verb.Unknown;
  now: i64 = 0; // unix seconds
  private message: Bytes = new Bytes();
  private filtersList: Filters = new Filters();
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

  filters(): Filters {
    return this.filtersList.start(this.message.ptr, this.message.length);
  }
}

// Asks a policy about a client that has just come.
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

// Asks a policy about ref updates. An update that GRASP's own rules refuse stays
// refused, with the policy's reason if the policy refuses it too.
export class Push {
  readonly client: Client = new Client();
  readonly repo: Bytes = new Bytes(); // address of the announcement, 30617:pubkey:d
  bytes: i64 = 0; // of the pack, as far as it is known; 0 if it is not
  stored: i64 = 0; // bytes that the repository takes on disk
  now: i64 = 0; // unix seconds
  prs: bool = false; // to the repository under /prs/ (GRASP-06): repo names its owner, and needs no announcement
  fetch: bool = false; // nobody pushes: the host is about to fetch git data from another server; only limits of the verdict count
  private message: Bytes = new Bytes();
  private maintainersList: Values = new Values();
  private updatesList: Updates = new Updates();
  private reader: Reader = new Reader();

  read(ptr: usize, length: i32): this {
    this.message.set(ptr, length);
    this.client.read(0, 0);
    this.repo.set(0, 0);
    this.bytes = 0;
    this.stored = 0;
    this.now = 0;
    this.prs = false;
    this.fetch = false;
    const r = this.reader.start(ptr, length);
    while (r.next()) {
      switch (r.key) {
        case dataKey(1): this.client.read(r.ptr, r.length); break;
        case dataKey(2): this.repo.set(r.ptr, r.length); break;
        case numberKey(5): this.bytes = <i64>r.num; break;
        case numberKey(6): this.stored = <i64>r.num; break;
        case numberKey(7): this.now = <i64>r.num; break;
        case numberKey(8): this.prs = r.num != 0; break;
        case numberKey(9): this.fetch = r.num != 0; break;
      }
    }
    return this;
  }

  // The keys whose states count for the repository, 32 bytes each.
  maintainers(): Values {
    return this.maintainersList.start(this.message.ptr, this.message.length, 3);
  }

  updates(): Updates {
    return this.updatesList.start(this.message.ptr, this.message.length);
  }
}
