package policytest

import (
	"slices"
	"strings"
	"testing"

	"talon/sdk/policy"
)

const manifestText = `{
  "talon_manifest": 1, "name": "x", "worlds": ["policy"],
  "capabilities": ["store.get", "store.query", "store.referenced", "log"]
}`

// probe keeps its configuration, and runs a function as its Admit.
type probe struct {
	cfg   policy.Config
	admit policy.Func
}

func (p *probe) Configure(cfg policy.Config) error {
	p.cfg = cfg
	return nil
}

func (p *probe) Admit(in policy.Input) policy.Verdict { return p.admit(in) }

func TestInput(t *testing.T) {
	e := JSON(t, `{"id":"`+strings.Repeat("ab", 32)+`","pubkey":"`+strings.Repeat("cd", 32)+`","created_at":7,"kind":1,`+
		`"tags":[["e","x"],["t","y","z"],["-"]],"content":"hello","sig":""}`)
	p := &probe{admit: func(in policy.Input) policy.Verdict {
		event := in.Event()
		if event.ID() != e.ID || event.PubKey() != e.PubKey || event.CreatedAt() != 7 || event.Kind() != 1 || event.Content() != "hello" {
			t.Errorf("event %v %v %d %d %q", event.ID(), event.PubKey(), event.CreatedAt(), event.Kind(), event.Content())
		}
		if v, ok := event.Tag("t"); !ok || v != "y" {
			t.Errorf("t tag %q, %v", v, ok)
		}
		if v, ok := event.Tag("-"); !ok || v != "" {
			t.Errorf("- tag %q, %v", v, ok)
		}
		if _, ok := event.Tag("p"); ok {
			t.Error("there is a p tag")
		}
		if in.Now() != 99 || in.Origin() != policy.FromSync || in.Address() != "192.0.2.7" || in.Relay() != "wss://r" ||
			!in.Authed(policy.PubKey{2}) || in.Authed(policy.PubKey{3}) {
			t.Errorf("now %d, origin %d, address %q, relay %q", in.Now(), in.Origin(), in.Address(), in.Relay())
		}
		return policy.Reject("blocked", "seen").By("rule")
	}}
	h := New(t, manifestText, p, nil)
	h.Now, h.Origin, h.Address, h.Relay, h.Authed = 99, policy.FromSync, "192.0.2.7", "wss://r", []policy.PubKey{{1}, {2}}
	if v := h.Admit(e); v.Reason() != "blocked: seen" || v.Rule != "rule" || v.Action != policy.ActionReject {
		t.Errorf("%+v", v)
	}
}

func TestStore(t *testing.T) {
	stored := []Event{
		{Kind: 1, CreatedAt: 30, Content: strings.Repeat("long ", 10_000)},
		{Kind: 1, CreatedAt: 20, Tags: [][]string{{"t", "x"}}},
		{Kind: 7, CreatedAt: 10, Tags: [][]string{{"e", "target"}}},
	}
	count := func(in policy.Input, f policy.Filter) (kinds []int) {
		for found := in.Query(f); found.Next(); {
			kinds = append(kinds, found.Event().Kind())
		}
		return kinds
	}
	p := &probe{admit: func(in policy.Input) policy.Verdict {
		for _, e := range stored {
			if got, ok := in.Get(e.id()); !ok || got.Content() != e.Content || got.CreatedAt() != e.CreatedAt {
				t.Errorf("get %v: %v", e.id(), ok)
			}
		}
		if _, ok := in.Get(policy.ID{1}); ok {
			t.Error("an event that is not stored is found")
		}
		for want, f := range map[int]policy.Filter{
			3: {}, 2: {Limit: 2}, 1: {Kinds: []int{7}}, 0: {Authors: []policy.PubKey{{9}}},
		} {
			if got := count(in, f); len(got) != want {
				t.Errorf("%+v finds kinds %d, want %d events", f, got, want)
			}
		}
		if got := count(in, policy.Filter{Tags: []policy.TagFilter{{Name: "t", Values: []string{"x"}}}, Since: 15, Until: 25}); len(got) != 1 {
			t.Errorf("by tag and time: %d", got)
		}
		if !in.Referenced("target") || in.Referenced("other") {
			t.Error("references are wrong")
		}
		in.Log(policy.Warn, "hello")
		return policy.Pass()
	}}
	h := New(t, manifestText, p, nil)
	h.Stored = stored
	h.Admit(Event{})
	if !slices.Equal(h.Logged, []string{"2 hello"}) {
		t.Errorf("logged %q", h.Logged)
	}
}

func TestDecisionAllocatesNothing(t *testing.T) {
	p := &probe{admit: func(in policy.Input) policy.Verdict {
		for it := in.Event().Tags(); it.Next(); {
			if it.Tag().Name() == "x" {
				return policy.Reject("blocked", "x")
			}
		}
		return policy.Accept().By("fine")
	}}
	New(t, manifestText, p, nil).WantNoAllocations(Event{Tags: [][]string{{"a", "b"}, {"c"}}})
}

// told is a policy that describes the relay by its configuration.
type told struct{ probe }

func (p *told) Describe() policy.Description {
	d := policy.Description{Grasps: []string{"GRASP-01"}, Criteria: p.cfg.Service().Domain}
	if p.cfg.Service().PRs {
		d.Curation = "prs"
	}
	return d
}

func TestWhereTheRelayIs(t *testing.T) {
	const text = `{"talon_manifest": 1, "name": "x", "worlds": ["policy"]}`
	if h := New(t, text, new(told), nil); h.About.Criteria != "relay.example.com" || h.About.Curation != "prs" || h.About.Grasps[0] != "GRASP-01" {
		t.Errorf("%+v", h.About)
	}
	h, err := ConfigureAt(t, policy.Service{Domain: "localhost:7334"}, text, new(told), nil)
	if err != nil || h.About.Criteria != "localhost:7334" || h.About.Curation != "" {
		t.Errorf("%+v, %v", h.About, err)
	}
}
