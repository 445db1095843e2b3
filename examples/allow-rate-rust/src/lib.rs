//! Accepts the authors on a list, each so many events in a minute.

use std::collections::BTreeSet;
use std::time::Duration;

use talon::host::{self, Wait};
use talon::{parse_key, Admit, Config, Configured, Key, Origin, Policy, Verdict, WrongValue};

struct AllowRate {
    allow: BTreeSet<Key>,
    burst: u32,
    every: Duration, // one event more
}

impl Policy for AllowRate {
    fn configure(config: &Config) -> Result<Self, WrongValue> {
        let mut allow = BTreeSet::new();
        for author in config.strings("allow") {
            let key = parse_key(author)
                .ok_or_else(|| WrongValue::new("allow", author, "an npub or 64 hex digits"))?;
            allow.insert(key);
        }
        let burst = config.int("burst") as u32;
        let every = Duration::from_secs(60) / config.int("per_minute") as u32;
        Ok(AllowRate {
            allow,
            burst,
            every,
        })
    }

    /// Spares the relay questions while there is no list.
    fn configured(&self) -> Configured {
        let idle: &[&str] = if self.allow.is_empty() {
            &["admit"]
        } else {
            &[]
        };
        Configured {
            idle,
            ..Configured::default()
        }
    }

    fn admit(&mut self, input: &Admit) -> Verdict {
        let author = input.event().pubkey();
        if self.allow.is_empty() {
            return Verdict::pass();
        }
        if !self.allow.contains(author) {
            return Verdict::reject("restricted", "only some authors may write here")
                .by("not-allowed");
        }
        if matches!(input.origin(), Origin::Import | Origin::Sync) {
            return Verdict::accept().by("allowed");
        }
        // A bucket belongs to the name of the module's file: all instances share it, and
        // it outlives a new version and a restart.
        let key = [&b"author:"[..], author].concat();
        match host::take(&key, 1, self.burst, self.every) {
            Ok(()) => Verdict::accept().by("allowed"),
            Err(Wait::Never) => Verdict::reject(
                "rate-limited",
                "no events of this author are accepted at present",
            )
            .by("too-fast"),
            Err(Wait::For(wait)) => {
                let seconds = (wait.as_millis() as u64 + 999) / 1000;
                let text = format!("too many events of this author, try again in {} s", seconds);
                Verdict::reject("rate-limited", text).by("too-fast")
            }
        }
    }
}

talon::policy!(AllowRate, include_bytes!("../manifest.json"));
