//! The smallest useful strategy: it connects to the relays that repositories name, and subscribes
//! to events that tag these repositories.

use std::collections::{BTreeMap, BTreeSet};
use talon::strategy::{Actions, Input, Limits, Purpose, Step, Strategy, Subscription, World};
use talon::{Config, Search, WrongValue};

struct Hello {
    most: usize, // relays to be connected to at once, as the operator wants it
    limits: Limits,
    repositories: BTreeMap<String, BTreeSet<String>>, // the relays that each names
    relays: BTreeMap<String, Relay>,
}

/// A relay that a repository names, or that was there before.
#[derive(Default)]
struct Relay {
    repositories: Vec<String>, // that name it
    bootstrap: bool,
    wanted: bool,
    connected: bool,
    stale: Vec<String>, // what another strategy has open
    open: usize,        // subscriptions
    current: usize,     // of them, those that say what repositories says
    changed: bool,      // not all do
}

impl Relay {
    /// Notes that the subscriptions must be opened again.
    fn touch(&mut self) {
        self.changed = true;
        self.current = 0;
    }
}

const MINUTE: i64 = 60_000;

impl Strategy for Hello {
    fn configure(config: &Config) -> Result<Self, WrongValue> {
        Ok(Hello {
            most: config.int("max_relays") as usize,
            limits: Limits::default(),
            repositories: BTreeMap::new(),
            relays: BTreeMap::new(),
        })
    }

    fn step(&mut self, step: &Step, out: &mut Actions) {
        match &step.input {
            Input::Init(world) => {
                self.learn(world);
                if world.more {
                    return;
                }
            }
            Input::LocalEvent(event) if event.kind == 30617 => {
                for repository in event.repositories() {
                    self.set(repository, event.relays().map(String::from).collect());
                }
            }
            Input::RepoGone(gone) => self.set(gone.repository, BTreeSet::new()),
            Input::RelayConnected(up) => {
                if let Some(relay) = self.relays.get_mut(up.relay) {
                    relay.connected = true;
                    relay.open = 0;
                    relay.stale.clear();
                    relay.touch();
                }
            }
            Input::RelayDisconnected(down) => {
                if let Some(relay) = self.relays.get_mut(down.relay) {
                    relay.connected = false;
                }
            }
            Input::Closed(closed) => {
                // The relay may be busy: all of it again, in a minute.
                if let Some(relay) = self.relays.get_mut(closed.relay) {
                    relay.touch();
                    out.set_timer("again", step.now + MINUTE);
                }
                return;
            }
            Input::TimerFired(_) => {}
            _ => return,
        }
        if self.plan(out).is_none() {
            out.set_timer("again", step.now);
        }
    }
}

impl Hello {
    /// Takes a part of the world.
    fn learn(&mut self, world: &World) {
        if world.part == 0 {
            self.limits = world.limits;
            self.repositories.clear();
            self.relays.clear();
            for state in world.relays() {
                let subscriptions = state.subscriptions().map(|s| s.id.into());
                let historics = state.historics().map(|h| h.id.into());
                let relay = Relay {
                    bootstrap: state.bootstrap,
                    wanted: state.wanted,
                    connected: state.connected,
                    changed: true,
                    stale: subscriptions.chain(historics).collect(),
                    ..Relay::default()
                };
                self.relays.insert(state.url.into(), relay);
            }
        }
        for repository in world.repositories() {
            let relays = repository.relays().map(String::from).collect();
            self.set(repository.address, relays);
        }
    }

    /// Says which relays a repository names now; none: it is gone.
    fn set(&mut self, repository: &str, relays: BTreeSet<String>) {
        let before = self.repositories.remove(repository).unwrap_or_default();
        for url in before.difference(&relays) {
            if let Some(relay) = self.relays.get_mut(url) {
                relay.repositories.retain(|other| other != repository);
                relay.touch();
            }
        }
        for url in relays.difference(&before) {
            let relay = self.relays.entry(url.clone()).or_default();
            relay.repositories.push(repository.into());
            relay.touch();
        }
        if !relays.is_empty() {
            self.repositories.insert(repository.into(), relays);
        }
    }

