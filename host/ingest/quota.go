package ingest

import (
	"context"
	"fmt"
	"net/netip"
	"sync"

	"talon/host"
	"talon/host/wire"
	"talon/sdk/grasp"
)

// Quota bounds what may wait in purgatory at a time. 0 is no bound.
type Quota struct {
	ByAuthor  int64 // events of one author, as the store bounds them too
	ByNetwork int64 // events that clients of one network have sent, see [host.NetworkOf]
}

// quotas counts held events. So an event that would be held beyond a quota is refused
// before the policy reads anything for it. Dormant announcements are not counted, since
// they give way to others. Events that a module holds until another one comes are not counted
// either: the store has a quota for them.
type quotas struct {
	limits Quota
	knows  func(*host.Item) bool // may use the part for known people

	mu       sync.RWMutex // guards the fields below
	events   map[host.ID]heldEvent
	authors  map[host.PubKey]*authorHeld
	networks map[netip.Prefix]int64 // events that wait
}

type heldEvent struct {
	network netip.Prefix // of the client that sent it; zero where it is not counted
	dormant bool
}

// authorHeld is what one author has in purgatory.
type authorHeld struct {
	waiting, dormant int64
	announced        map[string]int // announcements, by their identifiers
}

func newQuotas(limit Quota, knows func(*host.Item) bool) *quotas {
	return &quotas{
		limits: limit, knows: knows, events: make(map[host.ID]heldEvent), authors: make(map[host.PubKey]*authorHeld),
		networks: make(map[netip.Prefix]int64),
	}
}

// load counts what is held when the pipeline starts. From where it came is not known
// any more.
func (q *quotas) load(ctx context.Context, each func(context.Context, func(host.HeldEvent) error) error) error {
	return each(ctx, func(h host.HeldEvent) error {
		e, err := wire.ParseEvent(h.JSON)
		if err != nil {
			return fmt.Errorf("parse a held event: %w", err)
		}
		if h.Wake != nil {
			return nil
		}
		q.mu.Lock()
		defer q.mu.Unlock()
		q.add(e, heldEvent{dormant: h.Dormant})
		return nil
	})
}

// reload counts again from the store.
func (q *quotas) reload(ctx context.Context, each func(context.Context, func(host.HeldEvent) error) error) error {
	q.mu.Lock()
	clear(q.events)
	clear(q.authors)
	clear(q.networks)
	q.mu.Unlock()
	if each == nil {
		return nil
	}
	return q.load(ctx, each)
}

