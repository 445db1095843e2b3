import { putHex, putNpub } from "./key";

// Bytes are a piece of memory that is looked at in place: text in UTF-8, a key, an
// encoded message.
export class Bytes {
  ptr: usize = 0;
  length: i32 = 0;

  @inline set(ptr: usize, length: i32): this {
    this.ptr = ptr;
    this.length = length;
    return this;
  }

  // One byte; 0 outside.
  @inline at(i: i32): u8 {
    return <u32>i < <u32>this.length ? load<u8>(this.ptr + i) : 0;
  }

  equals(other: Bytes): bool {
    return this.length == other.length && memory.compare(this.ptr, other.ptr, this.length) == 0;
  }

  // Compares with a text of ASCII letters, such as a tag's name.
  is(text: string): bool {
    if (this.length != text.length) return false;
    for (let i = 0; i < this.length; i++) {
      if (<u16>load<u8>(this.ptr + i) != text.charCodeAt(i)) return false;
    }
    return true;
  }

  // Makes a string, which takes memory: see the guide.
  toString(): string {
    return String.UTF8.decodeUnsafe(this.ptr, this.length);
  }
}

// A Line is text that grows up to 1 KiB: a key, a reason. It leaves out the rest. Make it once, not
// in a decision.
export class Line extends Bytes {
  constructor() {
    super();
    this.ptr = heap.alloc(Line.CAPACITY);
  }

  static readonly CAPACITY: i32 = 1024;

  clear(): this {
    this.length = 0;
    return this;
  }

  add(text: string): this {
    const n = String.UTF8.byteLength(text);
    if (n <= Line.CAPACITY - this.length) {
      String.UTF8.encodeUnsafe(changetype<usize>(text), text.length, this.ptr + this.length, false, String.UTF8.ErrorMode.REPLACE);
      this.length += n;
    }
    return this;
  }

  addBytes(bytes: Bytes): this {
    if (bytes.length <= Line.CAPACITY - this.length) {
      memory.copy(this.ptr + this.length, bytes.ptr, bytes.length);
      this.length += bytes.length;
    }
    return this;
  }

  // Bytes as hex digits, two for each.
  addHex(bytes: Bytes): this {
    if (2 * bytes.length <= Line.CAPACITY - this.length) {
      putHex(bytes, this.ptr + this.length);
      this.length += 2 * bytes.length;
    }
    return this;
  }

  // A public key as an npub (NIP-19).
  addNpub(key: Bytes): this {
    if (63 <= Line.CAPACITY - this.length) {
      putNpub(key, this.ptr + this.length);
      this.length += 63;
    }
    return this;
  }

  addInt(n: i64): this {
    if (this.length > Line.CAPACITY - 20) return this;
    if (n < 0) store<u8>(this.ptr + this.length++, 0x2d);
    let rest: u64 = n < 0 ? 0 - <u64>n : <u64>n;
    let digits = 1;
    for (let more = rest / 10; more > 0; more /= 10) digits++;
    for (let i = digits - 1; i >= 0; i--) {
      store<u8>(this.ptr + this.length + i, <u8>(0x30 + rest % 10));
      rest /= 10;
    }
    this.length += digits;
    return this;
  }
}
