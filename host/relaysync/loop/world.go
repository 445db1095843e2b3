package loop

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"talon/host"
	"talon/host/wire"
	"talon/sdk/abi"
	rules "talon/sdk/grasp"
)

// repo is a repository that is ours.
type repo struct {
	level  uint32
	relays []string
	id     host.ID // of its announcement
}

// rootKinds are those of a repository's root events.
var rootKinds = []host.Kind{rules.KindPatch, rules.KindPullRequest, rules.KindPRUpdate, rules.KindIssue}

// Bounds of a repository's data for the strategy.
const (
	repoRelays = 64
	partBytes  = 64 << 10
)

// readRepositories reads which repositories are ours, and returns the ids of their root events. After
// an error they are those that they were.
func (s *Loop) readRepositories() (_ map[string][][32]byte, err error) {
	was := s.repos
	s.repos = make(map[string]*repo, len(was))
	defer func() {
		if err != nil {
			s.repos = was
		}
	}()
	var failed error
	err = s.eachEvent(host.Filter{Kinds: []host.Kind{rules.KindAnnouncement}}, func(e *host.Event) {
		failed = errors.Join(failed, s.consider(e, abi.SyncLevelFull))
	})
	if err = errors.Join(err, failed); err != nil {
		return nil, err
	}
	held, err := s.deps.Facts.HeldBy(host.Filter{Kinds: []host.Kind{rules.KindAnnouncement}, Limit: -1})
	if err != nil {
		return nil, err
	}
	for _, text := range held {
		if e, err := wire.ParseEvent(text); err == nil {
			failed = errors.Join(failed, s.consider(e, abi.SyncLevelState))
		}
	}
	if failed != nil {
		return nil, failed
	}
	roots := make(map[string][][32]byte, len(s.repos))
	note := func(e *host.Event) {
		for _, address := range s.tagged(e) {
			roots[address] = append(roots[address], e.ID)
		}
	}
	if held, err = s.deps.Facts.HeldBy(host.Filter{Kinds: rootKinds, Limit: -1}); err != nil {
		return nil, err
	}
	for _, text := range held {
		if e, err := wire.ParseEvent(text); err == nil {
			note(e)
		}
	}
	return roots, s.eachEvent(host.Filter{Kinds: rootKinds}, note)
}

// consider notes a repository if it is ours. That of a held announcement is, whatever it
// lists: policies hold what gets a repository here.
func (s *Loop) consider(e *host.Event, level uint32) error {
	a := announcementOf(e)
	if a == nil {
		return nil
	}
	if level == abi.SyncLevelFull {
		if ours, err := s.deps.Ours(a); err != nil || !ours {
			return err
		}
	}
	address := a.Repo().Address()
	if old := s.repos[address]; old != nil && old.level == abi.SyncLevelFull {
		return nil // stored beats held
	}
	s.repos[address] = &repo{level: level, relays: s.own.relayList(a.Relays, repoRelays), id: e.ID}
	return nil
}

// tagged returns which of our repositories an event tags.
func (s *Loop) tagged(e *host.Event) (addresses []string) {
	for _, tag := range e.Tags {
		if len(tag) > 1 && tag[0] == "a" && s.repos[tag[1]] != nil && !slices.Contains(addresses, tag[1]) {
			addresses = append(addresses, tag[1])
		}
	}
	return addresses
}

// eachPage is how many events are read in one step.
const eachPage = 500

// eachEvent calls yield for each stored event that matches, newest first.
func (s *Loop) eachEvent(f host.Filter, yield func(*host.Event)) error {
	return eachEvent(s.deps.Facts, f, yield)
}

func eachEvent(facts Facts, f host.Filter, yield func(*host.Event)) error {
	f.Limit = eachPage
	var boundary map[host.ID]bool // seen events of the second where the page before ended
	for {
		texts, err := facts.Query(f)
		if err != nil {
			return fmt.Errorf("read stored events: %w", err)
		}
		var last []host.ID
		lastAt, unseen := int64(0), 0
		for _, text := range texts {
			e, err := wire.ParseEvent(text)
			if err != nil {
				continue // the store's own check finds it
			}
			if e.CreatedAt != lastAt {
				lastAt, last = e.CreatedAt, last[:0]
			}
			last = append(last, e.ID)
			if !boundary[e.ID] {
				unseen++
				yield(e)
			}
		}
		switch {
		case len(texts) < f.Limit:
			return nil
		case unseen == 0 || len(last) == len(texts):
			f.Limit *= 2 // all of one second
		default:
			f.Limit = eachPage
			until := lastAt
			f.Until = &until
		}
		boundary = setOf(last)
	}
}

func setOf(list []host.ID) map[host.ID]bool {
	set := make(map[host.ID]bool, len(list))
	for _, id := range list {
		set[id] = true
	}
	return set
}

// encode writes the world as requests of about 64 KiB each.
func (s *Loop) encode(roots map[string][][32]byte) (parts [][]byte) {
	init := &abi.StepInit{Seed: s.cfg.Seed, Limits: s.cfg.Limits.step(), Own: s.own.list()}
	slices.Sort(init.Own)
	for _, r := range s.relays {
		init.Relays = append(init.Relays, r.known())
	}
	slices.SortFunc(init.Relays, func(a, b abi.RelayState) int { return strings.Compare(a.URL, b.URL) })
	size := 0
	finish := func(more bool) {
		init.More = more
		parts = append(parts, abi.AppendStep(nil, s.clock, init))
		init = &abi.StepInit{Part: init.Part + 1, Seed: s.cfg.Seed}
		size = 0
	}
	addresses := make([]string, 0, len(s.repos))
	for address := range s.repos {
		addresses = append(addresses, address)
	}
	slices.Sort(addresses)
	for _, address := range addresses {
		rest := roots[address]
		for first := true; first || len(rest) > 0; first = false {
			r := s.repos[address]
			known := abi.KnownRepository{Address: address, Level: r.level, Relays: r.relays}
			cost := len(address) + 16
			for _, u := range r.relays {
				cost += len(u) + 4
			}
			n := min(len(rest), max(1, (partBytes-cost)/32))
			known.Roots, rest = rest[:n], rest[n:]
			if cost += 32 * n; size > 0 && size+cost > partBytes {
				finish(true)
			}
			size += cost
			init.Repositories = append(init.Repositories, known)
		}
	}
	finish(false)
	return parts
}

// known returns the state of a relay that is here already, for a strategy that begins.
func (r *relay) known() abi.RelayState {
	st := abi.RelayState{
		URL: r.url, Bootstrap: r.bootstrap, Wanted: r.wanted, Connected: r.up, Capabilities: r.caps,
		LastConnected: r.lastConnected, DisconnectedAt: r.disconnectedAt,
	}
	for id, sub := range r.subs {
		st.Subscriptions = append(st.Subscriptions, abi.OpenSubscription{ID: id, Filters: sub.filters, Live: sub.live, Eose: sub.eose})
	}
	slices.SortFunc(st.Subscriptions, func(a, b abi.OpenSubscription) int { return strings.Compare(a.ID, b.ID) })
	for id, h := range r.hists {
		st.Historics = append(st.Historics, abi.RunningHistoric{ID: id, Filter: h.filter, Method: h.method, Purpose: h.purpose})
	}
	slices.SortFunc(st.Historics, func(a, b abi.RunningHistoric) int { return strings.Compare(a.ID, b.ID) })
	return st
}
