package guest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"talon/host"
	"talon/internal/testkit"
)

const anchor = 700_000 // a key

// trustRelay is a relay with the follow lists of the anchor, of whom he follows, and
// of nobody else.
func trustRelay(lists ...[]string) *vectorFacts {
	var names []int
	for i := range lists {
		names = append(names, 1+i)
	}
	relay := &vectorFacts{stored: vectorEvents{graspEvent(3, anchor, follows(names...)...)}}
	for i, tags := range lists {
		relay.stored = append(relay.stored, graspEvent(3, 1+i, tags...))
	}
	return relay
}

func follows(authors ...int) (tags []string) {
	for _, n := range authors {
		tags = append(tags, "p "+graspKey(n).String())
	}
	return tags
}

func followsFrom(first, n int) []string {
	list := make([]int, n)
	for i := range list {
		list[i] = first + i
	}
	return follows(list...)
}

// loadTrust loads the module trust with one instance.
func loadTrust(t testing.TB) *Module {
	return loadGo(t, "plugins/trust", func(o *Options) {
		o.Config = map[string]any{"anchors": []any{graspKey(anchor).String()}, "known": "accept", "max_authors": int64(200_000)}
		o.Instances, o.Limits.Time, o.Budgets.Time = 1, time.Minute, time.Minute
	})
}

// TestTrustWithinItsBudget lets those who are followed store what they like, and
// counts with how many events of a stranger it is read.
func TestTrustWithinItsBudget(t *testing.T) {
	testkit.SkipRace(t)
	var large, people [][]string
	for i := range 5 {
		large = append(large, followsFrom(1_000_000+7000*i, 7000))
	}
	for i := range 500 {
		people = append(people, followsFrom(1_000_000+200*i, 200))
	}
	late := follows(4_000_000)
	for name, relay := range map[string]*vectorFacts{
		"500 lists of 200":              trustRelay(append(people, late)...),
		"5 lists of 7,000":              trustRelay(append(large, late)...),
		"lists of 90,000 empty tags":    trustRelay(append(slices.Repeat([][]string{make([]string, 90_000)}, 5), late)...),
		"lists of 7,000 malformed keys": trustRelay(append(slices.Repeat([][]string{manyTags(7000, "p %063xg")}, 5), late)...),
		"lists of 7,000 times the same": trustRelay(append(slices.Repeat([][]string{slices.Repeat(follows(5), 7000)}, 5), late)...),
		"lists of 2,999 other tags":     trustRelay(append(slices.Repeat([][]string{manyTags(2999, "t %d")}, 5), late)...),
	} {
		t.Run(name, func(t *testing.T) {
			m := loadTrust(t)
			var limit int64
			decide := func(author, events int) string {
				request := new(Request).Admit(&host.Item{Event: graspEvent(1, author), Source: &host.Source{}}, now)
				ruling, fuel, err := m.Rule(t.Context(), Admit, request, relay, now, "client")
				if err != nil {
					t.Fatalf("event %d: %v", events, err)
				}
				limit = max(limit, fuel-int64(len(request))*fuelPerByte)
				return ruling.Rule
			}
			events := 1
			for rule := decide(9_000_000, 1); rule != "unknown"; rule = decide(9_000_000, events) {
				if events++; events > 100 || rule != "not-ready" {
					t.Fatalf("event %d: %s", events, rule)
				}
			}
			if rule := decide(4_000_000, events+1); rule != "known" {
				t.Errorf("who was followed last is %s", rule)
			}
			if limit > m.Fuel()*8/10 {
				t.Errorf("an event takes %d fuel of %d: the next compiler may need more", limit, m.Fuel())
			}
			t.Logf("read with %d events, at most %d fuel of %d", events, limit, m.Fuel())
		})
	}
}

// BenchmarkTrust is the cost of a decision when the lists are read: 500 lists of 200.
func BenchmarkTrust(b *testing.B) {
	var people [][]string
	for i := range 500 {
		people = append(people, followsFrom(1_000_000+200*i, 200))
	}
	relay, m := trustRelay(people...), loadTrust(b)
	var q Request
	decide := func(author int) string {
		it := &host.Item{Event: graspEvent(1, author), Source: &host.Source{}}
		ruling, _, err := m.Rule(b.Context(), Admit, q.Admit(it, now), relay, now, "client")
		if err != nil {
			b.Fatal(err)
		}
		return ruling.Rule
	}
	start := time.Now()
	events := 1
	for decide(9_000_000) == "not-ready" {
		events++
	}
	b.Logf("read with %d events in %v", events, time.Since(start))
	for name, author := range map[string]int{"known": 1_050_000, "unknown": 9_000_000} {
		b.Run(name, func(b *testing.B) {
			it := &host.Item{Event: graspEvent(1, author), Source: &host.Source{}}
			b.ReportAllocs()
			for b.Loop() {
				if r, _, err := m.Rule(b.Context(), Admit, q.Admit(it, now), relay, now, "client"); err != nil || r.Rule != name {
					b.Fatal(fmt.Sprint(r, err))
				}
			}
		})
	}
}
