package state

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"talon/host"
)

func TestSave(t *testing.T) {
	now := int64(start)
	disk := newDisk()
	m := memory(t, disk, &now, Options{})
	p := m.Of("p")
	save(t, m)
	if len(disk.saves) != 0 {
		t.Fatal("nothing changed, and it was saved")
	}
	for i := range 10 {
		set(t, p, "often", fmt.Sprint(i), 0, now)
		p.Incr([]byte("n"), 1, 60, now)
		p.Take([]byte("often"), 1, 100, 1500, now)
		set(t, p, "never seen", "x", 0, now)
		p.Delete([]byte("never seen"))
		set(t, p, "over before", "x", 1, now-1)
	}
	p.sweep(now)
	save(t, m)
	save(t, m)
	if len(disk.saves) != 1 || len(disk.saves[0]) != 3 {
		t.Fatalf("saved %v, want three entries once", disk.saves)
	}
	for _, want := range []host.StateEntry{
		{Module: "p", Space: 0, Key: "often", Value: []byte("9")},
		{Module: "p", Space: 0, Key: "n", Value: putInt(10), Expires: start + 60},
		{Module: "p", Space: 1, Key: "often", Value: putInt(start*1000 + 15_000), Expires: start + 15},
	} {
		if got := disk.rows[rowKey(want)]; !bytes.Equal(got.Value, want.Value) || got.Expires != want.Expires {
			t.Errorf("the disk has %+v, want %+v", got, want)
		}
	}

	after := memory(t, disk, &now, Options{}).Of("p")
	if get(after, "often", now) != "9" || after.Incr([]byte("n"), 0, 0, now) != 10 || after.Take([]byte("often"), 91, 100, 1500, now) != 1500 {
		t.Error("after a restart something is missing")
	}
	if after.Bytes() != p.Bytes() {
		t.Errorf("after a restart %d bytes are used, before it was %d", after.Bytes(), p.Bytes())
	}
	account(t, after)

	p.Delete([]byte("often"))
	if p.Bytes() != after.Bytes()-1 {
		t.Error("a deleted key must count until the disk knows")
	}
	save(t, m)
	account(t, p)
	if _, ok := disk.rows["p 0 often"]; ok || p.Bytes() >= after.Bytes()-overhead {
		t.Error("a deleted key is still there after a save")
	}
	now += 100
	p.sweep(now)
	save(t, m)
	if len(disk.rows) != 0 || p.Bytes() != 0 {
		t.Errorf("after all has expired the disk has %v, memory %d bytes", disk.rows, p.Bytes())
	}
}

func TestOpen(t *testing.T) {
	now := int64(start)
	disk := newDisk()
	for _, e := range []host.StateEntry{
		{Module: "p", Space: 0, Key: "over", Value: []byte("x"), Expires: start},
		{Module: "p", Space: 0, Key: "there", Value: []byte("x"), Expires: start + 1},
		{Module: "p", Space: 9, Key: "of a newer version", Value: []byte("x")},
		{Module: "p", Space: 1, Key: "no time", Value: []byte("x")},
		{Module: "p", Space: 1, Key: "negative", Value: putInt(-5)},
		{Module: "p", Space: 1, Key: "far", Value: putInt(1<<63 - 1), Expires: 1 << 60},
	} {
		disk.rows[rowKey(e)] = e
	}
	m := memory(t, disk, &now, Options{})
	p := m.Of("p")
	account(t, p)
	if get(p, "over", start-1) != "-" || get(p, "there", start) != "x" {
		t.Error("expiry was not looked at")
	}
	if got := p.Take([]byte("far"), 1, 2, 1000, start); got != 1000 {
		t.Errorf("a bucket that is full at the end of days: %d, want it to be empty", got)
	}
	save(t, m)
	if _, ok := disk.rows["p 0 over"]; ok {
		t.Error("what had expired at the start stays on the disk")
	}
	disk.fails = errFull
	if _, err := Open(t.Context(), disk, Options{}); !errors.Is(err, errFull) {
		t.Errorf("got %v, want %v", err, errFull)
	}
}

