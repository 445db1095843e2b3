package match

import (
	"bytes"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"talon/host"
)

var hash = NewHash(1, 2)

// A matcher says what the filter says, for anything.
func TestMatcher(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	pick := func(n int) byte { return byte(r.IntN(n)) }
	value := func() string { return string(rune('a' + pick(5))) }
	at := func() *int64 { v := int64(pick(10)); return &v }
	matched, joined := 0, 0
	for range 30_000 {
		e := &host.Event{ID: host.ID{pick(4)}, PubKey: host.PubKey{pick(4)}, Kind: host.Kind(pick(3)), CreatedAt: int64(pick(10))}
		for range pick(5) {
			e.Tags = append(e.Tags, host.Tag{[]string{"a", "e", "E", "long", "q"}[pick(5)], value(), "x"})
		}
		if pick(9) == 0 {
			e.Tags = append(e.Tags, host.Tag{"e"}, host.Tag{})
		}
		f := host.Filter{Limit: -1}
		if pick(4) == 0 {
			f.IDs = []host.ID{{pick(4)}, {pick(4)}}
		}
		if pick(4) == 0 {
			f.Authors = []host.PubKey{{pick(4)}, {pick(4)}}
		}
		if pick(4) == 0 {
			f.Kinds = []host.Kind{host.Kind(pick(3)), host.Kind(pick(3))}
		}
		for _, name := range []byte("aeE") {
			if pick(3) == 0 {
				f.Tags = append(f.Tags, host.TagFilter{Name: name, Values: []string{value(), value()}})
			}
		}
		if pick(4) == 0 {
			f.Since = at()
		}
		if pick(4) == 0 {
			f.Until = at()
		}
		d := hash.Digest(e)
		m := hash.Matchers([]host.Filter{f})
		if got, want := m[0].Matches(&d), f.Matches(e); got != want {
			t.Fatalf("%+v: %v, want %v for %+v", f, got, want, e)
		} else if got {
			matched++
		}
		// One that is like it, or differs in one thing.
		g := f
		g.Tags = slices.Clone(f.Tags)
		if len(g.Tags) > 0 {
			g.Tags[0].Name = "aeEq"[pick(4)]
		}
		switch pick(8) {
		case 0:
			g.Since = at()
		case 1:
			g.Until = at()
		case 2:
			g.Kinds = []host.Kind{host.Kind(pick(3))}
		case 3:
			g.Kinds = []host.Kind{}
		case 4:
			g.Authors = []host.PubKey{{pick(4)}}
		case 5:
			g.IDs = []host.ID{{pick(4)}}
		case 6:
			if len(g.Tags) > 0 {
				g.Tags[0].Values = []string{value(), value()}
			}
		}
		both := []host.Filter{f, g, f}
		if got, want := Any(hash.Matchers(both), &d), f.Matches(e) || g.Matches(e); got != want {
			t.Fatalf("%+v: %v, want %v for %+v", both, got, want, e)
		}
		if len(hash.Matchers(both)) < len(both) {
			joined++
		}
	}
	if joined < 1000 {
		t.Errorf("only %d were joined", joined)
	}
	if matched < 1000 {
		t.Errorf("only %d matched", matched)
	}
}

// Filters for e, E and q tags of the same events are one matcher.
func TestMatchersJoin(t *testing.T) {
	values := []string{"one", "two", "three"}
	var filters []host.Filter
	for _, name := range []byte("eEq") {
		filters = append(filters, host.Filter{Tags: []host.TagFilter{{Name: name, Values: values}}})
	}
	if m := hash.Matchers(filters); len(m) != 1 || cap(m) != 1 || m[0].tags[0].count != 3 {
		t.Errorf("%d matchers in room for %d: %+v", len(m), cap(m), m)
	}
	filters[2].Tags[0].Values = values[:2]
	if m := hash.Matchers(filters); len(m) != 2 {
		t.Errorf("%d matchers", len(m))
	}
	filters = nil
	for name := byte('a'); name < 'a'+2*maxNames; name++ {
		filters = append(filters, host.Filter{Tags: []host.TagFilter{{Name: name, Values: values}}})
	}
	if m := hash.Matchers(filters); len(m) != 2 {
		t.Errorf("%d matchers for %d names", len(m), len(filters))
	}
}

