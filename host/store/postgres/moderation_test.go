package postgres

import (
	"testing"
	"time"

	"talon/host"
	"talon/host/moderation"
)

// TestModerationOfNodes shows that each node learns every row of the log before its next
// transaction, once and in order, also rows that two nodes add at the same time.
func TestModerationOfNodes(t *testing.T) {
	url := server.URL(t)
	one, two := opened(t, url, Options{Readers: 1}), opened(t, url, Options{Readers: 1})
	add := func(s *Store, n int, learned *[]string) {
		t.Helper()
		tx, err := s.BeginAfter(func(c host.Commit) {
			for _, line := range c.Moderation {
				*learned = append(*learned, string(line))
			}
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		rows, err := tx.AddModeration([]moderation.Row{{Action: moderation.Ban, Target: moderation.EventTarget(host.ID{byte(n)})}}, 100)
		if err != nil || len(rows) != 1 || rows[0].Number != int64(n) {
			t.Fatalf("row %d: got %+v, %v", n, rows, err)
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
	}
	var byOne, byTwo []string
	for n := 1; n <= 6; n += 2 {
		add(one, n, &byOne)
		add(two, n+1, &byTwo)
	}
	if err := one.CatchUp(func(c host.Commit) {
		for _, line := range c.Moderation {
			byOne = append(byOne, string(line))
		}
	}); err != nil {
		t.Fatal(err)
	}
	all, err := one.Moderation(t.Context(), 0)
	if err != nil || len(all) != 6 {
		t.Fatalf("got %+v, %v", all, err)
	}
	for i, learned := range [][]string{byOne, byTwo} {
		if len(learned) != 3 {
			t.Fatalf("node %d learned %d rows, want 3", i+1, len(learned))
		}
		for k, line := range learned {
			if want := all[2*k+1-i]; line != string(want.Line()) {
				t.Errorf("node %d: row %d is %s, want %s", i+1, k, line, want.Line())
			}
		}
	}
	if ago := time.Since(one.Confirmed()); ago > time.Minute {
		t.Errorf("what others commit was known %v ago", ago)
	}
}