// TestFailedSave: whatever happens around a save that fails, the disk has the
// truth after the next.
func TestFailedSave(t *testing.T) {
	for _, tt := range []struct {
		name   string
		during func(p *Plugin, now *int64)
		want   string
	}{
		{"nothing", func(*Plugin, *int64) {}, "new"},
		{"another value", func(p *Plugin, now *int64) { p.Set([]byte("k"), []byte("newer"), 0, *now) }, "newer"},
		{"deleted", func(p *Plugin, now *int64) { p.Delete([]byte("k")) }, "-"},
		{"deleted and set", func(p *Plugin, now *int64) {
			p.Delete([]byte("k"))
			p.Set([]byte("k"), []byte("again"), 0, *now)
		}, "again"},
		{"expired", func(p *Plugin, now *int64) { *now += 100; p.sweep(*now) }, "-"},
	} {
		for _, fails := range []bool{false, true} {
			t.Run(fmt.Sprint(tt.name, fails), func(t *testing.T) {
				now := int64(start)
				disk := newDisk()
				m := memory(t, disk, &now, Options{})
				p := m.Of("p")
				set(t, p, "k", "old, for ever", 0, now)
				save(t, m)
				set(t, p, "k", "new", 50, now)
				p.Take([]byte("b"), 1, 1, 1000, now)
				disk.during = func() {
					disk.during = nil
					if fails {
						disk.fails = errFull
					}
					tt.during(p, &now)
				}
				if err := m.Save(t.Context()); errors.Is(err, errFull) != fails {
					t.Fatalf("save: %v", err)
				}
				if got := get(p, "k", now); got != tt.want {
					t.Errorf("memory has %q, want %q", got, tt.want)
				}
				account(t, p)
				disk.fails = nil
				save(t, m)
				if got := get(memory(t, disk, &now, Options{}).Of("p"), "k", now); got != tt.want {
					t.Errorf("after a restart: %q, want %q", got, tt.want)
				}
				account(t, p)
			})
		}
	}
}

// TestManyChanges: no save is long, each key is in it once, and a failure in the
// middle loses nothing.
func TestManyChanges(t *testing.T) {
	now := int64(start)
	disk := newDisk()
	m := memory(t, disk, &now, Options{})
	const n = 5000
	for i := range n {
		p := m.Of(fmt.Sprint("p", i%3))
		p.Set(fmt.Append(nil, i), make([]byte, i%200), 0, now)
	}
	m.Of("big").Set([]byte("1"), make([]byte, MaxValue), 0, now)
	saves := 0
	disk.during = func() {
		if saves++; saves == 4 {
			disk.fails = errFull
		}
	}
	if err := m.Save(t.Context()); !errors.Is(err, errFull) {
		t.Fatalf("got %v", err)
	}
	disk.fails, disk.during = nil, nil
	save(t, m)
	seen := 0
	for _, entries := range disk.saves {
		seen += len(entries)
		size := 0
		for _, e := range entries {
			size += len(e.Value)
		}
		if len(entries) > saveEntries || size > saveBytes+MaxValue {
			t.Errorf("one save of %d entries, %d bytes", len(entries), size)
		}
	}
	if seen != n+1 || len(disk.rows) != n+1 {
		t.Errorf("%d entries were saved, %d rows are there, want %d", seen, len(disk.rows), n+1)
	}
	for _, p := range m.all() {
		account(t, p)
	}
}

func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := newDisk()
		var log bytes.Buffer
		m := memory(t, disk, nil, Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- m.Run(ctx) }()
		pass := func(d time.Duration) {
			time.Sleep(d)
			synctest.Wait()
		}
		p := m.Of("p")
		pass(10 * time.Second)
		if len(disk.saves) != 0 {
			t.Errorf("saved %d times though nothing changed", len(disk.saves))
		}
		set(t, p, "k", "one", 5, time.Now().Unix())
		pass(time.Second)
		if len(disk.saves) != 1 {
			t.Errorf("saved %d times, want one", len(disk.saves))
		}
		pass(10 * time.Second)
		if len(disk.rows) != 0 || p.Bytes() != 0 {
			t.Error("what expired was not dropped")
		}

		disk.fail(errFull)
		set(t, p, "k", "two", 0, time.Now().Unix())
		pass(150 * time.Second)
		if n := strings.Count(log.String(), "disk is full"); n != 3 {
			t.Errorf("150 s of failures are logged %d times, want 3:\n%s", n, &log)
		}
		disk.fail(nil)
		pass(time.Second)
		if !strings.Contains(log.String(), "saved again") || string(disk.rows["p 0 k"].Value) != "two" {
			t.Errorf("after the failure: %v\n%s", disk.rows, &log)
		}

		set(t, p, "k", "three", 0, time.Now().Unix())
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if string(disk.rows["p 0 k"].Value) != "three" {
			t.Error("the last change was not saved at the end")
		}
	})
}

// TestWithoutDisk: nothing waits for a save that never comes.
func TestWithoutDisk(t *testing.T) {
	p := memory(t, nil, nil, Options{}).Of("p")
	for i := range 1000 {
		set(t, p, fmt.Sprint(i), "x", 0, start)
		p.Delete(fmt.Append(nil, i))
	}
	save(t, p.memory)
	if p.Bytes() != 0 {
		t.Errorf("%d bytes are left", p.Bytes())
	}
	account(t, p)
}
