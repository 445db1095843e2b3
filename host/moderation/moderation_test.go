package moderation

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"talon/host"
	"talon/sdk/grasp"
	"talon/sdk/nip19"
)

var (
	mallory = host.PubKey{7}
	alice   = host.PubKey{8}
)

func target(t *testing.T, text string) Target {
	t.Helper()
	got, err := ParseTarget(text)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestParseTarget(t *testing.T) {
	id := host.ID{1, 2}
	npub := nip19.EncodeNpub(mallory)
	for text, want := range map[string]string{
		"event:" + id.String():                 "event:" + id.String(),
		nip19.EncodeNevent(id, mallory, 1, ""): "event:" + id.String(),
		npub:                                   "author:" + mallory.String(),
		"author:" + strings.ToUpper(mallory.String()): "author:" + mallory.String(),
		npub + "/a/b.git":                     "repository:" + mallory.String() + "/a/b",
		"30617:" + mallory.String() + ":tool": "repository:" + mallory.String() + "/tool",
		"repository:" + npub + "/tool":        "repository:" + mallory.String() + "/tool",
		"kind:1":                              "kind:1",
		"192.0.2.7":                           "network:192.0.2.7/32",
		"192.0.2.7/24":                        "network:192.0.2.0/24",
		"::ffff:192.0.2.7":                    "network:192.0.2.7/32",
		"network:2001:db8::1/48":              "network:2001:db8::/48",
		`{"kinds":[7,1,7],"#t":["b","a"]}`:    `filter:{"kinds":[1,7],"#t":["a","b"]}`,
		"object:" + strings.Repeat("AB", 20):  "object:" + strings.Repeat("ab", 20),
	} {
		if got := target(t, text).String(); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
		if got := target(t, want).String(); got != want {
			t.Errorf("the canonical text %s is read as %s", want, got)
		}
	}
	for _, text := range []string{
		"", "mallory", id.String(), "kind:65536", "kind:x", "npub1xyz", npub + "/", "{}", `{"limit":1}`, `{"kinds":[]}`, `{"kinds":[1],"limit":3}`,
		"network:300.0.0.0/8", "object:abc", "event:" + id.String()[1:], "30618:" + mallory.String() + ":x",
	} {
		if got, err := ParseTarget(text); err == nil {
			t.Errorf("%q is read as %s", text, got)
		}
	}
}

func TestLine(t *testing.T) {
	r := Row{At: 5, Action: Ban, Target: target(t, `{"#t":["a\"b\n"]}`), Reason: "spam \n\x07\u202e wave", Until: 9}
	if err := r.Check(); err != nil {
		t.Fatal(err)
	}
	if r.Reason != "spam wave" {
		t.Errorf("the reason is %q", r.Reason)
	}
	line := r.Line()
	if strings.Count(string(line), "\n") != 1 {
		t.Errorf("not one line: %q", line)
	}
	got, err := ParseLine(line)
	if err != nil || got.Target.String() != r.Target.String() || got.UID != r.UID || got.At != 5 || got.Until != 9 {
		t.Errorf("got %+v, %v", got, err)
	}
	for _, line := range []string{"", "{}", `{"action":"kill","target":"kind:1"}`, `{"action":"ban"}`, `{"action":"ban","target":"x"}`, `{"action":"ban","target":"kind:1","uid":"../../x"}`} {
		if _, err := ParseLine([]byte(line)); !errors.Is(err, ErrRow) && err == nil {
			t.Errorf("%s is read", line)
		}
	}
}

// table is a table of the log in memory.
type table struct{ rows []Row }

func (t *table) LastModeration() (number, at int64, err error) {
	for _, r := range t.rows {
		number, at = r.Number, max(at, r.At)
	}
	return number, at, nil
}

func (t *table) HasModeration(uid string) (bool, error) {
	for _, r := range t.rows {
		if r.UID == uid {
			return true, nil
		}
	}
	return false, nil
}

func (t *table) InsertModeration(r *Row) error {
	t.rows = append(t.rows, *r)
	return nil
}

// TestAdd shows that numbers have no gaps, that times do not go back, and that a row is added once.
func TestAdd(t *testing.T) {
	var rows table
	ban := Row{Action: Ban, Target: AuthorTarget(mallory)}
	first, err := Add(&rows, []Row{ban, ban}, 100)
	if err != nil || len(first) != 2 || first[1].Number != 2 {
		t.Fatalf("got %+v, %v", first, err)
	}
	second, err := Add(&rows, append(first, Row{Action: Unban, Target: AuthorTarget(mallory)}), 50)
	if err != nil || len(second) != 1 || second[0].Number != 3 || second[0].At != 100 {
		t.Fatalf("got %+v, %v", second, err)
	}
	var l Log
	l.Apply(first)
	l.Apply(second)
	l.Apply(second)
	if l.Number() != 3 || len(l.Rows(0)) != 3 || len(l.Rows(2)) != 1 {
		t.Errorf("the log has %d rows, number %d", len(l.Rows(0)), l.Number())
	}
	if r := l.Event(&host.Event{PubKey: mallory}, 1); r != nil {
		t.Errorf("an unban of the same second does not count: %+v", r)
	}
	if _, err := Add(&rows, []Row{{Action: "x", Target: AuthorTarget(mallory)}}, 1); !errors.Is(err, ErrRow) {
		t.Errorf("a wrong row: %v", err)
	}
}

// TestMerge shows that a row which a merge adds late counts by its time, not by its number.
func TestMerge(t *testing.T) {
	var rows table
	one, _ := Add(&rows, []Row{{Action: Ban, Target: AuthorTarget(mallory), At: 10}, {Action: Unban, Target: AuthorTarget(mallory), At: 30}}, 0)
	two, _ := Add(&rows, []Row{{Action: Ban, Target: AuthorTarget(mallory), At: 20}}, 0)
	var l Log
	l.Apply(one)
	l.Apply(two)
	if r := l.Event(&host.Event{PubKey: mallory}, 40); r != nil {
		t.Errorf("a ban of 20 counts after an unban of 30: %+v", r)
	}
}

// TestBars compares what each action does to each event with a table.
func TestBars(t *testing.T) {
	repo := "30617:" + mallory.String() + ":tool"
	other := "30617:" + alice.String() + ":tool"
	events := map[string]*host.Event{
		"old":          {PubKey: mallory, Kind: 1, CreatedAt: 90},
		"new":          {PubKey: mallory, Kind: 1, CreatedAt: 110},
		"announcement": {PubKey: mallory, Kind: grasp.KindAnnouncement, CreatedAt: 110, Tags: host.Tags{{"d", "tool"}}},
		"state":        {PubKey: mallory, Kind: grasp.KindState, CreatedAt: 90, Tags: host.Tags{{"d", "tool"}}},
		"stateAlice":   {PubKey: alice, Kind: grasp.KindState, CreatedAt: 90, Tags: host.Tags{{"d", "tool"}}},
		"issue":        {PubKey: alice, Kind: 1621, CreatedAt: 90, Tags: host.Tags{{"a", repo}}},
		"issueNew":     {PubKey: alice, Kind: 1621, CreatedAt: 110, Tags: host.Tags{{"a", repo}}},
		"issueBoth":    {PubKey: alice, Kind: 1621, CreatedAt: 90, Tags: host.Tags{{"a", repo}, {"a", other}}},
		"list":         {PubKey: alice, Kind: 10018, CreatedAt: 90, Tags: host.Tags{{"a", repo}}},
		"alice":        {PubKey: alice, Kind: 1, CreatedAt: 90},
	}
	for name, e := range events {
		copy(e.ID[:], name)
		if e.Tags == nil {
			e.Tags = host.Tags{}
		}
	}
	newID := "event:" + events["new"].ID.String()
	for _, tt := range []struct{ action, target, barred string }{
		{"ban", "author:" + mallory.String(), "announcement new old state"},
		{"hide", "author:" + mallory.String(), "announcement old state"},
		{"purge", "author:" + mallory.String(), "old state"},
		{"allow", "author:" + mallory.String(), ""},
		{"ban", repo, "announcement issue issueNew state"},
		{"hide", repo, "announcement issue issueNew state"},
		{"purge", repo, "issue state"},
		{"ban", newID, "new"},
		{"hide", newID, "new"},
		{"purge", newID, "new"},
		{"ban", "kind:1", "alice new old"},
		{"hide", "kind:1", "alice old"},
		{"purge", "kind:1", "alice old"},
		{"ban", `{"authors":["` + alice.String() + `"],"kinds":[1,1621]}`, "alice issue issueBoth issueNew"},
		{"purge", `{"authors":["` + alice.String() + `"],"kinds":[1,1621]}`, "alice issue issueBoth"},
		{"purge", `{"until":95}`, "alice issue issueBoth list old"},
	} {
		for _, until := range []int64{0, 200} {
			var l Log
			l.Apply([]Row{{Number: 1, At: 100, Until: until, Action: Action(tt.action), Target: target(t, tt.target)}})
			check := func(now int64, want string) {
				t.Helper()
				var got []string
				for name, e := range events {
					if l.Event(e, now) != nil {
						got = append(got, name)
					}
				}
				if fmt.Sprint(slices.Sorted(slices.Values(got))) != "["+want+"]" {
					t.Errorf("%s %s at %d until %d: bars %v, want %s", tt.action, tt.target, now, until, slices.Sorted(slices.Values(got)), want)
				}
			}
			check(199, tt.barred)
			if until == 0 {
				check(1<<40, tt.barred)
			} else {
				check(200, "")
			}
		}
	}
}

func TestRepository(t *testing.T) {
	var l Log
	if l.Repository(mallory, "tool", 1) != nil || l.Removed(mallory, "tool", 1) != nil {
		t.Error("an empty log hides something")
	}
	l.Apply([]Row{
		{Number: 1, At: 1, Action: Hide, Target: target(t, "30617:"+mallory.String()+":tool"), Reason: "scam"},
		{Number: 2, At: 2, Action: Purge, Target: target(t, "30617:"+mallory.String()+":other")},
		{Number: 3, At: 3, Action: Ban, Target: AuthorTarget(alice)},
	})
	if r := l.Repository(mallory, "tool", 9); r == nil || r.Refusal() != "blocked: hidden by the operator: scam" {
		t.Errorf("got %+v", r)
	}
	if l.Repository(mallory, "other", 9) != nil || l.Removed(mallory, "other", 9) == nil || l.Repository(alice, "x", 9) == nil {
		t.Error("a purge hides, or explains nothing, or the repositories of a banned author are not hidden")
	}
	l.Apply([]Row{{Number: 4, At: 4, Action: Unhide, Target: target(t, "30617:"+mallory.String()+":tool")}})
	if l.Repository(mallory, "tool", 9) != nil {
		t.Error("an unhide does not count")
	}
}

func TestAddress(t *testing.T) {
	var l Log
	l.Apply([]Row{
		{Number: 1, At: 1, Action: Ban, Target: target(t, "192.0.2.0/24"), Reason: "wide"},
		{Number: 2, At: 1, Action: Ban, Target: target(t, "192.0.2.7"), Reason: "narrow", Until: 50},
		{Number: 3, At: 1, Action: Ban, Target: target(t, "2001:db8::/32")},
	})
	for addr, want := range map[string]int64{"192.0.2.7": 2, "::ffff:192.0.2.8": 1, "192.0.3.1": 0, "2001:db8:9::1%eth0": 3, "::1": 0} {
		got := int64(0)
		if r := l.Address(netip.MustParseAddr(addr), 10); r != nil {
			got = r.Number
		}
		if got != want {
			t.Errorf("%s: row %d, want %d", addr, got, want)
		}
	}
	if r := l.Address(netip.MustParseAddr("192.0.2.7"), 50); r == nil || r.Number != 1 {
		t.Errorf("after the narrow ban: %+v", r)
	}
	if at := l.NextEnd(10); at != 50 {
		t.Errorf("the next end is %d", at)
	}
}

func FuzzParseLine(f *testing.F) {
	f.Add([]byte(`{"uid":"00000000000000000000000000000000","at":1,"action":"ban","target":"kind:1"}`))
	f.Add([]byte(`{"action":"hide","target":"filter:{\"#t\":[\"x\"]}","until":5}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		r, err := ParseLine(line)
		if err != nil {
			return
		}
		again, err := ParseLine(r.Line())
		if err != nil || string(again.Line()) != string(r.Line()) {
			t.Fatalf("%q is written as %q, and read as %q, %v", line, r.Line(), again.Line(), err)
		}
	})
}

func BenchmarkEvent(b *testing.B) {
	var l Log
	for i := range 10_000 {
		l.Apply([]Row{{Number: int64(i + 1), At: 1, Action: Ban, Target: AuthorTarget(host.PubKey{byte(i), byte(i >> 8), 1})}})
	}
	e := &host.Event{PubKey: alice, Kind: 1, Tags: host.Tags{{"p", "x"}}}
	for b.Loop() {
		l.Event(e, 5)
	}
}
