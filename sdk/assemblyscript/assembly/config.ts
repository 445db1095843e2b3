import { Bytes } from "./bytes";
import { Numbers, Reader, Values, dataKey, find, findNumber } from "./wire";

// Every setting of the manifest: the operator's value, or the default. The host has checked types
// and limits. A key that the manifest does not have ends the instance. The results of the methods
// are new objects, which you may keep.
export class Config {
  private message: Bytes = new Bytes();
  private found: Bytes = new Bytes();

  read(ptr: usize, length: i32): this {
    this.message.set(ptr, length);
    return this;
  }

  private setting(key: string): Bytes {
    const settings = new Values().start(this.message.ptr, this.message.length, 1);
    while (settings.next()) {
      const s = settings.value;
      if (find(s.ptr, s.length, 1, this.found).is(key)) return this.found.set(s.ptr, s.length);
    }
    return unreachable();
  }

  // A setting of type strings.
  strings(key: string): Array<string> {
    const s = this.setting(key), list = new Array<string>();
    for (const values = new Values().start(s.ptr, s.length, 2); values.next(); ) list.push(values.value.toString());
    return list;
  }

  // A setting of type string.
  string(key: string): string {
    const s = this.setting(key);
    return find(s.ptr, s.length, 2, this.found).toString();
  }

  // A setting of type ints.
  ints(key: string): Array<i64> {
    const s = this.setting(key), list = new Array<i64>();
    for (const values = new Numbers().start(s.ptr, s.length, 3); values.next(); ) list.push(<i64>values.value);
    return list;
  }

  // A setting of type int.
  int(key: string): i64 {
    return this.first(key, 3);
  }

  // A setting of type bool.
  bool(key: string): bool {
    return this.first(key, 4) != 0;
  }

  private first(key: string, field: u32): i64 {
    const s = this.setting(key), values = new Numbers().start(s.ptr, s.length, field);
    return values.next() ? <i64>values.value : 0;
  }

  // A setting of type float.
  float(key: string): f64 {
    const s = this.setting(key), r = new Reader().start(s.ptr, s.length);
    while (r.next()) {
      if (r.key == dataKey(5) && r.length >= 8) return load<f64>(r.ptr);
      if (r.key == (5 << 3 | 1)) return reinterpret<f64>(r.num);
    }
    return 0;
  }

  // The host name of the relay, with a port if it is not the usual one.
  domain(): string {
    const s = find(this.message.ptr, this.message.length, 2, this.found);
    return find(s.ptr, s.length, 1, this.found).toString();
  }

  // The operator's public key, null if there is none. It is a view: copy it to keep it.
  operator(): Bytes | null {
    const s = find(this.message.ptr, this.message.length, 2, this.found);
    const key = find(s.ptr, s.length, 3, this.found);
    return key.length == 32 ? key : null;
  }

  // Whether the relay takes pull requests under /prs/ (GRASP-06).
  prs(): bool {
    const s = find(this.message.ptr, this.message.length, 2, this.found);
    return findNumber(s.ptr, s.length, 2, 0) != 0;
  }
}

// The result of configure for a value that the manifest cannot describe as wrong. want names a
// valid value: "an npub or 64 hex digits".
export function wrongValue(key: string, value: string, want: string): string {
  return "config " + key + ' has "' + value + '": want ' + want;
}
