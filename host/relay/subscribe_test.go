package relay

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gobwas/ws"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"talon/host"
)

func TestReq(t *testing.T) {
	a := event(1, 1, 1000, "a", host.Tag{"t", "x"})
	b := event(2, 1, 1001, "b", host.Tag{"T", "x"})
	c := event(2, 7, 1002, "c")
	expired := event(1, 1, 1003, "old", host.Tag{"expiration", "1000000"})
	all := []*host.Event{a, b, c, expired}
	tests := []struct {
		name    string
		filters string
		want    []*host.Event
	}{
		{"all, newest first", `{}`, []*host.Event{c, b, a}},
		{"by kind", `{"kinds":[1]}`, []*host.Event{b, a}},
		{"by author", fmt.Sprintf(`{"authors":["%s"]}`, b.PubKey), []*host.Event{c, b}},
		{"by id", fmt.Sprintf(`{"ids":["%s"]}`, a.ID), []*host.Event{a}},
		{"lower-case tag", `{"#t":["x"]}`, []*host.Event{a}},
		{"upper-case tag", `{"#T":["x"]}`, []*host.Event{b}},
		{"limit", `{"limit":2}`, []*host.Event{c, b}},
		{"limit 0", `{"limit":0}`, nil},
		{"each event once", `{"kinds":[1]},{"authors":["` + b.PubKey.String() + `"]},{"limit":0}`, []*host.Event{c, b, a}},
		{"nothing can match", `{"kinds":[]}`, nil},
		{"since and until", `{"since":1001,"until":1001}`, []*host.Event{b}},
	}
	w := newWorld(t)
	w.publish(all...)
	cl := w.dial()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cl.t = t
			cl.send(`["REQ","s",` + tt.filters + `]`)
			for _, e := range tt.want {
				cl.expect(subMessage("s", e))
			}
			cl.expect(`["EOSE","s"]`)
		})
	}
}

// TestHints asks for pages of stored events, which say whether there is more (NIP-67).
func TestHints(t *testing.T) {
	w := newWorld(t, limit(func(l *Limits) { l.DefaultLimit, l.MaxLimit = 3, 5 }))
	for i := range 4 {
		w.publish(event(1, 1, int64(i), ""), event(2, 7, int64(i), ""))
	}
	c := w.dial()
	for filters, want := range map[string]struct {
		events int
		hint   string
	}{
		`{}`:                                  {3, `,["more"]`},
		`{"limit":9}`:                         {5, `,["more"]`},
		`{"kinds":[1],"limit":4}`:             {4, `,["finish"]`}, // all there are
		`{"kinds":[1],"limit":3}`:             {3, `,["more"]`},
		`{"kinds":[1],"limit":5}`:             {4, `,["finish"]`},
		`{"kinds":[9]}`:                       {0, `,["finish"]`},
		`{"ids":[]}`:                          {0, `,["finish"]`},
		`{"kinds":[1],"limit":0}`:             {0, ``},
		`{"kinds":[9]},{"limit":0}`:           {0, ``},
		`{"kinds":[1]},{"kinds":[7]}`:         {6, ``},
		`{"since":3,"limit":4},{"kinds":[9]}`: {2, `,["finish"]`},
	} {
		c.send(`["REQ","a",` + filters + `]`)
		for range want.events {
			c.expect(`["EVENT","a",…]`)
		}
		if got := c.recv(); got != `["EOSE","a"`+want.hint+`]` {
			t.Errorf("%s: got %s, want the hint %s", filters, got, want.hint)
		}
	}
}

func TestLimits(t *testing.T) {
	w := newWorld(t, limit(func(l *Limits) { l.DefaultLimit, l.MaxLimit = 3, 5 }))
	for i := range 10 {
		w.publish(event(1, 1, int64(i), ""))
	}
	c := w.dial()
	for filter, want := range map[string]int{`{}`: 3, `{"limit":4}`: 4, `{"limit":100000000000}`: 5} {
		c.send(`["REQ","s",` + filter + `]`)
		for i := range want {
			c.expect(subMessage("s", event(1, 1, int64(9-i), "")))
		}
		c.expect(`["EOSE","s"]`)
	}
}