    /// Adjusts connections and subscriptions to the plan. It ends some first, so that there is
    /// room. `None`: one answer could not hold it all.
    fn plan(&mut self, out: &mut Actions) -> Option<()> {
        let limits = self.limits;
        let room = self.most.min(limits.connections as usize);
        for (url, relay) in &mut self.relays {
            if relay.wanted && relay.repositories.is_empty() && !relay.bootstrap {
                fits(out, &limits, url.len())?;
                out.disconnect(url, "no repository names it");
                relay.wanted = false;
                relay.connected = false;
            }
        }
        self.relays
            .retain(|_, relay| relay.wanted || relay.bootstrap || !relay.repositories.is_empty());
        let mut wanted = self.relays.values().filter(|relay| relay.wanted).count();
        let mut relays: Vec<_> = self.relays.iter_mut().collect();
        // Those with most repositories first; relays with as many stay in order.
        relays.sort_by_key(|(_, relay)| std::cmp::Reverse(relay.repositories.len()));
        for (url, relay) in relays {
            if let (Some(first), false, true) =
                (relay.repositories.first(), relay.wanted, wanted < room)
            {
                fits(out, &limits, url.len() + first.len())?;
                let reason = format!("named by {}", first);
                out.connect(url, relay.repositories.len() as u32, &reason);
                relay.wanted = true;
                wanted += 1;
            }
            if relay.connected {
                subscribe(url, relay, &limits, out)?;
            }
        }
        Some(())
    }
}

/// Ends subscriptions of another strategy on a relay, and reopens those that have changed: a
/// subscription replaces one with the same id. `None`: the answer could not hold it all.
fn subscribe(url: &str, relay: &mut Relay, limits: &Limits, out: &mut Actions) -> Option<()> {
    while let Some(id) = relay.stale.first() {
        fits(out, limits, url.len() + id.len())?;
        out.unsubscribe(url, id);
        relay.stale.remove(0);
    }
    if !relay.changed {
        return Some(());
    }
    // Addresses in one filter, of which the tag's name counts as well, and in one
    // subscription.
    let values = (limits.values.saturating_sub(1) as usize).min(100);
    let batch = values * limits.filters as usize;
    let batches = match batch {
        0 => 0,
        _ => (relay.repositories.len() + batch - 1) / batch,
    };
    let batches = batches.min(limits.subscriptions as usize);
    while relay.current < batches {
        let from = relay.current * batch;
        let to = relay.repositories.len().min(from + batch);
        let addresses = &relay.repositories[from..to];
        let filters: Vec<_> = addresses
            .chunks(values)
            .map(|addresses| Search::new().tag("a", addresses))
            .collect();
        let size: usize = addresses.iter().map(|address| address.len() + 4).sum();
        fits(out, limits, url.len() + size + 20 * filters.len())?;
        out.subscribe(&Subscription {
            relay: url,
            id: &id(relay.current),
            filters: &filters,
            live: false,
            purpose: Purpose::Startup,
        });
        relay.current += 1;
        relay.open = relay.open.max(relay.current);
    }
    while relay.open > relay.current {
        fits(out, limits, url.len())?;
        relay.open -= 1;
        out.unsubscribe(url, &id(relay.open));
    }
    relay.changed = false;
    Some(())
}

/// `None` where the answer has no room for one more action with so many bytes of text,
/// and the timer after it.
fn fits(out: &Actions, limits: &Limits, size: usize) -> Option<()> {
    const REST: usize = 400; // of an action: ids, a reason, lengths; the timer
    let bytes = limits.bytes == 0 || out.size() + size + REST <= limits.bytes as usize;
    (out.len() + 1 < limits.actions as usize && bytes).then_some(())
}

/// Names the n-th subscription of a relay.
fn id(n: usize) -> String {
    format!("repositories-{}", n)
}

talon::strategy!(Hello, include_bytes!("../manifest.json"));