// The hash is SipHash-1-3 of the text, whatever its length, folded to 32 bits.
func TestHash(t *testing.T) {
	seen := map[symbol]string{}
	text := ""
	for range 200 {
		got := sum(hash, text)
		if other, ok := seen[got]; ok {
			t.Errorf("%q and %q have the same mark", text, other)
		}
		if got != sum(hash, []byte(text)) {
			t.Errorf("%q has another mark as bytes", text)
		}
		if got == sum(NewHash(1, 3), text) {
			t.Errorf("the mark of %q does not depend on the key", text)
		}
		seen[got] = text
		text += "x"
	}
}

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

// TestNeeds checks that digests find each event that the rule about texts finds: by the names in it,
// or by its own name, in either direction.
func TestNeeds(t *testing.T) {
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
		got := h.meets(c.accepted, &d)
		if byText := meets(c.accepted, c.refused); got != c.want || byText != c.want || !ok {
			t.Errorf("%s: %v, by texts %v", name, got, byText)
		}
		if b := d.Append(nil); !bytes.Equal(d.Append(nil), b) || len(b) > 100 {
			t.Errorf("%s: %d bytes", name, len(b))
		}
	}
}

// meets reports whether an accepted event meets a need of a refused one, by marks.
func (h Hash) meets(accepted *host.Event, refused *Digest) bool {
	marks, ids := h.Meets(accepted)
	return slices.Contains(ids, refused.ID) ||
		slices.ContainsFunc(refused.Needs(), func(mark uint32) bool { return slices.Contains(marks, mark) })
}

// meets reports the same by the texts.
func meets(accepted, refused *host.Event) bool {
	for need := range refused.Needs() {
		for met := range accepted.Meets() {
			if need == met {
				return true
			}
		}
	}
	return false
}

// Marks find all that texts find, for events of all kinds.
func TestMarksOfNeeds(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	kinds := []host.Kind{0, 1, 3, 1111, 1617, 1618, 1621, 1630, 10001, 10002, 10317, 30000, 30617, 30618}
	var earlier []*host.Event
	some := func() *host.Event {
		e := &host.Event{ID: host.ID{byte(r.IntN(256)), byte(r.IntN(256))}, PubKey: host.PubKey{byte(r.IntN(3))}, Kind: kinds[r.IntN(len(kinds))]}
		if r.IntN(3) > 0 {
			e.Tags = append(e.Tags, host.Tag{"d", []string{"", "x", "y"}[r.IntN(3)]})
		}
		for range r.IntN(3) {
			if len(earlier) == 0 {
				break
			}
			other := earlier[r.IntN(len(earlier))]
			value := other.ID.String()
			if a, ok := other.Address(); ok && r.IntN(2) == 0 {
				value = a.String()
			}
			e.Tags = append(e.Tags, host.Tag{string(host.ReferenceTags[r.IntN(len(host.ReferenceTags))]), value})
		}
		if e.Kind == 30617 {
			e.Tags = append(e.Tags, host.Tag{"maintainers", host.PubKey{byte(r.IntN(3))}.String()})
		}
		earlier = append(earlier, e)
		return e
	}
	found := 0
	for range 200 {
		some()
	}
	for _, refused := range earlier {
		d := hash.Digest(refused)
		for _, accepted := range earlier {
			if !meets(accepted, refused) {
				continue
			}
			if found++; !hash.meets(accepted, &d) {
				t.Fatalf("marks do not find that %+v meets a need of %+v", accepted, refused)
			}
		}
	}
	if found < 1000 {
		t.Errorf("only %d pairs", found)
	}
}