// TestLongAnswer checks that a long answer comes in parts, without events that are deleted in
// between.
func TestLongAnswer(t *testing.T) {
	w := newWorld(t)
	const n = 2000
	for i := range n {
		w.store.put(event(1, 1, int64(i), strings.Repeat("x", i%3*2000)))
	}
	once := sync.OnceFunc(func() { w.store.drop(1); w.store.drop(1000) })
	w.store.fetching = once
	c := w.dial()
	c.send(`["REQ","s",{"limit":5000}]`)
	for i := n - 1; i > 0; i-- {
		if i != 999 {
			c.expect(subMessage("s", w.store.events[i]))
		}
	}
	c.expect(`["EOSE","s"]`)
}

// TestNoGapNoDuplicate checks that an event that is published during the stored answer arrives
// once.
func TestNoGapNoDuplicate(t *testing.T) {
	w := newWorld(t)
	before := event(1, 1, 1000, "before")
	during := event(1, 1, 1001, "after the query has read")
	late := event(1, 1, 1002, "published late: the query has seen it")
	fleeting := event(1, 20001, 1003, "ephemeral")
	w.store.put(before)
	seq := w.store.put(late)
	w.store.selecting = sync.OnceFunc(func() {
		w.relay.Publish([]host.Published{{Event: late, Seq: seq}})
		w.relay.Publish([]host.Published{{Event: during, Seq: w.store.put(during)}, {Event: fleeting}})
	})
	c := w.dial()
	c.ask(`["REQ","s",{}]`, subMessage("s", late), subMessage("s", before))
	c.expect(subMessage("s", during), subMessage("s", fleeting), `["EOSE","s"]`)
	w.relay.Publish([]host.Published{{Event: late, Seq: seq}}) // later still
	after := event(1, 1, 900, "after")
	w.publish(after)
	c.expect(subMessage("s", after))
}

// TestNoGapBesideStored has a filter with limit 0 next to others. It gets events that are published
// after its registration, also if the query of the others has seen them. No event arrives twice.
func TestNoGapBesideStored(t *testing.T) {
	w := newWorld(t)
	old := event(1, 1, 1000, "old")
	both := event(1, 1, 1001, "both filters want it, and it is in the answer")
	cut := event(1, 1, 900, "both filters want it, and the limit of one has cut it off")
	only := event(2, 1, 1002, "only the filter with limit 0 wants it")
	late := event(2, 1, 1003, "and is published after EOSE")
	lateBoth := event(1, 1, 1004, "so is this, which is in the answer")
	other := event(1, 2, 800, "only the other filter wants it, and has cut it off")
	w.publish(old)
	seqs := map[*host.Event]int64{}
	put := func(events ...*host.Event) {
		for _, e := range events {
			seqs[e] = w.store.put(e)
		}
	}
	publish := func(e *host.Event) { w.relay.Publish([]host.Published{{Event: e, Seq: seqs[e]}}) }
	put(both, cut, only, other)
	var seq int64
	w.store.selecting = sync.OnceFunc(func() {
		for _, e := range []*host.Event{both, cut, only, other} {
			publish(e)
		}
		seq = w.store.put(event(3, 1, 1, "seen by no query"))
	})
	c := w.dial()
	c.send(`["REQ","s",{"authors":["` + old.PubKey.String() + `"],"limit":2},{"kinds":[1],"limit":0}]`)
	c.expect(subMessage("s", both), subMessage("s", old))
	c.expect(subMessage("s", cut), subMessage("s", only), `["EOSE","s"]`)
	w.relay.Publish([]host.Published{{Event: w.store.events[seq-1], Seq: seq}})
	c.expect(subMessage("s", w.store.events[seq-1]))

	put(late, lateBoth)
	c.send(`["REQ","s",{"authors":["` + old.PubKey.String() + `"],"limit":1},{"kinds":[1],"limit":0}]`)
	c.expect(subMessage("s", lateBoth), `["EOSE","s"]`)
	publish(late)
	publish(lateBoth)
	last := event(3, 1, 5, "last")
	w.publish(last)
	c.expect(subMessage("s", late), subMessage("s", last))
}

