package guest

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"talon/host"
	"talon/host/memfacts"
	"talon/internal/testkit"
	"talon/sdk/abi"
)

// namedRequest is what a module may be asked, and what that is called here.
type namedRequest struct {
	name    string
	request []byte
}

// boundQuestions asks a module the first question, which is an honest one, and then the
// others, each of which may cost three times as much, and so much for each byte by which
// it is longer.
func boundQuestions(t *testing.T, m *Module, f Func, facts host.Facts, perByte int64, honest namedRequest, worst []namedRequest) {
	t.Helper()
	fuel := func(q namedRequest) int64 {
		_, fuel, err := m.Rule(t.Context(), f, q.request, facts, now, "client")
		if err != nil {
			t.Errorf("%s: %v", q.name, err)
		}
		return fuel
	}
	fuel(honest) // an instance grows its memory
	usual := fuel(honest)
	for _, q := range worst {
		got, longer := fuel(q), int64(len(q.request)-len(honest.request))
		t.Logf("%s: %d fuel for %d bytes, %s %d", q.name, got, len(q.request), honest.name, usual)
		if got > 3*usual+perByte*max(longer, 0) {
			t.Errorf("%s: %d fuel for %d bytes, %s %d", q.name, got, len(q.request), honest.name, usual)
		}
	}
}

// TestWorstQueries bounds what filters as odd and as many as they can be cost those that
// judge queries.
func TestWorstQueries(t *testing.T) {
	testkit.SkipRace(t)
	usual := slices.Clone(new(Request).Query(&host.Query{
		Client: &host.Client{Addr: netip.MustParseAddr("192.0.2.1")}, Filters: []host.Filter{{Kinds: []host.Kind{1}, Limit: 10}},
	}, now))
	var worst []namedRequest
	for name, request := range hostileQueries() {
		worst = append(worst, namedRequest{name, request})
	}
	for name, settings := range map[string]map[string]any{
		"rate":    {"per_address_queries_per_minute": int64(6000), "per_address_queries_burst": int64(100_000)},
		"readers": {"private_kinds": []any{int64(4)}, "auth_kinds": []any{int64(30001)}, "readers_kinds": []any{int64(30000)}},
	} {
		t.Run(name, func(t *testing.T) {
			m := loadGo(t, "plugins/"+name, func(o *Options) {
				o.Config, o.State, o.Instances = settings, newState(t), 1
				o.Limits.Time, o.Budgets.Time = time.Minute, time.Minute
			})
			boundQuestions(t, m, Query, new(memfacts.Facts), fuelPerByte, namedRequest{"a usual query", usual}, worst)
		})
	}
}

// TestWorstConnections bounds what clients cost that say much of themselves.
func TestWorstConnections(t *testing.T) {
	testkit.SkipRace(t)
	m := loadGo(t, "plugins/rate", func(o *Options) {
		o.Config, o.State, o.Instances = map[string]any{"per_address_connections": int64(10)}, newState(t), 1
	})
	request := func(c host.Connection) []byte { return slices.Clone(new(Request).Connect(&c, now)) }
	long := strings.Repeat("\xff", 60_000)
	boundQuestions(t, m, Connect, new(memfacts.Facts), fuelPerByte,
		namedRequest{"a usual client", request(host.Connection{Client: host.Client{Addr: netip.MustParseAddr("192.0.2.1"), Path: "/"}, Open: 1, FromAddr: 1})},
		[]namedRequest{
			{"one too many", request(host.Connection{Client: host.Client{Addr: netip.MustParseAddr("192.0.2.1"), Path: "/"}, Open: 11, FromAddr: 11})},
			{"long headers", request(host.Connection{Client: host.Client{Addr: netip.MustParseAddr("2001:db8::1"), UserAgent: long, Origin: long, Path: long}})},
		})
}

