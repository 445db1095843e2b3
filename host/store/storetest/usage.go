package storetest

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"talon/host"
	"talon/host/store/semantics"
	"talon/host/wire"
)

func repository(author byte, identifier string) host.UsageKey {
	key, _ := host.UsageOfRepository(host.PubKey{author}, identifier)
	return key
}

// usage returns what a key takes.
func usage(t *testing.T, s Store, key host.UsageKey) host.Usage {
	t.Helper()
	list, err := s.Usage(context.Background(), key)
	if err != nil {
		t.Fatal(err)
	}
	return list[0]
}

// sizes returns the usage of events.
func sizes(events ...*host.Event) (u host.Usage) {
	for _, e := range events {
		u.Add(host.Usage{Events: 1, Bytes: int64(len(e.JSON))})
	}
	return u
}

// testUsage compares the usage with the stored events after each way in which one comes or goes.
func testUsage(t *testing.T, x Engine) {
	name := x.New(t)
	s := reopen(t, x, name)
	address := host.Address{Kind: host.KindAnnouncement, PubKey: host.PubKey{1}, D: "lib"}.String()
	announcement := Event(1, 1, host.KindAnnouncement, 10, host.Tag{"d", "lib"})
	state := Event(2, 1, 30618, 10, host.Tag{"d", "lib"})
	issue := Event(3, 2, 1621, 10, host.Tag{"a", "30023:x:y"}, host.Tag{"a", address}, host.Tag{"a", "30617:" + host.PubKey{7}.String() + ":other"})
	note := Event(4, 2, 1, 10)
	brief := Event(5, 2, 1, 10, host.Tag{"expiration", "50"})
	long := Event(6, 3, host.KindAnnouncement, 10, host.Tag{"d", strings.Repeat("x", 3000)})
	longest := Event(7, 3, host.KindAnnouncement, 10, host.Tag{"d", strings.Repeat("é", 1024)})
	Put(t, s, 20, announcement, state, issue, note, brief, long, longest)
	compare := func(when string, wants map[host.UsageKey]host.Usage) {
		t.Helper()
		for key, want := range wants {
			if got := usage(t, s, key); got != want {
				t.Errorf("%s: %s takes %+v, want %+v", when, key, got, want)
			}
		}
		Check(t, s)
	}
	author := func(n byte) host.UsageKey { return host.UsageOfAuthor(host.PubKey{n}) }
	compare("stored", map[host.UsageKey]host.Usage{
		author(1): sizes(announcement, state), author(2): sizes(issue, note, brief), author(3): sizes(long, longest),
		repository(1, "lib"): sizes(announcement, state, issue), repository(7, "other"): {}, repository(3, strings.Repeat("é", 1024)): sizes(longest),
		host.UsageOfKind(1): sizes(note, brief), host.UsageOfKind(host.KindAnnouncement): sizes(announcement, long, longest), host.UsageOfKind(9): {},
	})

	newer := Event(8, 1, host.KindAnnouncement, 11, host.Tag{"d", "lib"}, host.Tag{"name", "longer"})
	deletion := Event(9, 2, host.KindDeletion, 12, host.Tag{"e", note.ID.String()})
	Put(t, s, 20, newer, deletion, note)
	Change(t, s, func(tx Tx) error {
		_, err := tx.Sweep(60, 10)
		return err
	})
	after := map[host.UsageKey]host.Usage{
		author(1): sizes(newer, state), author(2): sizes(issue, deletion), repository(1, "lib"): sizes(newer, state, issue), host.UsageOfKind(1): {},
	}
	compare("replaced, deleted and expired", after)

	tx, err := s.Begin()
	if err != nil {
		t.Fatal(err)
	}
	more := Event(10, 1, 1, 13)
	if _, err := tx.Put(more, 20); err != nil {
		t.Fatal(err)
	}
	for n, want := range map[byte]host.Usage{1: sizes(newer, state, more), 2: sizes(issue, deletion), 9: {}} {
		if got, err := tx.AuthorUsage(host.PubKey{n}); err != nil || got != want {
			t.Errorf("within a transaction, author %d takes %+v (%v), want %+v", n, got, err, want)
		}
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	compare("rolled back", after)

	held := Event(11, 4, host.KindAnnouncement, 10, host.Tag{"d", "held"})
	Hold(t, s, 20, host.HoldOptions{Reason: "purgatory: waits"}, held)
	compare("held", map[host.UsageKey]host.Usage{author(4): {}})
	Release(t, s, 20, host.Release{IDs: []host.ID{held.ID}})
	after[author(4)] = sizes(held)
	compare("released", after)

	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = reopen(t, x, name)
	compare("opened again", after)

	rows, err := s.LargestUsage(context.Background(), host.UsageByAuthor, 2)
	if err != nil {
		t.Fatal(err)
	}
	want := []host.UsageRow{{UsageKey: author(3), Usage: sizes(long, longest)}}
	if len(rows) != 2 || !reflect.DeepEqual(rows[:1], want) || rows[1].Bytes > rows[0].Bytes || rows[1].Bytes == 0 {
		t.Errorf("the two largest authors are %+v", rows)
	}
	read, err := x.ReadOnly(context.Background(), name)
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	if again, err := read.LargestUsage(context.Background(), host.UsageByAuthor, 2); err != nil || !slices.Equal(again, rows) {
		t.Errorf("another reader has %+v, %v", again, err)
	}
	if err := read.SetGitUsage(context.Background(), repository(1, "lib"), 1, host.UsageLimits{}); !errors.Is(err, semantics.ErrReadOnly) {
		t.Errorf("a reader writes usage: %v", err)
	}
}

// testGitUsage notes the git data of repositories, within limits.
func testGitUsage(t *testing.T, x Engine) {
	s := open(t, x)
	note := Event(1, 1, 1, 10)
	Put(t, s, 20, note)
	size := int64(len(note.JSON))
	author := host.UsageOfAuthor(host.PubKey{1})
	git := func() int64 {
		tx, err := s.Begin()
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback()
		u, err := tx.AuthorUsage(host.PubKey{1})
		if err != nil {
			t.Fatal(err)
		}
		return u.Git
	}
	for _, step := range []struct {
		repository string
		bytes      int64
		limits     host.UsageLimits
		refused    bool
		git        int64 // of the author, afterwards
	}{
		{"a", 1000, host.UsageLimits{}, false, 1000},
		{"b", 500, host.UsageLimits{Author: size + 1500, Repository: 500}, false, 1500},
		{"b", 501, host.UsageLimits{Author: size + 1500}, true, 1500},
		{"b", 501, host.UsageLimits{Repository: 500}, true, 1500},
		{"b", 400, host.UsageLimits{Author: 1, Repository: 1}, false, 1400}, // fewer is never refused
		{"a", 1000, host.UsageLimits{Author: 1, Repository: 1}, false, 1400},
		{"a", 0, host.UsageLimits{}, false, 400},
		{"b", 0, host.UsageLimits{}, false, 0},
	} {
		err := s.SetGitUsage(context.Background(), repository(1, step.repository), step.bytes, step.limits)
		if errors.Is(err, host.ErrQuota) != step.refused || err != nil && !step.refused {
			t.Errorf("%+v: %v", step, err)
		}
		if got := usage(t, s, author); got != (host.Usage{Events: 1, Bytes: size, Git: step.git}) {
			t.Errorf("%+v: the author takes %+v", step, got)
		}
		if got := git(); got != step.git {
			t.Errorf("%+v: in a transaction, the author has %d bytes of git data", step, got)
		}
		Check(t, s)
	}
	rows, err := s.LargestUsage(context.Background(), host.UsageByRepository, 10)
	if err != nil || len(rows) != 0 {
		t.Errorf("repositories without git data: %+v, %v", rows, err)
	}
}

// checkUsage compares the usage with the stored events.
func checkUsage(t testing.TB, s Store) {
	t.Helper()
	want := semantics.UsageChanges{}
	err := s.Export(context.Background(), func(json []byte) error {
		e, err := wire.ParseEvent(slices.Clone(json))
		if err == nil {
			want.Add(e)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, class := range []host.UsageClass{host.UsageByAuthor, host.UsageByRepository, host.UsageByKind} {
		rows, err := s.LargestUsage(context.Background(), class, 1_000_000)
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range rows {
			if u := want[r.UsageKey]; u.Events != r.Events || u.Bytes != r.Bytes {
				t.Errorf("usage of %s: %+v, the events have %+v", r.UsageKey, r.Usage, u)
			}
			delete(want, r.UsageKey)
			if i > 0 && rows[i-1].Compare(r) >= 0 {
				t.Errorf("usage of %s comes before that of %s", rows[i-1].UsageKey, r.UsageKey)
			}
		}
	}
	for _, r := range want.Rows() {
		t.Errorf("usage of %s: nothing, the events have %+v", r.UsageKey, r.Usage)
	}
}
