package relay

import (
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"talon/host"
	"talon/host/negentropy"
	"talon/host/wire"
)

func parseFilter(text []byte) (host.Filter, error) {
	return wire.ParseFilter(text, &wire.DefaultLimits)
}

// sync reconciles with what the client has, and returns the ids that it lacks.
func (c *client) sync(id, filter string, have ...*host.Event) []host.ID {
	c.t.Helper()
	var b negentropy.Builder
	for _, e := range have {
		b.Add(negentropy.Item{CreatedAt: uint64(e.CreatedAt), ID: e.ID})
	}
	need, _ := c.syncSet(id, filter, b.Build())
	return need
}

// syncSet returns what it has sent, too.
func (c *client) syncSet(id, filter string, have *negentropy.Set) (need []host.ID, sent []string) {
	c.t.Helper()
	n, err := negentropy.NewClient(have, negentropy.ClientLimits{IDs: 1 << 20, Rounds: 10_000})
	if err != nil {
		c.t.Fatal(err)
	}
	msg, err := n.Initiate()
	if err != nil {
		c.t.Fatal(err)
	}
	send := func(text string) {
		sent = append(sent, text)
		c.send(text)
	}
	send(fmt.Sprintf(`["NEG-OPEN","%s",%s,"%x"]`, id, filter, msg))
	for {
		list := c.list()
		if list[0] != "NEG-MSG" || list[1] != id {
			c.t.Fatalf("got %v", list)
		}
		answer, err := hex.DecodeString(list[2].(string))
		if err != nil {
			c.t.Fatal(err)
		}
		msg, done, err := n.Reconcile(answer)
		if err != nil {
			c.t.Fatal(err)
		}
		if done {
			return n.Need(), sent
		}
		send(fmt.Sprintf(`["NEG-MSG","%s","%x"]`, id, msg))
	}
}

func TestNegentropy(t *testing.T) {
	w := newWorld(t, limit(func(l *Limits) { l.NegFrameBytes = 4096 }))
	var all []*host.Event
	for i := range 5000 {
		e := event(byte(i), host.Kind(1+i%2), int64(i), "")
		all = append(all, e)
		w.store.put(e)
	}
	var have []*host.Event
	lacking := map[host.ID]bool{}
	for i, e := range all {
		if i%37 == 0 && e.Kind == 1 {
			lacking[e.ID] = true
		} else if e.Kind == 1 {
			have = append(have, e)
		}
	}
	c := w.dial()
	for range 2 {
		need := c.sync("n", `{"kinds":[1]}`, have...)
		if len(need) != len(lacking) {
			t.Errorf("need %d ids, want %d", len(need), len(lacking))
		}
		for _, id := range need {
			if !lacking[id] {
				t.Errorf("need %s, which is here", id)
			}
		}
	}
	if w.store.scans != 1 {
		t.Errorf("the store was scanned %d times", w.store.scans)
	}
}

// A snapshot is used again only while it is exact.
func TestNegentropyIsExact(t *testing.T) {
	start := time.Unix(1_700_000_000, 0)
	var passed atomic.Int64
	clock := func() time.Time { return start.Add(time.Duration(passed.Load())) }
	w := newWorld(t, func(c *Config, _ *world) { c.Now = clock })
	c := w.dial()
	first := event(1, 1, 1000, "first")
	expires := event(1, 1, 1001, "expires", nostr.Tag{"expiration", fmt.Sprint(start.Unix() + 5)})
	w.publish(first, expires)
	steps := []struct {
		name   string
		change func()
		want   []host.ID
		scans  int // so far
	}{
		{"first session", func() {}, []host.ID{first.ID, expires.ID}, 1},
		{"nothing has changed", func() {}, []host.ID{first.ID, expires.ID}, 1},
		{"something else was published", func() { w.publish(event(1, 2, 1000, "")) }, []host.ID{first.ID, expires.ID}, 1},
		{"later", func() { passed.Add(int64(3 * time.Second)) }, []host.ID{first.ID, expires.ID}, 1},
		{"an event has expired", func() { passed.Add(int64(3 * time.Second)) }, []host.ID{first.ID}, 2},
		{"a matching event was published", func() { w.publish(event(2, 1, 900, "new")) }, []host.ID{event(2, 1, 900, "new").ID, first.ID}, 3},
		{"one was deleted", func() { w.store.drop(1); w.publish(event(1, 5, 1100, "")) }, []host.ID{event(2, 1, 900, "new").ID}, 4},
		{"committed by another process", func() { w.store.put(event(3, 1, 800, "")) }, []host.ID{event(3, 1, 800, "").ID, event(2, 1, 900, "new").ID}, 5},
	}
	for _, s := range steps {
		t.Run(s.name, func(t *testing.T) {
			c.t = t
			s.change()
			if got := c.sync("n", `{"kinds":[1]}`); !slices.Equal(got, s.want) {
				t.Errorf("got %v, want %v", got, s.want)
			}
			if w.store.scans != s.scans {
				t.Errorf("%d scans, want %d", w.store.scans, s.scans)
			}
		})
	}
}

