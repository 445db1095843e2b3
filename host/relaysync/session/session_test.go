package session

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"talon/host"
	"talon/host/relaymodel"
	"talon/host/wire"
	"talon/sdk/abi"
	"talon/sdk/grasp"
)

// Equal inputs give equal effects, whatever the order of maps.
func TestRepeats(t *testing.T) {
	run := func() []string {
		g := newRig(t, func(cfg *Config) { cfg.Limits.Chunk = 7 })
		g.serve(notes(300), limitOf(50))
		for i := range 6 {
			g.Session.Execute(g.now, live(fmt.Sprint("live", i), kinds(1, host.Kind(i+2))))
			g.Session.Execute(g.now, &Fetch{ID: fmt.Sprint("past", i), Serial: uint64(i), Filter: kinds(1, host.Kind(i+2)), Method: uint32(i % 3)})
		}
		g.turn()
		g.remote = nil
		for i := range 6 {
			g.Session.Execute(g.now, live(fmt.Sprint("silent", i), kinds(host.Kind(i))))
		}
		g.turn()
		g.pass(400_000)
		if len(g.stored) != 300 {
			t.Fatalf("%d events are here", len(g.stored))
		}
		return g.log
	}
	first := run()
	for range 5 {
		if got := run(); !slices.Equal(got, first) {
			for i := range got {
				if got[i] != first[i] {
					t.Fatalf("effect %d: %s\nwant %s", i, got[i], first[i])
				}
			}
			t.Fatalf("%d effects, want %d", len(got), len(first))
		}
	}
}

// A session that has nothing to do wants a turn for a ping only.
func TestIdle(t *testing.T) {
	g := newRig(t, nil)
	g.serve(nil, limitOf(50))
	g.do(live("l", kinds(1)))
	g.want("reports", g.reports(), "eose l events=0 new=0")
	turns := 0
	for end := g.now + 3600_000; g.now < end; turns++ {
		g.now = g.next
		g.turn()
	}
	if turns > 250 {
		t.Errorf("%d turns in an idle hour", turns)
	}
	if len(g.ends) > 0 {
		t.Error("it ended")
	}
}

// A relay that rests for long is not asked sooner because it says so again.
func TestCoolDownIsNotCutShort(t *testing.T) {
	g := newRig(t, nil)
	g.do(CoolDown{g.now + 60_000})
	g.say(`["NOTICE","rate-limited: slow down"]`)
	g.do(live("l", kinds(1)))
	g.pass(59_000)
	g.want("messages in the cooldown", g.take())
	g.pass(2000)
	g.want("messages after it", g.take(), `"REQ" "s1"`)
}

// New events that come while the stored ones are decided count as live, and as no part of the gap.
func TestLiveBehindStored(t *testing.T) {
	g := newRig(t, nil)
	g.hold = true
	list := notes(3)
	g.do(&Subscribe{ID: "a", Filters: []host.Filter{kinds(1)}, Purpose: abi.PurposeReconnect})
	g.event("s1", list[1])
	g.event("s1", list[2])
	g.say(`["EOSE","s1"]`)
	g.event("s1", list[0])
	var sources []string
	for _, a := range g.held {
		sources = append(sources, SourceOf(a.Purpose))
	}
	g.want("sources", sources, "reconnect", "reconnect", "live")
	slices.Reverse(g.held)
	g.answer()
	g.turn()
	gap := -1
	for _, r := range g.told {
		if r, ok := r.(*Eose); ok {
			gap = r.Gap.Events
		}
	}
	if gap != 2 {
		t.Errorf("a gap of %d events is reported, want 2", gap)
	}
}

// While a relay rests, nothing that is open is closed before what takes its place is open: an event
// of that time comes.
func TestReplacedDuringRest(t *testing.T) {
	g := newRig(t, nil)
	g.do(live("a", kinds(1)))
	g.do(live("b", kinds(2)))
	g.say(`["EOSE","s1"]`)
	g.say(`["EOSE","s2"]`)
	g.take()
	g.do(CoolDown{g.now + 60_000})
	g.do(live("new", kinds(1)))
	g.do(Unsubscribe{ID: "a"})
	g.do(live("b", kinds(2, 3))) // in its own place
	list := notes(2)
	g.event("s1", list[0])
	if g.want("messages in the rest", g.take()); len(g.stored) != 1 {
		t.Error("what came in the rest is not here")
	}
	g.pass(61_000)
	g.want("messages after it", g.take(), `"REQ" "s3"`, `"REQ" "s4"`)
	g.say(`["EOSE","s3"]`)
	g.say(`["EOSE","s4"]`)
	g.pass(handoverTime)
	g.want("messages when they are open", g.take(), `"CLOSE" "s1"`, `"CLOSE" "s2"`)
	g.reports()
	g.do(Unsubscribe{ID: "b"})
	g.want("with nothing to wait for", g.take(), `"CLOSE" "s4"`)
}

// A subscription that takes the place of another one may be replaced itself before it is open. The first one stays
// open until the last one is.
func TestReplacedAgainDuringRest(t *testing.T) {
	g := newRig(t, nil)
	g.do(live("a", kinds(1)))
	g.say(`["EOSE","s1"]`)
	g.do(CoolDown{g.now + 60_000})
	g.do(live("b", kinds(1)))
	g.do(Unsubscribe{ID: "a"})
	for i := range 300 {
		g.do(live(fmt.Sprint("c", i), kinds(1)))
		g.do(Unsubscribe{ID: "b"})
		g.do(Unsubscribe{ID: fmt.Sprint("c", i-1)})
	}
	g.take()
	g.pass(61_000)
	g.want("messages after the rest", g.take(), `"REQ" "s2"`)
	g.say(`["EOSE","s2"]`)
	g.pass(handoverTime)
	g.want("messages when it is open", g.take(), `"CLOSE" "s1"`)
}

