package relaymodel

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"talon/host"
	"talon/internal/testkit"
)

var here = netip.MustParseAddr("192.0.2.1")

// hundred are events that all tests share: signing is slow.
var hundred = func() (list []*host.Event) {
	who := testkit.NewSigner(1)
	for i := range 100 {
		list = append(list, who.Event(1, storyStart-int64(i/3), fmt.Sprint(i), host.Tag{"t", fmt.Sprint(i % 7)}))
	}
	return list
}()

// The same profile, seed and calls make the same effects, and another seed others.
func TestRepeats(t *testing.T) {
	run := func(seed uint64) []byte {
		p, err := Default().With([]byte(`
[answer]
duplicates = 0.3
eose-lost = 0.3
[live]
lost = 0.3
[lies]
omits = 0.1
forged-ids = 0.1
forged-signatures = 0.1
claims = 3
[arrival]
late = 0.3
late-s = 20
[auth]
challenge = "connect"
`))
		if err != nil {
			t.Fatal(err)
		}
		r, random, now := New(p, seed, storyStart*1000), rand.New(rand.NewPCG(1, 1)), int64(storyStart*1000)
		var out bytes.Buffer
		write := func(list []Effect) {
			for _, e := range list {
				fmt.Fprintf(&out, "%d %s %d\n", e.Conn, e.Frame, e.Code)
			}
		}
		for range 4 {
			_, _, effects := r.Open(here, now)
			write(effects)
		}
		for _, e := range hundred {
			now += random.Int64N(2000)
			write(r.Add(e, now))
			c := 1 + random.Uint64N(4)
			write(r.Receive(c, fmt.Appendf(nil, `["REQ","%d",{"#t":["%d"]},{"#t":["1","2"]}]`, random.IntN(3), random.IntN(7)), now))
			write(r.Receive(c, []byte(`["NEG-OPEN","n",{},"61"]`), now))
			write(r.Receive(c, []byte(`["NEG-MSG","n","6100000200"]`), now))
		}
		write(r.Turn(now + 1e6))
		return out.Bytes()
	}
	one, two := run(1), run(1)
	if !bytes.Equal(one, two) || len(one) < 10_000 {
		t.Errorf("the same run makes %d bytes and then %d, which are others", len(one), len(two))
	}
	if bytes.Equal(one, run(2)) {
		t.Error("the seed changes nothing")
	}
}

// TestLies checks a lying relay. It sends wrong events, and claims to have all events of a
// comparison. Events of others do not suffer.
func TestLies(t *testing.T) {
	p, err := Default().With([]byte("[lies]\nforged-ids = 0.5\nforged-signatures = 0.5\n"))
	if err != nil {
		t.Fatal(err)
	}
	r := New(p, 1, storyStart*1000)
	for _, e := range hundred {
		r.Add(e, storyStart*1000)
	}
	id, _, _ := r.Open(here, storyStart*1000)
	same, forged := 0, 0
	for _, e := range r.Receive(id, []byte(`["REQ","s",{}]`), storyStart*1000) {
		if slices.ContainsFunc(hundred, func(h *host.Event) bool { return bytes.Contains(e.Frame, h.JSON) }) {
			same++
		} else {
			forged++
		}
	}
	if same < 10 || forged < 50 {
		t.Errorf("%d events are as they were, %d are not", same, forged)
	}
}

// FuzzReceive sends any bytes to the relay in any profile. It must go on.
func FuzzReceive(f *testing.F) {
	for i, text := range []string{
		`["REQ","a",{}]`, `["REQ","a",{"ids":[]},{"limit":0}]`, `["CLOSE","a"]`, `["COUNT","a",{}]`, `["NEG-OPEN","a",{},"61"]`, `["NEG-MSG","a","6100000200"]`,
		`["NEG-CLOSE","a"]`, `["EVENT",{}]`, "", "[", `["AUTH",` + string(hundred[0].JSON) + `]`, `["EVENT",` + string(hundred[1].JSON) + `]`,
		`["EVENT",` + string(testkit.NewSigner(1).Event(5, 1, "", host.Tag{"e", hundred[0].ID.String()}, host.Tag{"a", "1:2:3"}, host.Tag{"e"}).JSON) + `]`,
	} {
		f.Add(uint8(i), text, text)
	}
	names := Names()
	f.Fuzz(func(t *testing.T, which uint8, one, two string) {
		p, err := Builtin(names[int(which)%len(names)])
		if err != nil {
			t.Fatal(err)
		}
		r := New(p, 1, storyStart*1000)
		for _, e := range hundred[:10] {
			r.Add(e, storyStart*1000)
		}
		id, _, _ := r.Open(here, storyStart*1000)
		for i, text := range []string{one, two, one, `["CLOSE","a"]`} {
			r.Receive(id, []byte(text), storyStart*1000+int64(i)*500)
		}
		r.Gone(id, storyStart*1000+5000)
		if effects := r.Receive(id, []byte(one), storyStart*1000+6000); len(effects) != 0 {
			t.Errorf("%d effects on a connection that is gone", len(effects))
		}
	})
}

// A store finds by each condition what a look at every event finds.
func TestStore(t *testing.T) {
	s, all := NewStore(), []*host.Event{}
	for i := range 60 {
		who := testkit.NewSigner(byte(1 + i%3))
		e := who.Event(host.Kind([]int{1, 1621, 30617, 0}[i%4]), storyStart+int64(i*7%30), fmt.Sprint(i), host.Tag{"d", fmt.Sprint(i % 2)}, host.Tag{"e", fmt.Sprint(i % 5)}, host.Tag{"e", "5"})
		if s.Newer(e) == nil {
			all = slices.DeleteFunc(all, func(o *host.Event) bool {
				a, ok := o.Address()
				b, same := e.Address()
				return ok && same && a == b
			})
			all = append(all, e)
		}
		s.Put(e)
		if s.Put(e) {
			t.Fatal("the same event is stored twice")
		}
	}
	since := int64(storyStart + 10)
	for _, f := range []host.Filter{
		{Limit: -1}, {Limit: 3}, {Limit: -1, Kinds: []host.Kind{1, 0}}, {Limit: -1, Authors: []host.PubKey{all[0].PubKey}}, {Limit: -1, IDs: []host.ID{all[3].ID, {}}},
		{Limit: -1, Tags: []host.TagFilter{{Name: 'e', Values: []string{"5", "1"}}}}, {Limit: -1, Since: &since, Kinds: []host.Kind{1}}, {Limit: -1, Until: &since},
		{Limit: -1, Tags: []host.TagFilter{{Name: 'e', Values: []string{"1"}}, {Name: 'd', Values: []string{"0"}}}}, {Limit: -1, Kinds: []host.Kind{}},
	} {
		var want []*host.Event
		for _, e := range all {
			if f.Matches(e) {
				want = append(want, e)
			}
		}
		slices.SortFunc(want, func(a, b *host.Event) int {
			if a.Before(b) {
				return -1
			}
			return 1
		})
		if f.Limit >= 0 {
			want = want[:f.Limit]
		}
		if got := s.Query(&f); !slices.Equal(got, want) {
			t.Errorf("%+v: %d events, want %d", f, len(got), len(want))
		}
	}
	if s.Len() != len(all) {
		t.Errorf("%d events, want %d", s.Len(), len(all))
	}
	for _, e := range all {
		s.Delete(e.ID)
	}
	if s.Len() != 0 || len(s.Query(&host.Filter{Limit: -1, Kinds: []host.Kind{1}})) != 0 {
		t.Error("what was deleted is found")
	}
}
