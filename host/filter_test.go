package host

import (
	"strings"
	"testing"
)

func TestKindClass(t *testing.T) {
	tests := map[Kind]Class{
		0: Replaceable, 1: Regular, 2: Regular, 3: Replaceable, 4: Regular, 5: Regular, 9999: Regular,
		10000: Replaceable, 19999: Replaceable, 20000: Ephemeral, 29999: Ephemeral,
		30000: Addressable, 39999: Addressable, 40000: Regular, 65535: Regular,
	}
	for kind, want := range tests {
		if got := kind.Class(); got != want {
			t.Errorf("kind %d: got %v, want %v", kind, got, want)
		}
	}
}

func TestParseAddress(t *testing.T) {
	key := "3bf0c63fcb93463407af97a5e5ee64fa883d107ef9e558472c4eb9aaaefa459d"
	for _, good := range []string{"30617:" + key + ":talon", "30617:" + key + ":a:b:", "30617:" + key + ":", "10002:" + key + ":", "0:" + key + ":"} {
		a, ok := ParseAddress(good)
		if !ok || a.String() != good {
			t.Errorf("%s: got %v, %v", good, a, ok)
		}
	}
	for _, bad := range []string{"", "30617", "30617:" + key, "1:" + key + ":", "030617:" + key + ":x", "+30617:" + key + ":x",
		"99999:" + key + ":x", "10002:" + key + ":x", "30617:" + key[2:] + ":x", "20001:" + key + ":x"} {
		if a, ok := ParseAddress(bad); ok {
			t.Errorf("%s: accepted as %v", bad, a)
		}
	}
}

func TestEventTags(t *testing.T) {
	tests := []struct {
		name      string
		tags      Tags
		d         string
		expires   int64
		protected bool
	}{
		{"none", nil, "", 0, false},
		{"empty tags", Tags{{}, {"d"}, {"expiration"}}, "", 0, false},
		{"the first d counts", Tags{{"d", "x"}, {"d", "y"}}, "x", 0, false},
		{"a d without value is empty", Tags{{"d"}, {"d", "y"}}, "", 0, false},
		{"expiration", Tags{{"expiration", "17"}}, "", 17, false},
		{"not a number", Tags{{"expiration", "soon"}}, "", 0, false},
		{"protected", Tags{{"-"}}, "", 0, true},
	}
	for _, tt := range tests {
		e := &Event{Kind: 30000, Tags: tt.tags}
		at, _ := e.Expiration()
		if e.D() != tt.d || at != tt.expires || e.Protected() != tt.protected {
			t.Errorf("%s: got d %q, expiration %d, protected %v", tt.name, e.D(), at, e.Protected())
		}
	}
}

func TestFilterMatches(t *testing.T) {
	five, six := int64(5), int64(6)
	e := &Event{ID: ID{1}, PubKey: PubKey{2}, Kind: 7, CreatedAt: 5, Tags: Tags{{"e", "x", "y"}, {"E", "z"}, {"ee", "q"}, {"p"}}}
	tests := []struct {
		name string
		f    Filter
		want bool
	}{
		{"no condition", Filter{}, true},
		{"all conditions", Filter{IDs: []ID{{9}, {1}}, Authors: []PubKey{{2}}, Kinds: []Kind{1, 7}, Since: &five, Until: &five,
			Tags: []TagFilter{{'e', []string{"w", "x"}}, {'E', []string{"z"}}}}, true},
		{"since is inclusive", Filter{Since: &six}, false},
		{"empty ids", Filter{IDs: []ID{}}, false},
		{"empty authors", Filter{Authors: []PubKey{}}, false},
		{"empty kinds", Filter{Kinds: []Kind{}}, false},
		{"empty tag values", Filter{Tags: []TagFilter{{'e', nil}}}, false},
		{"other kind", Filter{Kinds: []Kind{1}}, false},
		{"other author", Filter{Authors: []PubKey{{3}}}, false},
		{"case of the tag's name", Filter{Tags: []TagFilter{{'E', []string{"x"}}}}, false},
		{"only the first value", Filter{Tags: []TagFilter{{'e', []string{"y"}}}}, false},
		{"a tag without value", Filter{Tags: []TagFilter{{'p', []string{""}}}}, false},
		{"one of two tags", Filter{Tags: []TagFilter{{'e', []string{"x"}}, {'t', []string{"x"}}}}, false},
	}
	for _, tt := range tests {
		if got := tt.f.Matches(e); got != tt.want {
			t.Errorf("%s: got %v", tt.name, got)
		}
	}
	mike, rita := PubKey{7}, PubKey{8}
	a := &Event{PubKey: PubKey{2}, Kind: KindAnnouncement, Tags: Tags{
		{"d", "a:b"}, {"d", "x"}, {"maintainers", "npub1", strings.ToUpper(mike.String())}, {"maintainers"}, {"maintainers", rita.String(), mike.String()},
	}}
	for _, tt := range []struct {
		name  byte
		value string
		want  bool
	}{
		{AddressOf, "30617:" + a.PubKey.String() + ":a:b", true},
		{AddressOf, "30617:" + a.PubKey.String() + ":x", false},
		{AddressOf, "30617:" + mike.String() + ":a:b", false},
		{MaintainerOf, Maintains(mike, "a:b"), true},
		{MaintainerOf, Maintains(rita, "a:b"), true},
		{MaintainerOf, Maintains(mike, "x"), false},
		{MaintainerOf, Maintains(a.PubKey, "a:b"), false},
		{MaintainerOf, "npub1:a:b", false},
		{MaintainerOf, "", false},
	} {
		f := Filter{Tags: []TagFilter{{tt.name, []string{"", tt.value}}}}
		if f.Matches(a) != tt.want {
			t.Errorf("%d %s: want %v", tt.name, tt.value, tt.want)
		}
		other := *a
		other.Kind = 1
		if f.Matches(&other) {
			t.Errorf("%d %s matches a note", tt.name, tt.value)
		}
	}
	for _, f := range []Filter{{IDs: []ID{}}, {Kinds: []Kind{}}, {Authors: []PubKey{}}, {Tags: []TagFilter{{'e', nil}}}, {Since: &six, Until: &five}} {
		if !f.Empty() {
			t.Errorf("%+v matches nothing, but is not empty", f)
		}
	}
	if (&Filter{Since: &five, Until: &five}).Empty() {
		t.Error("a filter of one second is called empty")
	}
}
