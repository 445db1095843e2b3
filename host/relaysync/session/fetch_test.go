package session

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"talon/host"
	"talon/host/relaymodel"
	"talon/host/wire"
	"talon/sdk/abi"
)

// Paging finds everything, whatever the relay's limit, and however many events share a
// second; also if all of them are refused.
func TestPages(t *testing.T) {
	for name, tt := range map[string]struct {
		most     int // events that the relay gives in one answer
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
			var list []*host.Event
			for i, n := range tt.seconds {
				for j := range n {
					kind := 2
					if !tt.one {
						kind = 1 + j%8
					}
					list = append(list, alice.Event(host.Kind(kind+100), int64(epoch-i), fmt.Sprint(i, j)))
				}
			}
			f := kinds(101, 102, 103, 104, 105, 106, 107, 108)
			if tt.one {
				f = kinds(102)
			}
			g := newRig(t, nil)
			submitted := 0
			g.verdict = func(*host.Event) host.Verdict {
				submitted++
				if tt.refuse {
					return host.Verdict{Code: host.Rejected, Reason: "blocked: no"}
				}
				return host.Verdict{Code: host.Stored}
			}
			g.serve(list, limitOf(tt.most))
			g.do(&Fetch{ID: "pages", Filter: f, Method: abi.MethodREQ, Page: 30})
			got := g.reports()
			last := ""
			if len(got) > 0 {
				last = got[len(got)-1]
			}
			if !strings.HasPrefix(last, fmt.Sprintf("done pages method=2 complete=%v", tt.complete)) {
				t.Errorf("it reports %q", got)
			}
			if tt.complete && submitted != len(list) {
				t.Errorf("%d of %d events came: %s", submitted, len(list), last)
			}
		})
	}
}

// A filter with a limit gets that number of events, over as many pages as it takes.
func TestPagesWithLimit(t *testing.T) {
	g := newRig(t, nil)
	g.serve(notes(100), limitOf(10))
	f := kinds(1)
	f.Limit = 35
	g.do(&Fetch{ID: "some", Filter: f})
	if len(g.stored) != 35 {
		t.Errorf("%d events are here, want 35", len(g.stored))
	}
}

// A relay that does not answer one comparison, or has lost it, and answers others is
// asked once more.
func TestNegentropyRepeated(t *testing.T) {
	for name, tt := range map[string]struct {
		verb    wire.Verb // the first of these is not answered
		instead string    // what is said in place of that; empty: nothing
	}{
		"no answer to the first message": {wire.NegOpen, ""},
		"no answer to a later one":       {wire.NegMsg, ""},
		"a NEG-ERR":                      {wire.NegMsg, `["NEG-ERR","%s","closed: unknown subscription handle"]`},
		"a NEG-ERROR, as of khatru":      {wire.NegMsg, `["NEG-ERROR","%s","CLOSED"]`},
	} {
		t.Run(name, func(t *testing.T) {
			g := newRig(t, func(cfg *Config) { cfg.Capabilities.Negentropy = abi.SupportYes })
			list := notes(1000)
			for _, e := range list[100:] {
				g.stored[e.ID] = e
			}
			g.serve(list, limitOf(500))
			answer, asked := g.remote, 0
			g.remote = func(m *wire.Message, text string) {
				if m.Verb == tt.verb {
					if asked++; asked == 1 {
						if tt.instead != "" {
							g.Receive(g.now, fmt.Appendf(nil, tt.instead, m.SubID))
						}
						return
					}
				}
				answer(m, text)
			}
			g.do(&Fetch{ID: "auto", Filter: kinds(1)})
			if tt.instead == "" {
				g.pass(limits.AnswerTime/4 + 10)
			}
			g.want("reports", g.reports(), "done auto method=1 complete=true class=0 have=0 need=100 new=100")
			if asked < 2 {
				t.Error("nothing was lost: nothing was tested")
			}
		})
	}
}

