// Says everything that it is told and finds out.

import {
  Admit, BY_ADDRESS, Bytes, Client, Config, Connect, Level, Limitation, Line, NOT_FOUND, Policy, Push, Query, Search, Verdict, Writes, count, gauge, get,
  gitHas, gitRef, held, hex, inSet, kvDelete, kvGet, kvIncr, kvSet, log, npub, parseKey, query, queryHeld, referenced, register,
  take, wrongValue,
} from "talon-policy";
export {
  talon_abi_1, talon_admit, talon_buffer, talon_configure, talon_connect, talon_push, talon_query,
} from "talon-policy";

const line = new Line(), settings = new Line(), key = new Line(), other = new Line(), none = new Line();

class Conformance extends Policy {
  private search: Search = new Search();

  configure(c: Config): string | null {
    if (c.string("text") == "wrong") return wrongValue("text", "wrong", "another");
    settings.add(" text=").add(c.string("text")).add(" n=").addInt(c.int("n")).add(" on=").addInt(c.bool("on") ? 1 : 0);
    settings.add(" f=").addInt(<i64>(c.float("f") * 10)).add(" list=");
    const list = c.strings("list");
    for (let i = 0; i < list.length; i++) settings.add(list[i]).add(",");
    settings.add(" ints=");
    const ints = c.ints("ints");
    for (let i = 0; i < ints.length; i++) settings.addInt(ints[i]).add(",");
    settings.add(" at=").add(c.domain()).add(" prs=").addInt(c.prs() ? 1 : 0).add(" operator=");
    const operator = c.operator();
    if (operator) settings.add(npub(operator)).add(",").addHex(operator);
    settings.add(" key=");
    const parsed = new Bytes().set(heap.alloc(32), 32);
    if (parseKey(c.string("text"), parsed.ptr)) settings.add(hex(parsed));
    return null;
  }

  grasps(): Array<string> { return ["GRASP-01", "GRASP-06"]; }
  criteria(): string { return "everything"; }
  writes(): Writes { return Writes.Restricted; }
  curation(): string { return "nothing"; }
  limits(): Limitation {
    const l = new Limitation();
    l.maxContentLength = 70000;
    l.maxEventTags = 300;
    l.createdAtLowerLimit = 1;
    l.createdAtUpperLimit = 900;
    l.minPowDifficulty = 20;
    l.authRequired = true;
    return l;
  }

  admit(input: Admit): Verdict {
    const event = input.event;
    if (event.kind == 16) {
      return Verdict.hold("waits").by("waits").awaiting(this.search.clear().author(event.pubkey).kind(7).tag("p", event.content).since(5), 3600);
    }
    line.clear().add("kind=").addInt(event.kind).add(" at=").addInt(event.createdAt).add(" origin=").addInt(input.origin);
    line.add(" address=").addBytes(input.address).add(" relay=").addBytes(input.relay).add(" now=").addInt(input.now);
    line.add(" authed=");
    for (const keys = input.authed(); keys.next(); ) line.addInt(keys.value.at(0)).add(",");
    line.add(" tags=");
    for (const tags = event.tags(); tags.next(); ) {
      line.addBytes(tags.name).add(":").addBytes(tags.item(1)).add(":").addInt(tags.count()).add(",");
    }
    let d = 0, there = 0;
    for (const tags = event.tags(); tags.next(); ) {
      if (!tags.name.is("d")) continue;
      d = tags.value.length;
      there = 1;
      break;
    }
    line.add(" d=").addInt(d).addInt(there).add(" get=");
    const stored = get(event.id);
    if (stored) line.addBytes(stored.content);
    line.add(" held=");
    const waiting = held(event.id);
    if (waiting) line.addBytes(waiting.content);
    line.add(" query=");
    this.search.clear().author(event.pubkey).kind(1).tag("t", event.content).since(5).until(2000000000).limit(10);
    const found = query(this.search);
    while (found.next()) line.addBytes(found.event.content).add(",");
    line.addInt(found.more() ? 1 : 0).add(" queryheld=");
    for (const events = queryHeld(this.search.clear().id(event.id)); events.next(); ) line.addInt(events.event.id.at(0)).add(",");
    line.add(" there=");
    key.clear().add("30023:0800000000000000000000000000000000000000000000000000000000000000:x");
    for (const events = query(this.search.clear().tag(BY_ADDRESS, key).header()); events.next(); )
      line.addInt(events.event.id.at(0)).addBytes(events.event.content).add(",");
    line.add(" referenced=").addInt(referenced(event.content) ? 1 : 0);

    key.clear().add("k");
    line.add(" set=").addInt(kvSet(key, event.content, 60) ? 1 : 0).add(" kv=");
    const value = kvGet(key);
    if (value) line.addBytes(value);
    kvDelete(key);
    line.add(" there=").addInt(kvGet(key) ? 1 : 0).add(" n=");
    key.clear().add("n");
    kvIncr(key, 5, 0);
    line.addInt(kvIncr(key, -7, 0)).add(" take=");
    key.clear().add("b");
    for (let i = 0; i < 3; i++) line.addInt(take(key, 1 + i / 2, 1, 1500)).add(",");
    known(inSet("friends", event.pubkey), " friend=");
    known(inSet("nobody", key), "");
    key.clear().add("30617:x:y");
    line.add(" git=").addInt(gitHas(key, none) ? 1 : 0).add(" ref=");
    const tip = gitRef(key, other.clear().add("refs/heads/main"));
    if (tip) line.addBytes(tip);
    log(Level.Info, "conformance");
    count("events", 1);
    gauge("size", 2);
    return Verdict.rejectWith("blocked", line.addBytes(settings)).by("admit").retryFor(90);
  }

