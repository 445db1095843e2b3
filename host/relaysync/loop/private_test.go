package loop

import (
	"reflect"
	"slices"
	"testing"

	"talon/host"
	"talon/host/relaysync/retry"
	"talon/host/relaysync/session"
	"talon/sdk/abi"
	"talon/sdk/grasp"
)

// TestPrivateRepository asks two relays about a private and a public repository of one identifier each.
func TestPrivateRepository(t *testing.T) {
	secret := announcement(1, "secret", "wss://named.example")
	open := announcement(2, "open", "wss://other.example")
	both := announcement(3, "both", "wss://named.example")
	public := announcement(4, "both", "wss://other.example")
	address := func(e *host.Event) string {
		a, _ := e.Address()
		return a.String()
	}
	issue := func(n byte, of *host.Event) *host.Event {
		return &host.Event{ID: host.ID{9, n}, Kind: grasp.KindIssue, CreatedAt: 1_700_000_000, Tags: host.Tags{{"a", address(of)}}}
	}
	mine, theirs := issue(1, secret), issue(2, open)
	private := map[string]bool{address(both): true}
	facts := &announcements{stored: []*host.Event{secret, open, both, public, mine, theirs}}
	l, err := New(Config{Limits: Limits{
		Connections: 100, Dials: 100, Relays: 1000, Answers: 1000, Actions: 1000, AnswerBytes: 1 << 20, FailTime: 1, SaveEvery: 1 << 40, Retry: retry.DefaultLimits,
	}}, Deps{
		Strategy: quiet{}, Facts: facts, Health: quiet{}, Hosted: func(*grasp.Announcement) (bool, error) { return true, nil },
		Private: func(a host.Address) bool { return private[a.String()] },
	})
	if err != nil {
		t.Fatal(err)
	}
	l.Start(1_700_000_000_000, nil)
	if _, err := l.readRepositories(); err != nil { // a strategy that begins has them read
		t.Fatal(err)
	}
	names, ok := Normalise("wss://named.example")
	if !ok || l.repos[address(secret)] == nil {
		t.Fatalf("%q, %v: %v", names, ok, l.repos)
	}
	others, _ := Normalise("wss://other.example")
	l.connect(&abi.StepAction{Do: abi.DoConnect, Relay: others}, others)
	l.relays[others].conn = 1
	private[address(secret)] = true
	l.Changed(1_700_000_001_000, []Change{{Event: secret, Kind: Stored}})
	if l.relays[others].conn != 0 {
		t.Error("a relay that was asked about the repository before keeps its subscriptions")
	}
	tag := func(name byte, values ...string) host.Filter {
		return host.Filter{Tags: []host.TagFilter{{Name: name, Values: values}}}
	}
	for _, tt := range []struct {
		name  string
		f     host.Filter
		other host.Filter // zero: nothing is left
	}{
		{"by address", tag('a', address(secret), address(open)), tag('a', address(open))},
		{"by its address alone", tag('A', address(secret)), host.Filter{}},
		{"by identifier", tag('d', "secret", "open"), tag('d', "open")},
		{"by an identifier that a public one has too", tag('d', "both"), tag('d', "both")},
		{"by root", tag('e', mine.ID.String(), theirs.ID.String()), tag('e', theirs.ID.String())},
		{"by its root alone", tag('E', mine.ID.String()), host.Filter{}},
		{"by id", host.Filter{IDs: []host.ID{mine.ID, theirs.ID}}, host.Filter{IDs: []host.ID{theirs.ID}}},
		{"by its id alone", host.Filter{IDs: []host.ID{mine.ID}}, host.Filter{}},
		{"by kind", host.Filter{Kinds: []host.Kind{grasp.KindIssue}}, host.Filter{Kinds: []host.Kind{grasp.KindIssue}}},
	} {
		f := tt.f
		if !l.withoutPrivate(names, &f) || !sameFilter(f, tt.f) {
			t.Errorf("%s, at a relay that is named: %+v", tt.name, f)
		}
		f = tt.f
		if left := l.withoutPrivate(others, &f); left == sameFilter(tt.other, host.Filter{}) || left && !sameFilter(f, tt.other) {
			t.Errorf("%s, at another relay: %v, %+v; want %+v", tt.name, left, f, tt.other)
		}
	}
	// A strategy asks the other relay about both.
	r := l.relays[others]
	r.conn, r.up = 2, true
	l.cfg.Limits.Subscriptions, l.cfg.Limits.Waiting = 100, 100
	l.Effects()
	asked := func(values ...string) abi.StepAction {
		f := abi.Filter{Tags: []abi.TagFilter{{Name: "a", Values: values}}}
		return abi.StepAction{Do: abi.DoSubscribe, Relay: others, ID: "x", Filters: []abi.Filter{f}}
	}
	for name, ask := range map[string]func(a abi.StepAction){
		"subscribe": func(a abi.StepAction) { l.act(&a) },
		"fetch":     func(a abi.StepAction) { a.Do = abi.DoHistoric; l.act(&a) },
	} {
		ask(asked(address(secret), address(open)))
		var sent []host.Filter
		for _, e := range l.Effects() {
			if e, ok := e.(Execute); ok {
				switch c := e.Command.(type) {
				case *session.Subscribe:
					sent = append(sent, c.Filters...)
				case *session.Fetch:
					sent = append(sent, c.Filter)
				}
			}
		}
		if len(sent) != 1 || len(sent[0].Tags) != 1 || !slices.Equal(sent[0].Tags[0].Values, []string{address(open)}) {
			t.Errorf("%s: the relay is asked %+v", name, sent)
		}
		refused := l.stats.Refused[RefusedForbidden]
		ask(asked(address(secret)))
		for _, e := range l.Effects() {
			if _, ok := e.(Execute); ok {
				t.Errorf("%s of the private repository alone: the relay is asked %+v", name, e)
			}
		}
		if l.stats.Refused[RefusedForbidden] != refused+1 {
			t.Errorf("%s of the private repository alone is not refused", name)
		}
	}
	r.conn, r.up = 0, false

	private[address(secret)] = false
	l.Changed(1_700_000_002_000, []Change{{Event: secret, Kind: Stored}})
	if f := tag('a', address(secret)); !l.withoutPrivate(others, &f) {
		t.Error("the repository stays private")
	}
}

func sameFilter(a, b host.Filter) bool { return reflect.DeepEqual(a, b) }
