package loop

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	"talon/host"
	"talon/host/relaysync/retry"
	"talon/sdk/abi"
	"talon/sdk/grasp"
)

// wishful is a strategy that wants to connect to every relay it hears of.
type wishful struct {
	quiet
	told map[string][]string // relays by repository, as it heard last
}

func (s *wishful) Call(request []byte, _ int64) (answer []byte, fresh bool, err error) {
	var v abi.StepView
	if err := v.Decode(request); err != nil || v.Kind != abi.InputLocalEvent {
		return nil, false, err
	}
	e := v.LocalEvent()
	for repos := e.Repositories(); repos.Next(); {
		name := string(repos.Bytes())
		s.told[name] = nil
		for it := e.Relays(); it.Next(); {
			u := string(it.Bytes())
			s.told[name] = append(s.told[name], u)
			answer = abi.AppendAction(answer, &abi.StepAction{Do: abi.DoConnect, Relay: u})
		}
	}
	return answer, false, nil
}

// announcements are what is stored and held.
type announcements struct{ stored, held []*host.Event }

func (a *announcements) find(list []*host.Event, f host.Filter) (texts [][]byte, err error) {
	for _, e := range list {
		if f.Matches(e) {
			texts = append(texts, e.AppendJSON(nil))
		}
	}
	return texts, nil
}
func (a *announcements) Query(f host.Filter) ([][]byte, error)  { return a.find(a.stored, f) }
func (a *announcements) HeldBy(f host.Filter) ([][]byte, error) { return a.find(a.held, f) }

// purses gives each author some visits, and has places for a few relays.
type purses struct {
	visits map[host.PubKey]int
	places int
	evicts []func()
}

func (p *purses) Admit(_ host.ID, author host.PubKey, evict func()) (func(), bool) {
	if p.visits[author] == 0 {
		return nil, false
	}
	p.visits[author]--
	if p.places == 0 {
		p.evicts[0]()
		p.evicts = p.evicts[1:]
		p.places++
	}
	p.places--
	p.evicts = append(p.evicts, evict)
	return func() { p.places++ }, true
}

func (p *purses) Wait(_ host.ID, author host.PubKey) int64 {
	if p.visits[author] > 0 {
		return 0
	}
	return 2 * minute
}

func (p *purses) Visit(_ host.ID, author host.PubKey) { p.visits[author]-- }

// strangersTest is a loop with announcements, whose attempts to connect all fail.
type strangersTest struct {
	t        *testing.T
	now      int64
	loop     *Loop
	strategy *wishful
	facts    announcements
	purses   *purses
	dials    map[string]int
	charged  map[string]bool // dialed as a relay of strangers
}

