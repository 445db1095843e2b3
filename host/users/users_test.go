package users

import (
	"bytes"
	"context"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"testing"
	"time"

	"talon/host"
	"talon/host/memfacts"
	"talon/internal/testkit"
)

// memory is a store in memory.
type memory struct {
	rows   map[string][]byte
	events []*host.Event
}

func (m *memory) Query(_ context.Context, f host.Filter) (list [][]byte, err error) {
	return memfacts.Query(m.events, f), nil
}

func (m *memory) HeldBy(context.Context, host.Filter) ([][]byte, error) { return nil, nil }

func (m *memory) Relays(context.Context, string) (map[string][]byte, error) {
	return maps.Clone(m.rows), nil
}

func (m *memory) SaveRelays(_ context.Context, _ string, rows map[string][]byte) error {
	for name, text := range rows {
		if text == nil {
			delete(m.rows, name)
		} else {
			m.rows[name] = bytes.Clone(text)
		}
	}
	return nil
}

// world is a set with its store and clock.
type world struct {
	*Set
	t     *testing.T
	store *memory
	now   time.Time
	gone  map[host.Address]bool // repositories that are not here
	named []host.PubKey
}

var alice, bob, carol, eve = testkit.NewSigner(1), testkit.NewSigner(2), testkit.NewSigner(3), testkit.NewSigner(4)

func newWorld(t *testing.T, named ...host.PubKey) *world {
	w := &world{t: t, store: &memory{rows: map[string][]byte{}}, now: time.Unix(1_700_000_000, 0), gone: map[host.Address]bool{}, named: named}
	w.restart()
	return w
}

// restart makes the set again from its rows.
func (w *world) restart() {
	w.t.Helper()
	if w.Set != nil {
		w.must(w.save(w.t.Context()))
	}
	w.Set = New(Config{
		Store: w.store, Named: w.named, Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return w.now },
		Here: func(_ context.Context, a host.Address) (bool, error) { return !w.gone[a], nil },
	})
	w.must(w.Load(w.t.Context()))
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// announce stores an announcement in place of an older one of the author.
func (w *world) announce(who *testkit.Signer, d string, maintainers ...*testkit.Signer) *host.Event {
	w.t.Helper()
	list := host.Tag{"maintainers"}
	for _, m := range maintainers {
		list = append(list, m.PubKey.String())
	}
	e := who.Event(host.KindAnnouncement, w.now.Unix(), "", host.Tag{"d", d}, list)
	old := w.take(who, d)
	w.store.events = append(w.store.events, e)
	w.Publish([]host.Published{{Event: e, Seq: 1}})
	w.Follow(old, nil)
	w.must(w.update(w.t.Context()))
	return e
}

// take takes an announcement from the store.
func (w *world) take(who *testkit.Signer, d string) (gone []*host.Event) {
	w.store.events = slices.DeleteFunc(w.store.events, func(e *host.Event) bool {
		is := e.PubKey == who.PubKey && e.D() == d
		if is {
			gone = append(gone, e)
		}
		return is
	})
	return gone
}

func (w *world) remove(who *testkit.Signer, d string) {
	w.t.Helper()
	w.Follow(w.take(who, d), nil)
	w.must(w.update(w.t.Context()))
}

// later lets time pass.
func (w *world) later(d time.Duration) {
	w.t.Helper()
	w.now = w.now.Add(d)
	w.must(w.Load(w.t.Context()))
}

func (w *world) want(who *testkit.Signer, known bool) {
	w.t.Helper()
	if got := w.Knows(who.PubKey, netip.Addr{}); got != known {
		w.t.Errorf("key %s is known: %v, want %v", who.PubKey.String()[:8], got, known)
	}
}

func (w *world) wantNetwork(addr string, known bool) {
	w.t.Helper()
	if got := w.Holder(netip.MustParseAddr(addr), nil).Known; got != known {
		w.t.Errorf("%s is known: %v, want %v", addr, got, known)
	}
}

// The people of a repository are known after seven days, also across restarts and new versions
// of the announcement, and no longer than it is here.
func TestServedForSevenDays(t *testing.T) {
	w := newWorld(t)
	w.announce(alice, "demo", bob)
	w.announce(bob, "demo", carol) // he is a maintainer, and so is whom he lists
	w.gone[host.Address{Kind: host.KindAnnouncement, PubKey: bob.PubKey, D: "demo"}] = true
	w.want(alice, false)
	w.later(4 * 24 * time.Hour)
	w.restart()
	w.announce(alice, "demo", bob)
	w.later(3*24*time.Hour - time.Second)
	w.want(alice, false)
	w.later(time.Second)
	for _, who := range []*testkit.Signer{alice, bob, carol} {
		w.want(who, true)
	}
	w.want(eve, false)
	w.restart()
	w.want(carol, true)
	w.announce(alice, "demo") // without bob
	w.want(alice, true)
	w.want(bob, false)
	w.remove(alice, "demo")
	w.want(alice, false)
	if len(w.store.rows) == 0 {
		t.Error("nothing was saved")
	}
	w.announce(alice, "demo")
	w.later(6 * 24 * time.Hour)
	w.restart()
	w.want(alice, false)
}