// TestAnswered checks that the memory of a stored answer is bounded, and is freed.
func TestAnswered(t *testing.T) {
	watches := []watch{{filter: host.Filter{Limit: 500}}, {filter: host.Filter{Kinds: []host.Kind{1}, Limit: 0}}}
	sel := host.Selection{Seq: 10_000}
	for row := int64(9_999); row > 0; row -= 2 {
		sel.Rows = append(sel.Rows, row)
	}
	has := func(a *answered, seq int64, kind host.Kind) bool {
		return a.has(&host.Published{Event: &host.Event{Kind: kind}, Seq: seq})
	}
	a := answered{done: 100}
	a.by(&sel, watches)
	for _, tt := range []struct {
		seq  int64
		kind host.Kind
		want bool
	}{{0, 1, false}, {99, 1, true}, {100, 1, true}, {101, 1, true}, {102, 1, false}, {102, 2, true}, {10_000, 1, false}, {10_001, 1, false}, {10_002, 2, false}} {
		if got := has(&a, tt.seq, tt.kind); got != tt.want {
			t.Errorf("loading: event %d of kind %d: %v", tt.seq, tt.kind, got)
		}
	}
	a.forget(200)
	if len(a.rows) != rowsKept || has(&a, 10_000, 1) || !has(&a, 9_999, 1) || !has(&a, 200, 1) || !has(&a, 4_000, 1) {
		t.Errorf("live: %d rows", len(a.rows))
	}
	a.forget(9_990)
	if len(a.rows) != 5 || has(&a, 9_992, 1) || !has(&a, 9_993, 1) || !has(&a, 9_990, 1) {
		t.Errorf("later: %d rows", len(a.rows))
	}
	a.forget(10_000)
	if a.rows != nil || a.unpublished != nil || !has(&a, 10_000, 1) || has(&a, 10_001, 1) {
		t.Error("something is kept when all is past")
	}
}

// Readers that subscribe in the middle of a stream of events see every one of
// them once, whenever they come.
func TestNoGapUnderLoad(t *testing.T) {
	w := newWorld(t)
	const n = 400
	var readers sync.WaitGroup
	start := make(chan int, 4)
	for r := range 4 {
		c := w.dial()
		readers.Go(func() {
			from := <-start
			c.send(fmt.Sprintf(`["REQ","r%d",{"limit":5000}]`, r))
			seen := map[string]bool{}
			for len(seen) < n {
				text := c.recv()
				if strings.HasPrefix(text, `["EOSE"`) {
					continue
				}
				if seen[text] {
					t.Errorf("reader from %d: twice: %s", from, text)
					return
				}
				seen[text] = true
			}
		})
	}
	for i := range n {
		if i%100 == 50 {
			start <- i
		}
		w.publish(event(1, 1, int64(i), "x"))
	}
	readers.Wait()
}

func TestReplaceAndClose(t *testing.T) {
	w := newWorld(t)
	c := w.dial()
	one, two := event(1, 1, 1000, "one"), event(1, 2, 1001, "two")
	c.ask(`["REQ","s",{"kinds":[1]}]`, `["EOSE","s"]`)
	c.ask(`["REQ","s",{"kinds":[2]}]`, `["EOSE","s"]`)
	w.publish(one, two)
	c.expect(subMessage("s", two))

	c.send(`["CLOSE","s"]`)
	c.send(`["CLOSE","never opened"]`)
	c.ask(`["REQ","t",{"limit":0}]`, `["EOSE","t"]`)
	three := event(1, 2, 1002, "three")
	w.publish(three)
	c.expect(subMessage("t", three))

	// CLOSED means that nothing lives under the id.
	c.ask(`["REQ","t",{"kinds":["x"]}]`, `["CLOSED","t","invalid: …"]`)
	w.publish(event(1, 2, 1003, "four"))
	c.ask(`["REQ","u",{"limit":0}]`, `["EOSE","u"]`)
	w.relay.index.mu.RLock()
	defer w.relay.index.mu.RUnlock()
	if n := w.relay.index.subs; n != 1 {
		t.Errorf("%d subscriptions are left", n)
	}
}

