package layers_test

import (
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"talon/sdk/abi"
	"talon/sdk/strategy"
	"talon/sdk/strategy/layers"
	"talon/sdk/strategy/strategytest"
)

// TestRoom: The strategy keeps to the limits of a relay with little room, whatever becomes
// wanted or active. No two subscriptions ask for the same value. The strategy reports all
// that has no subscription, and fetches what came before a subscription opened. Half of the relays
// also close subscriptions.
func TestRoom(t *testing.T) {
	for seed := range seeds(4, 60) {
		seed += 15 // 18: a merged chunk could be opened and closed for ever
		for n := range 4 {
			apart, closes := n&1 == 0, n >= 2
			r := rand.New(rand.NewPCG(seed, 2))
			caps := abi.Capabilities{Negentropy: abi.SupportYes}
			if r.IntN(2) == 0 {
				caps.MaxValues = uint32(60 + r.IntN(400))
			}
			if r.IntN(2) == 0 || caps.MaxValues == 0 {
				caps.MaxSubscriptions = uint32(6 + r.IntN(12))
			}
			if r.IntN(3) == 0 {
				caps.MaxFilters = uint32(1 + r.IntN(6))
			}
			t.Run(fmt.Sprint(seed, " ", apart, " ", closes), func(t *testing.T) {
				w := &roomWorld{
					t: t, caps: caps, closes: closes, open: map[string][]abi.Filter{}, times: map[string]int{}, roots: map[string]bool{}, active: map[string]int64{}, repos: map[string]bool{}, authors: map[string]bool{}, unheard: map[string]int64{},
				}
				w.s = &subscriber{apart: apart, flow: flow{set: layers.Settings{
					Kinds: []uint32{30617, 1621}, Values: 4, Connections: 5, Margin: margin, Window: strategy.Second, Eager: true,
					Check: strategy.Minute, Method: strategy.MethodAuto, Authors: true, AskAuthors: true,
				}}}
				w.h = strategytest.New(t, manifest, w.s, nil)
				w.run(r)
			})
		}
	}
}

// margin is how far before the end of a subscription events are fetched again, in seconds.
const margin = 900

type roomWorld struct {
	t        *testing.T
	s        *subscriber
	h        *strategytest.Harness
	caps     abi.Capabilities
	closes   bool                    // the relay closes subscriptions
	open     map[string][]abi.Filter // by id
	times    map[string]int          // by tag and value: the subscriptions that ask for it
	roots    map[string]bool         // by id, hex
	active   map[string]int64        // by id, hex: the latest activity of root events, unix seconds
	repos    map[string]bool
	unheard  map[string]int64 // by tag and value: since when new events were not brought, in unix milliseconds
	slow     *rand.Rand       // not nil: the relay answers some subscriptions late
	late     []abi.StepAction // these subscriptions
	authors  map[string]bool  // of comments, by key, hex
	reported [3]int
	next     uint64
}

func rootID(n uint64) [32]byte { return [32]byte{byte(n), byte(n >> 8), 1} }

func (w *roomWorld) id() [32]byte {
	w.next++
	return rootID(w.next)
}

