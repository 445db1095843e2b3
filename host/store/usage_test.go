package store

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"talon/host"
	"talon/internal/testkit"
	"talon/sdk/grasp"
)

// TestMigrateUsage opens a database of a version that counted no usage: the result is that of a
// database that counted from the start.
func TestMigrateUsage(t *testing.T) {
	dir := t.TempDir()
	s := merged(t, dir)
	var events []*host.Event
	for n := range 2*fetchRows + 5 {
		events = append(events, fake(n, byte(n%7), 1621, int64(n), host.Tag{"a", fmt.Sprintf("30617:%s:%d", host.PubKey{1}, n%3)}))
	}
	events = append(events, fake(5000, 1, grasp.KindState, 1, host.Tag{"d", "1"}))
	put(t, s, 0, events...)
	all := func(s *Store) (list []host.UsageRow) {
		for _, class := range []host.UsageClass{host.UsageByAuthor, host.UsageByRepository, host.UsageByKind} {
			rows, err := s.LargestUsage(context.Background(), class, 1000)
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, rows...)
		}
		return list
	}
	want := all(s)
	if len(want) != 7+3+2 {
		t.Fatalf("%d rows", len(want))
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	raw(t, filepath.Join(dir, FileName), noUsage+`UPDATE event SET json = x'7b7d' WHERE seq = 1; UPDATE meta SET value = 13 WHERE name = 'version'`)
	s = reopen(t, dir)
	// Of an event that cannot be read, the repository is not known.
	size := int64(len(events[0].JSON))
	got := all(s)
	for i := range want {
		if want[i].UsageKey == host.UsageOfAuthor(host.PubKey{0}) || want[i].UsageKey == host.UsageOfKind(1621) {
			want[i].Bytes -= size - 2
		}
		if want[i].Class == host.UsageByRepository && want[i].Identifier() == "0" {
			want[i].Events--
			want[i].Bytes -= size
		}
	}
	order := func(a, b host.UsageRow) int { return strings.Compare(a.UsageKey.String(), b.UsageKey.String()) }
	slices.SortFunc(got, order)
	slices.SortFunc(want, order)
	if !slices.Equal(got, want) {
		t.Errorf("after the migration:\n%v\nwant:\n%v", got, want)
	}
}

// TestUsageBytes stores events with long identifiers of repositories: their keys in memory stay
// bounded, and all events count.
func TestUsageBytes(t *testing.T) {
	testkit.SkipRace(t)
	s := open(t)
	const events, batch = 5000, 250
	long := strings.Repeat("x", 1990)
	for n := 0; n < events; n += batch {
		var list []*host.Event
		for i := range batch {
			list = append(list, fake(n+i, 1, 1621, int64(n+i), host.Tag{"a", fmt.Sprintf("30617:%s:%s%d", host.PubKey{1}, long, n+i)}))
		}
		put(t, s, 0, list...)
		if most := maxUsageBytes + batch*2100; s.usage.bytes > most {
			t.Fatalf("%d bytes of keys in memory after %d events, want at most %d", s.usage.bytes, n+batch, most)
		}
	}
	if s.usage.point == 0 {
		t.Error("no usage is written")
	}
	u, err := s.Usage(context.Background(), host.UsageOfKind(1621), host.UsageOfAuthor(host.PubKey{1}))
	if err != nil || u[0].Events != events || u[1].Events != events {
		t.Errorf("the usage is %+v, %v", u, err)
	}
	check(t, s)
}
