// The smallest useful policy: it refuses notes that shout, and has no opinion about
// anything else.

import { Admit, Config, Policy, Verdict, register } from "talon-policy";
export { talon_abi_1, talon_admit, talon_buffer, talon_configure } from "talon-policy";

class Hello extends Policy {
  private most: i64 = 0;

  configure(config: Config): string | null {
    this.most = config.int("max_capitals");
    return null;
  }

  admit(input: Admit): Verdict {
    const event = input.event;
    if (event.kind != 1) return Verdict.pass();
    const content = event.content;
    let row: i64 = 0;
    for (let i = 0; i < content.length; i++) {
      const c = content.at(i);
      if (c >= 0x41 && c <= 0x5a) row++;
      else if (c >= 0x61 && c <= 0x7a) row = 0;
      if (row > this.most) return Verdict.reject("blocked", "please do not shout").by("shouting");
    }
    return Verdict.pass();
  }
}

register(new Hello());
