package strategytest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"talon/sdk/abi"
	"talon/sdk/strategy"
	"talon/sdk/strategy/story"
)

// Converges runs a strategy, configured with values, against relays that fail. The strategy must
// bring every event here that tags a repository of ours, or one of its root events, and is on a
// relay that the repository names. Otherwise the test fails. The run lasts half a day, less than
// the time to a daily sync, with outages of minutes to hours. At its end the relays are up for some
// hours.
//
// The relays answer a REQ with less than they have, end subscriptions, take their
// time with fetches, and let them fail. Some state how much they send in an answer. This is for each filter,
// or for all together.
//
// Of the same seed, everything that a relay does is the same in every run.
func Converges(t *testing.T, manifestText string, s strategy.Strategy, values map[string]any, seed uint64) {
	t.Helper()
	ConvergesOn(t, manifestText, s, values, seed, 6)
}

// ConvergesOn is like Converges, with that many relays.
func ConvergesOn(t *testing.T, manifestText string, s strategy.Strategy, values map[string]any, seed uint64, relays int) {
	t.Helper()
	n := converge(t, manifestText, s, values, seed, relays, nil)
	for _, e := range n.events {
		if !n.here[e.id] && n.wanted(e) {
			t.Errorf("seed %d: an event of %v on %v is not here", seed, story.Elapsed(e.at*1000-Start), e.relays)
		}
	}
}

// converge runs a strategy for [Converges]. trace is called with each input and each
// action, if it is not nil.
func converge(t *testing.T, manifestText string, s strategy.Strategy, values map[string]any, seed uint64, relays int, trace func(line string)) *network {
	t.Helper()
	n := &network{
		h: New(t, manifestText, s, values), random: rand.New(rand.NewPCG(seed, 1)), relays: make(map[string]*simRelay),
		here: make(map[[32]byte]bool), trace: trace,
	}
	for i := range relays {
		url := fmt.Sprintf("wss://relay-%d", i)
		n.relays[url] = &simRelay{url: url, up: true, max: 5 * (i % 6), states: i%6 > 2, union: i%6 == 4, subs: make(map[string]*simSub)}
		n.urls = append(n.urls, url)
	}
	init := &abi.StepInit{Seed: int64(seed)}
	for i := range relays + 2 {
		r := abi.KnownRepository{Address: fmt.Sprintf("30617:ab:%d", i), Level: abi.SyncLevelFull}
		for _, j := range n.random.Perm(len(n.urls))[:2+n.random.IntN(3)] {
			r.Relays = append(r.Relays, n.urls[j])
		}
		init.Repositories = append(init.Repositories, r)
	}
	n.repos = init.Repositories
	for range 200 {
		n.publish(n.h.Now/1000 - int64(n.random.IntN(1_000_000)))
	}
	n.do(n.h.Step(init))
	for end := Start + strategy.Day/2; n.h.Now < end; {
		n.pass(1 + n.random.Int64N(2*strategy.Minute))
		n.publish(n.h.Now / 1000)
		n.disturb()
	}
	n.quiet = true
	for _, url := range n.urls {
		n.relays[url].back = n.h.Now
	}
	for range 6 * 60 {
		n.pass(strategy.Minute)
	}
	return n
}

// network is a host with its relays.
type network struct {
	h      *Harness
	random *rand.Rand
	relays map[string]*simRelay
	urls   []string
	repos  []abi.KnownRepository
	events []*simEvent
	roots  []*simEvent
	here   map[[32]byte]bool
	next   uint64
	queue  []abi.Input       // inputs that the strategy is to get
	late   []*abi.StepAction // fetches that go on
	quiet  bool              // nothing fails any more
	trace  func(line string) // nil: nobody looks
}

type simRelay struct {
	url       string
	up        bool
	back      int64 // when it is up again
	asked     bool  // the strategy wants a connection
	connected bool
	ended     int64
	max       int  // events that it returns for a filter; 0: all
	states    bool // max, in each answer
	union     bool // max, and the first filter's limit, are for all filters together
	subs      map[string]*simSub
	events    []*simEvent
}

type simSub struct{ filters []abi.Filter }

type simEvent struct {
	id     [32]byte
	kind   uint32
	at     int64
	repos  []string // that it tags
	roots  []string // root events that it tags
	relays []string
}