// committed counts what a commit changed, and from which networks the events came.
func (q *quotas) committed(changes []host.HeldChange, from map[host.ID]netip.Prefix) {
	if len(changes) == 0 {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, c := range changes {
		was, known := q.events[c.Event.ID]
		if known {
			q.remove(c.Event, was)
		}
		switch {
		case c.Awaits:
			continue
		case c.Status == host.StatusHeld:
			was = heldEvent{network: from[c.Event.ID]}
		case c.Status == host.StatusDormant, c.Status == host.StatusRevived:
			was.dormant = c.Status == host.StatusDormant
		default:
			continue
		}
		q.add(c.Event, was)
	}
}

// add counts an event. REQUIRES: mu.
func (q *quotas) add(e *host.Event, h heldEvent) {
	q.events[e.ID] = h
	a := q.authors[e.PubKey]
	if a == nil {
		a = &authorHeld{announced: make(map[string]int)}
		q.authors[e.PubKey] = a
	}
	if e.Kind == grasp.KindAnnouncement {
		a.announced[e.D()]++
	}
	if h.dormant {
		a.dormant++
		return
	}
	a.waiting++
	if h.network.IsValid() {
		q.networks[h.network]++
	}
}

// remove is the opposite of add. REQUIRES: mu.
func (q *quotas) remove(e *host.Event, h heldEvent) {
	delete(q.events, e.ID)
	a := q.authors[e.PubKey]
	if e.Kind == grasp.KindAnnouncement {
		if d := e.D(); a.announced[d] > 1 {
			a.announced[d]--
		} else {
			delete(a.announced, d)
		}
	}
	if h.dormant {
		a.dormant--
	} else if a.waiting--; h.network.IsValid() {
		if q.networks[h.network]--; q.networks[h.network] == 0 {
			delete(q.networks, h.network)
		}
	}
	if a.waiting+a.dormant == 0 {
		delete(q.authors, e.PubKey)
	}
}

// limit is a bound that is reached.
type limit string

const (
	noLimit   limit = ""
	ofAuthor  limit = "author"
	ofNetwork limit = "network"
)

// Origin returns the network of the client that sent a held event, by one address of it; zero
// if no client did, or that is not known any more.
func (p *Pipeline) Origin(id host.ID) netip.Addr {
	p.quotas.mu.RLock()
	defer p.quotas.mu.RUnlock()
	return p.quotas.events[id].network.Addr()
}

// reached returns which bound keeps an event out of purgatory, and how much is held, as a view has
// it. An event that is already held, or replaces a held one, needs no room.
func (q *quotas) reached(it *host.Item, v *view) (l limit, waiting int64) {
	e := it.Event
	q.mu.RLock()
	defer q.mu.RUnlock()
	_, held := q.events[e.ID]
	var a authorHeld
	versions := 0
	if all := q.authors[e.PubKey]; all != nil {
		a = *all
		if e.Kind == grasp.KindAnnouncement {
			versions = all.announced[e.D()]
		}
	}
	// Of the open batch counts what is not counted yet: it may be committed by now.
	for i := range v.open {
		c := &v.open[i]
		was, counted := q.events[c.event.ID]
		if !c.held || c.awaits || c.event.PubKey != e.PubKey || counted != c.removed || v.last(c.event.ID, true) != c {
			continue
		}
		n := 1
		if c.removed {
			n = -1
		}
		if was.dormant {
			a.dormant += int64(n)
		} else {
			a.waiting += int64(n)
		}
		if e.Kind == grasp.KindAnnouncement && c.event.Kind == e.Kind && c.event.D() == e.D() {
			versions += n
		}
		if c.event.ID == e.ID {
			held = !c.removed
		}
	}
	if held || versions > 0 {
		return noLimit, 0
	}
	if q.limits.ByAuthor > 0 && a.dormant == 0 && a.waiting >= q.limits.ByAuthor {
		return ofAuthor, a.waiting
	}
	if n := q.networks[networkOf(it.Source)]; q.limits.ByNetwork > 0 && n >= q.limits.ByNetwork && !q.knows(it) {
		return ofNetwork, n
	}
	return noLimit, 0
}

// networkOf returns what a source is counted by: the zero prefix unless it is a client.
func networkOf(s *host.Source) netip.Prefix {
	if s == nil || s.Origin != host.FromClient {
		return netip.Prefix{}
	}
	return host.NetworkOf(s.Addr)
}

func (l limit) verdict(waiting int64) *host.Verdict {
	reason := "rate-limited: too many events from your network wait for their git data here: try again later"
	if l == ofAuthor {
		reason = fmt.Sprintf("restricted: %d events of yours wait for their git data: push it, or delete those that you do not need", waiting)
	}
	return &host.Verdict{Code: host.Rejected, Reason: reason}
}

// refuseEarly refuses an event whose kind is held for git data, without asking the
// policy, if no more of them may wait. Served all the same is what may not have to
// wait: a new version of what is stored here, and a state of a repository whose
// announcement by the same author is.
func (p *Pipeline) refuseEarly(ctx context.Context, it *host.Item, facts *host.FactReader, v *view) (*host.Verdict, error) {
	var known host.Filter
	switch it.Event.Kind {
	case grasp.KindAnnouncement, grasp.KindState:
		at := host.Address{Kind: grasp.KindAnnouncement, PubKey: it.Event.PubKey, D: it.Event.D()}
		own := host.Address{Kind: it.Event.Kind, PubKey: at.PubKey, D: at.D}
		known.Tags = []host.TagFilter{{Name: host.AddressOf, Values: []string{at.String(), own.String()}}}
	case grasp.KindPullRequest, grasp.KindPRUpdate:
		known.IDs = []host.ID{it.Event.ID}
	default:
		return nil, nil
	}
	l, waiting := p.quotas.reached(it, v)
	pull := known.IDs != nil
	if l == noLimit || l == ofNetwork && pull {
		// The data that a pull request waits for was often pushed before it, and not by those who
		// fill purgatory.
		return nil, nil
	}
	known.Limit, known.Header = 1, true
	found, err := facts.Query(ctx, known)
	if err != nil || len(found) > 0 {
		return nil, err
	}
	if l == ofAuthor {
		// Each held event of the author that leaves makes room.
		facts.Reads.Held = append(facts.Reads.Held, host.Filter{Authors: []host.PubKey{it.Event.PubKey}})
	}
	p.metrics.overQuota.WithLabelValues(string(l)).Inc()
	return l.verdict(waiting), nil
}
