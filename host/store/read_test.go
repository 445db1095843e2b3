package store

import (
	"bytes"
	"context"
	"database/sql/driver"
	"fmt"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/nbd-wtf/go-nostr"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"talon/host"
	"talon/internal/testkit"
)

// TestStatementsUseIndexes reads SQLite's plans: none may go through a table or
// sort what it has found.
func TestStatementsUseIndexes(t *testing.T) {
	s := open(t)
	r, err := s.acquire(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer s.release(r)
	bad := regexp.MustCompile(`SCAN (posting|event|p|e)\b|TEMP B-TREE`)
	for name, sql := range map[string]string{
		"spanPlaces": spanSortKeys, "spanCount": spanCount,
		"spans.some": spans.some, "spans.any": spans.any,
		"packCandidates.some": packCandidates.some, "packCandidates.any": packCandidates.any, "spansBehind": spansBehind, "keyPlaces": keySortKeys,
		"countCandidates.some": countCandidates.some, "countCandidates.any": countCandidates.any,
		"eventMeta": eventMeta, "eventText": eventText, "shortTexts": shortTexts, "eventIDs": eventIDs,
	} {
		t.Run(name, func(t *testing.T) {
			args := make([]driver.Value, strings.Count(sql, "?"))
			if i := regexp.MustCompile(`\?[1-9]`).FindAllString(sql, -1); i != nil {
				args = args[:slices.Max(i)[1]-'0']
			}
			err := r.each(context.Background(), "EXPLAIN QUERY PLAN "+sql, args, func(row []driver.Value) error {
				if s := fmt.Sprint(row[3]); bad.MatchString(s) {
					t.Error(s)
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
}

// TestStatementsStayPrepared asks with one limit after the other. SQLite asks whether each
// statement is allowed when it prepares it.
func TestStatementsStayPrepared(t *testing.T) {
	s := openWith(t, t.TempDir(), Options{Readers: 1})
	l := newLoad(5)
	var events []*host.Event
	for range 300 {
		events = append(events, l.event())
	}
	put(t, s, 0, events...)
	r, err := s.acquire(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	prepared := 0
	r.sqlite.RegisterAuthorizer(func(int, string, string, string) int { prepared++; return 0 })
	s.release(r)
	var authors []host.PubKey
	var tags host.TagFilter
	for _, e := range events[:30] {
		authors = append(authors, e.PubKey)
		tags.Name = e.Tags[0][0][0]
		tags.Values = append(tags.Values, e.Tags[0][1])
	}
	ask := func(limit int) {
		t.Helper()
		for _, f := range []host.Filter{
			{},
			{Kinds: []host.Kind{1, 7}},
			{Authors: authors},
			{Authors: authors[:3], Kinds: []host.Kind{1, 7}},
			{Tags: []host.TagFilter{tags}},
			{Tags: []host.TagFilter{tags}, Authors: authors, Kinds: []host.Kind{1}},
		} {
			f.Limit = limit
			selected(t, s, 0, f)
		}
	}
	ask(3)
	if prepared == 0 {
		t.Fatal("no statement was prepared")
	}
	for limit := range 60 {
		ask(1 + limit)
	}
	before := prepared
	for limit := range 60 {
		ask(60 - limit)
	}
	if prepared > before {
		t.Errorf("statements were prepared again, %d questions", prepared-before)
	}
}

// TestFetchAllocatesLittle reads texts that are not remembered: they come into memory many
// at a time.
func TestFetchAllocatesLittle(t *testing.T) {
	dir := t.TempDir()
	s := openWith(t, dir, Options{})
	l := newLoad(6)
	var events []*host.Event
	for range 8 * fetchRows {
		events = append(events, l.event())
	}
	put(t, s, 0, events...)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openWith(t, dir, Options{Readers: 1})
	sel, err := s.Select(context.Background(), []host.Filter{{Limit: -1}}, 0)
	if err != nil {
		t.Fatal(err)
	}
	read := 0
	count := func(int64, []byte) error { read++; return nil }
	fetch := func(rows []int64) {
		t.Helper()
		if err := s.Fetch(context.Background(), rows, count); err != nil {
			t.Fatal(err)
		}
	}
	fetch(sel.Rows[:1]) // which prepares the statements
	rest := sel.Rows[1:]
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	fetch(rest)
	runtime.ReadMemStats(&after)
	if read != len(sel.Rows) {
		t.Fatalf("%d texts were read, want %d", read, len(sel.Rows))
	}
	if n := after.Mallocs - before.Mallocs; n > uint64(len(rest))*2/3 {
		t.Errorf("%d texts took %d allocations", len(rest), n)
	}
}

// TestLogIsBounded writes while readers come and go.
func TestLogIsBounded(t *testing.T) {
	testkit.SkipRace(t)
	tune := defaultTuning
	tune.startWAL, tune.finishWAL, tune.maxWAL = 300, 200, 1000
	s := openWith(t, t.TempDir(), Options{Readers: 2, tune: &tune})
	l := newLoad(3)
	for range 400 {
		events := make([]*host.Event, 20)
		for i := range events {
			events[i] = l.event()
		}
		put(t, s, 0, events...)
		selected(t, s, 0, host.Filter{Limit: 5})
	}
	if got, limit := s.Stats().LogBytes, int64(2000*4096); got > limit {
		t.Errorf("the log has %d bytes, at most %d are wanted", got, limit)
	}
	check(t, s)
}

// TestMetrics finds every metric of the package used, but for those of failures.
func TestMetrics(t *testing.T) {
	s := open(t)
	put(t, s, 0, fake(1, 1, 1, 1), fake(1, 1, 1, 1))
	selected(t, s, 0, host.Filter{Limit: 1})
	for _, c := range s.Collectors() {
		problems, err := testutil.CollectAndLint(c)
		if err != nil || len(problems) > 0 {
			t.Errorf("%v, %v", problems, err)
		}
	}
	if n := testutil.CollectAndCount(s.metrics.Commit); n != 1 {
		t.Errorf("commits are not recorded")
	}
	if st := s.Stats(); st.Events != 1 || st.Seq != 1 || st.Bytes == 0 || st.FileBytes == 0 {
		t.Errorf("got %+v", st)
	}
}

// Texts that are not remembered come as they were written, in order, whether they are long
// or short, packed or as older versions left them.
func TestFetchFromTable(t *testing.T) {
	s := openWith(t, t.TempDir(), Options{EventCache: -1})
	var events []*host.Event
	for i := range 300 {
		e := fake(i, 1, 1, int64(i), nostr.Tag{"t", fmt.Sprint(i)})
		switch {
		case i%7 == 3:
			e.Content = strings.Repeat("x,", 2*shortText)
		case i%100 == 50:
			e.Content = strings.Repeat("y", fetchBytes)
		}
		e.JSON = e.AppendJSON(nil)
		events = append(events, e)
	}
	var rows []int64
	for _, r := range put(t, s, 0, events...) {
		rows = append(rows, r.Seq)
	}
	for i := 0; i < len(rows); i += 5 {
		if err := s.writer.conn.exec(`UPDATE event SET json = ? WHERE seq = ?`, events[i].JSON, rows[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.writer.conn.exec(`DELETE FROM event WHERE seq = ?`, rows[17]); err != nil {
		t.Fatal(err)
	}
	next := 0
	err := s.Fetch(t.Context(), rows, func(row int64, json []byte) error {
		if next == 17 {
			next++ // has gone
		}
		if row != rows[next] || !bytes.Equal(json, events[next].JSON) {
			return fmt.Errorf("text %d is that of row %d, %.80s", next, row, json)
		}
		next++
		return nil
	})
	if err != nil || next != len(rows) {
		t.Errorf("%d of %d, %v", next, len(rows), err)
	}
}

// TestDensity checks that past reads of a kind change how its next filter is read, not the
// result.
func TestDensity(t *testing.T) {
	s := merged(t, t.TempDir())
	var events []*host.Event
	for i := range 4000 {
		topic := "many"
		if i%1000 < 3 {
			topic = "few"
		}
		events = append(events, fake(i, byte(i%20), 1, int64(i), nostr.Tag{"t", topic + fmt.Sprint(i%10)}))
	}
	put(t, s, 0, events...)
	filter := func(topic string) host.Filter {
		f := host.Filter{Limit: 10, Tags: []host.TagFilter{{Name: 't'}}}
		for i := range 10 {
			f.Tags[0].Values = append(f.Tags[0].Values, topic+fmt.Sprint(i))
		}
		return f
	}
	d := &s.densities['t'][0]
	for _, topic := range []string{"few", "many", "many", "few", "many", "few"} {
		f := filter(topic)
		sel, err := s.Select(t.Context(), []host.Filter{f}, 0)
		if err != nil {
			t.Fatal(err)
		}
		var want []int64
		for i := len(events) - 1; i >= 0 && len(want) < f.Limit; i-- {
			if f.Matches(events[i]) {
				want = append(want, int64(i+1))
			}
		}
		if !slices.Equal(sel.Rows, want) {
			t.Errorf("%s: %v, want %v", topic, sel.Rows, want)
		}
	}
	if d.perSpan.Load() == 0 || !d.many(10, 10) {
		t.Error("what was met is not known")
	}
	tried := 0
	for range 160 {
		if !d.many(10, 10) {
			tried++
		}
	}
	if tried != 10 {
		t.Errorf("it was tried again %d times of 160, want every 16th", tried)
	}
}
