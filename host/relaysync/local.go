package relaysync

import (
	"slices"
	"sync"

	"talon/host"
	"talon/host/wire"
	"talon/sdk/abi"
	rules "talon/sdk/grasp"
)

// inbox is what happened here and the loop has not heard of. Putting something in
// never waits.
type inbox struct {
	mu     sync.Mutex // guards the fields below
	news   []news
	tries  []tried
	missed bool // news had no room
	anew   bool // another policy decides
	signal chan struct{}
}

// news is one change of what is stored or held.
type news struct {
	event *host.Event
	kind  newsKind
	relay string // from which it came
	sync  bool   // from a relay
}

type newsKind uint8

const (
	newsStored newsKind = iota
	newsRemoved
	newsHeld    // or revived
	newsLetGone // from purgatory, or its repository
)

// tried is what became of an event that was decided once more.
type tried struct {
	event   *host.Event
	source  string
	mark    uint64
	refused bool
	failed  bool
}

// maxNews bounds the news that wait. Above it the loop reads all repositories anew.
const maxNews = 1 << 16

func newInbox() *inbox { return &inbox{signal: make(chan struct{}, 1)} }

func (b *inbox) put(list ...news) {
	if len(list) == 0 {
		return
	}
	b.mu.Lock()
	if len(b.news)+len(list) > maxNews {
		b.missed = true
	} else {
		b.news = append(b.news, list...)
	}
	b.mu.Unlock()
	b.ring()
}

func (b *inbox) tried(t tried) {
	b.mu.Lock()
	b.tries = append(b.tries, t) // as many as were given out
	b.mu.Unlock()
	b.ring()
}

func (b *inbox) forgot() {
	b.mu.Lock()
	b.anew = true
	b.mu.Unlock()
	b.ring()
}

func (b *inbox) ring() {
	select {
	case b.signal <- struct{}{}:
	default:
	}
}

func (b *inbox) take() (list []news, tries []tried, missed, anew bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	list, tries, missed, anew = b.news, b.tries, b.missed, b.anew
	b.news, b.tries, b.missed, b.anew = nil, nil, false, false
	return list, tries, missed, anew
}

// Publish takes the events of a commit (ingest.Publisher). It does not wait.
func (s *Sync) Publish(events []host.Published) {
	list := make([]news, 0, len(events))
	for _, p := range events {
		if p.Seq == 0 {
			continue // ephemeral
		}
		relay, synced := s.env.known.from(p.Event.ID)
		if !synced {
			s.metrics.events.WithLabelValues(direct).Inc()
		}
		s.env.known.add(p.Event.ID)
		list = append(list, news{event: p.Event, kind: newsStored, relay: relay, sync: synced})
	}
	s.inbox.put(list...)
}

// Follow takes what a commit removed and what it changed in purgatory
// (ingest.Follower). It does not wait.
func (s *Sync) Follow(removed []*host.Event, held []host.HeldChange) {
	list := make([]news, 0, len(removed)+len(held))
	for _, e := range removed {
		// Other relays may have it for long, and every comparison would find it anew.
		s.env.known.outdate(e, s.env.now())
		list = append(list, news{event: e, kind: newsRemoved})
	}
	for _, h := range held {
		kind := newsLetGone
		switch h.Fate {
		case host.FateHeld, host.FateRevived:
			kind = newsHeld
		case host.FateReleased:
			continue // it is published
		case host.FateExpired:
			s.env.known.remove(h.Event.ID)
		}
		relay, synced := s.env.known.from(h.Event.ID)
		list = append(list, news{event: h.Event, kind: kind, relay: relay, sync: synced})
	}
	s.inbox.put(list...)
}

// local takes the news, and tells the strategy of those that matter to it.
func (s *Sync) local() {
	list, tries, missed, anew := s.inbox.take()
	s.tick()
	for _, t := range tries {
		switch {
		case t.failed:
			s.retries.Returned(t.event.ID)
		case t.refused:
			s.refused(t.source, &refusedReport{t.event, t.mark})
		default:
			s.retries.Forget(t.event.ID)
		}
	}
	if anew {
		s.retries.TryAll()
	}
	for i := range list {
		n := &list[i]
		if n.kind == newsStored || n.kind == newsHeld {
			s.retries.Arrived(n.event)
			s.env.mark.Store(s.retries.Mark())
		}
		s.hear(n)
	}
	if missed {
		s.cfg.Log.Warn("sync missed what happened here, and looks at all repositories again")
		s.lookAgain()
	}
}

