package devnet

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"talon/cmd/internal/lab/scenario"
	"talon/cmd/internal/lab/world"
	"talon/host"
	"talon/host/relayclient"
	"talon/internal/testkit"
)

func small(t *testing.T) Config {
	t.Helper()
	cfg := DefaultConfig
	cfg.Dir, cfg.Log = t.TempDir(), slog.New(slog.DiscardHandler)
	cfg.Repos, cfg.Roots, cfg.Relays, cfg.GitServers = 2, 2, 3, 2
	return cfg
}

func open(t *testing.T, cfg Config) *Net {
	t.Helper()
	n, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- n.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ran; err != nil {
			t.Error(err)
		}
	})
	return n
}

// client is a connection to a relay.
type client struct {
	t      *testing.T
	socket *relayclient.Socket
}

func connect(t *testing.T, r *Relay) *client {
	t.Helper()
	ctx, cancel := context.WithDeadline(t.Context(), testkit.Deadline(t))
	defer cancel()
	s, err := relayclient.DialSocket(ctx, r.URL, relayclient.SocketOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	// At the deadline the connection closes, so that a wait for a message ends.
	late := time.AfterFunc(time.Until(testkit.Deadline(t)), func() { _ = s.Close() })
	t.Cleanup(func() { late.Stop() })
	return &client{t, s}
}

func (c *client) say(format string, args ...any) {
	c.t.Helper()
	if err := c.socket.Write(fmt.Appendf(nil, format, args...)); err != nil {
		c.t.Fatal(err)
	}
}

// hear returns the next message.
func (c *client) hear() string {
	c.t.Helper()
	text, err := c.socket.Read()
	if err != nil {
		c.t.Fatal(err)
	}
	return string(text)
}

// signed makes an event of somebody.
func signed(t *testing.T, kind int, at int64, content string, tags ...host.Tag) *nostr.Event {
	t.Helper()
	e, err := sign(strings.Repeat("01", 32), kind, at, content, tags)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// The same seed makes the same events and commits, whatever ports there are.
func TestSeed(t *testing.T) {
	t.Parallel()
	describe := func(seed uint64) (list []string) {
		cfg := small(t)
		cfg.Seed = seed
		n := open(t, cfg)
		for id := range n.Expected() {
			if e, relays := n.Event(id); e.Kind != 30617 && e.Tags.Find("clone") == nil { // these have URLs
				list = append(list, fmt.Sprint(e.ID, relays))
			}
		}
		for _, r := range n.Repositories() {
			for _, name := range slices.Sorted(maps.Keys(r.Refs)) {
				if !strings.HasPrefix(name, "refs/nostr/") {
					list = append(list, r.Path+name+r.Refs[name])
				}
			}
		}
		slices.Sort(list)
		return list
	}
	one, two, other := describe(1), describe(1), describe(2)
	// Not all are the same: an answer to a pull request names its id.
	same := 0
	for _, s := range one {
		if slices.Contains(two, s) {
			same++
		}
		if slices.Contains(other, s) {
			t.Errorf("%s is made from another seed too", s)
		}
	}
	if same < len(one)/2 || same == 0 {
		t.Errorf("%d of %d are the same", same, len(one))
	}
}

// A relay answers, tells of what is new, and does neither while it is cut off.
func TestRelay(t *testing.T) {
	t.Parallel()
	cfg := small(t)
	cfg.MaxLimit = 3
	cfg.Latency = time.Millisecond
	n := open(t, cfg)
	r := n.Relays[0]
	c := connect(t, r)
	c.say(`["REQ","s",{"kinds":[30617,30618,1,1111,1617,1618,1621]}]`)
	stored := 0
	for strings.HasPrefix(c.hear(), `["EVENT","s",`) {
		stored++ // until EOSE
	}
	if stored != cfg.MaxLimit {
		t.Errorf("%d events came, want as many as the limit", stored)
	}
	e := signed(t, 1621, time.Now().Unix(), "new")
	connect(t, r).say(`["EVENT",%s]`, e)
	if got := c.hear(); !strings.HasPrefix(got, `["EVENT","s",`) || !strings.Contains(got, e.ID) {
		t.Errorf("the subscription got %s, want %s", got, e.ID)
	}
	r.Cut(true)
	if s := r.Status(); s.Up {
		t.Error("a relay that is cut off is up")
	}
	if text, err := c.socket.Read(); err == nil {
		t.Errorf("a relay that is cut off says %s", text)
	}
	if conn, err := net.Dial("tcp", strings.TrimPrefix(r.URL, "ws://")); err == nil {
		_ = conn.SetReadDeadline(testkit.Deadline(t))
		if _, err := conn.Read(make([]byte, 1)); err == nil || os.IsTimeout(err) {
			t.Errorf("a relay that is cut off answers: %v", err)
		}
		_ = conn.Close()
	}
	r.Cut(false)
	connect(t, r)
}

// A relay that limits its clients says so.
func TestRateLimit(t *testing.T) {
	t.Parallel()
	cfg := small(t)
	cfg.RateLimit = 1
	n := open(t, cfg)
	c := connect(t, n.Relays[0])
	for i := range 10 {
		c.say(`["REQ","s%d",{"kinds":[30617]}]`, i)
	}
	for {
		if text := c.hear(); strings.HasPrefix(text, `["CLOSED",`) {
			if !strings.Contains(text, `"rate-limited: `) {
				t.Errorf("the relay says %s", text)
			}
			return
		}
	}
}

// A network has relays of profiles and of khatru. Every event that Talon should have is on
// a relay that gives it.
func TestForeign(t *testing.T) {
	t.Parallel()
	cfg := small(t)
	cfg.Relays, cfg.RelaysPer, cfg.Repos = 1, 3, 8
	for _, name := range []string{"strfry", "dead", "lying"} {
		cfg.Foreign = append(cfg.Foreign, Foreign{Name: name, Count: 2})
	}
	n := open(t, cfg)
	copies := map[string]int{}
	for id := range n.Expected() {
		_, relays := n.Event(id)
		if !slices.ContainsFunc(relays, func(k int) bool { return n.Relays[k].honest }) {
			t.Errorf("%v is only on %v", id, relays)
		}
		for _, k := range relays {
			copies[n.Relays[k].Profile]++
		}
	}
	if len(n.Relays) != 7 || copies["strfry"] == 0 || copies["dead"] == 0 || copies["lying"] == 0 {
		t.Errorf("%d relays, with copies: %v", len(n.Relays), copies)
	}
	for _, r := range n.Relays {
		dead := r.Profile == "dead"
		if s := r.Status(); s.Up == dead || s.Events == 0 {
			t.Errorf("%s is up: %v, with %d events", r.Profile, s.Up, s.Events)
		}
		if dead {
			continue
		}
		c := connect(t, r)
		c.say(`["REQ","s",{"kinds":[1621],"limit":0}]`)
		if got := strings.TrimSpace(c.hear()); r.Profile != "lying" && got != `["EOSE","s"]` {
			t.Errorf("%s says %s", r.Profile, got)
		}
	}
	cfg = small(t)
	cfg.Relays, cfg.Foreign = 0, []Foreign{{Name: "dead", Count: 3}}
	if _, err := Open(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "bootstrap") {
		t.Errorf("a dead bootstrap relay: %v", err)
	}
}

// A network opens with the lowest rate of events, too.
func TestRare(t *testing.T) {
	t.Parallel()
	cfg := small(t)
	cfg.Rate = 1e-12
	open(t, cfg)
}

func TestShelf(t *testing.T) {
	t.Parallel()
	announced := func(at int64, d string) *nostr.Event { return signed(t, 30617, at, "", host.Tag{"d", d}) }
	old, young, other := announced(1, "a"), announced(2, "a"), announced(1, "b")
	issue := signed(t, 1621, 3, "", host.Tag{"a", "x"}, host.Tag{"a", "y"})
	s := newEventStore()
	for _, tt := range []struct {
		e    *nostr.Event
		want bool
	}{{old, true}, {old, false}, {young, true}, {old, false}, {other, true}, {issue, true}} {
		if got := s.put(tt.e); got != tt.want {
			t.Errorf("put %s: %v, want %v", tt.e, got, tt.want)
		}
	}
	for _, tt := range []struct {
		f    nostr.Filter
		want []*nostr.Event
	}{
		{nostr.Filter{}, []*nostr.Event{issue, young, other}},
		{nostr.Filter{Limit: 1}, []*nostr.Event{issue}},
		{nostr.Filter{Kinds: []int{30617}}, []*nostr.Event{young, other}},
		{nostr.Filter{IDs: []string{old.ID, young.ID}}, []*nostr.Event{young}},
		{nostr.Filter{Tags: nostr.TagMap{"a": {"x", "y"}}}, []*nostr.Event{issue}},
		{nostr.Filter{Tags: nostr.TagMap{"a": {"x"}, "d": {"a"}}}, nil},
		{nostr.Filter{Tags: nostr.TagMap{"d": {"a", "b", "c"}}}, []*nostr.Event{young, other}},
	} {
		if got := s.query(tt.f); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.f, got, tt.want)
		}
	}
	s.delete(issue.ID)
	if got := s.query(nostr.Filter{Tags: nostr.TagMap{"a": {"x"}}}); len(got) > 0 || s.count() != 2 {
		t.Errorf("after a deletion: %v, %d events", got, s.count())
	}
}