// publish puts a new event on one or two relays of its repository.
func (n *network) publish(at int64) {
	n.next++
	e := &simEvent{at: at, kind: 1621}
	e.id = [32]byte{byte(n.next), byte(n.next >> 8), 1}
	repo := n.repos[n.random.IntN(len(n.repos))]
	switch {
	case len(n.roots) > 0 && n.random.IntN(3) > 0:
		root := n.roots[n.random.IntN(len(n.roots))]
		e.kind, e.roots = 1111, []string{strategy.Hex(root.id[:])}
		for _, r := range n.repos {
			if r.Address == root.repos[0] {
				repo = r
			}
		}
	case n.random.IntN(2) == 0:
		e.kind, e.repos = 1, []string{repo.Address}
	default:
		e.repos = []string{repo.Address}
		n.roots = append(n.roots, e)
	}
	n.events = append(n.events, e)
	for range 1 + n.random.IntN(2) {
		url := repo.Relays[n.random.IntN(len(repo.Relays))]
		if slices.Contains(e.relays, url) {
			continue
		}
		e.relays = append(e.relays, url)
		r := n.relays[url]
		r.events = append(r.events, e)
		if !r.connected {
			continue
		}
		for _, sub := range r.subs {
			if slices.ContainsFunc(sub.filters, e.matches) {
				n.deliver(e)
				break
			}
		}
	}
}

// wanted reports whether the event has to be here: its root may never have been
// anywhere where we look.
func (n *network) wanted(e *simEvent) bool {
	if len(e.roots) == 0 {
		return true
	}
	return slices.ContainsFunc(n.roots, func(r *simEvent) bool { return strategy.Hex(r.id[:]) == e.roots[0] && n.here[r.id] })
}

func (e *simEvent) matches(f abi.Filter) bool {
	if len(f.Kinds) > 0 && !slices.Contains(f.Kinds, e.kind) || f.Since != nil && e.at < *f.Since || f.Until != nil && e.at > *f.Until {
		return false
	}
	for _, t := range f.Tags {
		values := e.repos
		if t.Name == "e" {
			values = e.roots
		}
		if t.Name != "a" && t.Name != "e" || !slices.ContainsFunc(values, func(v string) bool { return slices.Contains(t.Values, v) }) {
			return false
		}
	}
	return true
}

// deliver takes an event in.
func (n *network) deliver(e *simEvent) {
	if n.here[e.id] {
		return
	}
	n.here[e.id] = true
	if e.kind == 1621 {
		n.queue = append(n.queue, &abi.LocalEvent{ID: e.id, Kind: e.kind, CreatedAt: e.at, Repositories: e.repos, Level: abi.SyncLevelFull})
	}
}

// disturb lets relays fail.
func (n *network) disturb() {
	r := n.relays[n.urls[n.random.IntN(len(n.urls))]]
	switch n.random.IntN(12) {
	case 0:
		r.up, r.back = false, n.h.Now+n.random.Int64N(10*strategy.Minute)
	case 1:
		if n.random.IntN(3) == 0 {
			r.up, r.back = false, n.h.Now+n.random.Int64N(3*strategy.Hour)
		}
	case 2:
		// The one whose name comes first: a map has no order that repeats.
		if ids := slices.Sorted(maps.Keys(r.subs)); len(ids) > 0 {
			delete(r.subs, ids[0])
			n.queue = append(n.queue, &abi.Closed{Relay: r.url, ID: ids[0], Class: abi.ClassError})
		}
	}
	if !r.up && r.connected {
		r.connected, r.ended = false, n.h.Now
		n.forget(r)
		n.queue = append(n.queue, &abi.RelayDisconnected{Relay: r.url, Class: abi.ClassLost, Connected: true, RetryAt: r.back})
	}
	n.settle()
}

// forget ends all that is open on a relay.
func (n *network) forget(r *simRelay) {
	clear(r.subs)
	n.late = slices.DeleteFunc(n.late, func(a *abi.StepAction) bool { return a.Relay == r.url })
	n.queue = slices.DeleteFunc(n.queue, func(in abi.Input) bool { return ofRelay(in) == r.url })
}

func ofRelay(in abi.Input) string {
	switch in := in.(type) {
	case *abi.Eose:
		return in.Relay
	case *abi.Closed:
		return in.Relay
	case *abi.HistoricDone:
		return in.Relay
	}
	return ""
}