// One event, several filters and several subscriptions: once for each
// subscription.
func TestLiveOnce(t *testing.T) {
	w := newWorld(t)
	c := w.dial()
	e := event(1, 1, 1000, "hi", host.Tag{"t", "x"}, host.Tag{"t", "x"}, host.Tag{"t", "y"})
	c.send(`["REQ","a",{"limit":0,"#t":["x","y"]},{"limit":0},{"limit":0,"kinds":[1]}]`)
	c.ask(fmt.Sprintf(`["REQ","b",{"limit":0,"ids":["%s"]}]`, e.ID), `["EOSE","a"]`, `["EOSE","b"]`)
	w.publish(e)
	got := map[string]int{c.recv(): 1}
	got[c.recv()]++
	if got[subMessage("a", e)] != 1 || got[subMessage("b", e)] != 1 {
		t.Errorf("got %v", got)
	}
	w.relay.Publish([]host.Published{{Event: event(1, host.KindAuth, 1000, "never sent")}})
	c.ask(`["REQ","c",{"limit":0}]`, `["EOSE","c"]`)
}

func TestSubscriptionCaps(t *testing.T) {
	w := newWorld(t, limit(func(l *Limits) { l.Subscriptions, l.SubscriptionsTotal, l.Values = 2, 3, 10 }))
	c, d := w.dial(), w.dial()
	c.ask(`["REQ","a",{}]`, `["EOSE","a"]`)
	c.ask(`["REQ","v",{"kinds":[1,2,3,4,5,6,7,8,9]}]`, `["CLOSED","v","error: …"]`)
	c.ask(`["REQ","b",{}]`, `["EOSE","b"]`)
	c.ask(`["REQ","c",{}]`, `["CLOSED","c","error: …"]`)
	c.send(`["REQ","b",{"kinds":[1]}]`) // replaces
	c.expect(`["EOSE","b"]`)
	d.ask(`["REQ","a",{}]`, `["EOSE","a"]`)
	d.ask(`["REQ","b",{}]`, `["CLOSED","b","error: …"]`)
	c.send(`["CLOSE","a"]`)
	c.ask(`["REQ","x",{"limit":0}]`, `["EOSE","x"]`)
}

// Ten thousand subscriptions from one connection: the cap holds, and each is
// answered.
func TestManySubscriptions(t *testing.T) {
	w := newWorld(t, limit(func(l *Limits) { l.MessageBurst = 1e9 }))
	c := w.dial()
	const n = 10_000
	go func() {
		for i := range n {
			if _, err := c.net.Write(frame(ws.OpText, true, 0, fmt.Sprintf(`["REQ","s%d",{"kinds":[%d],"limit":0}]`, i, i))); err != nil {
				return
			}
		}
	}()
	for i := range n {
		if i < DefaultLimits.Subscriptions {
			c.expect(fmt.Sprintf(`["EOSE","s%d"]`, i))
		} else {
			c.expect(fmt.Sprintf(`["CLOSED","s%d","error: …"]`, i))
		}
	}
}

