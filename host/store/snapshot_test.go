package store

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"talon/host"
	"talon/internal/testkit"
)

// TestSnapshot writes while a snapshot is copied: the copy has what was committed before, and
// nothing else.
func TestSnapshot(t *testing.T) {
	tune := defaultTuning
	tune.maxWAL = 20 // pages: the writer would soon wait for readers
	s, err := Open(t.Context(), filepath.Join(t.TempDir(), FileName), Options{tune: &tune})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	l := newLoad(1)
	var before []*host.Event
	for range 300 {
		before = append(before, l.event())
	}
	put(t, s, 0, before...)

	n, err := s.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	for range 100 {
		put(t, s, 0, l.event())
	}
	if took := time.Since(began); took > time.Minute {
		t.Errorf("100 commits took %v: the writer waits for the snapshot", took)
	}
	testkit.Chdir(t, t.TempDir())
	path, last := "copy.db", 0 // relative, as the default data folder is
	if err := n.Write(t.Context(), path, func(done, total int) { last = total - done }); err != nil {
		t.Fatal(err)
	}
	if err := n.Close(); err != nil || last != 0 {
		t.Errorf("%v, %d pages are left", err, last)
	}
	put(t, s, 0, l.event()) // the log may start over

	restored, err := Open(t.Context(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer restored.Close()
	got, want := selected(t, restored, 0, host.Filter{Limit: -1}), texts(before...)
	if len(got) != 300 || strings.Join(slices.Sorted(slices.Values(got)), "") != strings.Join(slices.Sorted(slices.Values(want)), "") {
		t.Errorf("the copy has %d events, want the first 300", len(got))
	}
	if _, err := restored.Check(t.Context(), func(*host.Event) error { return nil }, func(p string) { t.Error(p) }); err != nil {
		t.Error(err)
	}
}

// TestSnapshotsAreAlike: pages that did not change are at the same place in the next copy.
func TestSnapshotsAreAlike(t *testing.T) {
	s := open(t)
	l := newLoad(2)
	copyOf := func() []byte {
		n, err := s.Snapshot(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer n.Close()
		path := filepath.Join(t.TempDir(), "copy.db")
		if err := n.Write(t.Context(), path, func(int, int) {}); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	var list []*host.Event
	for range 2000 {
		list = append(list, l.event())
	}
	put(t, s, 0, list...)
	first := copyOf()
	put(t, s, 0, l.event())
	second := copyOf()
	const page = 4096
	different := 0
	for at := 0; at+page <= min(len(first), len(second)); at += page {
		if !bytes.Equal(first[at:at+page], second[at:at+page]) {
			different++
		}
	}
	if all := len(second) / page; different > all/10 {
		t.Errorf("%d of %d pages differ after one event", different, all)
	}
}

func TestSnapshotFails(t *testing.T) {
	s := open(t)
	put(t, s, 0, fake(1, 1, 1, 1))
	n, err := s.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	path := filepath.Join(t.TempDir(), "copy.db")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := n.Write(ctx, path, func(int, int) {}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("half a copy is left: %v", err)
	}
	if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := n.Write(t.Context(), path, func(int, int) {}); !errors.Is(err, fs.ErrExist) {
		t.Errorf("over a file: %v", err)
	}
	if text, _ := os.ReadFile(path); string(text) != "precious" {
		t.Errorf("the file is %q", text)
	}
}
