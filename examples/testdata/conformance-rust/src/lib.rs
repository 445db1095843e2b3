//! Says everything that it is told and finds out.

use std::fmt::Write;
use std::time::Duration;

use talon::host::{self, Level, Wait};
use talon::{
    hex, npub, parse_key, Admit, Client, Config, Configured, Connect, Key, Limitation, Origin, Policy,
    Push, Query, Search, Verb, Verdict, Writes, WrongValue, BY_ADDRESS,
};

struct Conformance {
    settings: String,
}

fn join<T: ToString>(items: impl Iterator<Item = T>) -> String {
    items.map(|item| item.to_string() + ",").collect()
}

fn first_bytes<'a>(keys: impl Iterator<Item = &'a Key>) -> String {
    join(keys.map(|key| key[0]))
}

fn client(c: Client) -> String {
    let (address, agent, origin, path) = (c.address(), c.user_agent(), c.origin(), c.path());
    format!(
        "address={address} agent={agent} origin={origin} path={path} authed={}",
        first_bytes(c.authed())
    )
}

impl Policy for Conformance {
    fn configure(c: &Config) -> Result<Self, WrongValue> {
        if c.string("text") == "wrong" {
            return Err(WrongValue::new("text", "wrong", "another"));
        }
        let settings = format!(
            " text={} n={} on={} f={} list={} ints={} at={} prs={} operator={} key={}",
            c.string("text"),
            c.int("n"),
            c.bool("on") as u8,
            (c.float("f") * 10.0) as i64,
            join(c.strings("list")),
            join(c.ints("ints")),
            c.domain(),
            c.prs() as u8,
            c.operator()
                .map_or(String::new(), |key| npub(key) + "," + &hex(key)),
            parse_key(c.string("text")).map_or(String::new(), |key| hex(&key))
        );
        Ok(Conformance { settings })
    }

    fn configured(&self) -> Configured {
        Configured {
            grasps: &["GRASP-01", "GRASP-06"],
            criteria: "everything".into(),
            curation: "nothing".into(),
            writes: Writes::Restricted,
            limits: Limitation {
                max_content_length: 70_000,
                max_event_tags: 300,
                created_at_lower_limit: 1,
                created_at_upper_limit: 900,
                min_pow_difficulty: 20,
                auth_required: true,
            },
            ..Configured::default()
        }
    }

