package relaysync

import (
	"fmt"
	"strings"
	"testing"

	"talon/host"
	"talon/host/wire"
	"talon/sdk/abi"
)

// Negentropy fetches what is not here, and only that; the second time nothing.
func TestNegentropy(t *testing.T) {
	list := notes(t, 1000)
	r := newRemote(t, func(r *remote) {
		r.info = `{"supported_nips":[1,77],"limitation":{"max_limit":100,"max_subscriptions":20}}`
	})
	r.add(list[:900]...)
	w := start(t, onConnect(r.url, fetch(r.url, "first", abi.MethodAuto, kinds(1))), nil)
	w.put(list[600:]...)
	if got := w.plan.wait(t, 1, "connected"); !strings.Contains(got, "neg=1 limit=100 subs=20") {
		t.Errorf("the strategy hears %q", got)
	}
	got := w.plan.wait(t, 1, "done first")
	if stored := w.store.Len(); stored != 1000 {
		t.Errorf("%d events are here", stored)
	}
	if !strings.HasPrefix(got, "done first method=1 complete=true") {
		t.Errorf("the strategy hears %q", got)
	}
	asked := r.count("REQ")
	w.plan.swap(func(v *abi.StepView) []abi.StepAction {
		if v.Kind == abi.InputInit {
			return []abi.StepAction{fetch(r.url, "second", abi.MethodAuto, kinds(1))}
		}
		return nil
	})
	if got := w.plan.wait(t, 1, "done second"); !strings.HasPrefix(got, "done second method=1 complete=true class=0 have=100 need=0 new=0") {
		t.Errorf("the strategy hears %q", got)
	}
	if r.count("REQ") != asked {
		t.Error("events were fetched that are here")
	}
	if r.connections() != 1 {
		t.Errorf("%d connections", r.connections())
	}
}

// TestNegentropyTogether checks that events that several historics need come once. One asks, and
// the others wait. They ask themselves if the first one fails or is ended.
func TestNegentropyTogether(t *testing.T) {
	const n = 300
	names := []string{"first", "second", "third"}
	// Each filter matches all, and differs from the others by its last kind.
	filters := []abi.Filter{kinds(1, 10), kinds(1, 11), kinds(1, 12)}
	for name, fault := range map[string]func(w *world, p *peer, sub, asker string) (ok bool){
		"answered": func(*world, *peer, string, string) bool { return false },
		"refused": func(_ *world, p *peer, sub, _ string) bool {
			p.say(`["CLOSED","%s","error: no"]`, sub)
			return true
		},
		"ended": func(w *world, p *peer, _, asker string) bool {
			w.plan.swap(func(v *abi.StepView) []abi.StepAction {
				if v.Kind == abi.InputInit {
					return []abi.StepAction{{Do: abi.DoUnsubscribe, Relay: p.r.url, ID: asker}}
				}
				return nil
			})
			return true
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var w *world
			var held []*wire.Message // the first REQ, and all else until the others have compared
			compared, asker, opened := 0, "", map[string]string{}
			r := newRemote(t, func(r *remote) {
				r.script = func(p *peer, m *wire.Message) bool {
					switch m.Verb {
					case wire.NegOpen:
						opened[m.SubID] = names[m.Filters[0].Kinds[1]-10]
						return false
					case wire.NegClose:
						if compared++; compared == 1 {
							asker = opened[m.SubID]
						}
					case wire.Req:
						held = append(held, m)
					}
					if compared < len(names) || len(held) == 0 {
						return true
					}
					for i, m := range held {
						switch {
						case i == 0 && asker != "" && fault(w, p, m.SubID, asker):
						case i > 0 && name == "ended":
							// Nor is the asker's other one answered: what that brings may be asked
							// for again while it is on its way.
						default:
							p.serve(m)
						}
					}
					held, asker = nil, ""
					return true
				}
			})
			r.add(notes(t, n)...)
			w = start(t, nil, nil)
			var all []abi.StepAction
			for i, id := range names {
				all = append(all, fetch(r.url, id, abi.MethodNegentropy, filters[i]))
			}
			w.plan.swap(onConnect(r.url, all...))
			sum := 0
			for _, said := range []string{w.plan.wait(t, 1, "done"), w.plan.wait(t, 2, "done")} {
				sum += needOf(t, said)
			}
			if name != "ended" {
				sum += needOf(t, w.plan.wait(t, 3, "done"))
			}
			if stored, submitted := w.store.Len(), w.store.Submitted(); stored != n || submitted != n {
				t.Errorf("%d events are here, and %d were submitted", stored, submitted)
			}
			if sum != n {
				t.Errorf("%d events came, want %d", sum, n)
			}
		})
	}
}

