import { Bytes } from "./bytes";
import { Search } from "./filter";
import { Action } from "./messages";
import { Writer } from "./wire";

// A policy's decision. There is one, which is used again.
export class Verdict {
  action: Action = Action.Pass;
  rule: string = ""; // stable code: a-z 0-9 - . _, at most 64 bytes
  prefix: string = ""; // standard prefix of the reason (NIP-01, NIP-42)
  text: string = ""; // the reason after its prefix, for people
  line: Bytes | null = null; // instead of text
  retry: u32 = 0; // seconds, see retryFor
  keys: Bytes | null = null; // see onlyKeys
  set: string = ""; // see onlyMembers
  wake: Search | null = null; // see awaiting
  wait: u32 = 0; // seconds, see awaiting
  end: bool = false; // see ending
  maxAuthorBytes: i64 = 0; // see within
  maxRepositoryBytes: i64 = 0;

  // No opinion: the next policy decides.
  static pass(): Verdict { return verdict.be(Action.Pass, "", "", null); }

  // Stores the event, or allows the request.
  static accept(): Verdict { return verdict.be(Action.Accept, "", "", null); }

  // Refuses. The prefix is "blocked", "invalid", "pow", "rate-limited", "restricted", "mute",
  // "error" or "duplicate".
  static reject(prefix: string, text: string): Verdict { return verdict.be(Action.Reject, prefix, text, null); }

  // The same with text that was put together in a Line.
  static rejectWith(prefix: string, line: Bytes): Verdict { return verdict.be(Action.Reject, prefix, "", line); }

  // Refuses the event, and tells the client that it was stored. Answers a query as if
  // nothing were here.
  static shadowReject(): Verdict { return verdict.be(Action.ShadowReject, "", "", null); }

  // Keeps an event in purgatory.
  static hold(text: string): Verdict { return verdict.be(Action.Hold, "purgatory", text, null); }

  // Refuses the event or the query until the client authenticates (NIP-42).
  static requireAuth(text: string): Verdict { return verdict.be(Action.RequireAuth, "auth-required", text, null); }

  // Lets only clients that prove one of the keys receive the event: 32 bytes each, one after
  // the other, at most 1,000 keys.
  static onlyKeys(keys: Bytes): Verdict {
    verdict.be(Action.Restrict, "", "", null).keys = keys;
    return verdict;
  }

  // Lets only members of a set of the module receive the event.
  static onlyMembers(set: string): Verdict {
    verdict.be(Action.Restrict, "", "", null).set = set;
    return verdict;
  }

  // Lets nobody receive the event.
  static nobody(): Verdict { return verdict.be(Action.Restrict, "", "", null); }

  private be(action: Action, prefix: string, text: string, line: Bytes | null): Verdict {
    this.action = action;
    this.rule = "";
    this.prefix = prefix;
    this.text = text;
    this.line = line;
    this.retry = 0;
    this.keys = null;
    this.set = "";
    this.wake = null;
    this.wait = 0;
    this.end = false;
    this.maxAuthorBytes = 0;
    this.maxRepositoryBytes = 0;
    return this;
  }

  // Adds the code of the rule that decided, for metrics and logs.
  by(rule: string): Verdict {
    this.rule = rule;
    return this;
  }

  // Has the host decide about a refused event once more when another of its author is
  // accepted within so many seconds, at most 60. The client is answered at once.
  retryFor(seconds: u32): Verdict {
    this.retry = seconds;
    return this;
  }

  // Has a held event wait for another event that the filter matches: one that is stored or held
  // later. The filter has ids, authors or tags, and at most 4 KiB as JSON. The host then decides
  // about the held event again, with all policies. It may do that at other times too. It holds the
  // event for so many seconds, at most 30 days; 0 is 7 days.
  awaiting(filter: Search, seconds: u32): Verdict {
    this.wake = filter;
    this.wait = seconds;
    return this;
  }

  // Has the host refuse the event or the push if the author would then have more than so many
  // bytes of events and git data, or the repository of a push more bytes of git data. The
  // author of a push is the owner of the repository. 0 is no limit.
  within(author: i64, repository: i64): Verdict {
    this.maxAuthorBytes = author;
    this.maxRepositoryBytes = repository;
    return this;
  }

  // Has the host end the connection after it has answered: an event or a query of a client.
  ending(): Verdict {
    this.end = true;
    return this;
  }

  write(w: Writer): void {
    if (this.action != Action.Pass) w.number(1, this.action);
    w.text(2, this.rule);
    if (this.end) w.number(4, 1);
    if (this.retry > 0) w.number(10, this.retry);
    const keys = this.keys;
    if (keys && keys.length > 0) w.bytes(12, keys.ptr, keys.length);
    w.text(13, this.set);
    const wake = this.wake;
    if (wake) {
      if (this.wait > 0) w.number(7, this.wait);
      w.bytes(14, wake.message.ptr, wake.message.length);
    }
    if (this.maxAuthorBytes > 0) w.number(5, this.maxAuthorBytes);
    if (this.maxRepositoryBytes > 0) w.number(6, this.maxRepositoryBytes);
    const line = this.line, text = cut(this.text), colon = this.prefix.length > 0 ? 2 : 0;
    const n = line ? fit(line) : String.UTF8.byteLength(text);
    const prefix = String.UTF8.byteLength(this.prefix);
    if (prefix + n == 0) return;
    w.begin(3, prefix + colon + n);
    w.utf8(this.prefix);
    if (colon > 0) w.utf8(": ");
    if (line) w.copy(line.ptr, n);
    else w.utf8(text);
  }
}

// The host keeps 1 KiB of a text, and refuses an answer that is much longer.
const MOST: i32 = 1024;

function cut(text: string): string {
  let n = 0, room = MOST;
  while (n < text.length) {
    const c = text.codePointAt(n);
    room -= c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    if (room < 0) return text.substring(0, n);
    n += c < 0x10000 ? 1 : 2;
  }
  return text;
}

function fit(text: Bytes): i32 {
  let n = text.length;
  if (n <= MOST) return n;
  for (n = MOST; n > 0 && (text.at(n) & 0xc0) == 0x80; ) n--;
  return n;
}

const verdict = new Verdict();