// TestWorstPushes bounds what pushes cost, to repositories whose announcements are as
// large as they may be, stored and held.
func TestWorstPushes(t *testing.T) {
	testkit.SkipRace(t)
	const owner, maxReads = 1_000_000, 8
	facts := &indexedFacts{}
	m := loadGo(t, "plugins/grasp", func(o *Options) {
		o.Git, o.Service, o.Instances = facts, host.Service{Domain: "relay.example.com", PRs: true}, 1
		o.Config = map[string]any{"archive_all": true}
		o.Limits.Time, o.Budgets.Time = time.Minute, time.Minute
	})
	push := func(identifier string, maintainers, updates int) []byte {
		p := &host.Push{Client: &host.Client{}, Repo: host.Address{Kind: host.KindAnnouncement, PubKey: graspKey(owner), D: identifier}}
		for i := range maintainers {
			p.Maintainers = append(p.Maintainers, graspKey(i))
		}
		for i := range updates {
			p.Updates = append(p.Updates, host.RefUpdate{Ref: fmt.Sprintf("refs/heads/%d", i), New: strings.Repeat("ab", 20), Old: strings.Repeat("0", 40)})
		}
		return slices.Clone(new(Request).Push(p, now))
	}
	usual := listing(owner)
	large := graspEvent(30617, owner, "d talon")
	for i := range 900 {
		large.Tags = append(large.Tags, host.Tag{"clone", fmt.Sprintf("https://relay.example.com.evil.example/%d", i)})
	}
	large = signed(large)
	ask := func(name string, request []byte, stored, held []*host.Event) (fuel int64) {
		facts.Facts, facts.reads, facts.bytes = *memfacts.New(stored, held), 0, 0
		_, fuel, err := m.Rule(t.Context(), Push, request, facts, now, "client")
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if facts.reads > maxReads {
			t.Errorf("%s: %d reads", name, facts.reads)
		}
		t.Logf("%s: %d fuel, %d reads of %d bytes, %d bytes asked", name, fuel, facts.reads, facts.bytes, len(request))
		return fuel
	}
	honest := push("talon", 2, 2)
	ask("the first", honest, []*host.Event{usual}, nil)
	fuel := ask("a usual push", honest, []*host.Event{usual}, nil)
	strangers := crowd(2000, func(a int) *host.Event { return listing(a, owner) })
	for _, worst := range []struct {
		name         string
		request      []byte
		stored, held []*host.Event
	}{
		{"beside 2,000 strangers", honest, append([]*host.Event{usual}, strangers...), strangers},
		{"of 5,000 refs", push("talon", 2, 5000), []*host.Event{usual}, nil},
		{"of 2,000 maintainers", push("talon", 2000, 2), []*host.Event{usual}, nil},
		{"to a long identifier", push(strings.Repeat("é", 30_000), 2, 2), nil, nil},
		{"to what is large", honest, []*host.Event{large}, []*host.Event{large}},
	} {
		got := ask(worst.name, worst.request, worst.stored, worst.held)
		read := int64(len(worst.request) - len(honest) + max(facts.bytes-len(usual.JSON), 0))
		if got > 3*fuel+fuelPerByte*max(read, 0) {
			t.Errorf("%s: %d fuel, a usual push %d", worst.name, got, fuel)
		}
	}
}

// TestWorstThrottles bounds what servers cost throttles that strangers name: one domain
// after the other, with long names and long refusals.
func TestWorstThrottles(t *testing.T) {
	testkit.SkipRace(t)
	for _, name := range []string{"adaptive", "eager", "polite"} {
		t.Run(name, func(t *testing.T) {
			m := loadGo(t, "plugins/"+name, func(o *Options) { o.Instances = 1 })
			r, err := m.NewReducer(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			after := func(domain string, outcome uint32, at int64) int64 {
				request := abi.AppendAfterRequest(nil, &abi.AfterRequest{
					Now: 1000 * (now + at), Subject: abi.Subject{Kind: abi.SubjectDomain, Name: domain, Failures: 3},
					Outcome: outcome, Repository: "x", Status: 500, Took: 40, Reason: "no",
				})
				_, fuel, err := r.Call(t.Context(), ThrottleAfter, request, now+at)
				if err != nil {
					t.Fatal(err)
				}
				return fuel
			}
			for i := range int64(100) {
				after("git.example.com", abi.OutcomeOK, i)
			}
			usual := after("git.example.com", abi.OutcomeOK, 100)
			// Now and then the guest collects its garbage.
			const domains = 6000
			var limit, all int64
			for i := range int64(domains) {
				fuel := after(fmt.Sprintf("%d.evil.example", i), abi.OutcomeTimeout, 200+i)
				limit, all = max(limit, fuel), all+fuel
			}
			t.Logf("%d fuel usually; %d on average, %d at most", usual, all/domains, limit)
			if all/domains > 3*usual || limit > m.Fuel()/2 {
				t.Errorf("%d fuel on average for one of %d domains, %d at most, %d for one that is known", all/domains, domains, limit, usual)
			}
		})
	}
}
