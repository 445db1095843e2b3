package storetest

import (
	"context"
	"slices"
	"testing"

	"talon/host"
)

// Searching returns a filter with the conditions of a search.
func Searching(t testing.TB, text string) host.Filter {
	t.Helper()
	words, err := host.Search(text)
	if err != nil {
		t.Fatal(err)
	}
	return host.Filter{Tags: words, Limit: 10}
}

// testSearch finds events by words while they are stored, and not before or after.
func testSearch(t *testing.T, x Engine) {
	s, ctx := open(t, x), context.Background()
	repository := Event(1, 1, host.KindAnnouncement, 5, host.Tag{"d", "talon"}, host.Tag{"name", "Talon"}, host.Tag{"description", "A GRASP server"})
	renamed := Event(2, 1, host.KindAnnouncement, 6, host.Tag{"d", "talon"}, host.Tag{"name", "Claw"}, host.Tag{"description", "A GRASP server"})
	issue := Event(3, 2, 1621, 7, host.Tag{"subject", "Server crashes"})
	note := Event(4, 2, 1, 8, host.Tag{"subject", "Server crashes"})
	Hold(t, s, 0, host.HoldOptions{Reason: host.ReasonHeld}, repository)
	finds := func(text string, want ...*host.Event) {
		t.Helper()
		f := Searching(t, text)
		if got := Selected(t, s, 0, f); !slices.Equal(got, Texts(want...)) {
			t.Errorf("%q: got %q, want %q", text, got, Texts(want...))
		}
		n, err := s.Count(ctx, []host.Filter{f}, 0)
		if err != nil || n != int64(len(want)) {
			t.Errorf("%q: counted %d, %v; want %d", text, n, err, len(want))
		}
	}
	finds("talon")
	Put(t, s, 0, repository, issue, note)
	finds("talon", repository)
	finds("SERVER", issue, repository)
	finds("server grasp", repository)
	finds("server missing")
	Put(t, s, 0, renamed)
	finds("claw server", renamed)
	finds("server", issue, renamed)
	Put(t, s, 0, Event(5, 2, host.KindDeletion, 9, host.Tag{"e", issue.ID.String()}))
	finds("server", renamed)
	finds("crashes")
	Check(t, s)
}