func newStrangersTest(t *testing.T, places int) *strangersTest {
	w := &strangersTest{
		t: t, now: 1_700_000_000_000, strategy: &wishful{told: map[string][]string{}}, purses: &purses{visits: map[host.PubKey]int{}, places: places},
		dials: map[string]int{}, charged: map[string]bool{},
	}
	var err error
	w.loop, err = New(Config{Bootstrap: []string{"wss://bootstrap.example"}, Limits: Limits{
		Connections: 100, Dials: 100, Relays: 1000, Answers: 1000, Actions: 1000, AnswerBytes: 1 << 20, FailTime: 1, SaveEvery: 1 << 40, Retry: retry.DefaultLimits,
	}}, Deps{
		Strategy: w.strategy, Facts: &w.facts, Health: quiet{}, Strangers: w.purses,
		Hosted: func(*grasp.Announcement) (bool, error) { return true, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	w.loop.Start(w.now, nil)
	return w
}

// announcement makes one of an author that names relays.
func announcement(author byte, name string, relays ...string) *host.Event {
	e := &host.Event{PubKey: host.PubKey{author}, Kind: host.KindAnnouncement, CreatedAt: 1_700_000_000}
	binary.BigEndian.PutUint64(e.ID[:], uint64(author))
	copy(e.ID[8:], name)
	e.Tags = host.Tags{{"d", name}, append(host.Tag{"relays"}, relays...)}
	return e
}

func (w *strangersTest) hold(e *host.Event) {
	w.facts.held = append(w.facts.held, e)
	w.loop.Changed(w.now, []Change{{Event: e, Kind: Held}})
}

// release stores a held announcement.
func (w *strangersTest) release(e *host.Event) {
	w.facts.held = slices.DeleteFunc(w.facts.held, func(o *host.Event) bool { return o == e })
	w.facts.stored = append(w.facts.stored, e)
	w.loop.Changed(w.now, []Change{{Event: e, Kind: Stored}})
}

func (w *strangersTest) drop(e *host.Event) {
	w.facts.held = slices.DeleteFunc(w.facts.held, func(o *host.Event) bool { return o == e })
	w.loop.Changed(w.now, []Change{{Event: e, Kind: Dropped}})
}

// pass lets time go by, in which attempts fail at once.
func (w *strangersTest) pass(ms int64) {
	for end := w.now + ms; ; {
		next := w.loop.Turn(w.now)
		for _, e := range w.loop.Effects() {
			if d, ok := e.(Dial); ok {
				w.dials[d.Relay]++
				w.charged[d.Relay] = d.Stranger
				w.loop.Down(w.now, d.Relay, d.Conn, Ended{Class: abi.ClassUnreachable, Result: ConnResult{Outcome: OutcomeUnreachable}})
				next = w.now + 1
			}
		}
		if next > end {
			break
		}
		w.now = next
	}
	w.now += 1
}

func (w *strangersTest) sum(part string) (n int) {
	for u, dials := range w.dials {
		if strings.Contains(u, part) {
			n += dials
		}
	}
	return n
}

func numbered(name string, n int) (urls []string) {
	for i := range n {
		urls = append(urls, fmt.Sprintf("wss://%s-%02d.example", name, i))
	}
	return urls
}

// TestStrangersRelays shows that a held announcement has as many attempts as its author has
// visits, whatever relays it names, and that relays of a stored one have no such limit.
func TestStrangersRelays(t *testing.T) {
	w := newStrangersTest(t, 100)
	w.purses.visits = map[host.PubKey]int{{1}: 5, {2}: 5}
	served := announcement(3, "served", "wss://served.example")
	w.release(served)
	w.hold(announcement(1, "junk", append(numbered("victim", 60), "wss://served.example", "wss://bootstrap.example")...))
	w.pass(1000)
	if n := w.sum("victim"); n != 5 {
		t.Errorf("an announcement with 5 visits led to %d attempts", n)
	}
	if !w.charged["wss://victim-00.example"] || w.charged["wss://served.example"] || w.charged["wss://bootstrap.example"] {
		t.Errorf("relays of strangers are %v, want those of the victim alone", w.charged)
	}
	if n := w.dials["wss://served.example"]; n < 2 {
		t.Errorf("a relay that a stored announcement names was tried %d times, want again and again", n)
	}
	honest := announcement(2, "honest", "wss://data.example", "wss://victim-00.example")
	w.hold(honest)
	w.pass(10)
	if w.dials["wss://data.example"] == 0 || w.dials["wss://victim-00.example"] != 2 {
		t.Errorf("a newcomer's announcement led to %v; want an attempt for each of its two relays", w.dials)
	}
	w.pass(minute)
	before := w.dials["wss://data.example"]
	if n := w.sum("data") + w.sum("victim"); n != 10 {
		t.Errorf("both have 5 visits, and %d attempts were made", n)
	}
	w.release(honest)
	w.pass(1000)
	if n := w.dials["wss://data.example"]; n < before+2 || w.charged["wss://data.example"] {
		t.Errorf("a relay of a repository that is served by now was tried %d times, want more than %d", n, before)
	}
}

// TestStrangersLater shows that the strategy hears of further relays when there are visits again,
// and that nothing remains of announcements that have gone.
func TestStrangersLater(t *testing.T) {
	w := newStrangersTest(t, 100)
	w.purses.visits[host.PubKey{1}] = 2
	e := announcement(1, "junk", numbered("late", 4)...)
	w.hold(e)
	w.pass(1000)
	if n := len(w.strategy.told["30617:"+e.PubKey.String()+":junk"]); n != 2 {
		t.Errorf("the strategy heard of %d relays, want 2", n)
	}
	w.purses.visits[host.PubKey{1}] = 1
	w.loop.relays["wss://late-00.example"].retryAt, w.loop.relays["wss://late-01.example"].retryAt = 1<<60, 1<<60
	w.pass(2 * untoldEvery)
	if n := len(w.strategy.told["30617:"+e.PubKey.String()+":junk"]); n != 3 {
		t.Errorf("the strategy heard of %d relays when there was one visit more, want 3", n)
	}
	w.drop(e)
	w.pass(2 * untoldEvery)
	if len(w.loop.named)+len(w.loop.untold) > 0 || w.purses.places != 100 {
		t.Errorf("%d relays are still named, %d announcements have untold ones, %d of 100 places are free", len(w.loop.named), len(w.loop.untold), w.purses.places)
	}
}

// TestStrangersDisplaced shows that a relay whose place another needs is taken from the strategy.
func TestStrangersDisplaced(t *testing.T) {
	w := newStrangersTest(t, 2)
	w.purses.visits = map[host.PubKey]int{{1}: 2, {2}: 1}
	junk, honest := announcement(1, "junk", numbered("victim", 2)...), announcement(2, "honest", "wss://data.example")
	w.hold(junk)
	w.hold(honest)
	w.pass(1000)
	if got := w.strategy.told["30617:"+junk.PubKey.String()+":junk"]; !slices.Equal(got, []string{"wss://victim-01.example"}) {
		t.Errorf("the strategy knows %v of the first announcement, want the second relay alone", got)
	}
	if w.dials["wss://data.example"] == 0 {
		t.Error("the relay that took the place was not tried")
	}
}

// TestPostponed shows that an attempt that did not begin does not count as a failure of the relay.
// The next one comes when it may.
func TestPostponed(t *testing.T) {
	w := newStrangersTest(t, 10)
	w.purses.visits[host.PubKey{1}] = 10
	w.hold(announcement(1, "junk", "wss://crowded.example"))
	var at []int64
	for start := w.now; w.now < start+10*minute; w.now += 1000 {
		w.loop.Turn(w.now)
		for _, e := range w.loop.Effects() {
			if d, ok := e.(Dial); ok && d.Relay == "wss://crowded.example" {
				at = append(at, w.now-start)
				w.loop.Down(w.now, d.Relay, d.Conn, Ended{Class: abi.ClassUnreachable, Postponed: 3 * minute})
			}
		}
	}
	if len(at) != 4 || at[1]-at[0] != 3*minute {
		t.Errorf("attempts began after %v ms, want one each three minutes", at)
	}
	if st := w.loop.relays["wss://crowded.example"].state; st.Failures != 0 {
		t.Errorf("the relay has %d failures, want none", st.Failures)
	}
}
