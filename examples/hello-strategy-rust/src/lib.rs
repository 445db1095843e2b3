//! The smallest useful strategy: it connects to the relays that repositories name. There it
//! subscribes to announcements, to events that tag these repositories, and to events that tag their
//! issues, patches and pull requests.

use std::collections::{BTreeMap, BTreeSet};
use talon::strategy::{Actions, Input, Limits, Purpose, Step, Strategy, Subscription, World};
use talon::{hex, Config, Search, WrongValue};

struct Hello {
    most: usize, // relays to be connected to at once, as the operator wants it
    limits: Limits,
    repositories: BTreeMap<String, Repository>,
    relays: BTreeMap<String, Relay>,
    gathering: bool, // root events, until a timer fires
}

#[derive(Default)]
struct Repository {
    relays: BTreeSet<String>,
    roots: Vec<String>, // ids of its issues, patches and pull requests
}

/// A relay that a repository names, or that was there before.
#[derive(Default)]
struct Relay {
    repositories: Vec<String>, // that name it
    bootstrap: bool,
    wanted: bool,
    connected: bool,
    stale: Vec<String>,     // what another strategy has open
    open: Vec<Vec<Tagged>>, // the filters of each open subscription
    changed: bool,          // these may not be the right ones
}

/// A filter: a tag and its values. Without a tag it is that of announcements.
type Tagged = (&'static str, Vec<String>);

const MINUTE: i64 = 60_000;
const GATHER: i64 = 2_000; // root events are gathered for so long
const MAX_VALUES: usize = 100; // in one filter

impl Strategy for Hello {
    fn configure(config: &Config) -> Result<Self, WrongValue> {
        Ok(Hello {
            most: config.int("max_relays") as usize,
            limits: Limits::default(),
            repositories: BTreeMap::new(),
            relays: BTreeMap::new(),
            gathering: false,
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
            Input::LocalEvent(event) => {
                if ![1617, 1618, 1621].contains(&event.kind) {
                    return;
                }
                // Comments are asked for a moment later, together with those of the next ones.
                for repository in event.repositories() {
                    if self.add_root(repository, hex(event.id())) && !self.gathering {
                        self.gathering = true;
                        out.set_timer("roots", step.now + GATHER);
                    }
                }
                return;
            }
            Input::RepoGone(gone) => self.set(gone.repository, BTreeSet::new()),
            Input::RelayConnected(up) => {
                let relay = self.relays.entry(up.relay.into()).or_default();
                relay.connected = true;
                relay.changed = true;
                relay.open.clear();
                relay.stale.clear();
            }
            Input::RelayDisconnected(down) => {
                if let Some(relay) = self.relays.get_mut(down.relay) {
                    relay.connected = false;
                }
            }
            Input::Closed(closed) => {
                // The relay may be busy: all of it again, in a minute.
                if let Some(relay) = self.relays.get_mut(closed.relay) {
                    relay.changed = true;
                    relay.open.clear();
                    out.set_timer("again", step.now + MINUTE);
                }
                return;
            }
            Input::TimerFired(_) => self.gathering = false,
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
            self.gathering = false;
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
            for id in repository.roots() {
                self.add_root(repository.address, hex(id));
            }
        }
    }

    /// Says which relays a repository names now; none: it is gone.
    fn set(&mut self, address: &str, relays: BTreeSet<String>) {
        let mut now = self.repositories.remove(address).unwrap_or_default();
        for url in now.relays.difference(&relays) {
            if let Some(relay) = self.relays.get_mut(url) {
                relay.repositories.retain(|other| other != address);
                relay.changed = true;
            }
        }
        for url in relays.difference(&now.relays) {
            let relay = self.relays.entry(url.clone()).or_default();
            relay.repositories.push(address.into());
            relay.changed = true;
        }
        now.relays = relays;
        if !now.relays.is_empty() {
            self.repositories.insert(address.into(), now);
        }
    }

    /// Reports whether a root event of a repository is a new one.
    fn add_root(&mut self, address: &str, id: String) -> bool {
        match self.repositories.get_mut(address) {
            Some(now) if !now.roots.contains(&id) => {
                now.roots.push(id);
                for url in &now.relays {
                    if let Some(relay) = self.relays.get_mut(url) {
                        relay.changed = true;
                    }
                }
                true
            }
            _ => false,
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
        self.relays.retain(|_, relay| {
            relay.wanted || relay.connected || relay.bootstrap || !relay.repositories.is_empty()
        });
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
                subscribe(url, relay, &self.repositories, &limits, out)?;
            }
        }
        Some(())
    }
}

/// Ends subscriptions of another strategy on a relay, and reopens those that have changed: a
/// subscription replaces one with the same id. `None`: the answer could not hold it all.
fn subscribe(
    url: &str,
    relay: &mut Relay,
    repositories: &BTreeMap<String, Repository>,
    limits: &Limits,
    out: &mut Actions,
) -> Option<()> {
    while let Some(id) = relay.stale.first() {
        fits(out, limits, url.len() + id.len())?;
        out.unsubscribe(url, id);
        relay.stale.remove(0);
    }
    if !relay.changed {
        return Some(());
    }
    let wanted = subscriptions(relay, repositories, limits);
    for (i, filters) in wanted.iter().enumerate() {
        if relay.open.get(i) == Some(filters) {
            continue;
        }
        let values = filters.iter().flat_map(|(_, values)| values);
        let size: usize = values.map(|value| value.len() + 4).sum();
        fits(out, limits, url.len() + size + 20 * filters.len())?;
        let search = |(name, values): &Tagged| match values.len() {
            0 => Search::new().kinds(&[30617, 30618]),
            _ => Search::new().tag(name, values),
        };
        out.subscribe(&Subscription {
            relay: url,
            id: &id(i),
            filters: &filters.iter().map(search).collect::<Vec<_>>(),
            live: false,
            purpose: Purpose::Startup,
        });
        match relay.open.get_mut(i) {
            Some(open) => *open = filters.clone(),
            None => relay.open.push(filters.clone()),
        }
    }
    while relay.open.len() > wanted.len() {
        fits(out, limits, url.len())?;
        relay.open.pop();
        out.unsubscribe(url, &id(relay.open.len()));
    }
    relay.changed = false;
    Some(())
}

/// The filters of each subscription of a relay, as many as the limits allow.
fn subscriptions(
    relay: &Relay,
    repositories: &BTreeMap<String, Repository>,
    limits: &Limits,
) -> Vec<Vec<Tagged>> {
    // The tag's name counts as a value as well.
    let values = (limits.values.saturating_sub(1) as usize).min(MAX_VALUES);
    if values == 0 || limits.filters == 0 {
        return Vec::new();
    }
    let mut filters = vec![("", Vec::new())];
    for list in relay.repositories.chunks(values) {
        filters.push(("a", list.to_vec()));
    }
    let known = relay
        .repositories
        .iter()
        .filter_map(|r| repositories.get(r));
    let roots: Vec<_> = known.flat_map(|r| r.roots.iter().cloned()).collect();
    for list in roots.chunks(values) {
        filters.push(("e", list.to_vec()));
        filters.push(("E", list.to_vec()));
    }
    let all = filters.chunks(limits.filters as usize).map(<[_]>::to_vec);
    all.take(limits.subscriptions as usize).collect()
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
    format!("wanted-{}", n)
}

talon::strategy!(Hello, include_bytes!("../manifest.json"));
