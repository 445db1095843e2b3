package relay

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gobwas/ws"

	"talon/host"
	"talon/host/negentropy"
	"talon/host/wire"
	"talon/internal/testkit"
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
		c.ask(fmt.Sprintf(`["NEG-OPEN","%s",%s,"61"]`, id, filter), fmt.Sprintf(want, id))
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
	if n := value(t, w.relay, "talon_relay_negentropy_sessions", ""); n != 0 || w.relay.pots.sessions.Used() != 0 {
		t.Errorf("%v sessions are left", n)
	}
	w.relay.sweep(w.now().Add(time.Hour))
	if ss := w.relay.snapshots; ss.records != 0 || len(ss.byFilter) != 0 {
		t.Errorf("%d records in %d snapshots are left", ss.records, len(ss.byFilter))
	}
}

// wait looks until something is so that other goroutines and the kernel's sockets
// bring about.
func wait(t testing.TB, ready func() bool) {
	t.Helper()
	testkit.Eventually(t, "what is waited for", ready)
}

func TestNegentropyIdle(t *testing.T) {
	w := newWorld(t)
	c := w.dial()
	c.sync("n", `{}`)
	w.relay.sweep(w.now().Add(DefaultLimits.NegIdle / 2))
	c.sync("m", `{}`)
	w.relay.sweep(w.now().Add(DefaultLimits.NegIdle + time.Second))
	got := []string{c.recv(), c.recv()}
	slices.Sort(got)
	if !like(strings.Join(got, " "), `["NEG-ERR","m","closed: …"] ["NEG-ERR","n","closed: …"]`) {
		t.Errorf("got %v", got)
	}
	c.ask(`["NEG-MSG","n","61"]`, `["NEG-ERR","n","closed: …"]`)
}

// A session that is opened again while the old one expires is not taken for it.
func TestNegentropyReopenedWhileIdle(t *testing.T) {
	var clock atomic.Int64
	clock.Store(1_700_000_000)
	now := func() time.Time { return time.Unix(clock.Load(), 0) }
	const sessions = 64
	w := newWorld(t, limit(func(l *Limits) { l.NegSessions = sessions }), func(c *Config, _ *world) { c.Now = now })
	c := w.dial()
	all := func(format string) (messages []byte) {
		for i := range sessions {
			messages = append(messages, frame(ws.OpText, true, 0, fmt.Sprintf(format, i))...)
		}
		return messages
	}
	for range 30 {
		c.write(all(`["NEG-OPEN","n%d",{},"61"]`))
		for i := range sessions {
			c.expect(fmt.Sprintf(`["NEG-MSG","n%d","61"]`, i))
		}
		clock.Add(int64(DefaultLimits.NegIdle/time.Second) + 1)
		swept := make(chan struct{})
		go func() {
			for _, c := range w.relay.all() {
				c.expireSessions(now())
			}
			close(swept)
		}()
		c.write(all(`["NEG-OPEN","n%d",{},"61"]`))
		<-swept
		c.write(all(`["NEG-MSG","n%d","61"]`))
		c.send(`["COUNT","done",{}]`)
		last := map[string]string{}
		for text := c.recv(); !strings.HasPrefix(text, `["COUNT"`); text = c.recv() {
			last[strings.Split(text, `"`)[3]] = text
		}
		for i := range sessions {
			id := fmt.Sprint("n", i)
			if want := fmt.Sprintf(`["NEG-MSG","%s","61"]`, id); last[id] != want {
				t.Fatalf("the new session: %s", last[id])
			}
		}
	}
}

// A panic in the middle of opening a session leaves nothing behind.
func TestNegentropyPanic(t *testing.T) {
	for _, where := range []string{"scan", "count"} {
		t.Run(where, func(t *testing.T) {
			w := newWorld(t)
			w.publish(event(1, 1, 1000, ""))
			broken := func() { panic("of the store") }
			if where == "count" {
				w.dial().sync("n", `{}`)
				w.store.drop(99) // something else has gone
				w.store.counting = broken
			} else {
				w.store.scanning = broken
			}
			c := w.dial()
			c.send(`["NEG-OPEN","m",{},"61"]`)
			if code, _ := c.closed(); code != 1011 {
				t.Errorf("closed with %d", code)
			}
			for _, c := range w.relay.all() {
				_ = c.net.Close()
			}
			wait(t, func() bool { return w.slots() == 0 })
			w.relay.sweep(w.now().Add(time.Hour))
			w.relay.mu.Lock()
			sessions := w.relay.pots.sessions.Used()
			w.relay.mu.Unlock()
			if ss := w.relay.snapshots; sessions != 0 || ss.records != 0 || len(ss.byFilter) != 0 || len(ss.builds) != 0 {
				t.Errorf("%d sessions, %d records, %d snapshots and %d builds are left", sessions, ss.records, len(ss.byFilter), len(ss.builds))
			}
		})
	}
}

// A session that fails is closed.
func TestNegentropyBadMessageCloses(t *testing.T) {
	w := newWorld(t)
	c := w.dial()
	c.sync("n", `{}`)
	c.ask(`["NEG-MSG","n","61ffffffff"]`, `["NEG-ERR","n","invalid: …"]`)
	c.ask(`["NEG-MSG","n","61"]`, `["NEG-ERR","n","closed: …"]`)
}
