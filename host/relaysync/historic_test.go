package relaysync

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

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
	w.shelf.put(t, list[600:]...)
	if got := w.plan.wait(t, 1, "connected"); !strings.Contains(got, "neg=1 limit=100 subs=20") {
		t.Errorf("the strategy hears %q", got)
	}
	got := w.plan.wait(t, 1, "done first")
	if stored, _ := w.shelf.count(); stored != 1000 {
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

// What several historics need at once comes once: what one asks for, the others wait
// for, and ask for themselves if the first one fails or is ended.
func TestNegentropyTogether(t *testing.T) {
	const n = 300
	names := []string{"first", "second", "third"}
	// Each filter matches all, and is told from the others by its last kind.
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
			if stored, submitted := w.shelf.count(); stored != n || submitted != n {
				t.Errorf("%d events are here, and %d were submitted", stored, submitted)
			}
			if sum != n {
				t.Errorf("%d events came, want %d", sum, n)
			}
		})
	}
}

// A relay that does not answer one comparison, or has lost it, and answers others is
// asked once more.
func TestNegentropyRepeated(t *testing.T) {
	for name, tt := range map[string]struct {
		verb    wire.Verb // the first of these is not answered
		instead string    // what is said in place of that; empty: nothing
		time    time.Duration
	}{
		"no answer to the first message": {wire.NegOpen, "", 8 * time.Second},
		"no answer to a later one":       {wire.NegMsg, "", 8 * time.Second},
		"a NEG-ERR":                      {wire.NegMsg, `["NEG-ERR","%s","closed: unknown subscription handle"]`, time.Hour},
		"a NEG-ERROR, as of khatru":      {wire.NegMsg, `["NEG-ERROR","%s","CLOSED"]`, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var asked atomic.Int64
			r := newRemote(t, func(r *remote) {
				r.info = `{"supported_nips":[1,77]}`
				r.script = func(p *peer, m *wire.Message) bool {
					if m.Verb != tt.verb || asked.Add(1) > 1 {
						return false
					}
					if tt.instead != "" {
						p.say(tt.instead, m.SubID)
					}
					return true
				}
			})
			list := notes(t, 1000)
			r.add(list...)
			w := start(t, nil, func(cfg *Config, _ *Deps) { cfg.Limits.AnswerTime = tt.time })
			w.shelf.put(t, list[100:]...)
			w.plan.swap(onConnect(r.url, fetch(r.url, "auto", abi.MethodAuto, kinds(1))))
			if got := w.plan.wait(t, 1, "done auto"); !strings.HasPrefix(got, "done auto method=1 complete=true class=0 have=0 need=100 new=100") {
				t.Errorf("the strategy hears %q", got)
			}
			if asked.Load() < 2 {
				t.Error("nothing was lost: nothing was tested")
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

// What was refused and what is held is not fetched again.
func TestNegentropyKnowsRefused(t *testing.T) {
	list := notes(t, 300)
	r := newRemote(t, nil)
	r.add(list...)
	w := start(t, nil, nil)
	w.shelf.mu.Lock()
	w.shelf.policy = func(e *host.Event) host.Verdict {
		switch e.ID[0] % 3 {
		case 0:
			return host.Verdict{Code: host.Rejected, Reason: "blocked: no"}
		case 1:
			return host.Verdict{Code: host.Held, Reason: host.ReasonHeld}
		}
		return host.Verdict{Code: host.Stored}
	}
	w.shelf.mu.Unlock()
	w.plan.swap(onConnect(r.url, fetch(r.url, "first", abi.MethodAuto, kinds(1))))
	w.plan.wait(t, 1, "done first")
	_, submitted := w.shelf.count()
	w.plan.swap(func(v *abi.StepView) []abi.StepAction {
		if v.Kind == abi.InputInit {
			return []abi.StepAction{fetch(r.url, "second", abi.MethodAuto, kinds(1))}
		}
		return nil
	})
	if got := w.plan.wait(t, 1, "done second"); !strings.HasPrefix(got, "done second method=1 complete=true class=0 have=0 need=0 new=0 rounds=1") {
		t.Errorf("the strategy hears %q", got)
	}
	if _, now := w.shelf.count(); now != submitted || submitted != 300 {
		t.Errorf("%d events were submitted, and then %d", submitted, now-submitted)
	}
	// It is not here, so that another relay which has never had it lacks nothing.
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

// What the relay lacks is sent to it, if operator and strategy want that.
func TestPush(t *testing.T) {
	for _, allowed := range []bool{true, false} {
		t.Run(fmt.Sprint(allowed), func(t *testing.T) {
			list := notes(t, 120)
			r := newRemote(t, nil)
			r.add(list[:20]...)
			a := fetch(r.url, "both", abi.MethodNegentropy, kinds(1))
			a.Push = true
			w := start(t, nil, func(cfg *Config, _ *Deps) { cfg.AllowPush = allowed })
			w.shelf.put(t, list[10:]...)
			w.plan.swap(onConnect(r.url, a))
			if got := w.plan.wait(t, 1, "done both"); !strings.HasPrefix(got, "done both method=1 complete=true class=0 have=100 need=10 new=10") {
				t.Errorf("the strategy hears %q", got)
			}
			r.mu.Lock()
			n := len(r.events)
			r.mu.Unlock()
			if want := map[bool]int{true: 120, false: 20}[allowed]; n != want {
				t.Errorf("the relay has %d events, want %d", n, want)
			}
		})
	}
}

// Relays that have no negentropy, each in its own way, are asked page by page.
func TestNoNegentropy(t *testing.T) {
	for name, script := range map[string]func(p *peer, m *wire.Message) bool{
		"a notice": nil,
		"a NEG-ERR": func(p *peer, m *wire.Message) bool {
			p.say(`["NEG-ERR","%s","blocked: negentropy disabled"]`, m.SubID)
			return true
		},
		"a CLOSED": func(p *peer, m *wire.Message) bool {
			p.say(`["CLOSED","%s","unsupported: what is this"]`, m.SubID)
			return true
		},
		"silence": func(*peer, *wire.Message) bool { return true },
		"not hex": func(p *peer, m *wire.Message) bool { p.say(`["NEG-MSG","%s","xyz"]`, m.SubID); return true },
		"malformed": func(p *peer, m *wire.Message) bool {
			p.say(`["NEG-MSG","%s","61ffffffffffffffffffff"]`, m.SubID)
			return true
		},
		"version": func(p *peer, m *wire.Message) bool { p.say(`["NEG-MSG","%s","60"]`, m.SubID); return true },
		"no text": func(p *peer, m *wire.Message) bool { p.say(`["NEG-MSG","%s",17]`, m.SubID); return true },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			list := notes(t, 50)
			r := newRemote(t, func(r *remote) {
				r.neg = false
				if script != nil {
					r.script = func(p *peer, m *wire.Message) bool { return m.Verb == wire.NegOpen && script(p, m) }
				}
			})
			r.add(list...)
			w := start(t, onConnect(r.url, fetch(r.url, "auto", abi.MethodAuto, kinds(1)), fetch(r.url, "neg", abi.MethodNegentropy, kinds(2))), func(cfg *Config, _ *Deps) {
				cfg.Limits.AnswerTime = 4 * time.Second
			})
			if got := w.plan.wait(t, 1, "done auto"); !strings.HasPrefix(got, "done auto method=2 complete=true class=0 have=0 need=") {
				t.Errorf("the strategy hears %q", got)
			}
			if got := w.plan.wait(t, 1, "done neg"); !strings.HasPrefix(got, "done neg method=1 complete=false") {
				t.Errorf("the strategy hears %q", got)
			}
			if stored, _ := w.shelf.count(); stored != 50 {
				t.Errorf("%d events are here", stored)
			}
		})
	}
}

// Paging finds everything, whatever the relay's limit, and however many events share a
// second; also if all of them are refused.
func TestPages(t *testing.T) {
	for name, tt := range map[string]struct {
		most     int // events that the relay gives at once
		seconds  []int
		refuse   bool
		complete bool
		one      bool // a filter with nothing to divide
	}{
		"nothing":                      {most: 100, complete: true},
		"one event":                    {most: 100, seconds: []int{1}, complete: true},
		"one page":                     {most: 100, seconds: []int{1, 2, 3}, complete: true},
		"exactly one page":             {most: 6, seconds: []int{1, 2, 3}, complete: true},
		"many pages":                   {most: 10, seconds: []int{3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3}, complete: true},
		"a second that is a page":      {most: 10, seconds: []int{1, 10, 1}, complete: true},
		"a second larger than a page":  {most: 20, seconds: []int{5, 50, 5}, complete: true},
		"the first second larger":      {most: 20, seconds: []int{50, 5}, complete: true},
		"the last second larger":       {most: 20, seconds: []int{5, 50}, complete: true},
		"only one second, larger":      {most: 20, seconds: []int{50}, complete: true},
		"everything is refused":        {most: 10, seconds: []int{3, 3, 3, 3, 3, 30, 3}, refuse: true, complete: true},
		"a second that can not be cut": {most: 20, seconds: []int{5, 50, 5}, one: true},
		"two events of a limit of one": {most: 1, seconds: []int{1, 1, 1}, complete: true},
		"seconds larger than a few":    {most: 8, seconds: []int{3, 9, 20, 5, 9, 2}, complete: true},
		"the last larger than a few":   {most: 8, seconds: []int{3, 20}, complete: true},
		"a few that can not be cut":    {most: 8, seconds: []int{3, 9, 5}, one: true},
		"our own limit":                {most: 5000, seconds: []int{7, 7, 40, 7}, complete: true, one: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRemote(t, func(r *remote) { r.most = tt.most })
			total := 0
			for i, n := range tt.seconds {
				for j := range n {
					kind := 2
					if !tt.one {
						kind = 1 + j%8
					}
					r.add(signed(t, alice, kind+100, epoch-int64(i), fmt.Sprint(i, j)))
					total++
				}
			}
			f := kinds(101, 102, 103, 104, 105, 106, 107, 108)
			if tt.one {
				f = kinds(102)
			}
			a := fetch(r.url, "pages", abi.MethodREQ, f)
			a.Page = 30
			w := start(t, nil, nil)
			w.shelf.policy = func(*host.Event) host.Verdict {
				if tt.refuse {
					return host.Verdict{Code: host.Rejected, Reason: "blocked: no"}
				}
				return host.Verdict{Code: host.Stored}
			}
			w.plan.swap(onConnect(r.url, a))
			got := w.plan.wait(t, 1, "done pages")
			if !strings.HasPrefix(got, fmt.Sprintf("done pages method=2 complete=%v", tt.complete)) {
				t.Errorf("the strategy hears %q", got)
			}
			if _, n := w.shelf.count(); tt.complete && n != total {
				t.Errorf("%d of %d events came: %s", n, total, got)
			}
		})
	}
}

// A filter with a limit gets so many events, over as many pages as it takes.
func TestPagesWithLimit(t *testing.T) {
	r := newRemote(t, func(r *remote) { r.most = 10 })
	r.add(notes(t, 100)...)
	f := kinds(1)
	f.Limit = 35
	w := start(t, onConnect(r.url, fetch(r.url, "some", abi.MethodAuto, f)), nil)
	w.plan.wait(t, 1, "done some")
	if stored, _ := w.shelf.count(); stored != 35 {
		t.Errorf("%d events are here, want 35", stored)
	}
}