// hear tells the strategy of one change.
func (s *Sync) hear(n *news) {
	switch n.event.Kind {
	case rules.KindAnnouncement:
		s.announced(n)
	case rules.KindPatch, rules.KindPullRequest, rules.KindPRUpdate, rules.KindIssue:
		if n.kind == newsStored || n.kind == newsHeld {
			if to := s.tagged(n.event); len(to) > 0 {
				s.step(n.input(to, nil, 0))
			}
		}
	case rules.KindGraspList:
		if n.kind == newsStored {
			var servers []string
			for _, tag := range n.event.Tags {
				if len(tag) > 1 && tag[0] == "g" {
					servers = append(servers, tag[1])
				}
			}
			s.step(n.input(nil, s.own.relayList(servers, repoRelays), 0))
		}
	}
}

func (n *news) input(repositories, relays []string, level uint32) *abi.LocalEvent {
	e := n.event
	in := &abi.LocalEvent{
		ID: e.ID, PubKey: e.PubKey, Kind: uint32(e.Kind), CreatedAt: e.CreatedAt,
		Repositories: repositories, Relays: relays, Level: level, Origin: abi.OriginClient,
	}
	if n.sync {
		in.Origin, in.Relay = abi.OriginSync, n.relay
	}
	return in
}

// announced looks at what is so for a repository now, whatever the news are: they may
// be late.
func (s *Sync) announced(n *news) {
	address, ok := n.event.Address()
	if !ok {
		return
	}
	name := address.String()
	was := s.repos[name]
	delete(s.repos, name)
	e, level, err := s.announcement(address)
	if err != nil {
		s.repos[name] = was
		if was == nil {
			delete(s.repos, name)
		}
		if s.ctx.Err() == nil {
			s.cfg.Log.Error("read an announcement", "repo", name, "err", err)
		}
		return
	}
	if e != nil {
		s.consider(e, level)
	}
	now := s.repos[name]
	switch {
	case now == nil && was != nil:
		s.step(&abi.RepoGone{Repository: name})
	case now == nil:
	case was == nil || was.id != now.id || was.level != now.level || !slices.Equal(was.relays, now.relays):
		told := news{event: e, relay: n.relay, sync: n.sync}
		if e.ID != n.event.ID {
			told.sync = false
		}
		s.step(told.input([]string{name}, now.relays, now.level))
		if was == nil {
			s.tellRoots(address)
		}
	}
}

// announcement returns the announcement that counts: the stored one, else the held one.
func (s *Sync) announcement(a host.Address) (*host.Event, uint32, error) {
	f := host.Filter{
		Kinds:   []host.Kind{a.Kind},
		Authors: []host.PubKey{a.PubKey},
		Tags:    []host.TagFilter{{Name: 'd', Values: []string{a.D}}},
		Limit:   1,
	}
	texts, err := s.deps.Facts.Query(s.ctx, f)
	if err != nil {
		return nil, 0, err
	}
	level := uint32(abi.SyncLevelFull)
	if len(texts) == 0 {
		level = abi.SyncLevelState
		if texts, err = s.deps.Facts.HeldBy(s.ctx, f); err != nil {
			return nil, 0, err
		}
	}
	if len(texts) == 0 {
		return nil, 0, nil
	}
	e, err := wire.ParseEvent(texts[0])
	return e, level, err
}

// tellRoots tells of the root events that were stored before their repository was
// ours.
func (s *Sync) tellRoots(a host.Address) {
	f := host.Filter{Kinds: rootKinds, Tags: []host.TagFilter{{Name: 'a', Values: []string{a.String()}}}}
	err := s.eachEvent(f, func(e *host.Event) {
		n := news{event: e}
		s.step(n.input(s.tagged(e), nil, 0))
	})
	if err != nil && s.ctx.Err() == nil {
		s.cfg.Log.Error("read the root events of a repository", "repo", a.String(), "err", err)
	}
}

// lookAgain tells everything that may have been missed. Of a root event only the id
// and the repository are right.
func (s *Sync) lookAgain() {
	was := s.repos
	roots, err := s.look()
	if err != nil {
		if s.ctx.Err() == nil {
			s.cfg.Log.Error("read the repositories", "err", err)
		}
		return
	}
	for name := range was {
		if s.repos[name] == nil {
			s.step(&abi.RepoGone{Repository: name})
		}
	}
	for name, r := range s.repos {
		a, ok := host.ParseAddress(name)
		if !ok {
			continue
		}
		s.step(&abi.LocalEvent{
			ID: r.id, PubKey: a.PubKey, Kind: rules.KindAnnouncement, CreatedAt: s.clock / 1000,
			Repositories: []string{name}, Relays: r.relays, Level: r.level, Origin: abi.OriginClient,
		})
		for _, id := range roots[name] {
			s.step(&abi.LocalEvent{ID: id, Kind: rules.KindIssue, CreatedAt: s.clock / 1000, Repositories: []string{name}, Origin: abi.OriginClient})
		}
	}
}
