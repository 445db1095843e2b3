package repos

import (
	"context"
	"encoding/binary"
	"net/netip"
	"strings"
	"testing"
	"time"

	"talon/host"
	"talon/host/bound"
	"talon/host/githttp"
)

// Refs for events that are not here are bounded by address: not those for events that are,
// and not those that wait already.
func TestUnknownPulls(t *testing.T) {
	w := newWorld(t)
	f := w.reconciler
	now := time.Unix(1_700_000_000, 0)
	f.cfg.PullRefs = 3
	f.pulled = bound.NewRate(bound.Spec{Name: "test", Unit: "refs an hour", Network: 3, Yields: "the next one waits"}, func() time.Time { return now })
	push := func(addr string, from, n int) error {
		p := &githttp.Push{Client: host.Client{Addr: netip.MustParseAddr(addr)}, Parts: strings.Split(strings.SplitN(w.url(alice, "demo"), "/", 4)[3], "/")}
		for i := range n {
			id := host.ID{byte(from + i)}
			p.Updates = append(p.Updates, host.RefUpdate{Ref: nostrRefs + id.String()})
		}
		return f.unknownPulls(t.Context(), p, checked{})
	}
	// A repository that waits for its first push takes none.
	held := &githttp.Push{Parts: strings.Split(strings.SplitN(w.url(alice, "demo"), "/", 4)[3], "/"), Updates: []host.RefUpdate{{Ref: nostrRefs + host.ID{9}.String()}}}
	if err := f.unknownPulls(t.Context(), held, checked{held: true}); err == nil || !strings.Contains(err.Error(), "waits for its first push") {
		t.Errorf("a ref in a held repository: %v", err)
	}
	if err := push("192.0.2.1", 0, 4); err == nil || !strings.Contains(err.Error(), "3 refs an hour") {
		t.Errorf("four at once: %v", err)
	}
	if err := push("192.0.2.1", 0, 3); err != nil {
		t.Error(err)
	}
	if err := push("192.0.2.1", 3, 1); err == nil || !strings.Contains(err.Error(), "try again in") {
		t.Errorf("the fourth: %v", err)
	}
	// A third of an hour gives one back, and before that none.
	now = now.Add(19 * time.Minute)
	if err := push("192.0.2.1", 3, 1); err == nil || !strings.Contains(err.Error(), "try again in 1m") {
		t.Errorf("19 minutes later: %v", err)
	}
	now = now.Add(time.Minute)
	if err := push("192.0.2.1", 3, 1); err != nil {
		t.Errorf("20 minutes later: %v", err)
	}
	if err := push("192.0.2.2", 3, 1); err != nil {
		t.Errorf("somebody else: %v", err)
	}
	if err := push("127.0.0.1", 0, 200); err != nil {
		t.Errorf("loopback: %v", err)
	}
	now = now.Add(time.Hour)
	if err := push("192.0.2.1", 3, 3); err != nil {
		t.Errorf("an hour later: %v", err)
	}
}

// A push is early if no ref of it is for an event that is here.
func TestEarlyPush(t *testing.T) {
	w := newWorld(t)
	w.sent(w.announce(alice, "demo"), host.Held)
	pr := w.sent(w.pullRequest(bob, strings.Repeat("1", 40), repoOf(alice, "demo")), host.Held)
	unknown := nostrRefs + host.ID{7}.String()
	for refs, early := range map[string]bool{
		unknown:                    true,
		nostrRefs + pr.ID.String(): false,
		unknown + " " + nostrRefs + pr.ID.String(): false,
		unknown + " refs/heads/main":               false,
	} {
		p := &githttp.Push{Parts: strings.Split(strings.SplitN(w.url(alice, "demo"), "/", 4)[3], "/")}
		for ref := range strings.FieldsSeq(refs) {
			p.Updates = append(p.Updates, host.RefUpdate{Ref: ref})
		}
		if err := w.reconciler.unknownPulls(t.Context(), p, checked{}); err != nil || p.Early != early {
			t.Errorf("%s: early %t, %v", refs, p.Early, err)
		}
	}
}

// countedDrops is a store that counts what is dropped, and how much in one call.
type countedDrops struct{ rows, most int }

func (c *countedDrops) Placeholders(context.Context, func(string, host.ID, int64) error) error {
	return nil
}

func (c *countedDrops) AddPlaceholder(context.Context, string, host.ID, int64) error { return nil }

func (c *countedDrops) DropPlaceholder(_ context.Context, _ string, ids ...host.ID) error {
	c.rows += len(ids)
	c.most = max(c.most, len(ids))
	return nil
}

// TestManyAreForgotten: somebody pushed a thousand refs, and the repository goes. Events
// do not wait for all of them together, and no other repository's are forgotten.
func TestManyAreForgotten(t *testing.T) {
	store := new(countedDrops)
	ps := placeholders{store: store, rows: make(map[placeholder]int64)}
	for i := range 2*dropAtOnce + 1 {
		var id host.ID
		binary.BigEndian.PutUint64(id[:], uint64(i))
		if _, err := ps.add(t.Context(), "a", id, 1); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := ps.add(t.Context(), "b", host.ID{}, 1); err != nil {
		t.Fatal(err)
	}
	if err := ps.removeRepo(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if store.rows != 2*dropAtOnce+1 || store.most > dropAtOnce || ps.len() != 1 {
		t.Errorf("%d rows went, %d at once, and %d are left", store.rows, store.most, ps.len())
	}
}
