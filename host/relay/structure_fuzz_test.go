package relay

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/gobwas/ws"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"talon/host"
	"talon/host/negentropy"
)

// idle returns a relay that serves nobody, with the time given.
func idle(t *testing.T, store *fakeStore, now func() time.Time, change func(*Limits)) *Relay {
	t.Helper()
	cfg := Config{Limits: DefaultLimits, Now: now, Log: slog.New(slog.DiscardHandler)}
	if change != nil {
		change(&cfg.Limits)
	}
	r, err := New(cfg, Deps{Ingest: &fakeIngest{}, Store: store, Verify: func(*host.Event) error { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// addSeeds adds random programs to a fuzz target.
func addSeeds(f *testing.F, size int) {
	for seed := range uint64(12) {
		r := rand.New(rand.NewPCG(seed, 7))
		program := make([]byte, size)
		for i := range program {
			program[i] = byte(r.Uint32())
		}
		f.Add(program)
	}
}

// runSnapshots carries out operations, three bytes each, on the snapshots of a relay, and compares
// each that is acquired with what the store has. It counts again what they account for.
func runSnapshots(t *testing.T, program []byte) {
	at := time.Unix(1000, 0)
	store := &fakeStore{}
	r := idle(t, store, func() time.Time { return at }, func(l *Limits) {
		l.NegRecords, l.NegRecordsTotal = 60, 3*snapshotStep
	})
	ss := r.snapshots
	var held []*snapshot
	for n := 0; len(program) >= 3; program = program[3:] {
		a, b := program[1], program[2]
		switch program[0] % 8 {
		case 0, 1, 2:
			n++
			var tags []host.Tag
			if a%16 == 0 {
				tags = append(tags, host.Tag{"expiration", "1005"})
			}
			e := event(a%3, host.Kind(b%4), int64(b), fmt.Sprint(n), tags...) // each has an id of its own
			r.Publish([]host.Published{{Event: e, Seq: store.put(e)}})
		case 3:
			if len(store.events) > 0 {
				store.drop(1 + int64(b)%int64(len(store.events)))
			}
		case 4, 5:
			f := host.Filter{Kinds: []host.Kind{host.Kind(a % 4)}, Limit: -1}
			if a%8 == 7 {
				f.Limit = int(b) % 10
			}
			s, _, err := ss.acquire(context.Background(), f)
			if err != nil {
				break // too many records
			}
			held = append(held, s)
			want, err := store.Select(context.Background(), []host.Filter{f}, at.Unix())
			if err != nil {
				t.Fatal(err)
			}
			ids := map[host.ID]bool{}
			for _, row := range want.Rows {
				ids[store.events[row-1].ID] = true
			}
			s.set.Each(func(it negentropy.Item) {
				if !ids[it.ID] {
					t.Fatalf("a snapshot has %s, which the store has not", it.ID)
				}
				delete(ids, it.ID)
			})
			if len(ids) > 0 {
				t.Fatalf("a snapshot lacks %d events", len(ids))
			}
		case 6:
			if len(held) > 0 {
				i := int(a) % len(held)
				ss.release(held[i])
				held = slices.Delete(held, i, i+1)
			}
		case 7:
			at = at.Add(time.Duration(a) * time.Second / 8)
			ss.sweep(at)
		}
		wantAccount(t, ss, held)
	}
	for _, s := range held {
		ss.release(s)
	}
	ss.sweep(at.Add(time.Hour))
	if len(ss.byFilter) != 0 || ss.records != 0 {
		t.Fatalf("%d snapshots of %d records are left of nobody", len(ss.byFilter), ss.records)
	}
}

// wantAccount counts again what snapshots there are.
func wantAccount(t *testing.T, ss *snapshots, held []*snapshot) {
	t.Helper()
	users, families, records := map[*snapshot]int{}, map[*snapshotFamily]bool{}, 0
	for _, s := range held {
		users[s]++
		families[s.line] = true
	}
	for key, s := range ss.byFilter {
		if !s.cached || s.key != key {
			t.Fatal("a snapshot is in the cache and does not know it")
		}
		families[s.line] = true
		if _, ok := users[s]; !ok {
			users[s] = 0
		}
	}
	for s, n := range users {
		if s.users != n {
			t.Fatalf("a snapshot has %d users, and says %d", n, s.users)
		}
	}
	for family := range families {
		records += family.records
		if size := family.size(); family.records < size || family.records >= size+snapshotStep {
			t.Fatalf("a family of %d records is accounted for as %d", size, family.records)
		}
	}
	if ss.records != records {
		t.Fatalf("%d records are accounted for, want %d", ss.records, records)
	}
}

func FuzzSnapshots(f *testing.F) {
	f.Add([]byte{0, 1, 1, 4, 1, 0, 0, 2, 1, 4, 1, 0, 3, 0, 0, 4, 1, 0, 6, 0, 0, 7, 255, 0})
	addSeeds(f, 450)
	f.Fuzz(func(t *testing.T, program []byte) { runSnapshots(t, program[:min(len(program), 900)]) })
}

// runOutbox carries out operations, two bytes each, on the queue of a connection and on a plain list.
func runOutbox(t *testing.T, program []byte) {
	r := idle(t, &fakeStore{}, time.Now, func(l *Limits) { l.MessageBytes, l.QueueBytes = 1<<16, 600_000 })
	ours, theirs := net.Pipe()
	defer ours.Close()
	defer theirs.Close()
	c := r.newConn(netip.Addr{})
	c.net, c.cancel = ours, func() {}
	var queue, batch []outgoing
	size := func(list []outgoing) (n int) {
		for i := range list {
			n += list[i].size()
		}
		return n
	}
	for ; len(program) >= 2; program = program[2:] {
		switch program[0] % 6 {
		case 0, 1, 2:
			o := outgoing{op: ws.OpText, body: make([]byte, int(program[1])*200)}
			room := size(queue)+size(batch)+o.size() <= r.cfg.Limits.QueueBytes && !c.out.sealed
			if c.push(o) != room {
				t.Fatalf("an item is taken: %v, and there is room: %v", !room, room)
			}
			switch {
			case room:
				queue = append(queue, o)
			case c.ended == nil || !c.ended.discard:
				t.Fatal("a connection whose queue is full goes on")
			default:
				queue = nil // the client would not read it
			}
		case 3:
			if batch == nil {
				got := c.out.dequeue()
				if len(got) > len(queue) || len(got) == 0 && len(queue) > 0 || size(got) != size(queue[:len(got)]) {
					t.Fatalf("%d items are taken of %d", len(got), len(queue))
				}
				if len(got) > 0 {
					batch, queue = got, queue[len(got):]
				}
			}
		case 4:
			if batch != nil {
				r.metrics.queueBytes.Sub(float64(size(batch)))
				c.out.wrote(batch)
				batch = nil
			}
		case 5:
			if program[1]%16 == 0 {
				c.dropQueue()
				queue = nil
			}
		}
		if c.out.queued != size(queue) || c.out.writing != size(batch) || c.out.empty() != (len(queue) == 0) {
			t.Fatalf("%d bytes wait and %d are written, want %d and %d", c.out.queued, c.out.writing, size(queue), size(batch))
		}
		if n := testutil.ToFloat64(r.metrics.queueBytes); int(n) != size(queue)+size(batch) {
			t.Fatalf("%v bytes are counted for all connections, want %d", n, size(queue)+size(batch))
		}
	}
}

func FuzzOutbox(f *testing.F) {
	f.Add([]byte{0, 10, 0, 255, 3, 0, 0, 1, 5, 0, 4, 0, 0, 9, 3, 0, 4, 0})
	addSeeds(f, 600)
	f.Fuzz(func(t *testing.T, program []byte) { runOutbox(t, program[:min(len(program), 2000)]) })
}

// runReassembly carries out operations, two bytes each, on what connections hold of long messages,
// and counts again.
func runReassembly(t *testing.T, program []byte) {
	const limit = 40 * freePartial
	a := newReassembly(limit)
	r := idle(t, &fakeStore{}, time.Now, nil)
	conns := make([]*conn, 12)
	for i := range conns {
		addr := netip.AddrFrom4([4]byte{10, 0, byte(i % 4), 1})
		if i%5 == 0 {
			addr = netip.MustParseAddr("127.0.0.1")
		}
		ours, theirs := net.Pipe()
		defer ours.Close()
		defer theirs.Close()
		conns[i] = r.newConn(addr)
		conns[i].net, conns[i].cancel = ours, func() {}
	}
	for ; len(program) >= 2; program = program[2:] {
		c := conns[int(program[0])%len(conns)]
		if n := int(program[1]) * freePartial / 8; program[0]%3 > 0 {
			a.grow(c, n)
		} else {
			a.release(c)
		}
		total := 0
		for c, n := range a.held {
			total += n
			if n <= freePartial {
				t.Fatalf("%d bytes are counted", n)
			}
			_ = c
		}
		if a.total != total || total > limit {
			t.Fatalf("%d bytes are held, and %d are counted", total, a.total)
		}
	}
}

func FuzzReassembly(f *testing.F) {
	f.Add([]byte{1, 255, 2, 255, 4, 200, 5, 90, 1, 100, 0, 0, 3, 0})
	addSeeds(f, 600)
	f.Fuzz(func(t *testing.T, program []byte) { runReassembly(t, program[:min(len(program), 2000)]) })
}
