package match

import (
	"bytes"
	"reflect"
	"slices"
	"testing"

	"talon/host"
)

func FuzzDecode(f *testing.F) {
	h := NewHash(1, 2)
	d := h.Digest(&host.Event{ID: host.ID{1}, PubKey: host.PubKey{2}, Kind: 1, CreatedAt: -5, Tags: host.Tags{{"e", "x"}, {"d", "y"}}})
	f.Add(d.Append(nil))
	f.Add([]byte("short"))
	f.Fuzz(func(t *testing.T, b []byte) {
		d, rest, ok := Decode(b)
		if !ok {
			return
		}
		again, none, ok := Decode(d.Append(nil))
		if !ok || len(none) > 0 || !reflect.DeepEqual(again, d) || len(rest) > len(b) {
			t.Fatalf("%x: %+v became %+v", b, d, again)
		}
	})
}

// What an event waits for, one that is accepted answers: by what it names or is called, in
// either direction.
func TestAnswers(t *testing.T) {
	h := NewHash(1, 2)
	alice, bob := host.PubKey{1}, host.PubKey{2}
	announcement := &host.Event{ID: host.ID{1}, PubKey: alice, Kind: 30617, Tags: host.Tags{{"d", "x"}, {"maintainers", bob.String()}}}
	address := "30617:" + alice.String() + ":x"
	for name, c := range map[string]struct {
		refused, accepted *host.Event
		want              bool
	}{
		"an issue, its repository":            {&host.Event{ID: host.ID{2}, Kind: 1621, Tags: host.Tags{{"a", address}}}, announcement, true},
		"an issue, another repository":        {&host.Event{ID: host.ID{2}, Kind: 1621, Tags: host.Tags{{"a", address + "y"}}}, announcement, false},
		"a comment, its issue":                {&host.Event{ID: host.ID{2}, Kind: 1111, Tags: host.Tags{{"E", host.ID{3}.String()}}}, &host.Event{ID: host.ID{3}}, true},
		"a comment, another issue":            {&host.Event{ID: host.ID{2}, Kind: 1111, Tags: host.Tags{{"E", host.ID{3}.String()}}}, &host.Event{ID: host.ID{4}}, false},
		"a state, its announcement":           {&host.Event{ID: host.ID{2}, PubKey: bob, Kind: 30618, Tags: host.Tags{{"d", "x"}}}, announcement, true},
		"an issue, a comment on it":           {&host.Event{ID: host.ID{2}}, &host.Event{ID: host.ID{3}, Tags: host.Tags{{"e", host.ID{2}.String()}}}, true},
		"an announcement, what points at it":  {announcement, &host.Event{ID: host.ID{3}, Tags: host.Tags{{"a", address}}}, true},
		"a profile, something of its author":  {&host.Event{ID: host.ID{2}, PubKey: bob}, &host.Event{ID: host.ID{3}, PubKey: bob, Kind: 1621}, true},
		"a profile, a repository of a friend": {&host.Event{ID: host.ID{2}, PubKey: bob}, announcement, true},
		"a note, something of its author":     {&host.Event{ID: host.ID{2}, PubKey: bob, Kind: 1}, &host.Event{ID: host.ID{3}, PubKey: bob, Kind: 1621}, false},
	} {
		d := h.Digest(c.refused)
		d, _, ok := Decode(d.Append(nil))
		marks, ids := h.Answers(c.accepted)
		got := slices.Contains(ids, d.ID)
		for _, m := range d.Waits() {
			got = got || slices.Contains(marks, m)
		}
		if got != c.want || !ok {
			t.Errorf("%s: %v", name, got)
		}
		if b := d.Append(nil); !bytes.Equal(d.Append(nil), b) || len(b) > 100 {
			t.Errorf("%s: %d bytes", name, len(b))
		}
	}
}
