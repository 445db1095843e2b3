package loop

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"talon/host"
	"talon/host/relaysync/known"
	"talon/host/relaysync/session"
	"talon/host/wire"
	"talon/sdk/abi"
	"talon/sdk/grasp"
)

// repo is a repository that is ours.
type repo struct {
	address string
	level   uint32
	relays  []string // that the strategy knows of
	untold  []string // others that its held announcement names
	id      host.ID  // of its announcement
	author  host.PubKey
	private bool // it is not for everybody
}

// rootKinds are those of a repository's root events.
var rootKinds = []host.Kind{grasp.KindPatch, grasp.KindPullRequest, grasp.KindPRUpdate, grasp.KindIssue}

// Bounds of a repository's data for the strategy.
const (
	repoRelays = 64
	partBytes  = 64 << 10
	rootBytes  = 37 // an id and a date
)

// rootsOf are root events of a repository, with the latest activity about each in unix seconds.
type rootsOf struct {
	ids     [][32]byte
	active  []uint32
	authors authorDates // those who said something about them
}

// readRepositories reads which repositories are ours, and returns their root events. After
// an error they are those that they were.
func (s *Loop) readRepositories() (_ map[string]*rootsOf, err error) {
	was := s.repos
	s.repos = make(map[string]*repo, len(was))
	defer func() {
		left := was
		if err != nil {
			left, s.repos = s.repos, was
		}
		for _, r := range left {
			s.unname(r)
		}
	}()
	var failed error
	err = s.eachEvent(host.Filter{Kinds: []host.Kind{grasp.KindAnnouncement}}, func(e *host.Event) {
		failed = errors.Join(failed, s.consider(e, abi.SyncLevelFull))
	})
	if err = errors.Join(err, failed); err != nil {
		return nil, err
	}
	held, err := s.deps.Facts.HeldBy(host.Filter{Kinds: []host.Kind{grasp.KindAnnouncement}, Limit: -1})
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
	s.relistAll()
	roots := make(map[string]*rootsOf, len(s.repos))
	talked, err := s.latestActivity()
	if err != nil {
		return nil, err
	}
	note := func(e *host.Event) {
		tagged := s.tagged(e)
		s.private.noteRoot(e.ID, tagged)
		for _, address := range tagged {
			r := roots[address]
			if r == nil {
				r = new(rootsOf)
				roots[address] = r
			}
			r.ids, r.active = append(r.ids, e.ID), append(r.active, max(seconds(e.CreatedAt), talked.latest[e.ID]))
			r.authors.add(talked.authors[e.ID])
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

// consider notes a repository if it is ours. The repository of a held announcement is ours,
// whatever relays it lists: policies hold only announcements that may get a repository
// here.
func (s *Loop) consider(e *host.Event, level uint32) error {
	a := announcementOf(e)
	if a == nil {
		return nil
	}
	if level == abi.SyncLevelFull {
		if ours, err := s.deps.Hosted(a); err != nil || !ours {
			return err
		}
	}
	address := a.Repo().Address()
	old := s.repos[address]
	if old != nil && old.level == abi.SyncLevelFull {
		return nil // stored beats held
	}
	r := &repo{address: address, level: level, id: e.ID, author: e.PubKey}
	if at, ok := e.Address(); ok && s.deps.Private != nil {
		r.private = s.deps.Private(at)
	}
	s.private.note(r)
	s.name(r, s.own.relayList(a.Relays, repoRelays))
	s.repos[address] = r
	if old != nil {
		s.unname(old)
	}
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
	f.Limit = eachPage
	var boundary map[host.ID]bool // seen events of the second where the page before ended
	for {
		texts, err := s.deps.Facts.Query(f)
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
func (s *Loop) encode(roots map[string]*rootsOf) (parts [][]byte) {
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
		var rest rootsOf
		if r := roots[address]; r != nil {
			rest = *r
		}
		for first := true; first || len(rest.ids) > 0; first = false {
			r := s.repos[address]
			known := abi.KnownRepository{Address: address, Level: r.level, Relays: r.relays}
			cost := len(address) + 16
			for _, u := range r.relays {
				cost += len(u) + 4
			}
			if first {
				known.Authors, known.AuthorLatest = rest.authors.latest()
				cost += rootBytes * len(known.Authors)
			}
			n := min(len(rest.ids), max(1, (partBytes-cost)/rootBytes))
			known.Roots, rest.ids = rest.ids[:n], rest.ids[n:]
			known.Active, rest.active = rest.active[:n], rest.active[n:]
			if cost += rootBytes * n; size > 0 && size+cost > partBytes {
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

// Change is one change of a stored or held event.
type Change struct {
	Event   *host.Event
	Kind    ChangeKind
	Relay   string // from which it came
	Synced  bool   // it came from a relay
	First   bool   // there was no change of the event before
	Expired bool   // it was dropped because its time in purgatory was over, or it gave way
}

// ChangeKind is the kind of a change.
type ChangeKind uint8

// Kinds.
const (
	Stored ChangeKind = iota
	Removed
	Held    // or revived
	Dropped // from purgatory, or with its repository
)

// Published returns the changes of a commit's events (ingest.Follower). It may be called
// by any goroutine. now is in unix seconds.
func Published(k *known.Set, now int64, events []host.Published) []Change {
	list := make([]Change, 0, len(events))
	for _, p := range events {
		if p.Seq == 0 {
			continue // ephemeral
		}
		relay, synced := k.InFlight(p.Event.ID)
		first := !k.Here(p.Event.ID) // it was not held before
		k.Add(p.Event.ID)
		k.Arrived(p.Event, now)
		list = append(list, Change{Event: p.Event, Kind: Stored, Relay: relay, Synced: synced, First: first})
	}
	return list
}

// Followed returns the changes of what a commit removed and of what it did in purgatory
// (ingest.Follower). It may be called by any goroutine. now is in unix seconds.
func Followed(k *known.Set, now int64, removed []*host.Event, held []host.HeldChange) []Change {
	list := make([]Change, 0, len(removed)+len(held))
	for _, e := range removed {
		// Other relays may have it for long, and every comparison would find it again.
		k.Exclude(e, now)
		list = append(list, Change{Event: e, Kind: Removed})
	}
	for _, h := range held {
		kind, first := Dropped, false
		switch h.Status {
		case host.StatusHeld:
			kind, first = Held, true
			k.Add(h.Event.ID)
			k.Arrived(h.Event, now)
		case host.StatusRevived:
			kind = Held
		case host.StatusReleased:
			continue // it is published
		case host.StatusExpired:
			k.Remove(h.Event.ID)
		}
		relay, synced := k.InFlight(h.Event.ID)
		list = append(list, Change{
			Event: h.Event, Kind: kind, Relay: relay, Synced: synced || h.Synced, First: first, Expired: h.Status == host.StatusExpired,
		})
	}
	return list
}

// Changed handles local changes, and passes those that matter to the strategy.
func (s *Loop) Changed(now int64, list []Change) {
	s.tick(now)
	for i := range list {
		n := &list[i]
		if n.Kind == Stored || n.Kind == Held {
			s.retries.Arrived(n.Event)
		}
		s.noteExpired(n)
		s.onChange(n)
	}
}

// noteExpired keeps an event of a relay for another decision if it expires in purgatory. An
// announcement is revived there instead.
func (s *Loop) noteExpired(n *Change) {
	switch {
	case n.Kind == Held && n.Synced && n.Relay != "" && n.Event.Kind != grasp.KindAnnouncement:
		s.expired.Held(n.Event.ID, n.Relay, s.clock/1000)
	case n.Kind == Held:
	case n.Expired:
		s.expired.Expire(n.Event, s.clock/1000)
	default:
		s.expired.Forget(n.Event.ID)
	}
}

// Missed reports that changes were lost: the loop reads all repositories again.
func (s *Loop) Missed(now int64) {
	s.tick(now)
	s.log(session.Warn, "sync missed what happened here, and looks at all repositories again")
	s.readAgain(func(_, _ *repo) bool { return true })
}

// onChange tells the strategy of one change.
func (s *Loop) onChange(n *Change) {
	switch n.Event.Kind {
	case grasp.KindAnnouncement:
		s.announced(n)
	case grasp.KindPatch, grasp.KindPullRequest, grasp.KindPRUpdate, grasp.KindIssue:
		if n.Kind == Stored || n.Kind == Held {
			if to := s.tagged(n.Event); len(to) > 0 {
				s.private.noteRoot(n.Event.ID, to)
				s.step(n.input(to, nil, 0))
			}
		}
	case grasp.KindGraspList:
		if n.Kind == Stored {
			var servers []string
			for _, tag := range n.Event.Tags {
				if len(tag) > 1 && tag[0] == "g" {
					servers = append(servers, tag[1])
				}
			}
			s.step(n.input(nil, s.own.relayList(servers, repoRelays), 0))
		}
	}
	if n.Kind == Stored {
		s.talked(n.Event)
	}
}

func (n *Change) input(repositories, relays []string, level uint32) *abi.LocalEvent {
	e := n.Event
	in := &abi.LocalEvent{
		ID: e.ID, PubKey: e.PubKey, Kind: uint32(e.Kind), CreatedAt: e.CreatedAt,
		Repositories: repositories, Relays: relays, Level: level, Origin: abi.OriginClient,
	}
	if n.Synced {
		in.Origin, in.Relay = abi.OriginSync, n.Relay
	}
	return in
}

// announced reads the present state of a repository, whatever the change is: it may come
// late.
func (s *Loop) announced(n *Change) {
	address, ok := n.Event.Address()
	if !ok {
		return
	}
	name := address.String()
	was := s.repos[name]
	delete(s.repos, name)
	e, err := s.announcement(address)
	if err != nil {
		s.repos[name] = was
		if was == nil {
			delete(s.repos, name)
		}
		s.log(session.Error, "read an announcement", "repo", name, "err", err)
		return
	}
	now := s.repos[name]
	s.relist(name, was, now)
	if was != nil {
		s.unname(was)
	}
	if was != nil && now != nil && now.private && !was.private {
		s.notePrivateRoots(address)
		s.conceal(now)
	}
	switch {
	case now == nil && was != nil:
		s.step(&abi.RepoGone{Repository: name})
	case now == nil:
	case was == nil || was.id != now.id || was.level != now.level || !slices.Equal(was.relays, now.relays):
		told := Change{Event: e, Relay: n.Relay, Synced: n.Synced}
		if e.ID != n.Event.ID {
			told.Synced = false
		}
		s.step(told.input([]string{name}, now.relays, now.level))
		if was == nil {
			s.tellRoots(address)
		}
	}
}

// announcement notes the repository of an address by the announcement that counts: the
// stored one if that makes it ours, else the held one. It returns that one, nil if there is
// none.
func (s *Loop) announcement(a host.Address) (*host.Event, error) {
	f := host.Filter{
		Kinds:   []host.Kind{a.Kind},
		Authors: []host.PubKey{a.PubKey},
		Tags:    []host.TagFilter{{Name: 'd', Values: []string{a.D}}},
		Limit:   1,
	}
	for _, from := range []struct {
		read  func(host.Filter) ([][]byte, error)
		level uint32
	}{{s.deps.Facts.Query, abi.SyncLevelFull}, {s.deps.Facts.HeldBy, abi.SyncLevelState}} {
		texts, err := from.read(f)
		if err != nil {
			return nil, err
		}
		if len(texts) == 0 {
			continue
		}
		e, err := wire.ParseEvent(texts[0])
		if err == nil {
			err = s.consider(e, from.level)
		}
		if err != nil {
			return nil, err
		}
		if s.repos[a.String()] != nil {
			return e, nil
		}
	}
	return nil, nil
}

// notePrivateRoots notes the root events of a repository that has become private.
func (s *Loop) notePrivateRoots(a host.Address) {
	f := host.Filter{Kinds: rootKinds, Tags: []host.TagFilter{{Name: 'a', Values: []string{a.String()}}}}
	if err := s.eachEvent(f, func(e *host.Event) { s.private.noteRoot(e.ID, s.tagged(e)) }); err != nil {
		s.log(session.Error, "read the root events of a private repository", "repo", a.String(), "err", err)
	}
}

// tellRoots tells of the root events that were stored before their repository was
// ours.
func (s *Loop) tellRoots(a host.Address) {
	f := host.Filter{Kinds: rootKinds, Tags: []host.TagFilter{{Name: 'a', Values: []string{a.String()}}}}
	err := s.eachEvent(f, func(e *host.Event) {
		n, tagged := Change{Event: e}, s.tagged(e)
		s.private.noteRoot(e.ID, tagged)
		s.step(n.input(tagged, nil, 0))
	})
	if err != nil {
		s.log(session.Error, "read the root events of a repository", "repo", a.String(), "err", err)
	}
}

// readAgain reads the repositories again and reports the difference to the strategy. It sends
// repositories that are no longer hosted, and the whole of each repository that report selects.
// report gets what the loop knew of a repository (nil: nothing) and what it knows now. Of a root
// event only the id and the repository are right.
func (s *Loop) readAgain(report func(was, now *repo) bool) {
	was := s.repos
	roots, err := s.readRepositories()
	if err != nil {
		s.log(session.Error, "read the repositories", "err", err)
		return
	}
	for _, name := range sortedKeys(was) {
		if s.repos[name] == nil {
			s.step(&abi.RepoGone{Repository: name})
		}
	}
	repos := s.repos // a strategy that begins meanwhile has them read again
	for _, name := range sortedKeys(repos) {
		r := repos[name]
		a, ok := host.ParseAddress(name)
		if !ok || !report(was[name], r) {
			continue
		}
		s.step(&abi.LocalEvent{
			ID: r.id, PubKey: a.PubKey, Kind: grasp.KindAnnouncement, CreatedAt: s.clock / 1000,
			Repositories: []string{name}, Relays: r.relays, Level: r.level, Origin: abi.OriginClient,
		})
		if roots[name] == nil {
			continue
		}
		for i, id := range roots[name].ids {
			at := int64(roots[name].active[i])
			s.step(&abi.LocalEvent{ID: id, Kind: grasp.KindIssue, CreatedAt: at, Repositories: []string{name}, Origin: abi.OriginClient})
		}
		if authors, dates := roots[name].authors.latest(); len(authors) > 0 {
			s.step(&abi.RootActivity{Roots: roots[name].ids[:1], Latest: dates[:1], Authors: authors, AuthorRoots: make([]uint32, len(authors))})
		}
	}
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
