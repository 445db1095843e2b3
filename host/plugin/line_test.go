package plugin

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"talon/host"
	"talon/host/memfacts"
	"talon/host/plugin/guest"
	"talon/sdk/abi/manifest"
)

// keptFacts is facts that do not change. Stored events name what begins with named.
type keptFacts struct{ memfacts.Facts }

func keep(stored, held []*host.Event) *keptFacts { return &keptFacts{*memfacts.New(stored, held)} }

func (w *keptFacts) Referenced(_ context.Context, text string) (bool, error) {
	return strings.HasPrefix(text, "named"), nil
}

func event(id byte, content string) *host.Event {
	e := &host.Event{ID: host.ID{id}, PubKey: host.PubKey{2}, CreatedAt: now - int64(id), Kind: 1, Content: content, Tags: host.Tags{{"t", "<nostr> & co"}}}
	e.JSON = e.AppendJSON(nil)
	return e
}

func note(id byte, content string) *host.Item {
	return &host.Item{
		Event: event(id, content), Authed: []host.PubKey{{5}},
		Source: &host.Source{Addr: netip.MustParseAddr("192.0.2.7")},
	}
}

func sampleOf(o Recording, maxBytes int64) *recording {
	o.Max = cmp.Or(o.Max, 100)
	return newRecording(o, cmp.Or(maxBytes, 1<<30), host.Service{Domain: "relay.test", PRs: true, Operator: [32]byte{7}})
}

// take is a decision that a sample records.
type take struct {
	*recording
	trace
}

// begin begins a decision, nil if the sample takes no part in it.
func begin(s *recording) *take {
	x := &take{recording: s, trace: trace{question: &question{facts: host.NewFactReader(nil, nil, nil), source: "client", now: now}}}
	if !s.begin(x.facts) {
		return nil
	}
	return x
}

// reads has a plugin read facts.
func (x *take) reads(plugin string, shadow bool, w *keptFacts) *host.FactReader {
	f := host.NewFactReader(w, w, nil)
	f.KeepAnswers()
	f.Asking(plugin)
	if shadow {
		x.shadowFacts = f
	} else {
		x.facts = f
	}
	return f
}

// heard notes the answer of a plugin.
func (x *take) heard(plugin string, r host.Ruling) {
	g := &generation{name: plugin}
	x.answers = append(x.answers, answer{plugin: g, by: g, ruling: r})
}

// admit ends the decision, as one about an event.
func (x *take) admit(it *host.Item, r host.Ruling) {
	x.function, x.item, x.ruling = guest.Admit, it, r
	x.recording.add(&x.trace)
}

// vectors ends a sample and reads it.
func vectors(t *testing.T, s *recording) (list []manifest.Vector) {
	t.Helper()
	s.close()
	for text := s.next(); len(text) > 0; text = s.next() {
		for line := range strings.Lines(string(text)) {
			// What a line need not have.
			line = `{"name": "x", ` + line[1:]
			var v manifest.Vector
			if err := json.Unmarshal([]byte(line), &v); err != nil {
				t.Fatalf("%v: %s", err, line)
			}
			list = append(list, v)
		}
	}
	return list
}

var accepted = host.Ruling{Action: host.Accept, Rule: "ok", Module: "open"}