    fn admit(&mut self, input: &Admit) -> Verdict {
        let event = input.event();
        if event.kind() == 16 {
            let filter = Search::new()
                .author(event.pubkey())
                .kind(7)
                .tag("p", &[event.content()])
                .since(5);
            return Verdict::hold("waits").by("waits").awaiting(filter, 3600);
        }
        let mut l = String::new();
        let origin = match input.origin() {
            Origin::Unknown => 0,
            Origin::Client => 1,
            Origin::Import => 2,
            Origin::Sync => 3,
        };
        let _ = write!(
            l,
            "kind={} at={} origin={}",
            event.kind(),
            event.created_at(),
            origin
        );
        let _ = write!(
            l,
            " address={} relay={} now={}",
            input.address(),
            input.relay(),
            input.now()
        );
        let _ = write!(l, " authed={}", first_bytes(input.authed()));
        let tags = event
            .tags()
            .map(|tag| format!("{}:{}:{}", tag.name(), tag.value(), tag.items().count()));
        let _ = write!(l, " tags={}", join(tags));
        let d = event.tag("d");
        let _ = write!(l, " d={}{}", d.unwrap_or("").len(), d.is_some() as u8);

        let _ = write!(
            l,
            " get={}",
            host::get(event.id()).map_or(String::new(), |e| e.event().content().into())
        );
        let _ = write!(
            l,
            " held={}",
            host::held(event.id()).map_or(String::new(), |e| e.event().content().into())
        );
        let search = Search::new()
            .author(event.pubkey())
            .kind(1)
            .tag("t", &[event.content()]);
        let found = host::query(&search.since(5).until(2_000_000_000).limit(10));
        let _ = write!(
            l,
            " query={}{}",
            join(found.iter().map(|e| e.content())),
            found.more() as u8
        );
        let found = host::query_held(&Search::new().id(event.id()));
        let _ = write!(
            l,
            " queryheld={}",
            first_bytes(found.iter().map(|e| e.id()))
        );
        let address = "30023:0800000000000000000000000000000000000000000000000000000000000000:x";
        let found = host::query(&Search::new().tag(BY_ADDRESS, &[address]).header());
        let _ = write!(l, " there=");
        for e in found.iter() {
            let _ = write!(l, "{}{},", e.id()[0], e.content());
        }
        let _ = write!(l, " referenced={}", host::referenced(event.content()) as u8);

        let _ = write!(
            l,
            " set={}",
            host::kv_set(b"k", event.content().as_bytes(), 60) as u8
        );
        let _ = write!(
            l,
            " kv={}",
            String::from_utf8(host::kv_get(b"k").unwrap_or_default()).unwrap_or_default()
        );
        host::kv_delete(b"k");
        let _ = write!(l, " there={}", host::kv_get(b"k").is_some() as u8);
        host::kv_incr(b"n", 5, 0);
        let _ = write!(l, " n={} take=", host::kv_incr(b"n", -7, 0));
        for n in [1, 1, 2] {
            let wait = match host::take(b"b", n, 1, Duration::from_millis(1500)) {
                Ok(()) => 0,
                Err(Wait::For(wait)) => wait.as_millis() as i64,
                Err(Wait::Never) => -1,
            };
            let _ = write!(l, "{},", wait);
        }
        let _ = write!(l, " friend=");
        for known in [
            host::in_set("friends", event.pubkey()),
            host::in_set("nobody", b"x"),
        ] {
            let _ = write!(
                l,
                "{}{}",
                known.unwrap_or(false) as u8,
                known.is_some() as u8
            );
        }
        let _ = write!(l, " git={}", host::git_has("30617:x:y", "") as u8);
        let _ = write!(
            l,
            " ref={}",
            host::git_ref("30617:x:y", "refs/heads/main").unwrap_or_default()
        );
        host::log(Level::Info, "conformance");
        host::count("events", 1.0);
        host::gauge("size", 2.0);
        Verdict::reject("blocked", l + &self.settings).by("admit").retry_for(90)
    }

    fn query(&mut self, input: &Query) -> Verdict {
        let verb = match input.verb() {
            Verb::Unknown => 0,
            Verb::Req => 1,
            Verb::Count => 2,
            Verb::Neg => 3,
        };
        let mut l = format!(
            "{} verb={} now={}",
            client(input.client()),
            verb,
            input.now()
        );
        for f in input.filters() {
            let _ = write!(
                l,
                " filter ids={} authors={}",
                first_bytes(f.ids()),
                first_bytes(f.authors())
            );
            let _ = write!(l, " kinds={} tags=", join(f.kinds()));
            for condition in f.tags() {
                let _ = write!(l, "{}:{}", condition.name(), join(condition.values()));
            }
            for (name, v) in [
                (" since", f.since()),
                (" until", f.until()),
                (" limit", f.limit().map(i64::from)),
            ] {
                let _ = write!(l, "{}={}{}", name, v.unwrap_or(0), v.is_some() as u8);
            }
        }
        Verdict::require_auth(l).by("query")
    }

    fn connect(&mut self, input: &Connect) -> Verdict {
        if input.client().path() == "/long" {
            let agent = input.client().user_agent().to_string();
            return Verdict::reject("restricted", agent).by("connect");
        }
        let (open, here, now) = (input.open(), input.from_address(), input.now());
        Verdict::reject(
            "restricted",
            format!(
                "{} open={open} here={here} now={now}",
                client(input.client())
            ),
        )
        .by("connect")
    }

    fn push(&mut self, input: &Push) -> Verdict {
        let mut l = format!("{} repo={}", client(input.client()), input.repo());
        let _ = write!(l, " maintainers={}", first_bytes(input.maintainers()));
        for u in input.updates() {
            let _ = write!(l, " {}:{}:{}", u.name, u.old, u.new);
        }
        let _ = write!(
            l,
            " bytes={} stored={} prs={} now={}",
            input.bytes(),
            input.stored(),
            input.prs() as u8,
            input.now()
        );
        Verdict::reject("blocked", l).by("push")
    }
}

talon::policy!(Conformance, include_bytes!("../manifest.json"));
