package layers_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"talon/sdk/abi"
	"talon/sdk/strategy"
	"talon/sdk/strategy/layers"
	"talon/sdk/strategy/strategytest"
)

// subscriber listens to what is new and fetches what is stored, or asks for both in one
// subscription.
type subscriber struct {
	flow
	apart bool
}

func (s *subscriber) Configure(strategy.Config) error {
	s.Driver.Configure(s, s.set)
	return nil
}

func (s *subscriber) Fresh(p *layers.Peer, purpose uint32) {
	p.Forget()
	s.New(p, p.Plan())
}

func (s *subscriber) New(p *layers.Peer, items layers.Items) {
	if s.apart {
		p.Open(layers.Of(items), layers.Opening{Live: true})
		p.Fetch(layers.Of(items), layers.Fetching{Track: true})
		return
	}
	p.Open(layers.Of(items), layers.Opening{Track: true})
}

func (s *subscriber) Settled(*layers.Peer) {}

// wire is what relays are asked for.
type wire struct {
	h       *strategytest.Harness
	open    map[string]map[string]map[string]bool // relay, subscription, tag and value
	fetched map[string]bool                       // relay, tag and value
}

// do notes actions, and answers until there is nothing more to be said.
func (w *wire) do(actions []abi.StepAction) {
	for queue := actions; len(queue) > 0; {
		a := queue[0]
		queue = queue[1:]
		asked := map[string]bool{}
		for _, f := range a.Filters {
			for _, tag := range f.Tags {
				for _, v := range tag.Values {
					asked[tag.Name+" "+v] = true
				}
			}
		}
		stored := a.Do == abi.DoHistoric || a.Do == abi.DoSubscribe && !a.Live
		for v := range asked {
			w.fetched[a.Relay+" "+v] = w.fetched[a.Relay+" "+v] || stored
		}
		switch a.Do {
		case abi.DoConnect:
			w.open[a.Relay] = map[string]map[string]bool{}
			queue = append(queue, w.h.Step(&abi.RelayConnected{Relay: a.Relay})...)
		case abi.DoSubscribe:
			w.open[a.Relay][a.ID] = asked
			queue = append(queue, w.h.Step(&abi.Eose{Relay: a.Relay, ID: a.ID})...)
		case abi.DoUnsubscribe:
			delete(w.open[a.Relay], a.ID)
		case abi.DoHistoric:
			queue = append(queue, w.h.Step(&abi.HistoricDone{Relay: a.Relay, ID: a.ID, Method: abi.MethodREQ, Complete: true})...)
		}
		if len(queue) == 0 {
			queue = w.h.Pass(0)
		}
	}
}