// pass lets time pass, a second at a time as long as inputs wait.
func (n *network) pass(millis int64) {
	n.do(n.h.Pass(millis))
	late := n.late
	n.late = nil
	for _, a := range late {
		if n.quiet || n.random.IntN(2) == 0 {
			n.fetch(n.relays[a.Relay], a)
		} else {
			n.late = append(n.late, a)
		}
	}
	for _, url := range n.urls {
		r := n.relays[url]
		if !r.up && n.h.Now >= r.back {
			r.up = true
		}
		if r.up && r.asked && !r.connected {
			r.connected = true
			c := &abi.RelayConnected{Relay: url, DisconnectedAt: r.ended}
			if r.states {
				c.Capabilities.MaxLimit = uint32(r.max)
			}
			n.queue = append(n.queue, c)
		}
	}
	n.settle()
}

func (n *network) settle() {
	for steps := 0; len(n.queue) > 0; steps++ {
		if steps > 100_000 {
			n.h.t.Fatal("the strategy asks and asks")
		}
		in := n.queue[0]
		n.queue = n.queue[1:]
		if n.trace != nil {
			n.trace(fmt.Sprintf("%d %+v", n.h.Now, in))
		}
		n.do(n.h.Step(in))
		n.do(n.h.Pass(0))
	}
}

// do carries out the actions of the strategy.
func (n *network) do(actions []abi.StepAction) {
	for i := range actions {
		a := &actions[i]
		if n.trace != nil {
			n.trace(fmt.Sprintf("%d %s", n.h.Now, Line(a)))
		}
		r := n.relays[a.Relay]
		switch a.Do {
		case abi.DoConnect:
			r.asked = true
		case abi.DoDisconnect:
			r.asked = false
			if r.connected {
				r.connected, r.ended = false, n.h.Now
				n.forget(r)
			}
		case abi.DoSubscribe:
			if r.connected {
				r.subs[a.ID] = &simSub{a.Filters}
				n.answer(r, a)
			}
		case abi.DoUnsubscribe:
			delete(r.subs, a.ID)
			n.late = slices.DeleteFunc(n.late, func(l *abi.StepAction) bool { return l.Relay == a.Relay && l.ID == a.ID })
		case abi.DoHistoric:
			switch {
			case !r.connected:
			case !n.quiet && n.random.IntN(4) == 0:
				n.late = append(n.late, a)
			default:
				n.fetch(r, a)
			}
		}
	}
}

// answer sends stored events, as many as the relay returns.
func (n *network) answer(r *simRelay, a *abi.StepAction) {
	eose := &abi.Eose{Relay: r.url, ID: a.ID}
	var answer []*simEvent
	for i := range a.Filters {
		if a.Live {
			break
		}
		for _, e := range r.matching(&a.Filters[i], r.limit(&a.Filters[i])) {
			if !r.states || !slices.Contains(answer, e) {
				answer = append(answer, e)
			}
		}
	}
	if r.union && len(answer) > 0 {
		slices.SortStableFunc(answer, newestFirst)
		answer = answer[:min(len(answer), r.limit(&a.Filters[0]))]
	}
	for _, e := range answer {
		n.deliver(e)
		eose.Events++
		if eose.MinCreatedAt == 0 || e.at < eose.MinCreatedAt {
			eose.MinCreatedAt = e.at
		}
	}
	n.queue = append(n.queue, eose)
}

// limit is how many events the relay returns for a filter; 0: all.
func (r *simRelay) limit(f *abi.Filter) int {
	if limit := int(f.Limit); limit > 0 && (r.max == 0 || limit < r.max) {
		return limit
	}
	return r.max
}

func newestFirst(a, b *simEvent) int { return int(b.at - a.at) }

// fetch sends all that is stored, or fails half-way.
func (n *network) fetch(r *simRelay, a *abi.StepAction) {
	done := &abi.HistoricDone{Relay: r.url, ID: a.ID, Method: abi.MethodREQ, Complete: true}
	events := r.matching(&a.Filters[0], 0)
	if !n.quiet && n.random.IntN(10) == 0 {
		done.Complete, done.Class, events = false, abi.ClassError, events[:len(events)/2]
	}
	for _, e := range events {
		n.deliver(e)
		done.Need, done.MinCreatedAt = done.Need+1, e.at
	}
	n.queue = append(n.queue, done)
}

// matching are the events that match, newest first.
func (r *simRelay) matching(f *abi.Filter, limit int) []*simEvent {
	var list []*simEvent
	for _, e := range r.events {
		if e.matches(*f) {
			list = append(list, e)
		}
	}
	slices.SortStableFunc(list, newestFirst)
	if limit > 0 && len(list) > limit {
		return list[:limit]
	}
	return list
}
