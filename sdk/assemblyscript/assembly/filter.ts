import { Bytes } from "./bytes";
import { asKey } from "./event";
import { Numbers, Values, Writer, find, findNumber } from "./wire";

// A client's filter (NIP-01). A list that is empty is no condition.
export class Filter {
  private message: Bytes = new Bytes();
  private list: Values = new Values();
  private numbers: Numbers = new Numbers();
  private conditions: Conditions = new Conditions();

  read(ptr: usize, length: i32): this {
    this.message.set(ptr, length);
    return this;
  }

  // Walks of the lists; a filter has one walk of ids or authors at a time.
  //
  //   for (const authors = filter.authors(); authors.next(); ) { … authors.value … }
  ids(): Values { return this.list.start(this.message.ptr, this.message.length, 1); }
  authors(): Values { return this.list.start(this.message.ptr, this.message.length, 2); }
  kinds(): Numbers { return this.numbers.start(this.message.ptr, this.message.length, 3); }
  tags(): Conditions { return this.conditions.start(this.message.ptr, this.message.length); }

  // In unix seconds, inclusive; none if the filter has no since.
  since(none: i64): i64 { return findNumber(this.message.ptr, this.message.length, 5, none); }
  until(none: i64): i64 { return findNumber(this.message.ptr, this.message.length, 6, none); }
  limit(none: i64): i64 { return findNumber(this.message.ptr, this.message.length, 7, none); }
}

// Conditions walks the conditions on tags of a filter. name is used again.
export class Conditions {
  readonly name: Bytes = new Bytes();
  private list: Values = new Values();
  private inner: Values = new Values();

  start(ptr: usize, length: i32): this {
    this.list.start(ptr, length, 4);
    return this;
  }

  next(): bool {
    if (!this.list.next()) return false;
    find(this.list.value.ptr, this.list.value.length, 1, this.name);
    return true;
  }

  // The values, of which the tag must have one.
  values(): Values {
    return this.inner.start(this.list.value.ptr, this.list.value.length, 2);
  }
}

// Filters walks the filters of a query. filter is used again.
export class Filters {
  readonly filter: Filter = new Filter();
  private list: Values = new Values();

  start(ptr: usize, length: i32): this {
    this.list.start(ptr, length, 1);
    return this;
  }

  next(): bool {
    if (!this.list.next()) return false;
    this.filter.read(this.list.value.ptr, this.list.value.length);
    return true;
  }
}

// Names for Search.tag. BY_ADDRESS asks for the events at addresses, kind:pubkey:d. There is at
// most one stored event for each, however many others have announced under the same d.
// BY_MAINTAINER asks for the repository announcements (NIP-34) that list a maintainer; its values
// are pubkey:identifier.
export const BY_ADDRESS = "address";
export const BY_MAINTAINER = "maintainer";

// A Search is a filter to ask the host with. Make it once, and clear it before it is
// used again.
export class Search {
  readonly message: Writer = new Writer();

  clear(): this {
    this.message.clear();
    return this;
  }

  id(id: Bytes): this {
    asKey(id);
    this.message.bytes(1, id.ptr, id.length);
    return this;
  }

  author(key: Bytes): this {
    asKey(key);
    this.message.bytes(2, key.ptr, key.length);
    return this;
  }

  kind(kind: u32): this {
    this.message.begin(3, size(kind)); // packed
    this.message.varint(kind);
    return this;
  }

  // A tag whose name is one letter, or BY_ADDRESS or BY_MAINTAINER, with this value.
  tag(name: string, value: Bytes): this {
    const n = String.UTF8.byteLength(name);
    this.message.begin(4, 1 + size(n) + n + 1 + size(value.length) + value.length);
    this.message.begin(1, n);
    this.message.utf8(name);
    this.message.bytes(2, value.ptr, value.length);
    return this;
  }

  since(t: i64): this {
    this.message.number(5, t);
    return this;
  }

  until(t: i64): this {
    this.message.number(6, t);
    return this;
  }

  limit(n: u32): this {
    this.message.number(7, n);
    return this;
  }

  // The events may come without tags, content and signature, which costs no fuel for
  // their size.
  header(): this {
    this.message.number(8, 1);
    return this;
  }
}

function size(v: u32): i32 {
  let n = 1;
  for (; v >= 0x80; v >>= 7) n++;
  return n;
}
