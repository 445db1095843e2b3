package layers_test

import (
	"fmt"
	"testing"

	"talon/sdk/abi"
	"talon/sdk/strategy"
	"talon/sdk/strategy/layers"
	"talon/sdk/strategy/strategytest"
)

// visitWorld is a host whose relays answer immediately, but for those that are down.
type visitWorld struct {
	h     *strategytest.Harness
	queue []abi.Input
	down  map[string]bool
	up    map[string]int64 // since when
	lost  map[string]int64 // the end of the latest connection, or the beginning of all
	visit map[string]int   // connections
	gap   int64            // the longest time for which a relay was not connected
	most  int              // connections at the same time
}

func (w *visitWorld) do(actions []abi.StepAction) {
	for i := range actions {
		a := &actions[i]
		switch a.Do {
		case abi.DoConnect:
			if w.down[a.Relay] {
				w.queue = append(w.queue, &abi.RelayDisconnected{Relay: a.Relay, Class: abi.ClassUnreachable, Failures: 1, RetryAt: w.h.Now + strategy.Hour})
				continue
			}
			w.up[a.Relay] = w.h.Now
			w.gap = max(w.gap, w.h.Now-w.lost[a.Relay])
			w.visit[a.Relay]++
			w.most = max(w.most, len(w.up))
			w.queue = append(w.queue, &abi.RelayConnected{Relay: a.Relay, DisconnectedAt: w.lost[a.Relay]})
		case abi.DoDisconnect:
			delete(w.up, a.Relay)
			w.lost[a.Relay] = w.h.Now
		case abi.DoSubscribe:
			w.queue = append(w.queue, &abi.Eose{Relay: a.Relay, ID: a.ID})
		case abi.DoHistoric:
			w.queue = append(w.queue, &abi.HistoricDone{Relay: a.Relay, ID: a.ID, Complete: true})
		}
	}
}

func (w *visitWorld) pass(millis int64) {
	for end := w.h.Now + millis; w.h.Now < end; {
		w.do(w.h.Pass(strategy.Minute))
		for len(w.queue) > 0 {
			in := w.queue[0]
			w.queue = w.queue[1:]
			w.do(w.h.Step(in))
			w.do(w.h.Pass(0))
		}
	}
}

// TestVisits: of 300 relays only some can be connected to at the same time. Each of the
// others is visited every few hours, those that cannot be reached take nobody's turn for
// long, and the relays that most repositories name keep their places.
func TestVisits(t *testing.T) {
	const relays, dead = 300, 20
	for _, places := range []uint32{20, 200, 299} {
		t.Run(fmt.Sprint(places), func(t *testing.T) {
			w := &visitWorld{down: map[string]bool{}, up: map[string]int64{}, lost: map[string]int64{}, visit: map[string]int{}}
			w.h = strategytest.New(t, manifest, &flow{set: layers.Settings{Values: 100, Check: strategy.Minute, Visit: 6 * strategy.Hour, Within: 15 * strategy.Minute}}, nil)
			limits := strategytest.Limits
			limits.Connections = places
			init := &abi.StepInit{Limits: limits}
			url := func(i int) string { return fmt.Sprintf("wss://%03d", i) }
			for i := range relays {
				w.down[url(i)] = i >= relays-dead
				w.lost[url(i)] = w.h.Now
				init.Repositories = append(init.Repositories, abi.KnownRepository{Address: fmt.Sprintf("30617:ab:%d", i), Level: abi.SyncLevelFull, Relays: []string{url(i)}})
			}
			// Five relays have ten repositories each.
			for i := range 45 {
				init.Repositories = append(init.Repositories, abi.KnownRepository{Address: fmt.Sprintf("30617:cd:%d", i), Level: abi.SyncLevelFull, Relays: []string{url(i % 5)}})
			}
			// One more has a connection, and no repository.
			init.Relays = []abi.RelayState{{URL: "wss://bootstrap", Bootstrap: true, Connected: true}}
			w.do(w.h.Step(init))
			w.pass(40 * strategy.Minute)
			if n := len(w.visit); places >= 200 && n != relays-dead {
				t.Errorf("%d relays were connected to in the first 40 minutes", n)
			}
			w.pass(3*strategy.Day - 40*strategy.Minute)
			for i := range relays - dead {
				if _, up := w.up[url(i)]; !up {
					w.gap = max(w.gap, w.h.Now-w.lost[url(i)])
				}
				// Three days have twelve times six hours: none is compared twice as often.
				if n := w.visit[url(i)]; n == 0 || n > 25 || i < 5 && n != 1 {
					t.Errorf("%s was connected to %d times", url(i), n)
				}
			}
			if w.gap > 6*strategy.Hour {
				t.Errorf("a relay was not compared for %d minutes", w.gap/strategy.Minute)
			}
			if w.most+1 > int(places) {
				t.Errorf("%d connections at once", w.most)
			}
		})
	}
}

// TestNoVisits: a strategy whose settings say nothing of visits keeps its relays.
func TestNoVisits(t *testing.T) {
	w := &visitWorld{up: map[string]int64{}, lost: map[string]int64{}, visit: map[string]int{}}
	w.h = strategytest.New(t, manifest, &flow{set: layers.Settings{Values: 100, Check: strategy.Minute}}, nil)
	limits := strategytest.Limits
	limits.Connections = 2
	init := &abi.StepInit{Limits: limits, Repositories: []abi.KnownRepository{{Address: "30617:ab:x", Relays: []string{"wss://1", "wss://2", "wss://3"}}}}
	w.do(w.h.Step(init))
	w.pass(strategy.Day)
	if w.visit["wss://1"] != 1 || w.visit["wss://2"] != 1 || w.visit["wss://3"] != 0 {
		t.Errorf("connections: %v", w.visit)
	}
}