// A relay has lost a subscription and says so. The one before it has ended since.
// If it is replaced before it is open, the events of that time are asked for.
func TestReplacedWhenLost(t *testing.T) {
	g := newRig(t, nil)
	g.do(live("a", kinds(1)))
	g.say(`["EOSE","s1"]`)
	lost := g.now
	g.do(live("b", kinds(1)))
	g.do(Unsubscribe{ID: "a"})
	g.say(`["NOTICE","rate limited"]`)
	g.do(CoolDown{g.now + 60_000})
	g.pass(59_000)
	g.do(live("c", kinds(1)))
	g.do(Unsubscribe{ID: "b"})
	g.take()
	g.pass(1000)
	g.want("messages after the rest", g.take(), `"REQ" "s3"`, `"CLOSE" "s1"`)
	g.reports()
	g.say(`["EOSE","s3"]`)
	g.pass(5000)
	g.want("reports", g.reports(), "eose c events=0 new=0", "delayed 1")
	g.want("messages when it is open", g.take(), `"CLOSE" "s2"`, `"REQ" "s4"`)
	if want, got := fmt.Sprintf(`"since":%d`, lost/1000-missedMargin), g.all[len(g.all)-1]; !strings.Contains(got, want) {
		t.Errorf("it asks with %s, want %s", got, want)
	}
	g.event("s4", notes(1)[0])
	g.say(`["EOSE","s4"]`)
	if g.want("reports at the end", g.reports(), "delayed 0"); len(g.stored) != 1 {
		t.Error("what was missed is not here")
	}
}

// A relay that takes few messages gets those that open subscriptions before those that close others.
func TestReplacedSlowly(t *testing.T) {
	g := newRig(t, func(cfg *Config) { cfg.Pace = 60 })
	var reqs, closes []string
	g.remote = func(m *wire.Message, _ string) {
		if m.Verb == wire.Req {
			g.Receive(g.now, fmt.Appendf(nil, `["EOSE","%s"]`, m.SubID))
		}
	}
	for i := range 5 {
		g.do(live(fmt.Sprint("a", i), kinds(host.Kind(i))))
	}
	g.pass(10_000)
	g.take()
	for i := range 5 {
		g.do(live(fmt.Sprint("b", i), kinds(host.Kind(i))))
		reqs = append(reqs, fmt.Sprintf(`"REQ" "s%d"`, i+6))
	}
	for i := range 5 {
		g.do(Unsubscribe{ID: fmt.Sprint("a", i)})
		closes = append(closes, fmt.Sprintf(`"CLOSE" "s%d"`, i+1))
	}
	g.pass(3500)
	g.want("messages at first", g.take(), reqs...)
	g.pass(5000)
	g.want("messages then", g.take(), closes...)
}

// Where the relay has no room for both, the old one is closed for the new one.
func TestReplacedWithoutRoom(t *testing.T) {
	g := newRig(t, func(cfg *Config) { cfg.Capabilities = abi.Capabilities{MaxSubscriptions: 3} })
	g.do(live("a", kinds(1)))
	g.say(`["EOSE","s1"]`)
	g.take()
	g.do(CoolDown{g.now + 1000})
	g.do(live("b", kinds(2)))
	g.do(Unsubscribe{ID: "a"})
	g.pass(1001)
	g.want("messages", g.take(), `"CLOSE" "s1"`, `"REQ" "s2"`)
	g.say(`["EOSE","s2"]`)
	g.want("what came between the two is asked for", g.take(), `"REQ" "s3"`)
	g.say(`["EOSE","s3"]`)
	g.take()
	g.do(CoolDown{g.now + 1000})
	g.do(Unsubscribe{ID: "b"}) // before the one for which it makes room
	g.do(live("c", kinds(3)))
	g.want("messages in the rest", g.take())
	g.pass(1001)
	g.want("messages after it", g.take(), `"CLOSE" "s2"`, `"REQ" "s4"`)
}

// Two forged copies of an event come together: the second is not taken for a copy of what
// is here.
func TestForgedTwiceDoesNotPoison(t *testing.T) {
	real := notes(1)[0]
	g := newRig(t, nil)
	g.do(&Subscribe{ID: "a", Filters: []host.Filter{kinds(1)}})
	copied := strings.Replace(string(real.JSON), `"note 0"`, `"forged"`, 1)
	for range 2 {
		g.Receive(g.now, fmt.Appendf(nil, `["EVENT","s1",%s]`, copied))
	}
	g.turn()
	if g.cfg.Known.Has(real.ID, epoch) {
		t.Error("the real event would be kept out")
	}
	if n := g.Stats().Dropped[DropForged]; n != 2 {
		t.Errorf("%d forged", n)
	}
}

// A relay that is silent is pinged, and then left.
func TestSilence(t *testing.T) {
	g := newRig(t, nil)
	g.mute = true
	g.pass(limits.PingAfter + 10)
	if !strings.Contains(strings.Join(g.log, " "), "session.Ping") {
		t.Error("it was not pinged")
	}
	g.pass(limits.PongTime + 10)
	if !slices.Equal(g.ends, []EndReason{EndSilent}) {
		t.Errorf("it ends for %v", g.ends)
	}
}