// The given number of servers fail, each works in its turn, and each way to fail comes.
func TestFaults(t *testing.T) {
	t.Parallel()
	const servers = 3
	seen := map[fault]bool{}
	worked := [servers]bool{}
	for turn := range int64(60) {
		failing := 0
		for s := range servers {
			f := faultAt(s, servers, servers-1, 1, turn)
			seen[f] = true
			if f == works {
				worked[s] = true
			} else {
				failing++
			}
		}
		if failing != servers-1 {
			t.Errorf("in turn %d %d servers fail", turn, failing)
		}
		if turn%servers == servers-1 {
			if worked != [servers]bool{true, true, true} {
				t.Errorf("until turn %d these have worked: %v", turn, worked)
			}
			worked = [servers]bool{}
		}
	}
	if len(seen) != 5 {
		t.Errorf("only %v were seen", seen)
	}
}

// Ids of commits are known before git makes them.
func TestCommits(t *testing.T) {
	t.Parallel()
	d, err := newGitData(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "a.git")
	push := func(refs ...[3]any) {
		s := newStream("an address")
		for _, r := range refs {
			s.ref(r[0].(string), r[1].(string), r[2].(int))
		}
		if err := d.push(t.Context(), dir, s); err != nil {
			t.Fatal(err)
		}
	}
	push([3]any{"refs/heads/other-1", world.Other, 1})
	push([3]any{"refs/heads/main", world.Main, 3}, [3]any{"refs/tags/v1", world.Main, 0})
	push([3]any{"refs/heads/main", world.Main, 1}, [3]any{"refs/heads/pull-2", world.Pull, 2})
	want := []string{
		commitID("an address", world.Main, 1) + " refs/heads/main", commitID("an address", world.Other, 1) + " refs/heads/other-1",
		commitID("an address", world.Pull, 2) + " refs/heads/pull-2", commitID("an address", world.Main, 0) + " refs/tags/v1",
	}
	got, err := runGit(t.Context(), "", "--git-dir="+dir, "show-ref")
	if err != nil || !slices.Equal(strings.Split(strings.TrimSpace(got), "\n"), want) {
		t.Errorf("the refs are %v\n%s\nwant\n%s", err, got, strings.Join(want, "\n"))
	}
	if out, err := runGit(t.Context(), "", "--git-dir="+dir, "fsck", "--strict"); err != nil {
		t.Errorf("git fsck: %v, %s", err, out)
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Config){
		"relays":       func(c *Config) { c.Relays = 0 },
		"relays-per":   func(c *Config) { c.RelaysPer = 4 },
		"bootstrap":    func(c *Config) { c.Bootstrap = 4 },
		"clones-per":   func(c *Config) { c.ClonesPer = 3 },
		"negentropy":   func(c *Config) { c.Negentropy = 1.1 },
		"drop":         func(c *Config) { c.Drop = -1 },
		"talon":        func(c *Config) { c.Talon = "a b" },
		"git-turn":     func(c *Config) { c.GitFailing, c.GitTurn = 1, 0 },
		"outage-every": func(c *Config) { c.OutageEvery, c.OutageFor = 1, 0 },
	} {
		cfg := small(t)
		change(&cfg)
		if _, err := Open(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The profile khatru says and does what the real program does, in the same words. (The
// limits of its store are not those of a devnet's.)
func TestKhatruProfile(t *testing.T) {
	t.Parallel()
	cfg := small(t)
	cfg.Repos, cfg.Relays, cfg.RelaysPer, cfg.Negentropy = 0, 1, 1, 0
	cfg.Foreign = []Foreign{{Name: "khatru", Count: 1}}
	n := open(t, cfg)
	var events []*nostr.Event
	for i := range 5 {
		events = append(events, signed(t, 1621, time.Now().Unix()-int64(i), fmt.Sprint(i), host.Tag{"t", fmt.Sprint(i % 2)}))
	}
	deleted := signed(t, 5, time.Now().Unix(), "", host.Tag{"e", events[1].ID})
	program, model := connect(t, n.Relays[0]), connect(t, n.Relays[1])
	for _, step := range []struct {
		say     string
		answers int
	}{
		{fmt.Sprintf(`["EVENT",%s]`, events[0]), 1},
		{fmt.Sprintf(`["EVENT",%s]`, events[0]), 1},
		{fmt.Sprintf(`["EVENT",%s]`, events[1]), 1},
		{fmt.Sprintf(`["EVENT",%s]`, events[2]), 1},
		{`["REQ","s",{"kinds":[1621]},{"#t":["0"],"limit":1}]`, 5},
		{`["REQ","z",{"kinds":[1621],"limit":0}]`, 1},
		{fmt.Sprintf(`["EVENT",%s]`, events[3]), 3},
		{`["CLOSE","s"]`, 0},
		{fmt.Sprintf(`["EVENT",%s]`, deleted), 1},
		{`["REQ","d",{"kinds":[1621]}]`, 4},
		{`["CLOSE","d"]`, 0},
		{`["HELLO","x"]`, 1},
		{`["REQ","e",{"ids":[]}]`, 1},
	} {
		var got [2][]string
		for i, c := range []*client{program, model} {
			c.say("%s", step.say)
			for range step.answers {
				text := strings.TrimSpace(c.hear())
				// The order of its fields is the program's own.
				for _, e := range append(events, deleted) {
					if strings.HasPrefix(text, `["EVENT"`) && strings.Contains(text, e.ID) {
						text = text[:strings.Index(text, "{")] + e.ID
					}
				}
				got[i] = append(got[i], text)
			}
			slices.Sort(got[i])
		}
		if !slices.Equal(got[0], got[1]) {
			t.Errorf("to %.80s\nkhatru says  %q\nthe profile  %q", step.say, got[0], got[1])
		}
	}
}

// busy is a scenario with something of each kind in its first second.
const busy = `
duration = "1m"
quiet = "0s"
[relays.khatru]
program = "khatru"
profile = "khatru"
count = 1
bootstrap = 1
[relays.strfry]
profile = "strfry"
count = 2
[git.forge]
count = 2
[repositories]
count = 3
roots = 5
more-refs = 1
pulls = 0.3
[publishers]
roots-per-day = 900000
comments-per-day = 900000
states-per-day = 400000
deletions-per-day = 200000
spread-s = 0.1
push-after = "100ms"
diurnal = 0
[[fault]]
what = "outage"
at = "500ms"
for = "1m"
class = "strfry"
`

func parsed(t *testing.T, text string, set ...string) *scenario.Scenario {
	t.Helper()
	s, err := scenario.Parse([]byte(text))
	if err == nil {
		s, err = s.With(set...)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A devnet plays what a lab simulates: the same repositories, events, copies and outages. States have their
// commits when they are pushed.
func TestScenario(t *testing.T) {
	t.Parallel()
	cfg := small(t)
	cfg.Scenario = parsed(t, busy)
	n := open(t, cfg)
	simulated := world.Draw(cfg.Scenario, cfg.Seed)
	if len(simulated.Events) != len(n.world.Events) || len(simulated.Events) < 100 {
		t.Fatalf("%d events are drawn, and %d for the lab", len(n.world.Events), len(simulated.Events))
	}
	for i, e := range simulated.Events {
		if real := n.world.Events[i]; real.Kind != e.Kind || real.At != e.At || !slices.Equal(real.Copies, e.Copies) || len(real.Tags) != len(e.Tags) {
			t.Fatalf("event %d is %+v, and %+v in the lab", i, real, e)
		}
	}
	before := len(n.Expected())
	testkit.Eventually(t, "events of the run", func() bool { return len(n.Expected()) > before+20 })
	testkit.Eventually(t, "the outage", func() bool { return !n.Relays[1].Status().Up && n.Relays[0].Status().Up })
	pushed := func() bool {
		for _, r := range n.Repositories() {
			for _, g := range n.Git {
				out, err := runGit(t.Context(), "", "--git-dir="+filepath.Join(g.dir, r.Path), "rev-parse", "refs/heads/main")
				if err == nil && strings.TrimSpace(out) == r.Refs["refs/heads/main"] && out != commitID("", "", 0) {
					var changed bool
					for _, e := range n.world.Events {
						changed = changed || e.Kind == 30618 && e.At > 0 && slices.ContainsFunc(e.Tags, func(t host.Tag) bool { return t[0] == "refs/heads/main" && t[1] == strings.TrimSpace(out) })
					}
					if changed {
						return true
					}
				}
			}
		}
		return false
	}
	testkit.Eventually(t, "a push of the run", pushed)
}

// A devnet refuses a scenario that it would play wrongly.
func TestUnplayable(t *testing.T) {
	t.Parallel()
	for want, set := range map[string][]string{
		"talon.count":              {"talon.count", "2"},
		"publishers.direct":        {"publishers.direct", "0.5"},
		"class forge":              {"git.forge.rate", "10"},
		"relays.khatru.half-open":  {"relays.khatru.half-open", "0.1"},
		"lie or are dead":          {"relays.strfry.bootstrap", "1", "relays.strfry.profile", "dead"},
		`fault[1] of the scenario`: nil,
	} {
		cfg := small(t)
		text := busy
		if set == nil {
			text = strings.Replace(busy, `"outage"`, `"slow"`, 1)
		}
		cfg.Scenario = parsed(t, text, set...)
		if _, err := Open(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %s", set, err, want)
		}
	}
}
