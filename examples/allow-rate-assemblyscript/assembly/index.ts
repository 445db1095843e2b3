// Accepts the authors on a list, each so many events in a minute.

import { Admit, Config, KeySet, Line, NEVER, Origin, Policy, Verdict, register, take, wrongValue } from "talon-policy";
export { talon_abi_1, talon_admit, talon_buffer, talon_configure } from "talon-policy";

class AllowRate extends Policy {
  private allow: KeySet = new KeySet();
  private burst: i32 = 0;
  private every: i64 = 0; // milliseconds until one event more
  private key: Line = new Line();
  private reason: Line = new Line();

  configure(config: Config): string | null {
    const authors = config.strings("allow");
    for (let i = 0; i < authors.length; i++) {
      if (!this.allow.addText(authors[i])) return wrongValue("allow", authors[i], "an npub or 64 hex digits");
    }
    this.burst = <i32>config.int("burst");
    this.every = 60000 / config.int("per_minute");
    return null;
  }

  // Spares the relay questions while there is no list.
  idle(): Array<string> {
    return this.allow.size == 0 ? ["admit"] : [];
  }

  admit(input: Admit): Verdict {
    const author = input.event.pubkey;
    if (this.allow.size == 0) return Verdict.pass();
    if (!this.allow.has(author)) return Verdict.reject("restricted", "only some authors may write here").by("not-allowed");
    if (input.origin == Origin.Import || input.origin == Origin.Sync) return Verdict.accept().by("allowed");

    // A bucket belongs to the name of the module's file: all instances share it, and it
    // outlives a new version and a restart.
    const wait = take(this.key.clear().add("author:").addBytes(author), 1, this.burst, this.every);
    if (wait == 0) return Verdict.accept().by("allowed");
    if (wait == NEVER) return Verdict.reject("rate-limited", "no events of this author are accepted at present").by("too-fast");
    this.reason.clear().add("too many events of this author, try again in ").addInt((wait + 999) / 1000).add(" s");
    return Verdict.rejectWith("rate-limited", this.reason).by("too-fast");
  }
}

register(new AllowRate());
