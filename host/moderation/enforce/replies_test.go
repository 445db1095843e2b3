package enforce_test

import (
	"testing"

	"talon/host"
	"talon/host/moderation"
	"talon/host/store/storetest"
)

// TestReplies takes a repository down in each way. It reaches replies that name only what is about the
// repository, also replies to replies, and no others.
func TestReplies(t *testing.T) {
	r := newRig(t)
	target, err := moderation.RepositoryTarget(host.PubKey{1}, "tool")
	if err != nil {
		t.Fatal(err)
	}
	address := func(d string) host.Tag { return host.Tag{"a", "30617:" + host.PubKey{1}.String() + ":" + d} }
	names := func(name string, e *host.Event) host.Tag { return host.Tag{name, e.ID.String()} }
	issue := storetest.Event(1, 2, 1621, 10, address("tool"))
	other := storetest.Event(2, 2, 1621, 10, address("other"))
	reply := storetest.Event(3, 3, 1111, 11, names("E", issue), names("e", issue))
	deeper := storetest.Event(4, 4, 1111, 12, names("e", reply))
	deepest := storetest.Event(5, 4, 1, 13, names("e", deeper), names("e", issue))
	both := storetest.Event(6, 4, 1, 13, names("e", issue), names("e", other))
	elsewhere := storetest.Event(7, 4, 1, 13, names("e", issue), address("other"))
	deletion := storetest.Event(8, 4, host.KindDeletion, 13, names("e", issue))
	list := storetest.Event(9, 4, 10003, 13, names("e", issue))
	r.put(storetest.Event(20, 1, host.KindAnnouncement, 5, host.Tag{"d", "tool"}), storetest.Event(21, 5, 1, 5),
		issue, other, reply, deeper, deepest, both, elsewhere, deletion, list)
	const down, stay = 5, 6
	count, err := r.enforcer.Count(t.Context(), &moderation.Row{Action: moderation.Hide, Target: target})
	if err != nil || count.Events != down {
		t.Errorf("a hide would concern %+v, %v", count, err)
	}
	for _, undo := range []struct{ do, end moderation.Action }{{moderation.Hide, moderation.Unhide}, {moderation.Ban, moderation.Unban}} {
		if sum := r.moderate(moderation.Row{Action: undo.do, Target: target}); sum.Events != down {
			t.Errorf("%s: %+v", undo.do, sum)
		}
		r.want(stay, down)
		for _, e := range []*host.Event{other, both, elsewhere, deletion, list} {
			if missing, err := r.db.Missing(t.Context(), []host.ID{e.ID}); err != nil || len(missing) > 0 {
				t.Errorf("%s: event %s of kind %d went, %v", undo.do, e.ID, e.Kind, err)
			}
		}
		// The end of another row shows nothing of it.
		r.moderate(moderation.Row{Action: moderation.Hide, Target: author(5)})
		r.moderate(moderation.Row{Action: moderation.Unhide, Target: author(5)})
		r.want(stay, down)
		r.moderate(moderation.Row{Action: undo.end, Target: target})
		r.want(stay+down, 0)
	}
	r.moderate(moderation.Row{Action: moderation.Hide, Target: target})
	r.moderate(moderation.Row{Action: moderation.Purge, Target: target})
	r.want(stay, 0)
}