func (w *roomWorld) run(r *rand.Rand) {
	init := &abi.StepInit{Seed: 1}
	repo := abi.KnownRepository{Address: "30617:ab:first", Relays: []string{"wss://a"}, Level: abi.SyncLevelFull}
	for range r.IntN(400) {
		id := w.id()
		at := w.h.Now/1000 - r.Int64N(1_000_000)
		repo.Roots, repo.Active = append(repo.Roots, id), append(repo.Active, uint32(at))
		w.active[strategy.Hex(id[:])] = at
		w.want(w.roots, strategy.Hex(id[:]), "e E q")
	}
	for range r.IntN(40) {
		key := w.id()
		repo.Authors, repo.AuthorLatest = append(repo.Authors, key), append(repo.AuthorLatest, uint32(w.h.Now/1000-r.Int64N(1_000_000)))
		w.want(w.authors, strategy.Hex(key[:]), "5")
	}
	w.want(w.repos, repo.Address, "a A q")
	init.Repositories = append(init.Repositories, repo)
	if r.IntN(2) == 0 {
		w.slow = r
	}
	w.do(w.h.Step(init))
	w.answerLate()
	w.check("the beginning")
	for step := range 80 {
		what := ""
		switch n := r.IntN(9); n {
		case 8:
			what = "all is opened again"
			for p := range w.s.Peers {
				again := layers.Opening{Live: w.s.apart, Purpose: strategy.PurposeLive}
				if !w.s.apart {
					again.Since = w.h.Now/1000 - margin
				}
				p.Reopen(again, layers.Opening{Track: true})
			}
			w.do(w.h.Step(&abi.RootActivity{}))
		case 0:
			address := fmt.Sprintf("30617:ab:%d", step)
			w.want(w.repos, address, "a A q")
			what = "a repository"
			w.do(w.h.Step(&abi.LocalEvent{Kind: 30617, Repositories: []string{address}, Relays: []string{"wss://a"}, Level: abi.SyncLevelFull}))
		case 1:
			what = "activity"
			id := rootID(1 + r.Uint64N(w.next))
			a := &abi.RootActivity{Roots: [][32]byte{id}, Latest: []uint32{uint32(w.h.Now / 1000)}}
			w.active[strategy.Hex(id[:])] = w.h.Now / 1000
			for range r.IntN(4) {
				key := w.id()
				if r.IntN(2) == 0 {
					key = rootID(1 + r.Uint64N(w.next)) // who is known already, or the id of a root event
				}
				a.Authors, a.AuthorRoots = append(a.Authors, key), append(a.AuthorRoots, 0)
				if hex := strategy.Hex(key[:]); w.roots[strategy.Hex(id[:])] && !w.authors[hex] {
					w.want(w.authors, hex, "5")
				}
			}
			w.do(w.h.Step(a))
		case 2:
			what = "time"
			w.do(w.h.Pass(r.Int64N(2 * strategy.Hour)))
		default:
			what = "root events"
			for range 1 + r.IntN(1+n*n) {
				id := w.id()
				w.want(w.roots, strategy.Hex(id[:]), "e E q")
				at := w.h.Now / 1000
				if n%2 == 0 {
					at -= r.Int64N(1_000_000) // a past that is being fetched
				}
				w.active[strategy.Hex(id[:])] = at
				w.do(w.h.Step(&abi.LocalEvent{ID: id, Kind: 1621, CreatedAt: at, Repositories: []string{"30617:ab:first"}}))
			}
		}
		if ids := slices.Sorted(maps.Keys(w.open)); w.closes && len(ids) > 0 && r.IntN(2) == 0 {
			id := ids[r.IntN(len(ids))]
			w.close(id)
			what += ", " + id + " is closed"
			w.do(w.h.Step(&abi.Closed{Relay: "wss://a", ID: id, Class: strategy.ClassLimit}))
			if r.IntN(2) == 0 {
				w.do(w.h.Pass(2 * strategy.Minute)) // it is opened again
			}
		}
		w.do(w.h.Pass(2 * strategy.Second))
		w.answerLate()
		w.check(fmt.Sprintf("step %d, %s", step, what))
	}
}

