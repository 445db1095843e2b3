package storetest

import (
	"fmt"
	"testing"

	"talon/host"
	"talon/host/moderation"
)

// testModeration adds rows to the log, in transactions that commit and that do not, and reads
// them after a restart too.
func testModeration(t *testing.T, x Engine) {
	name := x.New(t)
	s := openWith(t, x, name, Options{})
	row := func(n int) moderation.Row {
		return moderation.Row{Action: moderation.Ban, Target: moderation.EventTarget(host.ID{byte(n)}), Reason: fmt.Sprint("reason ", n), By: "test"}
	}
	add := func(now int64, commit bool, list ...moderation.Row) []moderation.Row {
		t.Helper()
		tx, err := s.Begin()
		if err != nil {
			t.Fatal(err)
		}
		added, err := tx.AddModeration(list, now)
		if err != nil {
			t.Fatal(err)
		}
		end := tx.Rollback
		if commit {
			end = tx.Commit
		}
		if err := end(); err != nil {
			t.Fatal(err)
		}
		return added
	}
	first := add(100, true, row(1), row(2))
	add(200, false, row(3))
	second := add(50, true, append(first, row(4))...)
	if len(first) != 2 || len(second) != 1 || second[0].Number != 3 || second[0].At != 100 {
		t.Errorf("added %+v and %+v", first, second)
	}
	if total := s.Total(); total.Seq != 0 || total.Events != 0 {
		t.Errorf("rows of the log count as events: %+v", total)
	}
	want := append(first, second...)
	check := func() {
		t.Helper()
		for after := range int64(4) {
			got, err := s.Moderation(t.Context(), after)
			if err != nil || len(got) != len(want)-int(after) {
				t.Fatalf("after %d: got %+v, %v", after, got, err)
			}
			for i := range got {
				if string(got[i].Line()) != string(want[int(after)+i].Line()) {
					t.Errorf("after %d: got %s, want %s", after, got[i].Line(), want[int(after)+i].Line())
				}
			}
		}
	}
	check()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openWith(t, x, name, Options{})
	check()
	tx, err := s.Begin()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.AddModeration([]moderation.Row{{Action: "x"}}, 1); err == nil {
		t.Error("a wrong row is added")
	}
	if err := tx.Commit(); err == nil {
		t.Error("a broken transaction commits")
	}
}