// TestNothingTwice lets repositories leave relays and come back. Some are gone altogether and come
// back as well, others take the numbers of those that do not. Wanted content is asked for in one
// subscription, and fetched each time that it became wanted.
func TestNothingTwice(t *testing.T) {
	urls := []string{"wss://0", "wss://1", "wss://2"}
	for seed := range seeds(10, 40) {
		random := rand.New(rand.NewPCG(seed, 1))
		s := &subscriber{flow: flow{set: layers.Settings{
			Kinds: []uint32{30617, 1621}, Values: 3, Connections: 5, Check: strategy.Hour, Keep: true,
		}}, apart: seed%2 == 0}
		w := &wire{strategytest.New(t, manifest, s, nil), map[string]map[string]map[string]bool{}, map[string]bool{}}
		limits := strategytest.Limits
		limits.Subscriptions, limits.Filters = 1000, []uint32{1, 2, 3, 10}[random.IntN(4)]
		w.do(w.h.Step(&abi.StepInit{Seed: int64(seed), Limits: limits}))
		relays := map[string][]string{} // of each repository
		roots, ids := map[string][]string{}, map[string][][32]byte{}
		var names, gone []string
		for step := range 200 {
			clear(w.fetched)
			var fresh []string // what must be fetched
			switch n := random.IntN(10); {
			case len(gone) > 0 && n == 0 && random.IntN(2) == 0:
				// With its root events, as a host tells them.
				i := random.IntN(len(gone))
				name := gone[i]
				gone, names = slices.Delete(gone, i, i+1), append(names, name)
				relays[name] = slices.Clone(urls[:random.IntN(len(urls)+1)])
				w.do(w.h.Step(&abi.LocalEvent{Kind: 30617, Repositories: []string{name}, Relays: relays[name], Level: abi.SyncLevelFull}))
				for i, root := range ids[name] {
					w.do(w.h.Step(&abi.LocalEvent{ID: root, Kind: 1621, Repositories: []string{name}}))
					for _, url := range relays[name] {
						fresh = append(fresh, url+" a "+name, url+" "+roots[name][i])
					}
				}
			case len(names) < 3 || n == 0:
				names = append(names, fmt.Sprintf("30617:ab:%d", step))
				w.do(w.h.Step(&abi.LocalEvent{Kind: 30617, Repositories: names[len(names)-1:], Level: abi.SyncLevelFull}))
			case n == 1:
				i := random.IntN(len(names))
				w.do(w.h.Step(&abi.RepoGone{Repository: names[i]}))
				delete(relays, names[i])
				gone = append(gone, names[i])
				names = slices.Delete(names, i, i+1)
			case n < 5:
				id, name := [32]byte{byte(step), 1}, names[random.IntN(len(names))]
				roots[name], ids[name] = append(roots[name], "e "+strategy.Hex(id[:])), append(ids[name], id)
				for _, url := range relays[name] {
					fresh = append(fresh, url+" e "+strategy.Hex(id[:]))
				}
				w.do(w.h.Step(&abi.LocalEvent{ID: id, Kind: 1621, Repositories: []string{name}}))
			default:
				name := names[random.IntN(len(names))]
				now := slices.Clone(urls[:random.IntN(len(urls)+1)])
				for _, url := range now {
					if !slices.Contains(relays[name], url) {
						fresh = append(fresh, url+" a "+name)
						for _, root := range roots[name] {
							fresh = append(fresh, url+" "+root)
						}
					}
				}
				relays[name] = now
				w.do(w.h.Step(&abi.LocalEvent{Kind: 30617, Repositories: []string{name}, Relays: now, Level: abi.SyncLevelFull}))
			}
			for _, v := range fresh {
				if !w.fetched[v] {
					t.Fatalf("seed %d, step %d: %s is not fetched", seed, step, v)
				}
			}
			times := map[string]int{}
			for url, subs := range w.open {
				for _, sub := range subs {
					for v := range sub {
						times[url+" "+v]++
					}
				}
			}
			for v, n := range times {
				if n > 1 {
					t.Fatalf("seed %d, step %d: %s is open %d times", seed, step, v, n)
				}
			}
			for _, name := range names {
				for _, url := range relays[name] {
					for _, v := range append([]string{"a " + name, "A " + name}, roots[name]...) {
						if times[url+" "+v] == 0 {
							t.Fatalf("seed %d, step %d: %s %s is not open", seed, step, url, v)
						}
					}
				}
			}
		}
	}
}

// TestGone: what is remembered of repositories that are gone is bounded in time and in
// number.
func TestGone(t *testing.T) {
	s := &subscriber{flow: flow{set: layers.Settings{Kinds: []uint32{30617, 1621}, Values: 100, Check: strategy.Hour}}}
	h := strategytest.New(t, manifest, s, nil)
	h.Step(&abi.StepInit{Limits: strategytest.Limits})
	const many, roots = 1200, 100
	for i := range many {
		name := []string{fmt.Sprintf("30617:ab:%d", i)}
		h.Step(&abi.LocalEvent{Kind: 30617, Repositories: name, Relays: []string{"wss://0"}, Level: abi.SyncLevelFull})
		for k := range roots {
			h.Step(&abi.LocalEvent{ID: [32]byte{byte(i), byte(i >> 8), byte(k)}, Kind: 1621, Repositories: name})
		}
	}
	size := func(repos, roots int) {
		t.Helper()
		if r, n := s.Index.Size(); r != repos || n != roots {
			t.Fatalf("%d repositories and %d roots have numbers, want %d and %d", r, n, repos, roots)
		}
	}
	for i := range 10 {
		h.Step(&abi.RepoGone{Repository: fmt.Sprintf("30617:ab:%d", i)})
	}
	h.Pass(25 * strategy.Hour)
	size(many, many*roots)
	h.Step(&abi.LocalEvent{Kind: 30617, Repositories: []string{"30617:ab:0"}, Level: abi.SyncLevelFull}) // at no relay
	h.Pass(2 * strategy.Hour)
	size(many-9, (many-9)*roots)
	for i := range many {
		h.Step(&abi.RepoGone{Repository: fmt.Sprintf("30617:ab:%d", i)})
	}
	size(655, 655*roots) // 65,536 roots
	h.Pass(27 * strategy.Hour)
	size(0, 0)
}
