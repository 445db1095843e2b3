package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"talon/host"
	"talon/host/store/semantics"
)

func testPlaceholders(t *testing.T, x Engine) {
	dir := x.New(t)
	s := reopen(t, x, dir)
	wantPlaceholders(t, s)
	total := s.Total()
	addPlaceholder(t, s, "b", host.ID{1}, 30)
	addPlaceholder(t, s, "a", host.ID{2}, 20)
	addPlaceholder(t, s, "a", host.ID{1}, 20)
	addPlaceholder(t, s, "\x00\xff", host.ID{1}, -5)
	addPlaceholder(t, s, "a", host.ID{1}, 10) // is there: its time stays
	all := []string{`-5 "\x00\xff" 1`, `20 "a" 1`, `20 "a" 2`, `30 "b" 1`}
	wantPlaceholders(t, s, all...)
	if s.Total() != total {
		t.Errorf("placeholders change the totals of events: %v, %v before", s.Total(), total)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = reopen(t, x, dir)
	wantPlaceholders(t, s, all...)
	dropPlaceholder(t, s, "a")
	dropPlaceholder(t, s, "c", host.ID{1})
	dropPlaceholder(t, s, "a", host.ID{1}, host.ID{9}, host.ID{1}, host.ID{2})
	wantPlaceholders(t, s, all[0], all[3])
	Check(t, s)

	ro, err := x.ReadOnly(context.Background(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer ro.Close()
	wantPlaceholders(t, ro, all[0], all[3])
	if err := ro.AddPlaceholder(context.Background(), "a", host.ID{1}, 1); !errors.Is(err, semantics.ErrReadOnly) {
		t.Errorf("add: got %v, want %v", err, semantics.ErrReadOnly)
	}
	if err := ro.DropPlaceholder(context.Background(), "a", host.ID{1}); !errors.Is(err, semantics.ErrReadOnly) {
		t.Errorf("drop: got %v, want %v", err, semantics.ErrReadOnly)
	}
}

// testPlaceholdersAreBounded counts also after what failed, and after a restart.
func testPlaceholdersAreBounded(t *testing.T, x Engine) {
	dir := x.New(t)
	opts := Options{Held: semantics.HeldLimits{Placeholders: 3}}
	s := openWith(t, x, dir, opts)
	add := func(n byte) error { return s.AddPlaceholder(context.Background(), "a", host.ID{n}, int64(n)) }
	full := func() {
		t.Helper()
		for range 2 {
			if err := add(9); !errors.Is(err, semantics.ErrTooManyPlaceholders) || !strings.Contains(err.Error(), "3 is the most") {
				t.Errorf("got %v, want %v", err, semantics.ErrTooManyPlaceholders)
			}
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.AddPlaceholder(ctx, "a", host.ID{9}, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if err := s.AddPlaceholder(context.Background(), strings.Repeat("a", semantics.MaxPlaceholderRepo+1), host.ID{9}, 1); err == nil {
		t.Error("a key that is too long is taken")
	}
	for n := range byte(3) {
		if err := errors.Join(add(n), add(n)); err != nil {
			t.Fatal(err)
		}
	}
	full()
	wantPlaceholders(t, s, `0 "a" 0`, `1 "a" 1`, `2 "a" 2`)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openWith(t, x, dir, opts)
	full()
	if err := add(1); err != nil {
		t.Errorf("one that is there, of a full table: %v", err)
	}
	dropPlaceholder(t, s, "a", host.ID{1})
	if err := add(8); err != nil {
		t.Error(err)
	}
	full()
}

func testDeletedAddress(t *testing.T, x Engine) {
	s := open(t, x)
	a := host.Address{Kind: 30617, PubKey: host.PubKey{1}, D: "repo"}
	other := host.Address{Kind: 30617, PubKey: host.PubKey{2}, D: "repo"}
	Put(t, s, 0, Event(1, 1, host.KindDeletion, 20, []string{"a", a.String()}, []string{"a", other.String()}))
	for _, tt := range []struct {
		address host.Address
		at      int64
		want    bool
	}{
		{a, 19, true},
		{a, 20, true},
		{a, 21, false},
		{other, 1, false}, // a stranger deletes nothing
		{host.Address{Kind: 30618, PubKey: a.PubKey, D: "repo"}, 1, false},
	} {
		got, err := s.DeletedAddress(context.Background(), tt.address, tt.at)
		if err != nil || got != tt.want {
			t.Errorf("%s at %d: got %v, %v; want %v", tt.address, tt.at, got, err, tt.want)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.DeletedAddress(context.Background(), a, 1); !errors.Is(err, semantics.ErrClosed) {
		t.Errorf("got %v, want %v", err, semantics.ErrClosed)
	}
}

func addPlaceholder(t testing.TB, s Store, repo string, id host.ID, since int64) {
	t.Helper()
	if err := s.AddPlaceholder(context.Background(), repo, id, since); err != nil {
		t.Fatal(err)
	}
}

func dropPlaceholder(t testing.TB, s Store, repo string, ids ...host.ID) {
	t.Helper()
	if err := s.DropPlaceholder(context.Background(), repo, ids...); err != nil {
		t.Fatal(err)
	}
}

// wantPlaceholders compares all rows, as "since repo first-byte-of-id".
func wantPlaceholders(t testing.TB, s Store, want ...string) {
	t.Helper()
	var got []string
	err := s.Placeholders(context.Background(), func(repo string, id host.ID, since int64) error {
		got = append(got, fmt.Sprintf("%d %q %d", since, repo, id[0]))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