// A relay that says "rate limited" may have lost NEG-OPEN. It is asked again after its rest, and does not count as
// one without negentropy.
func TestRateLimitedNegentropy(t *testing.T) {
	for _, support := range []uint32{abi.SupportUnknown, abi.SupportYes} {
		g := newRig(t, func(cfg *Config) { cfg.Capabilities.Negentropy = support })
		list := notes(100)
		g.serve(list, limitOf(500))
		answer := g.remote
		g.remote = nil
		g.do(&Fetch{ID: "a", Filter: kinds(1)})
		g.do(&Fetch{ID: "b", Filter: kinds(2)})
		g.say(`["NOTICE","rate limited"]`)
		g.do(CoolDown{g.now + 65_000})
		g.take()
		g.pass(64_000)
		g.want("messages in the rest", g.take())
		g.remote = answer
		g.pass(10_000)
		if c := g.Capabilities(); c.Negentropy != abi.SupportYes || len(g.stored) != len(list) || len(g.fetches) > 0 {
			t.Errorf("negentropy %d, %d events are here, %d fetches run", c.Negentropy, len(g.stored), len(g.fetches))
		}
	}
}

// Relays that have no negentropy, each in its own way, are asked page by page.
func TestNoNegentropy(t *testing.T) {
	for name, say := range map[string]string{
		"a notice":  `["NOTICE","ERROR: bad msg: unknown cmd"]`,
		"a NEG-ERR": `["NEG-ERR","%s","blocked: negentropy disabled"]`,
		"a CLOSED":  `["CLOSED","%s","unsupported: what is this"]`,
		"silence":   "",
		"not hex":   `["NEG-MSG","%s","xyz"]`,
		"malformed": `["NEG-MSG","%s","61ffffffffffffffffffff"]`,
		"version":   `["NEG-MSG","%s","60"]`,
		"no text":   `["NEG-MSG","%s",17]`,
	} {
		t.Run(name, func(t *testing.T) {
			g := newRig(t, nil)
			g.serve(notes(50), limitOf(500))
			answer := g.remote
			g.remote = func(m *wire.Message, text string) {
				switch {
				case m.Verb != wire.NegOpen:
					answer(m, text)
				case strings.Contains(say, "%s"):
					g.Receive(g.now, fmt.Appendf(nil, say, m.SubID))
				case say != "":
					g.Receive(g.now, []byte(say))
				}
			}
			g.do(&Fetch{ID: "auto", Filter: kinds(1)})
			g.do(&Fetch{ID: "neg", Filter: kinds(2), Method: abi.MethodNegentropy})
			g.pass(2 * limits.AnswerTime)
			got := strings.Join(g.reports(), "\n")
			if !strings.Contains(got, "done auto method=2 complete=true class=0 have=0 need=") || !strings.Contains(got, "done neg method=1 complete=false") {
				t.Errorf("it reports\n%s", got)
			}
			if len(g.stored) != 50 {
				t.Errorf("%d events are here", len(g.stored))
			}
		})
	}
}

// A trickle that never ends, and silence, end in time.
func TestNoAnswer(t *testing.T) {
	e := notes(1000)
	for _, trickle := range []bool{false, true} {
		t.Run(fmt.Sprint("trickle ", trickle), func(t *testing.T) {
			g := newRig(t, nil)
			g.do(&Fetch{ID: "h", Filter: kinds(1), Method: abi.MethodREQ})
			g.do(&Subscribe{ID: "s", Filters: []host.Filter{kinds(1)}})
			for i := 0; trickle && i < 700; i++ {
				g.event("s1", e[i])
				g.event("s2", e[i])
				g.pass(1000)
			}
			g.pass(limits.AnswerTime + 10)
			got := strings.Join(g.reports(), " ")
			class := map[bool]uint32{false: abi.ClassError, true: abi.ClassTooMuch}[trickle]
			if !strings.Contains(got, fmt.Sprintf("done h method=2 complete=false class=%d", class)) || !strings.Contains(got, fmt.Sprintf("closed s class=%d", class)) {
				t.Errorf("it reports %s", got)
			}
		})
	}
}

