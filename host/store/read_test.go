package store

import (
	"context"
	"database/sql/driver"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"talon/host"
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
		"spanPlaces": spanPlaces, "spanCount": spanCount,
		"spans.some": spans.some, "spans.any": spans.any,
		"packCandidates.some": packCandidates.some, "packCandidates.any": packCandidates.any, "spansBehind": spansBehind, "keyPlaces": keyPlaces,
		"countCandidates.some": countCandidates.some, "countCandidates.any": countCandidates.any,
		"eventMeta": eventMeta, "eventText": eventText, "eventIDs": eventIDs,
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

// TestLogIsBounded writes while readers come and go.
func TestLogIsBounded(t *testing.T) {
	tune := defaultTuning
	tune.walStart, tune.walFinish, tune.walMost = 300, 200, 1000
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
	if got, most := s.Stats().LogBytes, int64(2000*4096); got > most {
		t.Errorf("the log has %d bytes, at most %d are wanted", got, most)
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
	if n := testutil.CollectAndCount(s.metrics.commit); n != 1 {
		t.Errorf("commits are not recorded")
	}
	if st := s.Stats(); st.Events != 1 || st.Seq != 1 || st.Bytes == 0 || st.FileBytes == 0 {
		t.Errorf("got %+v", st)
	}
}