// An event that was committed and not yet published is waited for, not scanned
// for.
func TestNegentropyWaitsForPublication(t *testing.T) {
	w := newWorld(t)
	w.publish(event(1, 1, 1000, ""))
	c := w.dial()
	c.sync("n", `{}`)
	e := event(1, 2, 1001, "")
	seq := w.store.put(e)
	go w.relay.Publish([]host.Published{{Event: e, Seq: seq}})
	if got := c.sync("n", `{"kinds":[1]}`); len(got) != 1 {
		t.Errorf("got %v", got)
	}
	if got := c.sync("n", `{}`); len(got) != 2 {
		t.Errorf("got %v", got)
	}
}

func TestNegentropyCaps(t *testing.T) {
	w := newWorld(t, limit(func(l *Limits) {
		l.NegSessions, l.NegSessionsTotal, l.NegRecords, l.NegRecordsTotal = 2, 3, 10, 2*snapshotStep
	}))
	for i := range 20 {
		w.store.put(event(1, host.Kind(i), int64(i), ""))
	}
	c, d := w.dial(), w.dial()
	open := func(c *client, id, filter, want string) {
		t.Helper()
		c.send(fmt.Sprintf(`["NEG-OPEN","%s",%s,"61"]`, id, filter))
		c.expect(fmt.Sprintf(want, id))
	}
	const ok, blocked = `["NEG-MSG","%s","61"]`, `["NEG-ERR","%s","blocked: …"]`
	open(c, "all", `{}`, blocked)
	open(c, "newest", `{"limit":10}`, ok)
	open(c, "few", `{"kinds":[1]}`, ok)
	open(c, "third", `{"kinds":[1]}`, blocked)
	open(c, "few", `{"kinds":[1]}`, ok) // in place of the old one
	open(d, "one more", `{"kinds":[2]}`, blocked)
	c.send(`["NEG-CLOSE","newest"]`)
	c.send(`["NEG-CLOSE","newest"]`)
	open(c, "none", `{"kinds":[]}`, ok)
	open(d, "one more", `{"kinds":[2]}`, ok)
	open(d, "over", `{"kinds":[1]}`, blocked)
	for _, cl := range []*client{c, d} {
		cl.net.Close()
	}
	wait(t, func() bool { return w.slots() == 0 })
	if n := value(t, w.relay, "talon_relay_negentropy_sessions", ""); n != 0 || w.relay.sessions != 0 {
		t.Errorf("%v sessions are left", n)
	}
	w.relay.sweep(time.Now().Add(time.Hour))
	if ss := w.relay.snapshots; ss.records != 0 || len(ss.byFilter) != 0 {
		t.Errorf("%d records in %d snapshots are left", ss.records, len(ss.byFilter))
	}
}

// wait looks until something is so that other goroutines and the kernel's sockets
// bring about.
func wait(t testing.TB, ready func() bool) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for !ready() {
		if time.Now().After(deadline) {
			t.Fatal("it did not happen")
		}
		time.Sleep(time.Millisecond)
	}
}

func TestNegentropyIdle(t *testing.T) {
	w := newWorld(t)
	c := w.dial()
	c.sync("n", `{}`)
	now := time.Now()
	w.relay.sweep(now.Add(DefaultLimits.NegIdle / 2))
	c.sync("m", `{}`)
	w.relay.sweep(now.Add(DefaultLimits.NegIdle + time.Second))
	got := []string{c.recv(), c.recv()}
	slices.Sort(got)
	if !like(strings.Join(got, " "), `["NEG-ERR","m","closed: …"] ["NEG-ERR","n","closed: …"]`) {
		t.Errorf("got %v", got)
	}
	c.send(`["NEG-MSG","n","61"]`)
	c.expect(`["NEG-ERR","n","closed: …"]`)
}