// needOf is how many events a historic has brought.
func needOf(t *testing.T, said string) (n int) {
	t.Helper()
	_, text, ok := strings.Cut(said, " need=")
	if _, err := fmt.Sscan(text, &n); !ok || err != nil {
		t.Fatalf("the strategy hears %q", said)
	}
	return n
}

// TestNegentropyKnowsRefused checks that refused and held events are not fetched again.
func TestNegentropyKnowsRefused(t *testing.T) {
	list := notes(t, 300)
	r := newRemote(t, nil)
	r.add(list...)
	w := start(t, nil, nil)
	w.store.SetPolicy(func(e *host.Event) host.Verdict {
		switch e.ID[0] % 3 {
		case 0:
			return host.Verdict{Code: host.Rejected, Reason: "blocked: no"}
		case 1:
			return host.Verdict{Code: host.Held, Reason: host.ReasonHeld}
		}
		return host.Verdict{Code: host.Stored}
	})
	w.plan.swap(onConnect(r.url, fetch(r.url, "first", abi.MethodAuto, kinds(1))))
	w.plan.wait(t, 1, "done first")
	submitted := w.store.Submitted()
	w.plan.swap(func(v *abi.StepView) []abi.StepAction {
		if v.Kind == abi.InputInit {
			return []abi.StepAction{fetch(r.url, "second", abi.MethodAuto, kinds(1))}
		}
		return nil
	})
	if got := w.plan.wait(t, 1, "done second"); !strings.HasPrefix(got, "done second method=1 complete=true class=0 have=0 need=0 new=0 rounds=1") {
		t.Errorf("the strategy hears %q", got)
	}
	if now := w.store.Submitted(); now != submitted || submitted != 300 {
		t.Errorf("%d events were submitted, and then %d", submitted, now-submitted)
	}
	// The event is not here. So another relay that never had it lacks nothing.
	other := newRemote(t, nil)
	for _, e := range list {
		if e.ID[0]%3 != 0 {
			other.add(e)
		}
	}
	w.plan.swap(onConnect(other.url, fetch(other.url, "other", abi.MethodAuto, kinds(1))))
	if got := w.plan.wait(t, 1, "done other"); !strings.HasPrefix(got, "done other method=1 complete=true class=0 have=0 need=0 new=0") {
		t.Errorf("the strategy hears %q", got)
	}
	// A new policy may think otherwise.
	w.sync.Forget()
	w.plan.swap(func(v *abi.StepView) []abi.StepAction {
		if v.Kind == abi.InputInit {
			return []abi.StepAction{fetch(r.url, "third", abi.MethodAuto, kinds(1))}
		}
		return nil
	})
	if got := w.plan.wait(t, 1, "done third"); strings.Contains(got, " need=0 ") {
		t.Errorf("what was refused is not fetched after Forget: %q", got)
	}
}

// TestPush checks that a relay gets the events that it lacks, if operator and strategy want that.
func TestPush(t *testing.T) {
	for _, allowed := range []bool{true, false} {
		t.Run(fmt.Sprint(allowed), func(t *testing.T) {
			list := notes(t, 120)
			r := newRemote(t, nil)
			r.add(list[:20]...)
			a := fetch(r.url, "both", abi.MethodNegentropy, kinds(1))
			a.Push = true
			w := start(t, nil, func(cfg *Config, _ *Deps) { cfg.AllowPush = allowed })
			w.put(list[10:]...)
			w.plan.swap(onConnect(r.url, a))
			if got := w.plan.wait(t, 1, "done both"); !strings.HasPrefix(got, "done both method=1 complete=true class=0 have=100 need=10 new=10") {
				t.Errorf("the strategy hears %q", got)
			}
			r.mu.Lock()
			n := r.relay.Store().Len()
			r.mu.Unlock()
			if want := map[bool]int{true: 120, false: 20}[allowed]; n != want {
				t.Errorf("the relay has %d events, want %d", n, want)
			}
		})
	}
}
