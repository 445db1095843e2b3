package grasp

import (
	"strings"
	"testing"
)

// A clone URL of this service that is the place of something else would have others
// clone that.
func TestMisplaced(t *testing.T) {
	s, err := ParseService("git.example.com")
	if err != nil {
		t.Fatal(err)
	}
	own := Repo{PubKey: PubKey{1}, Identifier: "de mo"}
	other, someone := Repo{PubKey: PubKey{1}, Identifier: "other"}, Repo{PubKey: PubKey{2}, Identifier: "de mo"}
	const at = "https://git.example.com"
	for _, tt := range []struct {
		clone     string
		misplaced bool
	}{
		{at + own.Path(), false},
		{at + own.Path() + "/", false},
		{"https://GIT.example.com:443" + own.Path(), false},
		{at, false},
		{at + "/demo.git", false},
		{at + other.Path(), true},
		{at + someone.Path(), true},
		{at + "/prs" + own.Path(), true},
		{at + someone.Path() + "/", true},
		{at + someone.Path() + " " + at + own.Path(), false},
		{"https://elsewhere.example.com" + someone.Path(), false},
	} {
		a := &Announcement{Stamp: Stamp{PubKey: own.PubKey}, Identifier: own.Identifier, Clone: strings.Fields(tt.clone), Relays: []string{"wss://git.example.com"}}
		if got := a.Misplaced(s); got != tt.misplaced {
			t.Errorf("%s: %v", tt.clone, got)
		}
		if !a.ListsService(s) {
			continue
		}
		r := Rules{Service: s}
		for maintained, want := range map[bool]Standing{false: Refused, true: Member} {
			standing, reason := r.Announcement(a, maintained)
			if !tt.misplaced {
				want = Hosted
			}
			if standing != want || (standing == Refused) != (reason == ReasonMisplaced) {
				t.Errorf("%s, maintained %v: %v %q", tt.clone, maintained, standing, reason)
			}
		}
	}
}