// Events without an end, each a right one: what is asked for is bounded.
func TestEventsForEver(t *testing.T) {
	g := newRig(t, func(cfg *Config) { cfg.Limits.PageEvents = 500 })
	g.do(&Fetch{ID: "h", Filter: kinds(1), Method: abi.MethodREQ})
	g.do(&Subscribe{ID: "s", Filters: []host.Filter{kinds(1)}})
	g.want("messages", g.take(), `"REQ" "s1"`, `"REQ" "s2"`)
	for _, e := range notes(502) {
		g.event("s1", e)
		g.event("s2", e)
	}
	got := strings.Join(g.reports(), " ")
	if !strings.Contains(got, fmt.Sprintf("done h method=2 complete=false class=%d", abi.ClassTooMuch)) || !strings.Contains(got, fmt.Sprintf("closed s class=%d", abi.ClassTooMuch)) {
		t.Errorf("it reports %s", got)
	}
}

// A relay that says in the middle of a fetch that it is asked too much is left alone for
// a while, and the fetch goes on later.
func TestRateLimitedFetch(t *testing.T) {
	for _, method := range []uint32{abi.MethodREQ, abi.MethodNegentropy} {
		t.Run(fmt.Sprint(method), func(t *testing.T) {
			g := newRig(t, func(cfg *Config) { cfg.Limits.Chunks, cfg.Capabilities.MaxLimit = 1, 10 })
			g.serve(notes(30), limitOf(10))
			var asked []int64
			answer := g.remote
			g.remote = func(m *wire.Message, text string) {
				if m.Verb == wire.Req {
					if asked = append(asked, g.now); len(asked) == 1 {
						g.Receive(g.now, []byte(`["NOTICE","rate-limited: slow down"]`))
						g.Session.Execute(g.now, CoolDown{g.now + 65_000}) // the loop
					}
				}
				answer(m, text)
			}
			g.do(&Fetch{ID: "h", Filter: kinds(1), Method: method})
			g.pass(70_000)
			got := strings.Join(g.reports(), " ")
			if !strings.Contains(got, fmt.Sprintf("done h method=%d complete=true", method)) || len(g.stored) != 30 {
				t.Errorf("it reports %s, %d events are here", got, len(g.stored))
			}
			if len(asked) < 3 || asked[1]-asked[0] < 65_000 {
				t.Errorf("it was asked at %d", asked)
			}
		})
	}
}

// Pages that are said to be complete are: whatever the relay's limit, what it makes of a
// limit that it takes for too high, how many events share a second, and in which order it
// sends those. A relay that gives fewer than ten events in one answer is beyond that.
func TestPagesDoNotLie(t *testing.T) {
	luck := rand.New(rand.NewPCG(5, 6))
	all := make([]*host.Event, 0, 400)
	for i := range 400 {
		all = append(all, &host.Event{ID: host.ID{byte(i), byte(i >> 8), 1}, Kind: host.Kind(1 + i%5), Content: fmt.Sprint(i)})
	}
	complete, truncated := 0, 0
	for round := range 300 {
		limit, clamp := 40+luck.IntN(50), luck.IntN(3)
		at, left := int64(epoch), 0
		list := all[:luck.IntN(len(all))]
		for i, e := range list {
			if left--; left <= 0 {
				at -= int64(1 + luck.IntN(3))
				if left = 1; luck.IntN(4) == 0 {
					left = 1 + luck.IntN(2*limit)
				}
			}
			copied := *e
			copied.CreatedAt = at
			copied.JSON = copied.AppendJSON(nil)
			list[i] = &copied
		}
		g := newRig(t, func(cfg *Config) { cfg.Limits.Page = 1 + luck.IntN(60) })
		g.remote = func(m *wire.Message, _ string) {
			if m.Verb != wire.Req {
				return
			}
			f := &m.Filters[0]
			n := f.Limit
			if n > limit {
				n = []int{limit, max(1, limit/4), max(1, limit-1)}[clamp]
			}
			var found []*host.Event
			for _, e := range list {
				if f.Matches(e) {
					found = append(found, e)
				}
			}
			luck.Shuffle(len(found), func(i, j int) { found[i], found[j] = found[j], found[i] })
			slices.SortStableFunc(found, func(a, b *host.Event) int { return cmp.Compare(b.CreatedAt, a.CreatedAt) })
			for _, e := range found[:min(n, len(found))] {
				g.Receive(g.now, fmt.Appendf(nil, `["EVENT","%s",%s]`, m.SubID, e.JSON))
			}
			g.Receive(g.now, fmt.Appendf(nil, `["EOSE","%s"]`, m.SubID))
		}
		g.verdict = func(*host.Event) host.Verdict { return host.Verdict{Code: host.Stored} }
		g.do(&Fetch{ID: "f", Filter: kinds(1, 2, 3, 4, 5), Method: abi.MethodREQ})
		got := strings.Join(g.reports(), " ")
		switch {
		case strings.Contains(got, "complete=false"):
			truncated++
		case !strings.Contains(got, "complete=true"):
			t.Fatalf("round %d: it reports %q", round, got)
		case len(g.stored) != len(list):
			t.Errorf("round %d: %d of %d events are here (most %d, clamp %d, page %d): %s", round, len(g.stored), len(list), limit, clamp, g.limits.Page, got)
		default:
			complete++
		}
	}
	if complete < 200 {
		t.Errorf("only %d of 300 were complete, %d were not", complete, truncated)
	}
}

