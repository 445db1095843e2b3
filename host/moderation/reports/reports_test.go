package reports_test

import (
	"strings"
	"testing"

	"talon/host"
	"talon/host/moderation"
	"talon/host/moderation/reports"
	"talon/host/store"
	"talon/host/store/storetest"
)

// TestQueue shows which reports wait for a decision: those of trusted keys, about what is here, without
// a later decision.
func TestQueue(t *testing.T) {
	db, err := store.Open(t.Context(), t.TempDir(), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	put := func(list ...*host.Event) {
		t.Helper()
		tx, err := db.Begin()
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range list {
			if _, err := tx.Put(e, 10); err != nil {
				t.Fatal(err)
			}
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
	}
	report := func(n int, by byte, at int64, tags ...host.Tag) *host.Event {
		return storetest.Event(n, by, host.KindReport, at, tags...)
	}
	mallory := host.PubKey{9}
	note, repository := storetest.Event(1, 9, 1, 5), storetest.Event(2, 9, host.KindAnnouncement, 5, host.Tag{"d", "tool"})
	absent := storetest.Event(3, 9, 1, 5)
	p := host.Tag{"p", mallory.String(), "spam"}
	put(note, repository,
		report(10, 1, 100, host.Tag{"e", note.ID.String(), "illegal"}, p),
		report(11, 2, 110, host.Tag{"e", note.ID.String(), "malware"}, p),
		report(12, 1, 120, p),
		report(13, 1, 130, host.Tag{"a", "30617:" + mallory.String() + ":tool", "spam"}, p),
		report(14, 1, 140, host.Tag{"e", absent.ID.String(), "spam"}, p),
		report(15, 3, 150, host.Tag{"p", host.PubKey{1}.String(), "spam"}), // of a stranger
	)
	var log moderation.Log
	trusted := []host.PubKey{{1}, {2}}
	queue := func() string {
		t.Helper()
		list, err := reports.Queue(t.Context(), db, &log, trusted, 1000, 10)
		if err != nil {
			t.Fatal(err)
		}
		var texts []string
		for _, it := range list {
			class, _, _ := strings.Cut(it.Target.String(), ":")
			texts = append(texts, class+" "+it.Type+" "+strings.Repeat("x", it.Reports)+" "+strings.Repeat("y", len(it.By)))
		}
		return strings.Join(texts, ", ")
	}
	want := func(what, want string) {
		t.Helper()
		if got := queue(); got != want {
			t.Errorf("%s: got %q, want %q", what, got, want)
		}
	}
	want("at first", "repository spam x y, author spam x y, event malware xx yy")
	number := int64(0)
	decide := func(a moderation.Action, target string, at int64) {
		t.Helper()
		parsed, err := moderation.ParseTarget(target)
		if err != nil {
			t.Fatal(err)
		}
		number++
		log.Apply([]moderation.Row{{Number: number, At: at, Action: a, Target: parsed}})
	}
	decide(moderation.Allow, "event:"+note.ID.String(), 105)
	want("an earlier decision", "repository spam x y, author spam x y, event malware xx yy")
	decide(moderation.Allow, "event:"+note.ID.String(), 110)
	want("the event stays", "repository spam x y, author spam x y")
	decide(moderation.Ban, "author:"+mallory.String(), 20)
	want("the author is banned", "repository spam x y")
	decide(moderation.Unban, "author:"+mallory.String(), 30)
	want("the ban ended before the report", "repository spam x y, author spam x y")
	put(storetest.Event(20, 1, host.KindDeletion, 200, host.Tag{"e", report(13, 1, 130).ID.String()}))
	want("a report is deleted", "author spam x y")
	if list, err := reports.Queue(t.Context(), db, &log, nil, 1000, 10); err != nil || len(list) != 0 {
		t.Errorf("nobody is trusted: %v, %v", list, err)
	}
}