// do carries out actions, and answers until there is nothing more.
func (w *roomWorld) do(queue []abi.StepAction) {
	w.t.Helper()
	for len(queue) > 0 {
		a := queue[0]
		queue = queue[1:]
		var in abi.Input
		switch a.Do {
		case abi.DoConnect:
			in = &abi.RelayConnected{Relay: a.Relay, Capabilities: w.caps}
		case abi.DoSubscribe:
			w.subscribe(a.ID, a.Filters)
			w.limits()
			if w.slow != nil && w.slow.IntN(4) == 0 {
				w.late = append(w.late, a)
				break
			}
			w.brings(a.Filters, !a.Live)
			in = &abi.Eose{Relay: a.Relay, ID: a.ID}
		case abi.DoUnsubscribe:
			w.close(a.ID)
		case abi.DoHistoric:
			w.brings(a.Filters, true)
			in = &abi.HistoricDone{Relay: a.Relay, ID: a.ID, Method: abi.MethodNegentropy, Complete: true}
		case abi.DoUncovered:
			w.reported = [3]int{int(a.Repositories), int(a.Roots), int(a.Authors)}
		}
		if in != nil {
			queue = append(queue, w.h.Step(in)...)
		}
		if len(queue) == 0 {
			queue = w.h.Pass(0)
		}
	}
}

// subscribe opens a subscription.
func (w *roomWorld) subscribe(id string, filters []abi.Filter) {
	w.open[id] = filters
	for v := range values(filters) {
		w.times[v]++
	}
}

// close ends a subscription. From then on nothing new comes for what no other one asks for.
func (w *roomWorld) close(id string) {
	for v := range values(w.open[id]) {
		if w.times[v]--; w.times[v] == 0 {
			delete(w.times, v)
			if _, ok := w.unheard[v]; !ok {
				w.unheard[v] = w.h.Now
			}
		}
	}
	delete(w.open, id)
}

// brings notes that a relay sends what is stored for filters.
func (w *roomWorld) brings(filters []abi.Filter, stored bool) {
	for i := range filters {
		for v := range values(filters[i : i+1]) {
			since, ok := w.unheard[v]
			switch {
			case !ok || !stored || filters[i].Since != nil && *filters[i].Since > max(since/1000, 1):
			case w.times[v] > 0:
				delete(w.unheard, v)
			default:
				w.unheard[v] = w.h.Now
			}
		}
	}
}

// values calls yield with the tags and values of filters.
func values(filters []abi.Filter) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, f := range filters {
			for _, author := range f.Authors {
				if !yield("5 " + strategy.Hex(author[:])) {
					return
				}
			}
			for _, tag := range f.Tags {
				for _, v := range tag.Values {
					if !yield(tag.Name + " " + v) {
						return
					}
				}
			}
		}
	}
}

// answerLate sends what is stored for the subscriptions that wait for it, if they are open.
func (w *roomWorld) answerLate() {
	for list := w.late; len(list) > 0; list = w.late {
		w.late = nil
		for _, a := range list {
			if w.open[a.ID] != nil {
				w.brings(a.Filters, !a.Live)
				w.do(w.h.Step(&abi.Eose{Relay: a.Relay, ID: a.ID}))
			}
		}
		w.do(w.h.Pass(2 * strategy.Second))
	}
}

// want notes what becomes wanted: nothing of it is here.
func (w *roomWorld) want(set map[string]bool, v, tags string) {
	set[v] = true
	for _, name := range strings.Fields(tags) {
		w.unheard[name+" "+v] = 0
	}
}

// limits fails the test if more is open than the relay takes.
func (w *roomWorld) limits() {
	w.t.Helper()
	values := 0
	for _, filters := range w.open {
		for _, f := range filters {
			values += 1 + len(f.Kinds) + len(f.Authors)
			for _, tag := range f.Tags {
				values += len(tag.Values)
			}
		}
	}
	if limit := int(w.caps.MaxValues); limit > 0 && values > limit {
		w.t.Fatalf("%d values are open, the relay takes %d", values, limit)
	}
	if limit := int(w.caps.MaxSubscriptions); limit > 0 && len(w.open) > limit {
		w.t.Fatalf("%d subscriptions are open, the relay takes %d", len(w.open), limit)
	}
}

// wants reports whether events with a tag are wanted.
func (w *roomWorld) wants(tag string) bool {
	name, v, _ := strings.Cut(tag, " ")
	if name == "5" {
		return w.authors[v]
	}
	return w.roots[v] || w.repos[v]
}

