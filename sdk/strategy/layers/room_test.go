package layers_test

import (
	"fmt"
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
// that has no subscription. Half of the relays also close subscriptions.
func TestRoom(t *testing.T) {
	for seed := range uint64(12) {
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
				w := &roomWorld{t: t, caps: caps, closes: closes, open: map[string][]abi.Filter{}, roots: map[string]bool{}, repos: map[string]bool{}}
				w.h = strategytest.New(t, manifest, &subscriber{apart: apart, flow: flow{set: layers.Settings{
					Kinds: []uint32{30617, 1621}, Values: 4, Connections: 5, Margin: 900, Window: strategy.Second, Eager: true,
					Check: strategy.Minute, Method: strategy.MethodAuto,
				}}}, nil)
				w.run(r)
			})
		}
	}
}

type roomWorld struct {
	t        *testing.T
	h        *strategytest.Harness
	caps     abi.Capabilities
	closes   bool                    // the relay closes subscriptions
	open     map[string][]abi.Filter // by id
	roots    map[string]bool         // by id, hex
	repos    map[string]bool
	reported [2]int
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
		w.roots[strategy.Hex(id[:])] = true
	}
	w.repos[repo.Address] = true
	init.Repositories = append(init.Repositories, repo)
	w.do(w.h.Step(init))
	w.check("the beginning")
	for step := range 80 {
		what := ""
		switch n := r.IntN(8); n {
		case 0:
			address := fmt.Sprintf("30617:ab:%d", step)
			w.repos[address] = true
			what = "a repository"
			w.do(w.h.Step(&abi.LocalEvent{Kind: 30617, Repositories: []string{address}, Relays: []string{"wss://a"}, Level: abi.SyncLevelFull}))
		case 1:
			what = "activity"
			id := rootID(1 + r.Uint64N(w.next))
			w.do(w.h.Step(&abi.RootActivity{Roots: [][32]byte{id}, Latest: []uint32{uint32(w.h.Now / 1000)}}))
		case 2:
			what = "time"
			w.do(w.h.Pass(r.Int64N(2 * strategy.Hour)))
		default:
			what = "root events"
			for range 1 + r.IntN(1+n*n) {
				id := w.id()
				w.roots[strategy.Hex(id[:])] = true
				w.do(w.h.Step(&abi.LocalEvent{ID: id, Kind: 1621, CreatedAt: w.h.Now / 1000, Repositories: []string{"30617:ab:first"}}))
			}
		}
		if ids := slices.Sorted(maps.Keys(w.open)); w.closes && len(ids) > 0 && r.IntN(2) == 0 {
			id := ids[r.IntN(len(ids))]
			delete(w.open, id)
			what += ", " + id + " is closed"
			w.do(w.h.Step(&abi.Closed{Relay: "wss://a", ID: id, Class: strategy.ClassLimit}))
			if r.IntN(2) == 0 {
				w.do(w.h.Pass(2 * strategy.Minute)) // it is opened again
			}
		}
		w.do(w.h.Pass(2 * strategy.Second))
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
			w.open[a.ID] = a.Filters
			w.limits()
			in = &abi.Eose{Relay: a.Relay, ID: a.ID}
		case abi.DoUnsubscribe:
			delete(w.open, a.ID)
		case abi.DoHistoric:
			in = &abi.HistoricDone{Relay: a.Relay, ID: a.ID, Method: abi.MethodNegentropy, Complete: true}
		case abi.DoUncovered:
			w.reported = [2]int{int(a.Repositories), int(a.Roots)}
		}
		if in != nil {
			queue = append(queue, w.h.Step(in)...)
		}
		if len(queue) == 0 {
			queue = w.h.Pass(0)
		}
	}
}

// limits fails the test if more is open than the relay takes.
func (w *roomWorld) limits() {
	w.t.Helper()
	values := 0
	for _, filters := range w.open {
		for _, f := range filters {
			values += 1 + len(f.Kinds)
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

// check compares what is open with what is wanted.
func (w *roomWorld) check(when string) {
	w.t.Helper()
	times := map[string]int{}
	for _, filters := range w.open {
		for _, f := range filters {
			for _, tag := range f.Tags {
				for _, v := range tag.Values {
					times[tag.Name+" "+v]++
				}
			}
		}
	}
	for v, n := range times {
		if n > 1 {
			w.t.Fatalf("%s: %d subscriptions ask for %s", when, n, v)
		}
	}
	has := func(v string, tags string) bool {
		for _, name := range strings.Fields(tags) {
			if times[name+" "+v] == 0 {
				return false
			}
		}
		return true
	}
	without := [2]int{}
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
	if without != w.reported {
		w.t.Fatalf("%s: %d repositories and %d root events of %d have no subscription, reported are %v; %+v", when, without[0], without[1], len(w.roots), w.reported, w.caps)
	}
}