// A relay that ends a fetch of ids by CLOSED, after EOSE (ngit-grasp), has not refused it:
// what is still being decided counts.
func TestClosedAfterEvents(t *testing.T) {
	g := newRig(t, func(cfg *Config) { cfg.Capabilities.Negentropy = abi.SupportYes })
	g.serve(notes(20), limitOf(500))
	answer := g.remote
	g.remote = func(m *wire.Message, text string) {
		answer(m, text)
		if m.Verb == wire.Req && len(m.Filters[0].IDs) > 0 {
			g.Receive(g.now, fmt.Appendf(nil, `["CLOSED","%s",""]`, m.SubID))
		}
	}
	g.hold = true
	g.do(&Fetch{ID: "auto", Filter: kinds(1), Method: abi.MethodAuto})
	g.want("reports before the events are decided", g.reports())
	g.hold = false
	g.answer()
	g.turn()
	g.want("reports", g.reports(), "done auto method=1 complete=true class=0 have=0 need=20 new=20")
}

// A fetch counts the events that only a relay that ignores the letters of tags sends. It
// does not count an event that an honest relay may send for the filter, whatever its
// author.
func TestOtherLetter(t *testing.T) {
	const value = "30617:ab:lib"
	list := []*host.Event{
		alice.Event(1621, epoch, "a", host.Tag{"a", value}),
		alice.Event(1111, epoch-1, "A", host.Tag{"A", value}),
		alice.Event(1111, epoch-2, "both", host.Tag{"a", value}, host.Tag{"q", value}),
		alice.Event(1111, epoch-3, "case", host.Tag{"a", value}, host.Tag{"Q", value}),
	}
	for _, ignores := range []bool{true, false} {
		g := newRig(t, nil)
		g.serve(list, func(p *relaymodel.Profile) { p.Answer.AnyLetter = ignores })
		g.do(&Fetch{ID: "f", Filter: host.Filter{Tags: []host.TagFilter{{Name: 'q', Values: []string{value}}}, Limit: -1}, Method: abi.MethodREQ})
		var done *Done
		for _, r := range g.told {
			if d, ok := r.(*Done); ok {
				done = d
			}
		}
		need, other := uint32(1), uint32(0)
		if ignores {
			need, other = 4, 2
		}
		if done == nil || done.Input.New != need || other == 0 != (done.Input.OtherLetter == 0) {
			t.Errorf("ignores letters %v: it reports %+v, want %d new events, %d of them by another letter", ignores, done, need, other)
		}
	}
}

// A fetch of a number of the newest events is complete when these are here, although the second of the
// oldest has more.
func TestNewestOfOneSecond(t *testing.T) {
	var list []*host.Event
	for i := range 10 {
		list = append(list, alice.Event(1, epoch-5, fmt.Sprint("same second ", i)))
	}
	g := newRig(t, nil)
	g.serve(list, func(*relaymodel.Profile) {})
	f := kinds(1)
	f.Limit = 8
	g.do(&Fetch{ID: "f", Filter: f, Method: abi.MethodREQ})
	if got := strings.Join(g.reports(), " "); !strings.Contains(got, "complete=true") || len(g.stored) != 8 {
		t.Errorf("%q, %d events are here", got, len(g.stored))
	}
}