// FuzzMessages gives a session any messages: nothing panics, and nothing comes in that is
// not signed.
func FuzzMessages(f *testing.F) {
	f.Add([]byte(`["EVENT","s1",{"id":"","pubkey":"","created_at":1,"kind":1,"tags":[],"content":"","sig":""}]`))
	f.Add([]byte("[\"EOSE\",\"s1\"]\n[\"CLOSED\",\"s2\",\"auth-required: x\"]\n[\"AUTH\",\"x\"]"))
	f.Add([]byte("[\"NEG-MSG\",\"n3\",\"61\"]\n[\"NEG-ERR\",\"n3\",\"blocked: x\"]\n[\"NOTICE\",\"unknown cmd\"]"))
	f.Add([]byte("[\"EOSE\",\"s1\"]\n[\"NOTICE\",\"ERROR: too many concurrent REQs\"]\n[\"NOTICE\",\"message too large (9 > 5)\"]"))
	f.Add([]byte("[\"CLOSED\",\"s1\",\"rate-limited: too many REQs\"]\n[\"NOTICE\",\"rate limited\"]\n[\"NOTICE\",\"Subscription rejected: x\"]"))
	f.Add([]byte(`["OK","` + strings.Repeat("ab", 32) + `",false,"rate-limited: x"]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		g := newRig(t, func(cfg *Config) { cfg.Verify = func(*host.Event) error { return host.ErrID } })
		g.verdict = func(*host.Event) host.Verdict { return host.Verdict{Code: host.Rejected} }
		g.do(&Subscribe{ID: "a", Filters: []host.Filter{kinds(1)}})
		g.do(live("b", kinds(1)))
		g.do(&Fetch{ID: "c", Serial: 3, Filter: kinds(1), Push: true})
		g.do(&Fetch{ID: "d", Serial: 4, Filter: kinds(1, 2), Method: abi.MethodREQ})
		for i, text := range bytes.Split(data, []byte("\n")) {
			g.say("%s", text)
			if i%5 == 4 {
				g.pass(20_000)
			}
		}
		g.pass(3600_000)
		if len(g.stored) != 0 {
			t.Errorf("%d events came in", len(g.stored))
		}
	})
}

// TestEventsAfterClose checks that events that were on their way when we closed a request are taken,
// and do not count as a violation. Two swaps of the strategy during a first sync cause thousands.
func TestEventsAfterClose(t *testing.T) {
	list := notes(3000)
	g := newRig(t, nil)
	g.do(&Subscribe{ID: "first", Filters: []host.Filter{kinds(1)}})
	g.do(Unsubscribe{ID: "first"})
	g.want("messages", g.take(), `"REQ" "s1"`, `"CLOSE" "s1"`)
	for _, e := range list {
		g.event("s1", e)
	}
	g.say(`["EOSE","s1"]`)
	if len(g.ends) > 0 || g.violations > 0 {
		t.Fatalf("violations of %v, ends %v", g.violations, g.ends)
	}
	if len(g.stored) != len(list) {
		t.Errorf("%d events are here", len(g.stored))
	}
	g.want("reports", g.reports())
	// It has an end: so much later nothing is on its way.
	g.pass(limits.AnswerTime + 10)
	for range 3000 {
		g.event("s1", list[0])
	}
	if !slices.Equal(g.ends, []EndReason{EndViolations}) {
		t.Errorf("it ends for %v", g.ends)
	}
}

// A relay may have hundreds of answers to go when we change our minds, and take its time
// for them: none is a violation.
func TestManyAnswersAfterClose(t *testing.T) {
	const requests, answer = 200, 40
	list := notes(answer)
	g := newRig(t, nil)
	for i := range requests {
		g.do(&Subscribe{ID: fmt.Sprint(i), Filters: []host.Filter{kinds(1)}})
		g.do(Unsubscribe{ID: fmt.Sprint(i)})
	}
	for i := range requests {
		if i == requests/2 {
			g.pass(limits.AnswerTime + 10)
		}
		for _, e := range list {
			g.event(fmt.Sprintf("s%d", i+1), e)
		}
		g.say(`["EOSE","s%d"]`, i+1)
	}
	if len(g.ends) > 0 || g.violations > 0 {
		t.Errorf("violations of %v, ends %v", g.violations, g.ends)
	}
	if n := g.draining.whole; n > maxDraining {
		t.Errorf("the events of %d closed requests are taken", n)
	}
	g.pass(limits.PageTime)
	if d := &g.draining; len(d.byID)+len(d.order)+d.whole > 0 {
		t.Errorf("in the end %d are kept, %d in order, %d whole", len(d.byID), len(d.order), d.whole)
	}
}

// A relay that refuses each message of ours by a NOTICE breaks no rule; one that has more
// to say does.
func TestNoticeForEachMessage(t *testing.T) {
	g := newRig(t, nil)
	for i := range 200 {
		g.do(live(fmt.Sprint(i), kinds(1)))
		g.do(Unsubscribe{ID: fmt.Sprint(i)})
	}
	for range g.take() {
		g.say(`["NOTICE","rate limited"]`)
	}
	if len(g.ends) > 0 || g.violations > 0 {
		t.Errorf("violations of %v, ends %v", g.violations, g.ends)
	}
	for range 300 {
		g.say(`["NOTICE","buy this"]`)
	}
	if !slices.Equal(g.ends, []EndReason{EndViolations}) {
		t.Errorf("it ends for %v", g.ends)
	}
}

// A forged event that nobody asked for is a violation also for a request that was closed.
func TestOthersAfterClose(t *testing.T) {
	other := alice.Event(7, epoch, "")
	other.JSON = []byte(strings.Replace(string(other.JSON), `"kind":7`, `"kind":8`, 1))
	g := newRig(t, nil)
	g.do(&Subscribe{ID: "first", Filters: []host.Filter{kinds(1)}})
	g.do(Unsubscribe{ID: "first"})
	for range 150 {
		g.event("s1", other)
	}
	if !slices.Equal(g.ends, []EndReason{EndViolations}) {
		t.Errorf("it ends for %v", g.ends)
	}
}

// khatru with badger finds tags by their values alone, whatever their letter, and values
// that begin as the one asked for. Its events count as parts of the answer, so that paging
// goes on. The wanted ones are taken, and nothing is a violation.
func TestAnswerTooBroad(t *testing.T) {
	const wanted = "30617:" + "00" + ":one"
	var list []*host.Event // newest first
	for i := range 900 {
		tag := [...][]string{{"a", wanted}, {"A", wanted}, {"a", wanted + "more"}}[i%3]
		list = append(list, alice.Event(1111, epoch-int64(i), "", tag))
	}
	g := newRig(t, nil)
	g.remote = func(m *wire.Message, _ string) {
		if m.Verb != wire.Req {
			return
		}
		f, n := m.Filters[0], 0
		for _, e := range list {
			if (f.Until == nil || e.CreatedAt <= *f.Until) && n < 250 {
				n++
				g.Receive(g.now, fmt.Appendf(nil, `["EVENT","%s",%s]`, m.SubID, e.JSON))
			}
		}
		g.Receive(g.now, fmt.Appendf(nil, `["EOSE","%s"]`, m.SubID))
	}
	filter := host.Filter{Tags: []host.TagFilter{{Name: 'A', Values: []string{wanted}}}, Limit: -1}
	g.do(&Fetch{ID: "h", Filter: filter, Method: abi.MethodREQ})
	g.pass(1000)
	if len(g.ends) > 0 || g.violations > 0 {
		t.Errorf("violations of %v, ends %v", g.violations, g.ends)
	}
	if len(g.stored) != 600 {
		t.Errorf("%d events are here, want the 600 that name the repository by any letter", len(g.stored))
	}
	// The same events are no answer to a subscription that has answered all that is stored.
	g.remote = nil
	g.do(live("l", filter))
	g.say(`["EOSE","s%d"]`, g.serial)
	for range 3 {
		for i := 2; i < 900; i += 3 {
			g.event(fmt.Sprintf("s%d", g.serial), list[i])
		}
	}
	if g.violations < 80 || g.violations > 91 {
		t.Errorf("900 new events that nobody asked for weigh %v, want 90", g.violations)
	}
}

// New events that another relay delivered first are reported, not those that this relay
// sends twice, and nothing that was stored.
func TestEventsInVain(t *testing.T) {
	list := notes(6)
	g := newRig(t, nil)
	for _, e := range list[:4] {
		g.stored[e.ID] = e
	}
	g.do(&Subscribe{ID: "one", Filters: []host.Filter{kinds(1)}})
	g.do(live("two", kinds(1)))
	g.event("s1", list[0]) // stored
	g.say(`["EOSE","s1"]`)
	g.say(`["EOSE","s2"]`)
	for _, e := range list[1:] {
		g.event("s1", e)
		g.event("s2", e)
	}
	repeats := func() (n []uint32) {
		for _, r := range g.told {
			if r, ok := r.(*Repeats); ok {
				n = append(n, r.Input.Events)
			}
		}
		return n
	}
	g.pass(1100)
	if got := repeats(); !slices.Equal(got, []uint32{3}) {
		t.Errorf("repeats of %v, want 3", got)
	}
	more := alice.Event(1, epoch+1, "")
	g.stored[more.ID] = more
	g.event("s1", more)
	g.pass(repeatsEvery - 1500)
	if got := repeats(); len(got) != 1 {
		t.Errorf("a second report after so short a time: %v", got)
	}
	g.pass(1500)
	if got := repeats(); !slices.Equal(got, []uint32{3, 1}) {
		t.Errorf("repeats of %v, want 3 and 1", got)
	}
	// Announcements and states are everywhere.
	g.do(live("three", kinds(grasp.KindAnnouncement, grasp.KindState)))
	g.say(`["EOSE","s3"]`)
	for _, kind := range []host.Kind{grasp.KindAnnouncement, grasp.KindState} {
		e := alice.Event(kind, epoch+1, "", host.Tag{"d", "x"})
		g.stored[e.ID] = e
		g.event("s3", e)
	}
	g.pass(2 * repeatsEvery)
	if got := repeats(); len(got) != 2 {
		t.Errorf("announcements and states count as repeats: %v", got)
	}
}

// docs/strategies.md has the table of weights.
func TestWeightsInDocs(t *testing.T) {
	page, err := os.ReadFile("../../../docs/strategies.md")
	if err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	for _, b := range breaches {
		fmt.Fprintf(&table, "| %s | %v | %s |\n", b.what, b.weight, b.why)
	}
	if !strings.Contains(string(page), table.String()) {
		t.Errorf("docs/strategies.md has not these rows:\n%s", &table)
	}
}

// A live REQ is open when the relay has answered it, not when time has passed.
func TestLiveNeedsAnswer(t *testing.T) {
	// A relay that answers others and not this one: it is asked in another form, and then
	// the strategy gets a report.
	g := newRig(t, nil)
	g.do(live("lost", kinds(1)))
	g.do(live("open", kinds(2)))
	g.say(`["EOSE","s2"]`)
	g.want("reports", g.reports(), "eose open events=0 new=0")
	g.pass(limits.AnswerTime/4 + 10)
	g.want("messages", g.take(), `"REQ" "s1"`, `"REQ" "s2"`, `"CLOSE" "s1"`, `"REQ" "s3"`)
	if !strings.Contains(g.all[3], `"limit":0`) {
		t.Errorf("it asks with %s", g.all[3]) // the relay does answer these
	}
	g.pass(limits.AnswerTime + 10)
	g.want("reports", g.reports(), fmt.Sprintf("closed lost class=%d", abi.ClassError))

	// A relay that answers only those that ask for something stored (nostr-rs-relay).
	g = newRig(t, nil)
	g.remote = func(m *wire.Message, _ string) {
		if m.Verb == wire.Req && m.Filters[0].Limit != 0 {
			g.Receive(g.now, fmt.Appendf(nil, `["EOSE","%s"]`, m.SubID))
		}
	}
	g.do(live("first", kinds(1)))
	g.pass(limits.AnswerTime + 10)
	g.do(live("second", kinds(1)))
	g.want("reports", g.reports(), "eose first events=0 new=0", "eose second events=0 new=0")

	// A relay that sends no EOSE at all.
	g = newRig(t, nil)
	g.do(live("l", kinds(1)))
	g.pass(2*limits.AnswerTime + 10)
	g.want("reports", g.reports(), "eose l events=0 new=0")

	// An event shows that it is open.
	g = newRig(t, nil)
	g.do(live("l", kinds(1)))
	g.event("s1", notes(1)[0])
	g.want("reports", g.reports(), "eose l events=1 new=0")
	g.say(`["EOSE","s1"]`)
	if g.violations > 0 || len(g.stored) != 1 {
		t.Errorf("violations of %v, %d events", g.violations, len(g.stored))
	}
}

// A relay that refuses by NOTICE only: what it refuses waits for room, and is open when
// it has been answered.
func TestRefusedByNotice(t *testing.T) {
	for name, text := range map[string]string{
		"strfry":         "ERROR: too many concurrent REQs",
		"nostr-rs-relay": "Subscription error: Maximum concurrent subscription count reached",
		"nostream":       "Subscription rejected: Too many subscriptions: Number of subscriptions must be less than or equal to 3",
	} {
		t.Run(name, func(t *testing.T) {
			g := newRig(t, nil)
			open := map[string]bool{}
			g.remote = func(m *wire.Message, _ string) {
				switch m.Verb {
				case wire.Req:
					if len(open) == 3 && !open[m.SubID] {
						g.Receive(g.now, fmt.Appendf(nil, `["NOTICE",%q]`, text))
						return
					}
					open[m.SubID] = true
					g.Receive(g.now, fmt.Appendf(nil, `["EOSE","%s"]`, m.SubID))
				case wire.Close:
					delete(open, m.SubID)
				}
			}
			for i := range 5 {
				g.do(live(fmt.Sprint("l", i), kinds(1)))
			}
			g.pass(1000)
			want := []string{"eose l0 events=0 new=0", "eose l1 events=0 new=0", "eose l2 events=0 new=0", "learnt neg=0 subs=3 message=0", "notice"}
			g.want("reports", g.reports(), want...)
			// The strategy knew no limit: it gets it with another connection.
			g.pass(restartTime)
			if !slices.Equal(g.ends, []EndReason{EndRestart}) {
				t.Errorf("it ends for %v", g.ends)
			}
			if caps := g.Capabilities(); caps.MaxSubscriptions != 3 {
				t.Errorf("it learnt %+v", caps)
			}
		})
	}
}

// If a relay has no room for a request, it waits until another request ends. The session
// stays within the number that the relay states, and keeps some of the room for fetches.
func TestRoom(t *testing.T) {
	g := newRig(t, func(cfg *Config) { cfg.Capabilities = abi.Capabilities{MaxSubscriptions: 4, Negentropy: abi.SupportNo} })
	list := notes(1000)
	open, limit := map[string]bool{}, 0
	g.serve(list, limitOf(100))
	answer := g.remote
	g.remote = func(m *wire.Message, text string) {
		switch m.Verb {
		case wire.Req:
			open[m.SubID] = true
			limit = max(limit, len(open))
		case wire.Close:
			delete(open, m.SubID)
		}
		answer(m, text)
	}
	for i := range 4 {
		g.do(live(fmt.Sprint("l", i), kinds(7)))
		g.do(&Fetch{ID: fmt.Sprint("f", i), Filter: kinds(1, host.Kind(i+2))})
	}
	if limit > 4 {
		t.Errorf("%d requests were open at once", limit)
	}
	if len(g.stored) != 1000 {
		t.Errorf("%d events are here", len(g.stored))
	}
	got := strings.Join(g.reports(), "\n")
	if strings.Count(got, "complete=true") != 4 || strings.Count(got, "eose") != 2 {
		t.Errorf("reports:\n%s", got)
	}
	// Those that have no room for long are reported, so that they are asked for
	// otherwise.
	g.pass(limits.AnswerTime)
	got = strings.Join(g.reports(), " ")
	if got != fmt.Sprintf("closed l2 class=%d closed l3 class=%d", abi.ClassLimit, abi.ClassLimit) {
		t.Errorf("reports: %s", got)
	}
}

// TestJointSlot: a REQ with several filters that brings stored events takes the room of a fetch until
// these are here. One that stays open then, in that room, is ended: fetches would wait for ever.
func TestJointSlot(t *testing.T) {
	g := newRig(t, func(cfg *Config) {
		cfg.Capabilities = abi.Capabilities{MaxSubscriptions: 10, Negentropy: abi.SupportNo}
	})
	g.serve(notes(10), limitOf(100))
	for i := range 8 {
		g.do(live(fmt.Sprint("l", i), kinds(7)))
	}
	g.reports()
	joint := func(id string) *Subscribe {
		return &Subscribe{ID: id, Filters: []host.Filter{kinds(1), kinds(2)}, Purpose: abi.PurposeStartup}
	}
	g.do(joint("once-1"))
	g.want("in the room of a fetch", g.reports(), "eose once-1 events=10 new=10")
	g.do(Unsubscribe{"once-1"})
	g.do(joint("once-2"))
	g.want("again", g.reports(), "eose once-2 events=10 new=0")
	g.pass(overTime)
	g.want("it stays open", g.reports(), fmt.Sprintf("closed once-2 class=%d", abi.ClassLimit))
	g.do(&Fetch{ID: "f", Filter: kinds(3)})
	g.want("a fetch", g.reports(), "done f method=2 complete=true class=0 have=0 need=0 new=0")
}

// A relay may lower its limit again and again. A session begins again later, the more often others did.
func TestRestarts(t *testing.T) {
	for restarts, want := range map[int]int64{0: 2000, 1: 4000, 5: 64_000, 11: 4_096_000, 1000: 4_096_000} {
		g := newRig(t, func(cfg *Config) { cfg.Restarts = restarts })
		g.do(live("a", kinds(1)))
		g.say(`["EOSE","s1"]`)
		g.do(live("b", kinds(2)))
		g.say(`["CLOSED","s2","error: too many subscriptions"]`)
		g.pass(want - 1)
		if len(g.ends) > 0 {
			t.Errorf("after %d restarts a session ends in less than %d ms", restarts, want)
		}
		if g.pass(2); !slices.Equal(g.ends, []EndReason{EndRestart}) {
			t.Errorf("after %d restarts a session ends for %v after %d ms", restarts, g.ends, want)
		}
	}
}

// Lasting subscriptions may turn out to take all the room of a relay. Then a fetch cannot
// begin, and the strategy must ask for less.
func TestNoRoomToFetch(t *testing.T) {
	g := newRig(t, func(cfg *Config) { cfg.Capabilities = abi.Capabilities{MaxSubscriptions: 9, Negentropy: abi.SupportNo} })
	for i := range 7 {
		g.do(live(fmt.Sprint("l", i), kinds(host.Kind(i))))
		g.say(`["EOSE","s%d"]`, i+1)
	}
	g.do(&Fetch{ID: "f", Filter: kinds(8)})
	g.say(`["CLOSED","s8","error: too many subscriptions"]`)
	g.pass(restartTime + 1)
	if !slices.Equal(g.ends, []EndReason{EndRestart}) {
		t.Errorf("the session ends: %v, want that it begins again; reports %q", g.ends, g.reports())
	}
}

// A relay that takes its time gets no more than it can take: many long requests wait, and none is
// lost.
func TestClogged(t *testing.T) {
	g := newRig(t, nil)
	long := host.Filter{Tags: []host.TagFilter{{Name: 'e'}}, Limit: -1}
	for i := range 1500 {
		long.Tags[0].Values = append(long.Tags[0].Values, fmt.Sprintf("%064x", i))
	}
	for i := range 60 {
		g.Session.Execute(g.now, live(fmt.Sprint(i), long))
	}
	sent := func() (n, bytes int) {
		for _, text := range g.all {
			n, bytes = n+1, bytes+len(text)
		}
		return n, bytes
	}
	g.turn()
	_, first := sent()
	if first > maxUnsent+200_000 {
		t.Errorf("%d bytes are sent at once", first)
	}
	g.Unsent(first) // it has taken nothing
	g.pass(10_000)
	if _, bytes := sent(); bytes != first {
		t.Errorf("%d bytes are sent to a relay that takes nothing", bytes)
	}
	g.Unsent(0)
	g.pass(2000)
	if n, _ := sent(); n < 60 {
		t.Errorf("%d of 60 requests are sent", n)
	}
}

// A relay that says how many values it takes in all gets no more, and what fits is not kept
// waiting. The session reports a request that never fits, and does not rest.
func TestRoomForValues(t *testing.T) {
	g := newRig(t, func(cfg *Config) { cfg.Capabilities = abi.Capabilities{MaxValues: 40, Negentropy: abi.SupportNo} })
	open, most := map[string]int{}, 0
	g.serve(notes(10), limitOf(100))
	answer := g.remote
	g.remote = func(m *wire.Message, text string) {
		switch m.Verb {
		case wire.Req:
			open[m.SubID] = host.FilterValues(m.Filters...)
		case wire.Close:
			delete(open, m.SubID)
		}
		sum := 0
		for _, n := range open {
			sum += n
		}
		most = max(most, sum)
		answer(m, text)
	}
	authors := func(n int) host.Filter { return host.Filter{Authors: make([]host.PubKey, n), Limit: -1} }
	g.do(live("announcements", kinds(30617, 30618)))
	g.do(live("a", authors(29)))
	g.do(live("b", authors(3))) // an eighth of the room is for fetches
	g.do(&Fetch{ID: "f", Filter: kinds(1)})
	g.do(&Fetch{ID: "g", Filter: kinds(1, 2)})
	got := strings.Join(g.reports(), "\n")
	if most > 40 || strings.Count(got, "complete=true") != 2 || strings.Count(got, "eose") != 2 {
		t.Errorf("%d values were open at once; reports:\n%s", most, got)
	}
	g.do(Unsubscribe{ID: "a"})
	g.want("what waited", g.reports(), "eose b events=0 new=0", "delayed 1")
}

// A relay that refuses values, by the words of an older Talon too, is no busy relay: the session
// learns how many it takes, and begins again with that. It never rests.
func TestTooManyValues(t *testing.T) {
	for text, learnt := range map[string]int{
		"rate-limited: the subscriptions of this connection hold too many values, close one first": 6,
		"error: the subscriptions of this connection may have 8 values in all, close one first":    8,
	} {
		g := newRig(t, nil)
		g.do(live("a", kinds(1, 2, 3, 4, 5)))
		g.say(`["EOSE","s1"]`)
		g.do(live("b", kinds(1, 2, 3, 4, 5)))
		g.say(`["CLOSED","s2",%q]`, text)
		g.do(live("c", kinds(7)))
		g.pass(restartTime + 1)
		if n := int(g.Capabilities().MaxValues); n != learnt {
			t.Errorf("%s: %d values learnt, want %d", text, n, learnt)
		}
		got := strings.Join(g.reports(), " ")
		if strings.Contains(got, "limited") || g.pace.cooldownUntil > g.now || !slices.Equal(g.ends, []EndReason{EndRestart}) {
			t.Errorf("%s: reports %s, ends %v", text, got, g.ends)
		}
	}
}

// A relay that other clients have filled shows no limit of ours. The strategy tries again later.
func TestFilledByOthers(t *testing.T) {
	g := newRig(t, nil)
	g.do(live("a", kinds(1)))
	g.say(`["EOSE","s1"]`)
	g.do(live("b", kinds(2)))
	g.say(`["CLOSED","s2","rate-limited: the relay has too many subscriptions, try again later"]`)
	g.want("reports", g.reports(), "eose a events=0 new=0", fmt.Sprintf("closed b class=%d", abi.ClassLimit))
	if caps := g.Capabilities(); caps.MaxSubscriptions != 0 || g.pace.cooldownUntil > g.now {
		t.Errorf("%+v, rest until %d", caps, g.pace.cooldownUntil)
	}
}

// A relay that refuses a limit is asked with a lower one, after a new connection that tells the
// strategy about it.
func TestLimitTooHigh(t *testing.T) {
	for text, want := range map[string]uint32{
		`["NOTICE","Subscription rejected: Limit too high: Filter limit must be less than or equal to 20"]`: 20,
		`["CLOSED","s1","invalid: limit too high"]`:                                                         2500, // half of what was asked for
		`["NOTICE","Subscription rejected: Filter limit must be less than or equal to 4999"]`:               4999,
		`["CLOSED","s1","invalid: limit too high, at most 9000"]`:                                           2500,
	} {
		g := newRig(t, func(cfg *Config) { cfg.Capabilities.MaxLimit = 5000 })
		g.do(&Subscribe{ID: "a", Filters: []host.Filter{kinds(1)}})
		g.say("%s", text)
		if got := g.Capabilities().MaxLimit; got != want {
			t.Errorf("%s: the session learnt the limit %d, want %d", text, got, want)
		}
		if got := strings.Join(g.reports(), " "); !strings.Contains(got, fmt.Sprintf("closed a class=%d", abi.ClassError)) {
			t.Errorf("%s: reports %s", text, got)
		}
		g.pass(restartTime + 1)
		if !slices.Equal(g.ends, []EndReason{EndRestart}) {
			t.Errorf("%s: ends %v", text, g.ends)
		}
	}
}

// The session learns nothing if it sent no limit.
func TestLimitNotAskedFor(t *testing.T) {
	g := newRig(t, nil)
	g.do(&Subscribe{ID: "a", Filters: []host.Filter{kinds(1)}})
	g.say(`["CLOSED","s1","invalid: limit too high"]`)
	g.pass(restartTime + 1)
	if got := g.Capabilities().MaxLimit; got != 0 || len(g.ends) != 0 {
		t.Errorf("the session learnt the limit %d, ends %v", got, g.ends)
	}
}

// A relay that counts filters is asked with as many as it takes.
func TestTooManyFilters(t *testing.T) {
	g := newRig(t, nil)
	var list []host.Filter
	for i := range 12 {
		list = append(list, kinds(host.Kind(i)))
	}
	g.do(live("a", list...))
	g.say(`["NOTICE","invalid: REQ message must contain at most 12 elements"]`)
	if n := g.Capabilities().MaxFilters; n != 10 {
		t.Errorf("%d filters learnt, want 10", n)
	}
	if got := strings.Join(g.reports(), " "); !strings.Contains(got, fmt.Sprintf("closed a class=%d", abi.ClassTooMuch)) {
		t.Errorf("reports %s", got)
	}
}

// A relay that is full with others' requests shows no limit of its own: it is asked again
// later, and then the strategy gets a report.
func TestFullWithOthers(t *testing.T) {
	g := newRig(t, nil)
	g.remote = func(m *wire.Message, _ string) {
		if m.Verb == wire.Req {
			g.Receive(g.now, fmt.Appendf(nil, `["CLOSED","%s","rate-limited: too many REQs"]`, m.SubID))
		}
	}
	g.do(live("l", kinds(1)))
	g.pass(limits.AnswerTime)
	g.want("reports", g.reports(), fmt.Sprintf("closed l class=%d", abi.ClassLimit))
	if n := len(g.all); n != 1+maxRefusals || g.Capabilities().MaxSubscriptions != 0 {
		t.Errorf("%d messages, %+v", n, g.Capabilities())
	}
}

// strfry answers what is stored of a subscription, and then has no room for the rest of it.
func TestRefusedAfterEose(t *testing.T) {
	g := newRig(t, nil)
	g.do(live("a", kinds(1)))
	g.do(live("b", kinds(2)))
	g.pass(50)
	g.say(`["EOSE","s1"]`)
	g.say(`["NOTICE","ERROR: too many concurrent REQs"]`)
	g.want("reports", g.reports(), "eose a events=0 new=0", "learnt neg=0 subs=1 message=0", fmt.Sprintf("closed a class=%d", abi.ClassLimit), "notice")
	g.say(`["EOSE","s2"]`)
	g.want("reports", g.reports(), "eose b events=0 new=0")
}

// A refusal that does not say why may be for the number of filters, or of values, if the
// relay has never answered as many.
func TestTooWide(t *testing.T) {
	for _, refusal := range []string{`["NOTICE","could not parse command"]`, `["CLOSED","SUB","invalid: filter"]`} {
		g := newRig(t, nil)
		refuse := func(sub string) { g.say("%s", strings.ReplaceAll(refusal, "SUB", sub)) }
		closed := func(what string, class int) {
			t.Helper()
			got := slices.DeleteFunc(g.reports(), func(s string) bool { return s == "notice" })
			g.want(what, got, fmt.Sprintf("closed x class=%d", class))
		}
		g.do(live("x", kinds(1), kinds(2)))
		refuse("s1")
		closed("filters", abi.ClassTooMuch)
		g.do(live("x", kinds(1, 2)))
		refuse("s2")
		closed("values", abi.ClassTooMuch)
		g.do(live("x", kinds(1)))
		refuse("s3")
		closed("the least there is", abi.ClassUnsupported)
		g.do(live("y", kinds(1, 2), kinds(3)))
		g.say(`["EOSE","s4"]`)
		g.reports()
		g.do(live("x", kinds(3), kinds(4, 5)))
		refuse("s5")
		closed("what was answered", abi.ClassUnsupported)
	}
}

// A message that is too large is made smaller until the relay takes it, whatever it says.
func TestMessageTooLarge(t *testing.T) {
	for name, text := range map[string]string{"no number": "ERROR: message too large", "a number": "message too large (17000 > 4096)"} {
		t.Run(name, func(t *testing.T) {
			const maximum = 4096
			list := notes(1000)
			g := newRig(t, nil)
			g.serve(list, limitOf(500))
			answer := g.remote
			g.remote = func(m *wire.Message, sent string) {
				if len(sent) > maximum {
					g.Receive(g.now, fmt.Appendf(nil, `["NOTICE",%q]`, text))
					return
				}
				answer(m, sent)
			}
			g.do(&Fetch{ID: "f", Filter: kinds(1)})
			g.pass(10_000)
			got := g.reports()
			if len(g.stored) != 1000 || len(got) == 0 || !strings.HasPrefix(got[len(got)-1], "done f method=1 complete=true") {
				t.Errorf("%d events are here, reports %q", len(g.stored), got)
			}
			if n := g.Capabilities().MaxMessage; n > maximum+maximum/2 || n < maximum/2 {
				t.Errorf("it learnt %d", n)
			}
			// A subscription that is too large is the strategy's to cut.
			var values []string
			for i := range 100 {
				values = append(values, fmt.Sprintf("%064x", i))
			}
			g.do(live("l", host.Filter{Tags: []host.TagFilter{{Name: 'e', Values: values}}}))
			g.pass(1000)
			got = g.reports()
			if !slices.Contains(got, fmt.Sprintf("closed l class=%d", abi.ClassTooMuch)) {
				t.Errorf("reports %q", got)
			}
		})
	}
}

// A relay whose NOTICE says that messages are lost is asked again for what it has not
// answered.
func TestLostMessage(t *testing.T) {
	g := newRig(t, nil)
	g.do(live("l", kinds(1)))
	g.say(`["NOTICE","rate limited"]`)
	g.pass(lostTime + 10)
	g.want("messages", g.take(), `"REQ" "s1"`, `"CLOSE" "s1"`, `"REQ" "s2"`)
	g.say(`["EOSE","s2"]`)
	g.want("what it may have missed is asked for apart", g.take(), `"REQ" "s3"`)
	if want := fmt.Sprintf(`"since":%d`, epoch-missedMargin); !strings.Contains(g.all[3], want) {
		t.Errorf("it asks with %s, want %s", g.all[3], want)
	}
	g.event("s3", notes(1)[0])
	g.say(`["EOSE","s3"]`)
	g.want("reports", g.reports(), "learnt neg=0 subs=0 message=0 pace=150", "limited", "notice", "eose l events=0 new=0")
	if g.want("it is closed", g.take(), `"CLOSE" "s3"`); len(g.stored) != 1 {
		t.Error("what was missed is not here")
	}
}

// A relay may lose a CLOSE. Then the subscription would take its room for as long as the
// connection lasts. The session sends the CLOSE again, as often as it is lost.
func TestLostClose(t *testing.T) {
	g := newRig(t, nil)
	open, lose := map[string]bool{}, false
	g.remote = func(m *wire.Message, _ string) {
		switch {
		case lose:
			g.Receive(g.now, []byte(`["NOTICE","rate limited"]`))
		case m.Verb == wire.Req:
			open[m.SubID] = true
			g.Receive(g.now, fmt.Appendf(nil, `["EOSE","%s"]`, m.SubID))
		case m.Verb == wire.Close:
			delete(open, m.SubID)
		}
	}
	for i := range 6 {
		g.do(live(fmt.Sprint("l", i), kinds(host.Kind(i))))
	}
	g.do(Unsubscribe{"l0"})
	g.pass(lostTime + 10) // the relay has taken it
	lose = true
	g.do(Unsubscribe{"l1"})
	g.do(Unsubscribe{"l2"})
	g.Session.Execute(g.now, CoolDown{g.now + 65_000}) // the loop
	g.pass(70_000)
	lose = false
	messages := len(g.all)
	g.pass(200_000)
	if len(open) != 3 {
		t.Errorf("%d subscriptions are open at the relay, want 3", len(open))
	}
	if n := len(g.all) - messages; n > 4 {
		t.Errorf("%d messages, want 2, and the same once more", n)
	}
	messages = len(g.all)
	g.pass(900_000)
	if n := len(g.all) - messages; n > 0 || len(g.draining.byID)+len(g.draining.order)+len(g.draining.lost) > 0 {
		t.Errorf("%d more messages; %+v", n, g.draining)
	}
}

// A NOTICE for each NEG-OPEN is all that many relays say: the others refuse no REQ.
func TestNoticesOfNegentropy(t *testing.T) {
	g := newRig(t, nil)
	list := notes(50)
	g.serve(list, limitOf(500))
	answer, notices := g.remote, 0
	g.remote = func(m *wire.Message, text string) {
		switch m.Verb {
		case wire.NegOpen, wire.NegClose, wire.NegMsg:
			notices++
		case wire.Req:
			g.Session.Execute(g.now, CoolDown{}) // nothing
			if m.Filters[0].Limit != 0 {
				return // it takes its time
			}
			answer(m, text)
		}
	}
	for i := range 4 {
		g.Session.Execute(g.now, &Fetch{ID: fmt.Sprint("f", i), Filter: kinds(1, host.Kind(i+2))})
	}
	g.turn()
	for range notices {
		g.say(`["NOTICE","ERROR: bad msg: unknown cmd"]`)
	}
	if got := strings.Join(g.reports(), " "); strings.Contains(got, "done") {
		t.Errorf("reports: %s", got)
	}
	if n := len(g.requests); n != 4 {
		t.Errorf("%d pages are open", n)
	}
}

// A relay that says that it has negentropy, and does not know NEG-OPEN, refuses no REQ by
// what it says of that (khatru with an older go-nostr).
func TestNoticeOfPromisedNegentropy(t *testing.T) {
	g := newRig(t, func(cfg *Config) { cfg.Capabilities.Negentropy = abi.SupportYes })
	g.do(live("l", kinds(1)))
	g.do(&Fetch{ID: "f", Filter: kinds(1)})
	g.say(`["NOTICE","failed to parse envelope: unknown envelope label"]`)
	g.want("reports", g.reports(), "learnt neg=2 subs=0 message=0", "notice")
	g.say(`["EOSE","s1"]`)
	g.want("reports", g.reports(), "eose l events=0 new=0")
}

// A relay that advertises NIP-77 and does not have it is asked page by page as soon as it
// says so, in whatever words, and soon if it says nothing.
func TestPromisedNegentropy(t *testing.T) {
	for name, text := range map[string]string{
		"khatru":         "failed to parse envelope: unknown envelope label",
		"nostr-rs-relay": "could not parse command",
		"nostream":       "invalid: Invalid input",
		"strfry, off":    "ERROR: bad msg: negentropy disabled",
		"strfry, old":    "ERROR: bad msg: unknown cmd",
		"silence":        "",
	} {
		// Something is asked before and not answered yet, or asked later, or both.
		for i := range 4 {
			pending, later := i&1 != 0, i&2 != 0
			t.Run(fmt.Sprintf("%s/%v/%v", name, pending, later), func(t *testing.T) {
				g := newRig(t, func(cfg *Config) { cfg.Capabilities.Negentropy = abi.SupportYes })
				g.serve(notes(50), limitOf(500))
				answer := g.remote
				g.remote = func(m *wire.Message, frame string) {
					switch {
					case m.Verb == wire.NegOpen && text != "":
						g.Receive(g.now, fmt.Appendf(nil, `["NOTICE",%q]`, text))
					case m.Verb == wire.Req && m.SubID == "s1" && pending, m.Verb == wire.NegOpen:
					default:
						answer(m, frame)
					}
				}
				if pending {
					g.do(live("slow", kinds(2))) // is not answered yet
				}
				began := g.now
				for i := range 3 {
					g.do(&Fetch{ID: fmt.Sprint("f", i), Filter: kinds(1, host.Kind(10+i))})
				}
				if later {
					g.do(live("other", kinds(3)))
				}
				done := func() bool { return len(g.fetches) == 0 }
				for !done() && g.now < began+limits.PageTime {
					g.pass(100)
				}
				most := int64(100)
				if text == "" {
					most = limits.AnswerTime/4 + 1000
				}
				if took := g.now - began; took > most || len(g.stored) != 50 {
					t.Errorf("%d events are here after %d ms, want 50 after %d", len(g.stored), took, most)
				}
				if g.Capabilities().Negentropy != abi.SupportNo {
					t.Error("it would be compared with again")
				}
			})
		}
	}
}

// A relay that has compared on this connection means something else by such a NOTICE.
func TestProvenNegentropy(t *testing.T) {
	g := newRig(t, nil)
	g.serve(notes(50), limitOf(500))
	g.do(&Fetch{ID: "one", Filter: kinds(1)})
	g.remote = nil
	g.take()
	g.do(&Fetch{ID: "two", Filter: kinds(1)})
	g.say(`["NOTICE","could not parse command"]`)
	for _, text := range g.take() {
		if strings.Contains(text, `"REQ"`) {
			t.Errorf("it asks page by page: %s", text)
		}
	}
}

// A relay that takes our limit for too high gives less than it can: a second that holds
// more than that is asked for in parts all the same (khatru gives a quarter of its own).
func TestDenseSecond(t *testing.T) {
	var list []*host.Event
	for i := range 120 {
		list = append(list, alice.Event(host.Kind(101+i%6), epoch, fmt.Sprint("dense ", i)))
	}
	for i := range 30 {
		list = append(list, alice.Event(101, int64(epoch-1-i), fmt.Sprint("older ", i)))
	}
	g := newRig(t, nil)
	g.serve(list, func(p *relaymodel.Profile) { p.Limits.Limit, p.Limits.OverLimit = 40, "quarter" })
	g.do(&Fetch{ID: "f", Filter: kinds(101, 102, 103, 104, 105, 106), Method: abi.MethodREQ, Page: 20})
	got := g.reports()
	if complete := strings.Contains(strings.Join(got, " "), "complete=true"); complete && len(g.stored) != len(list) {
		t.Errorf("%d of %d events are here, and it says %q", len(g.stored), len(list), got)
	}
}

// A relay that fails sends a NOTICE, and EOSE as if there were nothing: that is not
// complete.
func TestEmptyAfterError(t *testing.T) {
	g := newRig(t, nil)
	g.do(&Fetch{ID: "f", Filter: kinds(1), Method: abi.MethodREQ})
	g.say(`["NOTICE","error: database is locked"]`)
	g.say(`["EOSE","s1"]`)
	g.want("reports", g.reports(), "notice", fmt.Sprintf("done f method=2 complete=false class=%d have=0 need=0 new=0", abi.ClassError))
}

// A relay that says how much it gives in one answer is asked for as much: without a limit
// some give the oldest events.
func TestLimitOfSubscription(t *testing.T) {
	for limit, want := range map[uint32]string{
		0:    `["REQ","s1",{"kinds":[1]},{"kinds":[2],"limit":7}]`,
		5000: `["REQ","s1",{"kinds":[1],"limit":5000},{"kinds":[2],"limit":7}]`,
		// As many are no answer: what it gives without is.
		1 << 30: `["REQ","s1",{"kinds":[1]},{"kinds":[2],"limit":7}]`,
	} {
		g := newRig(t, func(cfg *Config) { cfg.Capabilities.MaxLimit = limit })
		g.do(&Subscribe{ID: "all", Filters: []host.Filter{kinds(1), {Kinds: []host.Kind{2}, Limit: 7}}})
		g.want(fmt.Sprint("messages with max_limit ", limit), g.all, want)
	}
}
