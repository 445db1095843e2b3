package grasp

import (
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestParseState(t *testing.T) {
	long := strings.Repeat("b", 64)
	s := state(t, 1, 5,
		"refs/heads/main "+oid(2)+" "+oid(1), "refs/heads/dev "+strings.ToUpper(oid(3)), "refs/tags/v1 "+oid(4), "refs/tags/v1^{} "+oid(5),
		"refs/heads/sha256 "+long, "refs/nostr/x "+oid(6), "refs/pull/1/head "+oid(6), "refs/heads "+oid(6), "refsxheads/main "+oid(6), "HEAD refs/heads/main",
		"refs/heads/dev "+oid(3), "name x")
	want := []Ref{{"refs/heads/dev", oid(3)}, {"refs/heads/main", oid(2)}, {"refs/heads/sha256", long}, {"refs/tags/v1", oid(4)}}
	if !slices.Equal(s.Refs, want) || s.Head != "refs/heads/main" || s.Faults != nil || s.Identifier != "repo" || !s.Tracks() {
		t.Errorf("got %+v", s)
	}
	if s.Object("refs/tags/v1") != oid(4) || s.Object("refs/tags/v") != "" {
		t.Error("Object finds the wrong ref")
	}
	for _, e := range []*Event{event(KindAnnouncement, 1, 1, "d x"), event(KindState, 1, 1), event(KindState, 1, 1, "d a/b")} {
		if s, err := ParseState(e); err == nil || !strings.HasPrefix(err.Error(), "invalid: ") {
			t.Errorf("%v is accepted: %+v, %v", e.Tags, s, err)
		}
	}
}

// HEAD with or without "ref: ".
func TestStateHead(t *testing.T) {
	for value, want := range map[string]string{
		"refs/heads/main": "refs/heads/main", "ref: refs/heads/main": "refs/heads/main", "ref:refs/heads/a/b": "refs/heads/a/b", "ref: refs/heads/main\n": "refs/heads/main",
		"main": "", "refs/heads/": "", "refs/tags/v1": "", oid(1): "", "": "", "ref: ": "", "ref: ref: refs/heads/main": "", "refs/heads/..": "", "refs/heads/a b": "", "--upload-pack=x": "",
		"refs/heads/../../config": "",
	} {
		e := event(KindState, 1, 1, "d repo")
		e.Tags = append(e.Tags, []string{"HEAD", value})
		s, err := ParseState(e)
		if err != nil || s.Head != want {
			t.Errorf("HEAD %q is read as %q, %v", value, s.Head, err)
		}
		if s.Tracks() {
			t.Errorf("HEAD %q alone is taken for refs", value)
		}
	}
}

// A state naming deadbeef… is accepted and held, but only right names reach git.
func TestStateFaults(t *testing.T) {
	for name, test := range map[string]struct {
		tags  []string
		ref   string
		wrong string
	}{
		"short":            {[]string{"refs/heads/x deadbeef"}, "refs/heads/x", faultObject},
		"an option":        {[]string{"refs/heads/x --upload-pack=touch"}, "refs/heads/x", faultObject},
		"a refspec":        {[]string{"refs/heads/x +" + oid(1)[1:]}, "refs/heads/x", faultObject},
		"symbolic":         {[]string{"refs/heads/x ref: refs/heads/main"}, "refs/heads/x", faultObject},
		"zeros":            {[]string{"refs/heads/x " + none}, "refs/heads/x", faultObject},
		"no value":         {[]string{"refs/heads/x"}, "refs/heads/x", faultObject},
		"50 digits":        {[]string{"refs/heads/x " + strings.Repeat("a", 50)}, "refs/heads/x", faultObject},
		"letters":          {[]string{"refs/heads/x " + strings.Repeat("g", 40)}, "refs/heads/x", faultObject},
		"twice":            {[]string{"refs/heads/x " + oid(1), "refs/heads/x " + oid(2)}, "refs/heads/x", faultTwice},
		"empty name":       {[]string{"refs/heads/ " + oid(1)}, "refs/heads/", errRefComponent.Error()},
		"climbing":         {[]string{"refs/heads/../../config " + oid(1)}, "refs/heads/../../config", errRefSequence.Error()},
		"lock":             {[]string{"refs/heads/a.lock/b " + oid(1)}, "refs/heads/a.lock/b", errRefComponent.Error()},
		"long":             {[]string{"refs/heads/" + strings.Repeat("a/", 600) + "a " + oid(1)}, "", errRefLong.Error()},
		"long part":        {[]string{"refs/tags/" + strings.Repeat("a", 241) + " " + oid(1)}, "", errRefComponent.Error()},
		"in one another":   {[]string{"refs/heads/a/b/c " + oid(1), "refs/heads/a-b " + oid(1), "refs/heads/a " + oid(1), "refs/heads/a.b " + oid(1)}, "refs/heads/a/b/c", faultNested},
		"peeled elsewhere": {[]string{"refs/tags/v1^{}x " + oid(1)}, "refs/tags/v1^{}x", errRefChars.Error()},
	} {
		s := state(t, 1, 1, test.tags...)
		if len(s.Faults) != 1 || s.Faults[0].Reason != test.wrong || test.ref != "" && s.Faults[0].Ref != test.ref || !s.Tracks() {
			t.Errorf("%s: faults %q", name, s.Faults)
		}
		if al := Align(nil, "", s, func(Ref) bool { return true }); al.Complete() || len(al.Updates) > 0 {
			t.Errorf("%s: the state is followed: %+v", name, al)
		}
	}
	if s := state(t, 1, 1, "refs/heads/a "+oid(1), "refs/heads/a-b/c "+oid(1), "refs/heads/ab "+oid(1), "refs/tags/a/b "+oid(1)); s.Faults != nil {
		t.Errorf("refs beside each other: %q", s.Faults)
	}
}

func TestCheckRef(t *testing.T) {
	for _, right := range []string{"refs/heads/main", "refs/heads/é🦅", "refs/heads/-x", "refs/heads/a@b", "refs/heads/@", "refs/tags/v1.0", "refs/heads/HEAD", "refs/heads/x.locked"} {
		if err := CheckRef(right); err != nil {
			t.Errorf("CheckRef(%q) = %v", right, err)
		}
	}
	for _, wrong := range []string{
		"", "/refs/heads/x", "refs//heads/x", "refs/heads/x/", "refs/heads/.x", "refs/heads/x.", "refs/heads/x..y", "refs/heads/x y", "refs/heads/x\ty", "refs/heads/x\x00", "refs/heads/x\x7f",
		"refs/heads/x~1", "refs/heads/x^", "refs/heads/x:y", "refs/heads/x?", "refs/heads/*", "refs/heads/[x", `refs/heads/x\y`, "refs/heads/x@{1}", "refs/heads/x.lock", "refs/heads/x.lock/y", "refs/heads/x/../y",
	} {
		if CheckRef(wrong) == nil {
			t.Errorf("CheckRef(%q) = nil", wrong)
		}
	}
}

// The newest state by a maintainer counts; of one second the lowest id.
func TestLatest(t *testing.T) {
	ref := "refs/heads/main " + oid(1)
	old, newer, stranger, untracked := state(t, 1, 10, ref), state(t, 2, 20, ref), state(t, 3, 30, ref), state(t, 2, 40)
	same := state(t, 1, 20, ref)
	for _, test := range []struct {
		states      []*State
		maintainers []PubKey
		want        *State
	}{
		{nil, []PubKey{key(1)}, nil},
		{[]*State{old, newer, stranger}, []PubKey{key(1), key(2)}, newer},
		{[]*State{stranger, newer, old}, []PubKey{key(1)}, old},
		{[]*State{stranger}, []PubKey{key(1)}, nil},
		{[]*State{newer, same}, []PubKey{key(1), key(2)}, same},
		{[]*State{same, newer}, []PubKey{key(1), key(2)}, same},
		{[]*State{old, untracked}, []PubKey{key(1), key(2)}, old},
	} {
		if got := Latest(test.states, test.maintainers); got != test.want {
			t.Errorf("got %+v, want %+v", got, test.want)
		}
	}
}

func TestAlign(t *testing.T) {
	s := state(t, 1, 1, "refs/heads/main "+oid(2), "refs/heads/new/x "+oid(3), "refs/tags/v1 "+oid(4), "HEAD refs/heads/main")
	refs := []Ref{
		{"refs/tags/v1", oid(4)}, {"refs/heads/main", oid(1)}, {"refs/heads/new", oid(9)}, {"refs/tags/gone", oid(8)},
		{"refs/nostr/" + hexString(key(1)), oid(7)}, {"refs/pull/1", oid(7)},
	}
	all := func(Ref) bool { return true }
	without := func(ref string) func(Ref) bool { return func(r Ref) bool { return r.Name != ref } }
	for name, test := range map[string]struct {
		refs      []Ref
		head      string
		available func(Ref) bool
		want      Alignment
	}{
		"all there": {refs, "refs/heads/master", all, Alignment{Head: "refs/heads/main", Updates: []Update{
			{"refs/heads/new", oid(9), none}, {"refs/tags/gone", oid(8), none},
			{"refs/heads/main", oid(1), oid(2)}, {"refs/heads/new/x", none, oid(3)},
		}}},
		"HEAD right":                {s.Refs, "refs/heads/main", all, Alignment{}},
		"only HEAD":                 {s.Refs, "refs/heads/x", all, Alignment{Head: "refs/heads/main"}},
		"nothing moves yet":         {refs, "", without("refs/tags/v1"), Alignment{Missing: []Ref{{"refs/tags/v1", oid(4)}}}},
		"HEAD before the rest":      {[]Ref{{"refs/heads/main", oid(2)}}, "", without("refs/tags/v1"), Alignment{Head: "refs/heads/main", Missing: []Ref{{"refs/tags/v1", oid(4)}}}},
		"HEAD's commit is not here": {s.Refs[1:], "", without("refs/heads/main"), Alignment{Missing: []Ref{{"refs/heads/main", oid(2)}}}},
	} {
		if got := Align(test.refs, test.head, s, test.available); !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s:\ngot  %+v\nwant %+v", name, got, test.want)
		}
	}
	later := state(t, 1, 1, "refs/heads/main "+oid(2), "HEAD refs/heads/later")
	if got := Align(later.Refs, "refs/heads/main", later, all); got.Head != "" || !got.Complete() {
		t.Errorf("HEAD names a branch pushed later: %+v", got)
	}
	// A state without refs means that its author stopped. It removes no refs.
	if got := Align(refs, "", state(t, 1, 1, "HEAD refs/heads/main"), all); !reflect.DeepEqual(got, Alignment{Impossible: true}) {
		t.Errorf("a state without refs: %+v", got)
	}
	if refs[0].Name != "refs/tags/v1" {
		t.Error("Align changed its argument")
	}
}