// TestSampleLines records a decision of each function: a vector asks the same.
func TestSampleLines(t *testing.T) {
	s := sampleOf(Recording{}, 0)
	limit := int64(5)
	client := &host.Client{Addr: netip.MustParseAddr("2001:db8::7%eth0"), Authed: []host.PubKey{{6}}, UserAgent: "<b>", Origin: "https://a.test", Path: "/"}
	begin(s).admit(note(1, "hello\n\"<you>\""), host.Ruling{Action: host.Reject, Rule: "no", Reason: "blocked: <no>", Module: "guard"})
	query := begin(s)
	query.function, query.client, query.ruling = guest.Query, client, host.Ruling{Action: host.ShadowReject, Rule: "hush", Module: "guard"}
	query.query = &host.Query{Client: client, Verb: host.QueryCount, Filters: []host.Filter{
		{IDs: []host.ID{{1}}, Authors: []host.PubKey{{2}}, Kinds: []host.Kind{0, 65535}, Tags: []host.TagFilter{{Name: 'p', Values: []string{"x"}}}, Since: &limit, Until: new(int64), Limit: -1},
		{Authors: []host.PubKey{{2}}, Kinds: []host.Kind{7}, Tags: []host.TagFilter{{Name: 'P', Values: []string{"<y>"}}}, Since: &limit, Limit: 0},
		{Kinds: []host.Kind{}, Limit: -1}, // matches nothing, and is not asked about
	}}
	s.add(&query.trace)
	arrival := begin(s)
	arrival.function, arrival.client, arrival.connection = guest.Connect, client, &host.Connection{Client: *client, Open: 3, FromAddr: 2}
	s.add(&arrival.trace)
	refs := begin(s)
	refs.function, refs.client, refs.ruling = guest.Push, client, accepted
	refs.push = &host.Push{
		Client: client, Repo: host.Address{Kind: 30617, PubKey: host.PubKey{9}, D: "repo"}, PRs: true, Maintainers: []host.PubKey{{9}},
		Updates: []host.RefUpdate{{Ref: "refs/heads/main", Old: strings.Repeat("0", 40), New: strings.Repeat("a", 40)}}, Bytes: 7, Stored: 8,
	}
	s.add(&refs.trace)
	list := vectors(t, s)
	if len(list) != 4 {
		t.Fatalf("%d lines, want 4", len(list))
	}
	admit, ask, connect, push := list[0], list[1], list[2], list[3]
	if e := admit.Event; e.ID != (manifest.Key{1}) || e.Content != "hello\n\"<you>\"" || e.Tags[0][1] != "<nostr> & co" || admit.Now != now ||
		admit.Source.Origin != "client" || admit.Source.Address != "192.0.2.7" || admit.Source.Authed[0] != (manifest.Key{5}) ||
		!reflect.DeepEqual(admit.Want, manifest.VectorWant{Action: "reject", Rule: "no", Reason: "blocked: <no>"}) || *admit.Service != (manifest.VectorService{Domain: "relay.test", PRs: true, Operator: manifest.Key{7}}) {
		t.Errorf("%+v", admit)
	}
	if len(ask.Filters) != 1 || ask.Verb != "count" || ask.Client.Address != "2001:db8::7" || ask.Client.UserAgent != "<b>" || ask.Want.Action != "shadow-reject" {
		t.Errorf("a filter that matches nothing is none, one that has since after until too: %+v", ask)
	}
	if connect.Open != 3 || connect.FromAddress != 2 || connect.Want.Action != "pass" || connect.Client.Origin != "https://a.test" {
		t.Errorf("%+v", connect)
	}
	if p := push.Push; p.Repo != (host.Address{Kind: 30617, PubKey: host.PubKey{9}, D: "repo"}).String() || p.Updates[0].Ref != "refs/heads/main" || !p.PRs || p.Bytes != 7 || p.Stored != 8 {
		t.Errorf("%+v", p)
	}
	for _, v := range list {
		if _, err := v.Request(); err != nil {
			t.Error(err)
		}
	}
}

// TestSampleFacts records what was read, each once, and what cannot be written.
func TestSampleFacts(t *testing.T) {
	w := keep([]*host.Event{event(1, "one"), event(2, "two")}, []*host.Event{event(3, "three")})
	s := sampleOf(Recording{}, 0)
	x := begin(s)
	ctx := t.Context()
	f := x.reads("guard", false, w)
	for range 2 {
		if text, err := f.Get(ctx, host.ID{1}); err != nil || string(text) != string(event(1, "one").JSON) {
			t.Errorf("%s, %v", text, err)
		}
		if text, _ := f.Get(ctx, host.ID{9}); text != nil {
			t.Errorf("%s", text)
		}
		if list, _ := f.Query(ctx, host.Filter{Kinds: []host.Kind{1}, Limit: -1}); len(list) != 2 {
			t.Errorf("%s", list)
		}
		if text, _ := f.Held(ctx, host.ID{3}); text == nil {
			t.Error("no held event")
		}
		if list, _ := f.HeldBy(ctx, host.Filter{Limit: -1}); len(list) != 1 {
			t.Errorf("%s", list)
		}
		for text, want := range map[string]bool{"named:by": true, "other": false} {
			if yes, _ := f.Referenced(ctx, text); yes != want {
				t.Errorf("%s: %v", text, yes)
			}
		}
		f.Contained([]byte("friends"), []byte("alice"), true, true)
		f.Contained([]byte("friends"), make([]byte, 32), true, true)
		f.Contained([]byte("friends"), []byte("bob"), false, true)
		f.Contained([]byte("foes"), []byte("bob"), false, true)
		f.Contained([]byte("unknown"), []byte("bob"), false, false)
		f.Used("git.has")
	}
	x.admit(note(9, "x"), accepted)
	quiet := begin(s)
	_, _ = quiet.reads("shade", true, w).Get(ctx, host.ID{1}) // is not noted for the chain
	quiet.admit(note(9, "y"), accepted)
	list := vectors(t, s)
	v := list[0]
	want := map[string][]string{"friends": {"alice", strings.Repeat("0", 64)}, "foes": {}}
	if !reflect.DeepEqual(v.Sets, want) {
		t.Errorf("sets %v, want %v", v.Sets, want)
	}
	if len(v.Stored) != 3 || v.Stored[2].Kind != standInKind || !reflect.DeepEqual(v.Stored[2].Tags, [][]string{{"a", "named:by"}}) || len(v.Held) != 1 || v.Held[0].Content != "three" {
		t.Errorf("stored %+v, held %+v", v.Stored, v.Held)
	}
	if n := len(list[1].Stored) + len(list[1].Sets); n != 0 {
		t.Errorf("%d facts of nobody", n)
	}
	if c := s.result(); c.Unseen != 1 || c.Lines != 2 || c.Functions["admit"] != 2 {
		t.Errorf("%+v", c)
	}
}

