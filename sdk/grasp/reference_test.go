package grasp

import (
	"slices"
	"strings"
	"testing"
)

func TestReferences(t *testing.T) {
	id, address := hexString(key(1)), "30617:"+hexString(key(2))+":a:b"
	e := event(1, 3, 1, "e "+id, "E "+hexString(key(4)), "q "+hexString(key(5)), "e "+id, "a "+address, "A 0:"+hexString(key(2))+":", "q 30023:"+hexString(key(2))+":",
		"e short", "e "+strings.ToUpper(hexString(key(171))), "a 1:"+hexString(key(2))+":x", "a 0:"+hexString(key(2))+":x", "a 030617:"+hexString(key(2))+":x", "a 30617:"+id,
		"p "+hexString(key(6)), "ee "+hexString(key(6)), "e", "a", "a ::", "a 99999:"+id+":x")
	refs := e.References()
	if want := keys(1, 4, 5); !slices.Equal(refs.IDs, want) {
		t.Errorf("ids %x", refs.IDs)
	}
	if want := []string{address, "0:" + hexString(key(2)) + ":", "30023:" + hexString(key(2)) + ":"}; !slices.Equal(refs.Addresses, want) {
		t.Errorf("addresses %q", refs.Addresses)
	}
	if repo, ok := ParseRepo(address); !ok || repo != (Repo{key(2), "a:b"}) || repo.Address() != address {
		t.Errorf("ParseRepo: %v, %v", repo, ok)
	}
}

// Related events accept on a A q to an accepted address, e E q to an accepted id,
// or when an accepted event already references this id or address.
func TestRelated(t *testing.T) {
	id, address := hexString(key(1)), "30617:"+hexString(key(2))+":repo"
	accepted := func(s string) bool { return s == id || s == address }
	nobody := func(string) bool { return false }
	for tag, want := range map[string]bool{
		"e " + id: true, "E " + id: true, "q " + id: true, "a " + address: true, "A " + address: true, "q " + address: true,
		"p " + id: false, "e " + hexString(key(7)): false, "a " + address + "x": false, "a " + id: false, "e " + address: false, "t x": false,
	} {
		if got := event(1, 3, 1, "t y", tag).Related(accepted, nobody); got != want {
			t.Errorf("%s: %v", tag, got)
		}
	}
	e := event(30023, 3, 1, "d a:b")
	self := "30023:" + hexString(key(3)) + ":a:b"
	if !e.Related(nobody, func(s string) bool { return s == self }) || !e.Related(nobody, func(s string) bool { return s == hexString(e.ID) }) {
		t.Error("an event that an accepted one names is not related")
	}
	if e.Related(nobody, nobody) || event(1, 3, 1).Related(nobody, func(s string) bool { return s == "" }) {
		t.Error("an event without any connection is related")
	}
	if _, address := event(10317, 3, 1, "d x").Names(); address != "10317:"+hexString(key(3))+":" {
		t.Errorf("address of a replaceable event: %q", address)
	}
}

func TestRoot(t *testing.T) {
	a, b := hexString(key(1)), hexString(key(2))
	marked := &Event{Kind: KindClosed, Tags: [][]string{{"e", b, "", "mention"}, {"e", a, "", "root"}}}
	for name, test := range map[string]struct {
		e    *Event
		want bool
	}{
		"a comment":           {event(KindComment, 1, 1, "e "+b, "E "+a), true},
		"an update":           {event(KindPRUpdate, 1, 1, "E "+a), true},
		"a status":            {event(KindApplied, 1, 1, "e x", "e "+a, "e "+b), true},
		"a marked status":     {marked, true},
		"a second patch":      {event(KindPatch, 1, 1, "e "+a), true},
		"a first patch":       {event(KindPatch, 1, 1, "t root", "e "+a), false},
		"an issue":            {event(KindIssue, 1, 1, "e "+a), false},
		"a pull request":      {event(KindPullRequest, 1, 1, "e "+a), false},
		"a comment on an URL": {event(KindComment, 1, 1, "I https://x"), false},
		"a status of nothing": {event(KindOpen, 1, 1), false},
	} {
		if got, ok := test.e.Root(); ok != test.want || ok && got != key(1) {
			t.Errorf("%s: %x, %v", name, got, ok)
		}
	}
}

func TestStatus(t *testing.T) {
	issue := event(KindIssue, 1, 1)
	on := "e " + hexString(issue.ID)
	for name, test := range map[string]struct {
		statuses []*Event
		want     int
	}{
		"none":            {nil, KindOpen},
		"by its author":   {[]*Event{event(KindClosed, 1, 5, on)}, KindClosed},
		"by a maintainer": {[]*Event{event(KindApplied, 2, 5, on)}, KindApplied},
		"by a stranger":   {[]*Event{event(KindClosed, 1, 5, on), event(KindOpen, 3, 9, on)}, KindClosed},
		"the newest":      {[]*Event{event(KindClosed, 1, 5, on), event(KindDraft, 2, 6, on), event(KindOpen, 1, 4, on)}, KindDraft},
		"of one second":   {[]*Event{event(KindClosed, 2, 5, on), event(KindDraft, 1, 5, on)}, KindDraft},
		"of another":      {[]*Event{event(KindClosed, 1, 5, "e "+hexString(key(9)))}, KindOpen},
		"a comment":       {[]*Event{event(KindComment, 1, 5, "E "+hexString(issue.ID))}, KindOpen},
	} {
		if got := Status(issue, test.statuses, keys(2)); got != test.want {
			t.Errorf("%s: %d, want %d", name, got, test.want)
		}
	}
}