// A session that fails is closed.
func TestNegentropyBadMessageCloses(t *testing.T) {
	w := newWorld(t)
	c := w.dial()
	c.sync("n", `{}`)
	c.send(`["NEG-MSG","n","61ffffffff"]`)
	c.expect(`["NEG-ERR","n","invalid: …"]`)
	c.send(`["NEG-MSG","n","61"]`)
	c.expect(`["NEG-ERR","n","closed: …"]`)
}

func TestCanonical(t *testing.T) {
	same := [][2]string{
		{`{"kinds":[1,2],"#t":["a","b"],"#e":["x"]}`, `{"#e":["x"],"#t":["b","a"],"kinds":[2,1]}`},
		{`{}`, `{ }`},
	}
	for _, s := range same {
		f := parseFilters(t, "["+s[0]+","+s[1]+"]")
		if canonical(&f[0]) != canonical(&f[1]) {
			t.Errorf("%s and %s have different keys", s[0], s[1])
		}
	}
	different := parseFilters(t, `[{}, {"kinds":[]}, {"kinds":[1]}, {"#t":["1"]}, {"#T":["1"]}, {"#t":["a","b"]}, {"#t":["ab"]},
		{"since":1}, {"until":1}, {"authors":[]}, {"ids":[]}, {"kinds":[1],"since":1}]`)
	keys := map[string]int{}
	for i := range different {
		key := canonical(&different[i])
		if j, ok := keys[key]; ok {
			t.Errorf("filters %d and %d have the same key", i, j)
		}
		keys[key] = i
	}
}

// Snapshots that nobody uses are few, and go after a while.
func TestIdleSnapshots(t *testing.T) {
	w := newWorld(t)
	w.store.put(event(1, 1, 1000, ""))
	c := w.dial()
	for i := range 3 * snapshotsIdle {
		c.sync("n", fmt.Sprintf(`{"kinds":[1,%d]}`, 2+i))
		c.send(`["NEG-CLOSE","n"]`)
	}
	c.send(`["COUNT","done",{}]`)
	c.expect(`["COUNT","done",{"count":1}]`)
	ss := w.relay.snapshots
	if n := len(ss.byFilter); n != snapshotsIdle {
		t.Errorf("%d snapshots are kept", n)
	}
	w.relay.sweep(time.Now().Add(2 * snapshotKeep))
	if n := len(ss.byFilter); n != 0 || ss.records != 0 {
		t.Errorf("%d snapshots and %d records are left", n, ss.records)
	}
}

// A build that ends because its client leaves does not fail those who wait for it.
func TestBuilderLeaves(t *testing.T) {
	w := newWorld(t)
	w.store.put(event(1, 1, 1000, ""))
	scan := &interrupted{fakeStore: w.store, began: make(chan struct{})}
	w.relay.deps.Store = scan
	first, second := w.dial(), w.dial()
	first.send(`["NEG-OPEN","n",{},"61"]`)
	<-scan.began
	second.send(`["NEG-OPEN","n",{},"61"]`)
	wait(t, func() bool {
		w.relay.snapshots.mu.Lock()
		defer w.relay.snapshots.mu.Unlock()
		for _, s := range w.relay.snapshots.byFilter {
			return s.users == 2
		}
		return false
	})
	for _, c := range w.relay.all() {
		if c.net.RemoteAddr().String() == first.net.LocalAddr().String() {
			c.end(errShutdown)
		}
	}
	second.expect(`["NEG-MSG","n","61"]`)
}

// interrupted is a store whose first scan lasts until it is told to stop.
type interrupted struct {
	*fakeStore
	began chan struct{}
	again atomic.Bool
}

func (s *interrupted) Scan(ctx context.Context, f host.Filter, most int, now int64, yield func(int64, host.ID)) (int64, int, error) {
	if s.again.Swap(true) {
		return s.fakeStore.Scan(ctx, f, most, now, yield)
	}
	close(s.began)
	<-ctx.Done()
	return 0, 0, ctx.Err()
}