// TestSampleNoPurgatory: where there is none, nothing is held.
func TestSampleNoPurgatory(t *testing.T) {
	x := begin(sampleOf(Recording{}, 0))
	f := host.NewFactReader(&keptFacts{}, nil, nil)
	x.facts = f
	if text, err := f.Held(t.Context(), host.ID{}); text != nil || err != nil {
		t.Errorf("%s, %v", text, err)
	}
	if list, err := f.HeldBy(t.Context(), host.Filter{}); list != nil || err != nil {
		t.Errorf("%s, %v", list, err)
	}
	if text, err := host.NewFactReader(nil, nil, nil).Get(t.Context(), host.ID{}); text != nil || err == nil {
		t.Error("facts out of nothing")
	}
}

// TestSamplePlugin takes what one plugin was asked and said.
func TestSamplePlugin(t *testing.T) {
	s := sampleOf(Recording{Plugin: "guard"}, 0)
	w := keep([]*host.Event{event(1, "one")}, nil)
	x := begin(s)
	_, _ = x.reads("open", false, w).Get(t.Context(), host.ID{1})
	x.heard("guard", host.Ruling{Action: host.Pass, Rule: "shrug"})
	x.heard("open", accepted)
	x.admit(note(1, "x"), accepted)
	begin(s).admit(note(2, "not asked"), accepted)
	x = begin(s)
	_, _ = x.reads("guard", true, w).Get(t.Context(), host.ID{1})
	x.heard("guard", host.Ruling{Action: host.Reject, Rule: "r", Reason: "blocked: r"})
	x.admit(note(3, "in shadow"), accepted)
	list := vectors(t, s)
	if len(list) != 2 || !reflect.DeepEqual(list[0].Want, manifest.VectorWant{Action: "pass", Rule: "shrug"}) || len(list[0].Stored) != 0 ||
		list[1].Want.Rule != "r" || len(list[1].Stored) != 1 {
		t.Errorf("%+v", list)
	}
}

// TestSampleOfWaiting records that an event waits for another, in the form that a vector has.
func TestSampleOfWaiting(t *testing.T) {
	s := sampleOf(Recording{}, 0)
	begin(s).admit(note(1, "x"), host.Ruling{Action: host.Hold, Rule: "unknown", Wake: `{"kinds":[1,7],"#p":["a"]}`, Wait: 60})
	list := vectors(t, s)
	if len(list) != 1 {
		t.Fatalf("%d lines", len(list))
	}
	v := manifest.Vector{Want: list[0].Want}
	if err := v.CheckWake(`{"#p":["a"],"kinds":[7,1]}`, 60); err != nil {
		t.Error(err)
	}
	if v.CheckWake(`{"#p":["b"],"kinds":[7,1]}`, 60) == nil || v.CheckWake("", 60) == nil || v.CheckWake(`{"#p":["a"],"kinds":[7,1]}`, 61) == nil {
		t.Error("another filter, none, or another time is the same")
	}
}

// TestSampleBounds floods a sample that nobody fetches, with large lines and many.
func TestSampleBounds(t *testing.T) {
	s := sampleOf(Recording{Max: 1000}, 0)
	large := strings.Repeat("x", maxLine-2000)
	for i := range 20 {
		if x := begin(s); x != nil {
			x.admit(note(byte(i), large), accepted)
		}
	}
	if c := s.result(); c.Lines != 8 || c.Dropped != 12 {
		t.Errorf("%+v, want 8 lines that wait", c)
	}
	begin(s).admit(note(1, large+large), accepted)
	many := begin(s)
	f := many.reads("guard", false, keep([]*host.Event{event(1, large), event(2, large)}, nil))
	_, _ = f.Query(t.Context(), host.Filter{Limit: -1})
	many.admit(note(1, ""), accepted)
	if c := s.result(); c.Lines != 8 || c.TooLarge != 2 {
		t.Errorf("%+v, want 2 that are too large", c)
	}
	if got := len(s.next()); got < 8*len(large) {
		t.Errorf("%d bytes", got)
	}
	begin(s).admit(note(1, "there is room again"), accepted)
	if got := s.next(); !strings.HasSuffix(string(got), "\n") || !strings.Contains(string(got), "room again") {
		t.Errorf("%s", got)
	}
}

