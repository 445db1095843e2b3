// Protobuf, read in place and written to a buffer.

import { Bytes } from "./bytes";

// The key of a field: its number and wire type.
// @ts-ignore: decorator
@inline export function numberKey(field: u32): u32 { return field << 3; }
// @ts-ignore: decorator
@inline export function dataKey(field: u32): u32 { return field << 3 | 2; }

// Reader walks the fields of a message. After next has returned true, key holds the
// field's number and wire type, num the value of a number, ptr and length that of any
// other.
export class Reader {
  at: usize = 0;
  end: usize = 0;
  key: u32 = 0;
  num: u64 = 0;
  ptr: usize = 0;
  length: i32 = 0;

  start(ptr: usize, length: i32): this {
    this.at = ptr;
    this.end = ptr + length;
    return this;
  }

  next(): bool {
    if (this.at == this.end) return false;
    const key = this.varint();
    if (key < 8 || key > <u64>u32.MAX_VALUE) unreachable();
    this.key = <u32>key;
    switch (<u32>key & 7) {
      case 0:
        this.num = this.varint();
        break;
      case 2: {
        const n = this.varint();
        if (n > <u64>(this.end - this.at)) unreachable();
        this.ptr = this.at;
        this.length = <i32>n;
        this.at += <usize>n;
        break;
      }
      case 1:
        this.fixed(8);
        break;
      case 5:
        this.fixed(4);
        break;
      default:
        unreachable();
    }
    return true;
  }

  @inline varint(): u64 {
    if (this.at < this.end) {
      const c = load<u8>(this.at);
      if (c < 0x80) {
        this.at++;
        return c;
      }
    }
    return this.longVarint();
  }

  longVarint(): u64 {
    let v: u64 = 0;
    for (let i = 0; i < 10 && this.at < this.end; i++) {
      const c = load<u8>(this.at++);
      if (i == 9 && c > 1) break;
      v |= <u64>(c & 0x7f) << (7 * i);
      if (c < 0x80) return v;
    }
    return unreachable();
  }

  fixed(size: i32): void {
    if (<usize>size > this.end - this.at) unreachable();
    this.num = size == 8 ? load<u64>(this.at) : <u64>load<u32>(this.at);
    this.at += size;
  }
}

// Values walks a repeated field of text or bytes. value is used again.
export class Values {
  readonly value: Bytes = new Bytes();
  private reader: Reader = new Reader();
  private key: u32 = 0;

  start(ptr: usize, length: i32, field: u32): this {
    this.reader.start(ptr, length);
    this.key = dataKey(field);
    return this;
  }

  next(): bool {
    const r = this.reader;
    while (r.next()) {
      if (r.key == this.key) {
        this.value.set(r.ptr, r.length);
        return true;
      }
    }
    return false;
  }
}

// Numbers walks a repeated field of numbers, packed or not.
export class Numbers {
  value: u64 = 0;
  private reader: Reader = new Reader();
  private packed: Reader = new Reader();
  private field: u32 = 0;

  start(ptr: usize, length: i32, field: u32): this {
    this.reader.start(ptr, length);
    this.packed.start(0, 0);
    this.field = field;
    return this;
  }

  next(): bool {
    const r = this.reader, p = this.packed;
    while (true) {
      if (p.at != p.end) {
        this.value = p.varint();
        return true;
      }
      if (!r.next()) return false;
      if (r.key == numberKey(this.field)) {
        this.value = r.num;
        return true;
      }
      if (r.key == dataKey(this.field)) p.start(r.ptr, r.length);
    }
  }
}

const one = new Reader();

// find sets data to the last value of a field, nothing if there is none.
export function find(ptr: usize, length: i32, field: u32, data: Bytes): Bytes {
  data.set(0, 0);
  one.start(ptr, length);
  while (one.next()) {
    if (one.key == dataKey(field)) data.set(one.ptr, one.length);
  }
  return data;
}

// findNumber returns the last value of a field, or none if there is no such field.
export function findNumber(ptr: usize, length: i32, field: u32, none: i64): i64 {
  let found = none;
  one.start(ptr, length);
  while (one.next()) {
    if (one.key == numberKey(field)) found = <i64>one.num;
  }
  return found;
}

// Writer puts a message together in memory that grows when there is no room.
export class Writer {
  ptr: usize = 0;
  length: i32 = 0;
  private capacity: i32 = 0;

  clear(): this {
    this.length = 0;
    return this;
  }

  // Makes room for n more bytes, and returns its address.
  private room(n: i32): usize {
    if (n > this.capacity - this.length) {
      this.capacity = max(2 * this.capacity, max(256, this.length + n));
      const larger = heap.alloc(this.capacity);
      memory.copy(larger, this.ptr, this.length);
      if (this.ptr != 0) heap.free(this.ptr);
      this.ptr = larger;
    }
    const at = this.ptr + this.length;
    this.length += n;
    return at;
  }

  varint(v: u64): void {
    for (; v >= 0x80; v >>= 7) store<u8>(this.room(1), <u8>v | 0x80);
    store<u8>(this.room(1), <u8>v);
  }

  number(field: u32, v: u64): void {
    this.varint(numberKey(field));
    this.varint(v);
  }

  // Begins a field of text or bytes, whose n bytes follow.
  begin(field: u32, n: i32): void {
    this.varint(dataKey(field));
    this.varint(n);
  }

  copy(ptr: usize, length: i32): void {
    memory.copy(this.room(length), ptr, length);
  }

  bytes(field: u32, ptr: usize, length: i32): void {
    this.begin(field, length);
    this.copy(ptr, length);
  }

  utf8(s: string): void {
    const n = String.UTF8.byteLength(s);
    String.UTF8.encodeUnsafe(changetype<usize>(s), s.length, this.room(n), false, String.UTF8.ErrorMode.REPLACE);
  }

  // A field of text, nothing for an empty one.
  text(field: u32, s: string): void {
    if (s.length == 0) return;
    this.begin(field, String.UTF8.byteLength(s));
    this.utf8(s);
  }
}