// TestSlowReader checks that a subscriber that reads nothing is cut off when its queue is full, and
// that nobody waits for it. The kernel may or may not take the bytes that were queued before.
func TestSlowReader(t *testing.T) {
	text := strings.Repeat("x", 50_000)
	for name, publish := range map[string]func(w *world, fast *client){
		"after what the kernel takes": func(w *world, fast *client) {
			for i := 0; len(w.relay.all()) == 2; i++ {
				e := event(1, 1, int64(i), text)
				w.publish(e)
				fast.expect(subMessage("s", e))
			}
		},
		"at once": func(w *world, fast *client) {
			fast.ask(`["REQ","s",{"kinds":[7],"limit":0}]`, `["EOSE","s"]`)
			var batch []host.Published
			for i := range 300 { // 15 MB, more than the kernel takes
				e := event(1, 1, int64(i), text)
				batch = append(batch, host.Published{Event: e, Seq: w.store.put(e)})
			}
			w.relay.Publish(batch)
			e := event(1, 7, 1, text)
			w.publish(e)
			fast.expect(subMessage("s", e))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, limit(func(l *Limits) { l.MessageBytes, l.QueueBytes = 100<<10, 1<<20 }), func(_ *Config, w *world) {
				w.linger = time.Millisecond // for a goodbye, which this client does not answer
			})
			slow, fast := w.dial(), w.dial()
			for _, c := range []*client{slow, fast} {
				c.ask(`["REQ","s",{"limit":0}]`, `["EOSE","s"]`)
			}
			publish(w, fast)
			wait(t, func() bool { return w.slots() == 1 })
			if n := value(t, w.relay, "talon_relay_connections_closed_total", "slow"); n != 1 {
				t.Errorf("%v connections were cut off as slow", n)
			}
		})
	}
}

// A client that asks for stored events and does not read them stops the reading of
// its own answer, and nothing else.
func TestStoredAnswerWaits(t *testing.T) {
	w := newWorld(t, limit(func(l *Limits) { l.WriteTime = 200 * time.Millisecond }))
	for i := range 5000 {
		w.store.put(event(1, 1, int64(i), strings.Repeat("x", 4000)))
	}
	c := w.dial()
	c.send(`["REQ","s",{"limit":5000}]`)
	wait(t, func() bool {
		for _, c := range w.relay.all() {
			c.mu.Lock()
			n := c.out.bytes()
			c.mu.Unlock()
			if maximum := queueAhead + fetchBytes + 2*writeSize; n > maximum {
				t.Fatalf("%d bytes are queued, want at most %d", n, maximum)
			}
		}
		return w.slots() == 0
	})
}

// Replacing a subscription in the middle of a stream loses and repeats nothing.
func TestReplaceUnderLoad(t *testing.T) {
	w := newWorld(t)
	c := w.dial()
	const n, replacements = 500, 200
	c.ask(`["REQ","s",{"limit":0}]`, `["EOSE","s"]`)
	go func() {
		for i := range n {
			w.publish(event(1, 1, int64(i), ""))
		}
	}()
	go func() {
		for i := range replacements {
			f := frame(ws.OpText, true, 0, fmt.Sprintf(`["REQ","s",{"limit":0,"kinds":[1,%d]}]`, 2+i))
			if _, err := c.net.Write(f); err != nil {
				return
			}
		}
	}()
	seen, ends := map[string]int{}, 0
	for len(seen) < n || ends < replacements {
		text := c.recv()
		if text == `["EOSE","s"]` {
			ends++
			continue
		}
		if seen[text]++; seen[text] > 1 {
			t.Fatalf("twice: %s", text)
		}
	}
}

// A query that takes too long is given up.
func TestSlowQuery(t *testing.T) {
	w := newWorld(t, limit(func(l *Limits) { l.QueryTime = 20 * time.Millisecond }))
	w.relay.deps.Store = hanging{w.store}
	c := w.dial()
	c.ask(`["REQ","a",{}]`, `["CLOSED","a","error: this took too long, ask for less"]`)
	c.ask(`["COUNT","b",{}]`, `["CLOSED","b","error: this took too long, ask for less"]`)
	c.ask(`["NEG-OPEN","n",{},"61"]`, `["NEG-ERR","n","error: this took too long, ask for less"]`)
	if n := testutil.ToFloat64(w.relay.metrics.slowQueries); n != 3 {
		t.Errorf("%v slow queries were counted", n)
	}
}

// hanging is a store that answers only when it is stopped.
type hanging struct{ *fakeStore }

func (hanging) Select(ctx context.Context, _ []host.Filter, _ int64) (host.Selection, error) {
	<-ctx.Done()
	return host.Selection{}, ctx.Err()
}

func (hanging) Count(ctx context.Context, _ []host.Filter, _ int64) (int64, error) {
	<-ctx.Done()
	return 0, ctx.Err()
}
