import { Bytes } from "./bytes";

const CHARSET = "qpzry9x8gf2tvdw0s3jn54khce6mua7l";
const PREFIX = "npub1";
const NPUB = 63; // letters
const KEY_WORDS = 52; // 32 bytes in groups of five bits; a checksum follows

// parseKey decodes 64 hex digits or an npub (NIP-19) into 32 bytes at an address, and
// reports whether it could.
export function parseKey(text: string, to: usize): bool {
  if (text.length == 64) return parseHex(text, to);
  return text.length == 63 && parseNpub(text, to);
}

function parseHex(text: string, to: usize): bool {
  for (let i = 0; i < 64; i++) {
    const c = text.charCodeAt(i), lower = c | 0x20;
    let v = 0;
    if (c >= 0x30 && c <= 0x39) v = c - 0x30;
    else if (lower >= 0x61 && lower <= 0x66) v = lower - 0x61 + 10;
    else return false;
    const at = to + (i >> 1);
    store<u8>(at, i & 1 ? load<u8>(at) << 4 | <u8>v : <u8>v);
  }
  return true;
}

function parseNpub(text: string, to: usize): bool {
  const upper = text.charCodeAt(0) == 0x4e;
  let sum = npubSum();
  let acc: u32 = 0, bits = 0;
  for (let i = 0; i < 63; i++) {
    let c = text.charCodeAt(i);
    if (upper ? c >= 0x61 && c <= 0x7a : c >= 0x41 && c <= 0x5a) return false;
    if (c >= 0x41 && c <= 0x5a) c |= 0x20;
    if (i < 5) {
      if (c != PREFIX.charCodeAt(i)) return false;
      continue;
    }
    let v = 0;
    while (v < 32 && CHARSET.charCodeAt(v) != c) v++;
    if (v == 32) return false;
    sum = polymod(sum, v);
    if (i >= 5 + KEY_WORDS) continue;
    acc = acc << 5 | v;
    bits += 5;
    if (bits >= 8) {
      bits -= 8;
      store<u8>(to++, <u8>(acc >> bits));
      acc &= (1 << bits) - 1;
    }
  }
  return sum == 1 && acc == 0;
}

// The checksum of bech32 after the prefix npub.
function npubSum(): u32 {
  let sum: u32 = 1;
  for (let i = 0; i < 4; i++) sum = polymod(sum, PREFIX.charCodeAt(i) >> 5);
  sum = polymod(sum, 0);
  for (let i = 0; i < 4; i++) sum = polymod(sum, PREFIX.charCodeAt(i) & 31);
  return sum;
}

function digit(v: u32): u8 {
  return <u8>(v < 10 ? 0x30 + v : 0x61 - 10 + v);
}

// putHex writes bytes as hex digits, two for each, at an address.
export function putHex(bytes: Bytes, to: usize): void {
  for (let i = 0; i < bytes.length; i++) {
    const b = <u32>bytes.at(i);
    store<u8>(to++, digit(b >> 4));
    store<u8>(to++, digit(b & 15));
  }
}

// putNpub writes a public key as an npub (NIP-19), 63 letters, at an address.
export function putNpub(key: Bytes, to: usize): void {
  for (let i = 0; i < PREFIX.length; i++) store<u8>(to++, <u8>PREFIX.charCodeAt(i));
  let sum = npubSum(), acc: u32 = 0, bits = 0, n = 0;
  for (let i = 0; i < 33; i++) {
    acc = acc << 8 | key.at(i); // zeros fill the last five bits
    for (bits += 8; bits >= 5 && n < KEY_WORDS; bits -= 5, n++) {
      const v = acc >> (bits - 5) & 31;
      sum = polymod(sum, v);
      store<u8>(to++, <u8>CHARSET.charCodeAt(v));
    }
  }
  for (let i = 0; i < 6; i++) sum = polymod(sum, 0);
  for (let i = 5; i >= 0; i--) store<u8>(to++, <u8>CHARSET.charCodeAt((sum ^ 1) >> (5 * i) & 31));
}

// hex makes a string of hex digits, two for each byte.
export function hex(bytes: Bytes): string {
  const buffer = heap.alloc(2 * bytes.length);
  putHex(bytes, buffer);
  const text = String.UTF8.decodeUnsafe(buffer, 2 * bytes.length);
  heap.free(buffer);
  return text;
}

// npub makes a string of a public key: its npub (NIP-19).
export function npub(key: Bytes): string {
  const buffer = heap.alloc(NPUB);
  putNpub(key, buffer);
  const text = String.UTF8.decodeUnsafe(buffer, NPUB);
  heap.free(buffer);
  return text;
}

// polymod adds five bits to the checksum of bech32 (BIP-173).
function polymod(sum: u32, v: u32): u32 {
  const top = sum >> 25;
  sum = (sum & 0x1ffffff) << 5 ^ v;
  if (top & 1) sum ^= 0x3b6a57b2;
  if (top & 2) sum ^= 0x26508e6d;
  if (top & 4) sum ^= 0x1ea119fa;
  if (top & 8) sum ^= 0x3d4233dd;
  if (top & 16) sum ^= 0x2a1462b3;
  return sum;
}

// A KeySet holds public keys or ids. Looking one up allocates nothing.
export class KeySet {
  private keys: StaticArray<u8> = new StaticArray<u8>(0);
  size: i32 = 0;

  // Adds 64 hex digits or an npub, and reports whether it is one.
  addText(text: string): bool {
    if (32 * (this.size + 1) > this.keys.length) {
      const larger = new StaticArray<u8>(max(2 * this.keys.length, 256));
      memory.copy(changetype<usize>(larger), changetype<usize>(this.keys), 32 * this.size);
      this.keys = larger;
    }
    if (!parseKey(text, changetype<usize>(this.keys) + 32 * this.size)) return false;
    this.size++;
    return true;
  }

  has(key: Bytes): bool {
    if (key.length != 32) return false;
    const first = load<u64>(key.ptr);
    let at = changetype<usize>(this.keys);
    for (const end = at + 32 * this.size; at < end; at += 32) {
      if (load<u64>(at) == first && memory.compare(at + 8, key.ptr + 8, 24) == 0) return true;
    }
    return false;
  }
}