// check compares what is open with what is wanted.
func (w *roomWorld) check(when string) {
	w.t.Helper()
	for v, n := range w.times {
		if n > 1 {
			w.t.Fatalf("%s: %d subscriptions ask for %s", when, n, v)
		}
		if since, ok := w.unheard[v]; ok && w.wants(v) {
			w.t.Fatalf("%s: events about %s that came after %d are not fetched, it is %d", when, v, since, w.h.Now)
		}
	}
	has := func(v string, tags string) bool {
		for _, name := range strings.Fields(tags) {
			if w.times[name+" "+v] == 0 {
				return false
			}
		}
		return true
	}
	without := [3]int{}
	for a := range w.repos {
		if !has(a, "a A q") {
			without[0]++
		}
	}
	for id := range w.roots {
		if !has(id, "e E q") {
			without[1]++
		}
	}
	for key := range w.authors {
		if !has(key, "5") {
			without[2]++
		}
	}
	if !w.closes {
		// No root event without a subscription is more recent than two thirds of those with one, but for those of one.
		var covered []int64
		latest := int64(0)
		for id := range w.roots {
			if at := w.active[id]; has(id, "e E q") {
				covered = append(covered, at)
			} else {
				latest = max(latest, at)
			}
		}
		slices.Sort(covered)
		if i, _ := slices.BinarySearch(covered, latest); i > len(covered)*2/3+12 {
			w.t.Errorf("%s: a root event without a subscription is more recent than %d of %d that have one; %+v", when, i, len(covered), w.caps)
		}
	}
	if without != w.reported {
		w.t.Fatalf("%s: of %d repositories, %d root events and %d authors %v have no subscription, reported are %v; %+v",
			when, len(w.repos), len(w.roots), len(w.authors), without, w.reported, w.caps)
	}
}

// TestLongAddresses: the address of a repository may be longer than an id. No message is longer than
// the relay takes, and all repositories have a subscription.
func TestLongAddresses(t *testing.T) {
	const most = 131_072
	for _, length := range []int{8, 60, 200} {
		s := &subscriber{apart: true, flow: flow{set: layers.Settings{
			Kinds: []uint32{30617, 1621}, Values: 300, Connections: 5, Margin: margin, Window: strategy.Second, Check: strategy.Minute, Method: strategy.MethodAuto,
		}}}
		h := strategytest.New(t, manifest, s, nil)
		init := &abi.StepInit{Seed: 1}
		for i := range 1000 {
			address := fmt.Sprintf("30617:%064x:%0*d", 7, length, i)
			init.Repositories = append(init.Repositories, abi.KnownRepository{Address: address, Relays: []string{"wss://a"}, Level: abi.SyncLevelFull})
		}
		asked := map[string]bool{}
		for queue := h.Step(init); len(queue) > 0; {
			a := queue[0]
			queue = queue[1:]
			switch a.Do {
			case abi.DoConnect:
				queue = append(queue, h.Step(&abi.RelayConnected{
					Relay: a.Relay, Capabilities: abi.Capabilities{Negentropy: abi.SupportYes, MaxMessage: most, MaxFilters: 20, MaxSubscriptions: 200},
				})...)
			case abi.DoSubscribe:
				size := 0
				for _, f := range a.Filters {
					size += 40
					for _, tag := range f.Tags {
						for _, v := range tag.Values {
							size += len(v) + 3
							asked[tag.Name+v] = true
						}
					}
				}
				if size > most {
					t.Errorf("a REQ about names of %d letters takes %d bytes, the relay takes %d", length, size, most)
				}
				queue = append(queue, h.Step(&abi.Eose{Relay: a.Relay, ID: a.ID})...)
			}
			if len(queue) == 0 {
				queue = h.Pass(0)
			}
		}
		if len(asked) != 3000 {
			t.Errorf("names of %d letters: %d of 3000 values are asked for", length, len(asked))
		}
	}
}