  query(input: Query): Verdict {
    client(input.client);
    line.add(" verb=").addInt(input.verb).add(" now=").addInt(input.now);
    for (const filters = input.filters(); filters.next(); ) {
      const f = filters.filter;
      line.add(" filter ids=");
      for (const ids = f.ids(); ids.next(); ) line.addInt(ids.value.at(0)).add(",");
      line.add(" authors=");
      for (const authors = f.authors(); authors.next(); ) line.addInt(authors.value.at(0)).add(",");
      line.add(" kinds=");
      for (const kinds = f.kinds(); kinds.next(); ) line.addInt(kinds.value).add(",");
      line.add(" tags=");
      for (const tags = f.tags(); tags.next(); ) {
        line.addBytes(tags.name).add(":");
        for (const values = tags.values(); values.next(); ) line.addBytes(values.value).add(",");
      }
      maybe(" since=", f.since(-1));
      maybe(" until=", f.until(-1));
      maybe(" limit=", f.limit(-1));
    }
    return text(Verdict.requireAuth(""), "query");
  }

  connect(input: Connect): Verdict {
    if (input.client.path.is("/long")) return Verdict.reject("restricted", input.client.userAgent.toString()).by("connect");
    client(input.client);
    line.add(" open=").addInt(input.open).add(" here=").addInt(input.fromAddress).add(" now=").addInt(input.now);
    return Verdict.rejectWith("restricted", line).by("connect");
  }

  push(input: Push): Verdict {
    client(input.client);
    line.add(" repo=").addBytes(input.repo).add(" maintainers=");
    for (const keys = input.maintainers(); keys.next(); ) line.addInt(keys.value.at(0)).add(",");
    for (const u = input.updates(); u.next(); ) {
      line.add(" ").addBytes(u.ref).add(":").addBytes(u.from).add(":").addBytes(u.to);
    }
    line.add(" bytes=").addInt(input.bytes).add(" stored=").addInt(input.stored).add(" prs=").addInt(input.prs ? 1 : 0).add(" now=").addInt(input.now);
    return Verdict.rejectWith("blocked", line).by("push");
  }
}

function client(c: Client): void {
  line.clear().add("address=").addBytes(c.address).add(" agent=").addBytes(c.userAgent).add(" origin=").addBytes(c.origin);
  line.add(" path=").addBytes(c.path).add(" authed=");
  for (const keys = c.authed(); keys.next(); ) line.addInt(keys.value.at(0)).add(",");
}

function known(n: i32, name: string): void {
  line.add(name).addInt(n == 1 ? 1 : 0).addInt(n == NOT_FOUND ? 0 : 1);
}

function maybe(name: string, n: i64): void {
  line.add(name).addInt(n < 0 ? 0 : n).addInt(n < 0 ? 0 : 1);
}

function text(v: Verdict, rule: string): Verdict {
  v.line = line;
  return v.by(rule);
}

register(new Conformance());
