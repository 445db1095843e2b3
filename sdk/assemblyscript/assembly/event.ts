import { Bytes } from "./bytes";
import { Reader, Values, dataKey, findNumber, numberKey } from "./wire";

const zeros = memory.data(32);

// asKey makes bytes that are no key or id of 32 bytes all zeros.
export function asKey(b: Bytes): Bytes {
  return b.length == 32 ? b : b.set(zeros, 32);
}

// A nostr event (NIP-01). Its id and signature are right.
export class Event {
  readonly id: Bytes = new Bytes();
  readonly pubkey: Bytes = new Bytes();
  readonly sig: Bytes = new Bytes();
  readonly content: Bytes = new Bytes();
  createdAt: i64 = 0; // unix seconds
  kind: u32 = 0;
  private message: Bytes = new Bytes();
  private reader: Reader = new Reader();
  private list: Tags = new Tags();

  read(ptr: usize, length: i32): this {
    this.message.set(ptr, length);
    this.id.set(0, 0);
    this.pubkey.set(0, 0);
    this.sig.set(0, 0);
    this.content.set(0, 0);
    this.createdAt = 0;
    this.kind = 0;
    const r = this.reader.start(ptr, length);
    while (r.next()) {
      switch (r.key) {
        case dataKey(1): this.id.set(r.ptr, r.length); break;
        case dataKey(2): this.pubkey.set(r.ptr, r.length); break;
        case numberKey(3): this.createdAt = <i64>r.num; break;
        case numberKey(4): this.kind = <u32>r.num; break;
        case dataKey(6): this.content.set(r.ptr, r.length); break;
        case dataKey(7): this.sig.set(r.ptr, r.length); break;
      }
    }
    asKey(this.id);
    asKey(this.pubkey);
    return this;
  }

  // The tags from the first one on. An event has one walk of its tags at a time.
  //
  //   for (const tags = event.tags(); tags.next(); ) if (tags.name.is("t")) { … tags.value … }
  tags(): Tags {
    return this.list.start(this.message.ptr, this.message.length);
  }
}

// Tags walks the tags of an event. The results of name, value and item are used again.
export class Tags {
  readonly name: Bytes = new Bytes();
  readonly value: Bytes = new Bytes();
  private other: Bytes = new Bytes();
  private tags: Values = new Values();
  private items: Values = new Values();

  start(ptr: usize, length: i32): this {
    this.tags.start(ptr, length, 5);
    return this;
  }

  next(): bool {
    if (!this.tags.next()) return false;
    this.find(0, this.name);
    this.find(1, this.value);
    return true;
  }

  // The item at an index, 0 for the name; empty if there is none.
  item(index: i32): Bytes {
    return this.find(index, this.other);
  }

  // The number of items of the tag, the name included.
  count(): i32 {
    const tag = this.tags.value;
    let n = 0;
    for (this.items.start(tag.ptr, tag.length, 1); this.items.next(); ) n++;
    return n;
  }

  private find(index: i32, to: Bytes): Bytes {
    const tag = this.tags.value, items = this.items.start(tag.ptr, tag.length, 1);
    to.set(0, 0);
    while (items.next()) {
      if (index-- == 0) return to.set(items.value.ptr, items.value.length);
    }
    return to;
  }
}

// Events walks the answer to a query, newest first. event is used again.
export class Events {
  readonly event: Event = new Event();
  private list: Values = new Values();
  private answer: Bytes = new Bytes();

  start(ptr: usize, length: i32): this {
    this.answer.set(ptr, length);
    this.list.start(ptr, length, 1);
    return this;
  }

  next(): bool {
    if (!this.list.next()) return false;
    this.event.read(this.list.value.ptr, this.list.value.length);
    return true;
  }

  // Whether others may match: the list is as long as it may be, or an event was too
  // large for it.
  more(): bool {
    return findNumber(this.answer.ptr, this.answer.length, 2, 0) != 0;
  }
}