// TestSampleEnds takes no more than was asked for.
func TestSampleEnds(t *testing.T) {
	for full, o := range map[string]struct {
		max   int
		bytes int64
	}{"count": {max: 3}, "bytes": {bytes: 1400}} {
		s := sampleOf(Recording{Max: o.max}, o.bytes)
		late := begin(s)
		for i := range 10 {
			if x := begin(s); x != nil {
				x.admit(note(byte(i), "x"), accepted)
			}
		}
		late.admit(note(99, "late"), accepted)
		got := s.next()
		c := s.result()
		if n := strings.Count(string(got), "\n"); n != 3 && full == "count" || n != c.Lines || n == 10 || c.Ended != full || c.Bytes > 1400 && full == "bytes" {
			t.Fatalf("%s: %d lines, %+v, full of %q", full, n, c, c.Ended)
		}
		if len(s.next()) != 0 || begin(s) != nil {
			t.Errorf("%s: it goes on", full)
		}
	}
}

// TestSampleRedaction looks for what was to be left out in all that is written.
func TestSampleRedaction(t *testing.T) {
	redact, err := ParseRedaction("content, address")
	if err != nil {
		t.Fatal(err)
	}
	s := sampleOf(Recording{Redact: redact}, 0)
	w := keep([]*host.Event{event(1, "secret of the store")}, []*host.Event{event(2, "secret of purgatory")})
	x := begin(s)
	f := x.reads("guard", false, w)
	_, _ = f.Get(t.Context(), host.ID{1})
	_, _ = f.HeldBy(t.Context(), host.Filter{Limit: -1})
	x.admit(note(3, "secret of a client"), accepted)
	c := begin(s)
	c.connection = &host.Connection{Client: host.Client{Addr: netip.MustParseAddr("2001:db8:1:2::7")}}
	c.function, c.client, c.ruling = guest.Connect, &c.connection.Client, accepted
	s.add(&c.trace)
	s.close()
	text := string(s.next())
	for _, hidden := range []string{"secret", "192.0.2.7", "2001:db8:1:2"} {
		if strings.Contains(text, hidden) {
			t.Errorf("%s is in\n%s", hidden, text)
		}
	}
	if !strings.Contains(text, `"t","<nostr> & co"`) {
		t.Errorf("tags are to stay:\n%s", text)
	}
	if _, err := ParseRedaction("content,tags"); err == nil || err.Error() != `redact "tags": want content, address, or both with a comma between them` {
		t.Error(err)
	}
	if r, err := ParseRedaction(""); err != nil || r != (Redaction{}) {
		t.Error(r, err)
	}
}

func TestSampleMask(t *testing.T) {
	m, other := newMask(Redaction{true, true}), newMask(Redaction{true, true})
	for text, want := range map[string]int{"": 0, "a": 1, "ab": 2, "abc": 4, strings.Repeat("ä", 16): 32, strings.Repeat("x", 33): 64, strings.Repeat("x", 40_000): 65536} {
		got := m.content(text)
		if len(got) != want || got != m.content(text) || strings.Trim(got, "abcdefghijklmnopqrstuvwxyz ") != "" || strings.TrimSpace(got) != got {
			t.Errorf("%.10q: %d bytes, want %d: %.40q", text, len(got), want, got)
		}
		if len(got) > 30 && (got == m.content(text+"x") || got == other.content(text)) {
			t.Errorf("%.10q becomes what another text becomes, or the same under another key", text)
		}
	}
	at := func(s string) string { return m.address(netip.MustParseAddr(s)) }
	if at("127.0.0.1") != "127.0.0.1" || at("::1") != "::1" || m.address(netip.Addr{}) != "" {
		t.Error("this machine, or none, is another one")
	}
	if v4 := at("192.0.2.7"); !strings.HasPrefix(v4, "10.") || v4 != at("192.0.2.7") || v4 != at("::ffff:192.0.2.7") || v4 == at("192.0.2.8") {
		t.Error(v4)
	}
	network := func(s string) string { return fmt.Sprint(host.NetworkOf(netip.MustParseAddr(at(s)))) }
	if network("2001:db8:1::7") != network("2001:db8:1::8") || network("2001:db8:1::7") == network("2001:db8:2::7") || at("2001:db8:1::7") == at("2001:db8:1::8") {
		t.Error("the networks of IPv6 are mixed up")
	}
	plain := newMask(Redaction{})
	if plain.content("x y") != "x y" || plain.address(netip.MustParseAddr("192.0.2.7")) != "192.0.2.7" {
		t.Error("something is left out that was not asked for")
	}
}