// An announcement without a repository makes nobody known.
func TestWithoutRepository(t *testing.T) {
	w := newWorld(t)
	w.announce(alice, "demo")
	w.gone[host.Address{Kind: host.KindAnnouncement, PubKey: alice.PubKey, D: "demo"}] = true
	w.later(ServedFor)
	w.want(alice, false)
}

// The first start finds repositories that were served before: their announcements say since
// when. A later start does not believe dates.
func TestFirstStart(t *testing.T) {
	w := newWorld(t)
	w.Set, w.store.rows = nil, map[string][]byte{}
	old := alice.Event(host.KindAnnouncement, w.now.Add(-ServedFor).Unix(), "", host.Tag{"d", "demo"})
	w.store.events = []*host.Event{old}
	w.restart()
	w.want(alice, true)
	w.store.events = append(w.store.events, eve.Event(host.KindAnnouncement, 1, "", host.Tag{"d", "old"}))
	w.restart()
	w.want(eve, false)
	w.want(alice, true)
}

// A network is known for seven days after a known person's client brought an event.
func TestNetworks(t *testing.T) {
	w := newWorld(t, alice.PubKey)
	home := netip.MustParseAddr("192.0.2.1")
	event := func(who *testkit.Signer, age time.Duration) *host.Event {
		return who.Event(1, w.now.Add(-age).Unix(), "")
	}
	w.Brought(event(eve, 0), home, true)
	w.wantNetwork("192.0.2.1", false)
	w.Brought(event(alice, 2*time.Hour), home, false) // a replay
	w.wantNetwork("192.0.2.1", false)
	w.Brought(event(alice, time.Minute), home, false)
	w.wantNetwork("192.0.2.1", true)
	w.wantNetwork("192.0.2.2", false)
	w.Brought(event(alice, 2*time.Hour), netip.MustParseAddr("2001:db8::1"), true)
	w.wantNetwork("2001:db8::2", true)
	w.Brought(event(alice, 0), netip.MustParseAddr("127.0.0.1"), true)
	w.wantNetwork("127.0.0.1", false)
	w.later(NetworkFor - time.Second)
	w.restart()
	w.wantNetwork("192.0.2.1", true)
	w.later(time.Second)
	w.wantNetwork("192.0.2.1", false)
	w.must(w.save(t.Context()))
	for name := range w.store.rows {
		if name != rowComplete {
			t.Errorf("the row %q is still there", name)
		}
	}
	for i := range 3 * maxNetworks {
		w.Brought(event(alice, 0), netip.AddrFrom4([4]byte{198, 51, 100, byte(i)}), true)
	}
	if _, n := w.Len(); n != maxNetworks {
		t.Errorf("%d networks are known, want %d", n, maxNetworks)
	}
}

// A client is known by its key or its network. A proven key comes with the holder.
func TestHolder(t *testing.T) {
	w := newWorld(t, alice.PubKey)
	addr := netip.MustParseAddr("192.0.2.1")
	if by := w.Holder(addr, []host.PubKey{eve.PubKey, alice.PubKey}); !by.Known || by.Key != alice.PubKey || by.Addr != addr {
		t.Errorf("%+v", by)
	}
	if by := w.Holder(addr, []host.PubKey{eve.PubKey}); by.Known {
		t.Errorf("%+v", by)
	}
	if by := (*Set)(nil).Holder(addr, nil); by.Known || by.Addr != addr {
		t.Errorf("%+v", by)
	}
}

// The owner of a repository cannot make a crowd known.
func TestCrowd(t *testing.T) {
	w := newWorld(t)
	for i := range 4 {
		var crowd []*testkit.Signer
		for k := range maxKeys + 8 {
			crowd = append(crowd, testkit.NewSigner(byte(20+50*i+k)))
		}
		w.announce(alice, string(rune('a'+i)), crowd...)
	}
	w.later(ServedFor)
	if keys, _ := w.Len(); keys != maxOfOwner {
		t.Errorf("%d keys are known, want %d", keys, maxOfOwner)
	}
}
