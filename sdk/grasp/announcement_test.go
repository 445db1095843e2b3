package grasp

import (
	"reflect"
	"strings"
	"testing"
)

func TestIdentifier(t *testing.T) {
	for _, right := range []string{
		"talon", ".git", "...", "a.b", "-x", "with space", "a:b:c", "🦅", "%2F", "a?b#c", strings.Repeat("é", 200), "\u2028",
	} {
		if err := CheckIdentifier(right); err != nil {
			t.Errorf("CheckIdentifier(%q) = %v", right, err)
		}
	}
	for wrong, want := range map[string]error{
		"": errIdentifierEmpty, ".": errIdentifierDots, "..": errIdentifierDots,
		"a/b": errIdentifierSlash, "../x": errIdentifierSlash, `a\b`: errIdentifierSlash, "/": errIdentifierSlash,
		"a\x00b": errIdentifierControl, "a\nb": errIdentifierControl, "\x7f": errIdentifierControl, "\u0085": errIdentifierControl,
		"\xff": errIdentifierUTF8,
	} {
		if err := CheckIdentifier(wrong); err != want {
			t.Errorf("CheckIdentifier(%q) = %v, want %v", wrong, err, want)
		}
	}
}

func TestParseAnnouncement(t *testing.T) {
	a, b := hexString(key(7)), hexString(key(8))
	e := event(KindAnnouncement, 1, 5, "d one:two", "d other", "name Talon", "name no", "description x", "description",
		"clone https://a/x https://b/y", "clone git@c:z", "relays wss://a", "relays wss://b wss://c", "web https://w", "clone",
		"maintainers "+a+" nonsense "+strings.ToUpper(b), "maintainers "+a+" "+npub(9)+" "+a[:62], "maintainers "+b+"00",
		"r "+oid(1), "r xyz euc", "r "+strings.ToUpper(oid(2))+" euc", "r "+oid(3)+" euc", "t personal-fork", "t git")
	e.Tags = append(e.Tags, []string{}, []string{"clone", ""})
	got, err := ParseAnnouncement(e)
	if err != nil {
		t.Fatal(err)
	}
	want := &Announcement{
		Stamp: e.Stamp, Identifier: "one:two", Name: "Talon", Description: "x",
		Clone:  []string{"https://a/x", "https://b/y", "git@c:z"},
		Relays: []string{"wss://a", "wss://b", "wss://c"}, Web: []string{"https://w"},
		Maintainers: []PubKey{key(7), key(8)}, EarliestCommit: oid(2), PersonalFork: true,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if got.Repo().Address() != "30617:"+hexString(key(1))+":one:two" {
		t.Errorf("address %s", got.Repo().Address())
	}
}

func TestAnnouncementRefused(t *testing.T) {
	for name, test := range map[string]struct {
		e    *Event
		want string
	}{
		"kind":        {event(1, 1, 1, "d x"), "invalid: not a repository announcement (kind 30617)"},
		"no d":        {event(KindAnnouncement, 1, 1), "invalid: the repository identifier is empty (d tag)"},
		"d alone":     {event(KindAnnouncement, 1, 1, "d", "d x"), "invalid: the repository identifier is empty (d tag)"},
		"traversal":   {event(KindAnnouncement, 1, 1, "d .."), "invalid: the repository identifier must not be one dot or two (d tag)"},
		"slash":       {event(KindAnnouncement, 1, 1, "d a/b"), `invalid: the repository identifier must not contain / or \ (d tag)`},
		"line ending": {event(KindAnnouncement, 1, 1, "d a\r"), "invalid: the repository identifier must not contain control characters (d tag)"},
	} {
		if got, err := ParseAnnouncement(test.e); err == nil || err.Error() != test.want {
			t.Errorf("%s: %+v, %v, want %s", name, got, err, test.want)
		}
	}
}

func TestAnnouncementWithManyMaintainers(t *testing.T) {
	var values []string
	for i := range maxMaintainers + 10 {
		values = append(values, hexString(key(i)), "junk", hexString(key(0)))
	}
	a := announcement(t, 1, 1, "maintainers "+strings.Join(values, " "))
	if len(a.Maintainers) != maxMaintainers || a.Maintainers[maxMaintainers-1] != key(maxMaintainers-1) {
		t.Errorf("%d maintainers, the last %x", len(a.Maintainers), a.Maintainers[len(a.Maintainers)-1])
	}
}