// TestKeepPushed checks that refs which pushes moved to the values of a newer state stay, and no
// others.
func TestKeepPushed(t *testing.T) {
	effective := state(t, 1, 1, mainRef+" "+oid(1), devRef+" "+oid(1), "refs/heads/a/b "+oid(1))
	newer := state(t, 1, 2, mainRef+" "+oid(2), tagRef+" "+oid(2), "refs/heads/a "+oid(2))
	wrong := state(t, 1, 3, devRef+" "+oid(3), "refs/heads/x deadbeef")
	refs := []Ref{{mainRef, oid(2)}, {tagRef, oid(2)}, {"refs/tags/v2", oid(2)}, {devRef, oid(3)}, {"refs/heads/a", oid(2)}}
	al := Align(refs, "", effective, func(Ref) bool { return true })
	al.KeepPushed(effective, []*State{newer, wrong})
	want := []Update{
		{"refs/heads/a", oid(2), none}, {"refs/tags/v2", oid(2), none}, // the first is in the way of a/b
		{"refs/heads/a/b", none, oid(1)}, {devRef, oid(3), oid(1)},
	}
	if !slices.Equal(al.Updates, want) {
		t.Errorf("the updates are %v, want %v", al.Updates, want)
	}
	// A ref that the newer one lacks is deleted when that takes effect.
	al = Align(nil, "", effective, func(Ref) bool { return true })
	if al.KeepPushed(effective, []*State{newer}); len(al.Updates) != 3 {
		t.Errorf("of an empty repository: %v", al.Updates)
	}
}
