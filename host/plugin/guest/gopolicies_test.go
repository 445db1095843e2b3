package guest

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"talon/host"
	"talon/host/memfacts"
	"talon/host/plugin/plugintest"
	"talon/internal/testkit"
)

// TestGuestThatCollectsGarbage runs a guest long enough for its garbage
// collector to run within decisions, on their fuel.
func TestGuestThatCollectsGarbage(t *testing.T) {
	testkit.SkipRace(t)
	m := loadGo(t, "host/plugin/guest/testdata/guests/garbage", func(o *Options) { o.Instances = 1 })
	it := item(1, strings.Repeat("Some Words ", 30))
	decisions := 5_000 // allocate 16 MB
	if testing.Short() {
		decisions = 2_000
	}
	for i := range decisions {
		it.Event.PubKey[1] = byte(i)
		got := admit(t, m, it)
		if got.Action != host.Accept || got.Rule != "words-60" {
			t.Fatalf("decision %d: %+v, want accept by words-60", i, got)
		}
	}
	if used := m.MemoryUsed(); used > 12<<20 {
		t.Errorf("the guest has %d MB: it collects nothing", used>>20)
	}
}

// TestGuestThatSleeps: a guest's own clock moves on while it waits, and nobody else's.
func TestGuestThatSleeps(t *testing.T) {
	m := loadGo(t, "host/plugin/guest/testdata/guests/sleeps", func(o *Options) { o.Instances = 1 })
	for range 3 {
		if got := admit(t, m, item(1, "")); got.Action != host.Accept || got.Rule != "sleeps" {
			t.Fatalf("%+v, want accept", got)
		}
	}
}

// TestMorePolicies checks the policies that are not loaded by default: they pass as a
// swap has it, import what their manifests ask for, and what strangers send costs
// none of them its budget.
func TestMorePolicies(t *testing.T) {
	testkit.SkipRace(t)
	for folder, settings := range map[string]map[string]any{
		"plugins/pow":     {"class_bits": []any{"git:1"}},
		"plugins/readers": {"readers_kinds": []any{int64(30000)}, "auth_kinds": []any{int64(30001)}, "open_kinds": []any{"0-3"}},
		"plugins/spam":    {"kinds": []any{}},
		"plugins/trust":   {"anchors": []any{graspKey(anchor).String()}},
	} {
		t.Run(path.Base(folder), func(t *testing.T) {
			if err := SelfTest(t.Context(), goModule(t, folder), Options{Name: path.Base(folder), CacheDir: plugintest.MachineCode(t, folder)}); err != nil {
				t.Fatal(err)
			}
			var imports []string
			m := loadGo(t, folder, func(o *Options) {
				o.Config, o.State, o.Instances = settings, newState(t), 1
				o.Grants = func(name string) bool {
					imports = append(imports, name)
					return true
				}
			})
			asked := slices.Sorted(slices.Values(m.Manifest().Capabilities))
			if slices.Sort(imports); !slices.Equal(imports, asked) {
				t.Errorf("imports %q, the manifest asks for %q", imports, asked)
			}
			f, requests := Admit, hostileEvents()
			if m.Manifest().Functions[0] == "query" {
				f, requests = Query, hostileQueries()
			}
			for name, request := range requests {
				_, fuel, err := m.Rule(t.Context(), f, request, new(memfacts.Facts), now, "client")
				if err != nil {
					t.Errorf("%s: %v", name, err)
				}
				if budget := m.Fuel() + int64(len(request))*fuelPerByte; fuel > budget*8/10 {
					t.Errorf("%s takes %d fuel of %d: the next compiler may need more", name, fuel, budget)
				}
				t.Logf("%s: %d bytes, %d fuel", name, len(request), fuel)
			}
		})
	}
}

// hostileEvents are requests about events that are as odd and as large as they can
// be.
func hostileEvents() map[string][]byte {
	requests := map[string][]byte{}
	add := func(name string, e *host.Event) {
		e.CreatedAt = now
		for _, kind := range []host.Kind{1, 5, 1617} {
			e.Kind = kind
			requests[fmt.Sprintf("%s, kind %d", name, kind)] = slices.Clone(new(Request).Admit(&host.Item{Event: e, Source: &host.Source{}}, now))
		}
	}
	for name, tags := range map[string]host.Tags{
		"empty tags":       make(host.Tags, 170_000),
		"tags of an empty": slices.Repeat(host.Tags{{""}}, 100_000),
		"small tags":       slices.Repeat(host.Tags{{"t", "x"}}, 45_000),
		"p tags":           slices.Repeat(host.Tags{{"p", strings.Repeat("é", 32)}}, 6000),
		"a wide tag":       {slices.Repeat(host.Tag{"nonce"}, 50_000)},
		"ids":              graspEvent(5, 1, manyTags(7000, "e %064x")...).Tags,
		"addresses":        graspEvent(5, 1, manyTags(3000, "a 30617:%064x:x")...).Tags,
	} {
		add(name, &host.Event{Tags: tags})
	}
	for _, text := range []string{"\xff", "é", "漢", "\U0001f680", "h", "x ", "https:/", "http://a ", "nostr:npub1a "} {
		add(fmt.Sprintf("text of %q", text), &host.Event{Content: strings.Repeat(text, 500_000/len(text))})
		add(fmt.Sprintf("2 KiB of %q", text), &host.Event{Content: strings.Repeat(text, 2048/len(text))})
	}
	return requests
}

// hostileQueries are requests about queries, likewise.
func hostileQueries() map[string][]byte {
	me := graspKey(1)
	every := make([]host.Kind, 65536)
	for i := range every {
		every[i] = host.Kind(i)
	}
	requests := map[string][]byte{}
	for name, filters := range map[string][]host.Filter{
		"every kind":       {{Kinds: every}},
		"one kind":         {{Kinds: slices.Repeat([]host.Kind{4}, 100_000)}},
		"empty filters":    slices.Repeat([]host.Filter{{}}, 1000),
		"filters of ids":   slices.Repeat([]host.Filter{{IDs: []host.ID{{1}}}}, 10_000),
		"own authors":      {{Kinds: []host.Kind{4}, Authors: slices.Repeat([]host.PubKey{me}, 10_000)}},
		"own p tags":       {{Kinds: []host.Kind{4}, Tags: []host.TagFilter{{Name: 'p', Values: slices.Repeat([]string{me.String()}, 5000)}}}},
		"odd p tags":       {{Kinds: []host.Kind{4}, Tags: []host.TagFilter{{Name: 'p', Values: []string{"", "\xff", strings.Repeat("é", 32), strings.Repeat("x", 200_000)}}}}},
		"many own filters": slices.Repeat([]host.Filter{{Kinds: []host.Kind{4}, Authors: []host.PubKey{me}}}, 100),
	} {
		client := &host.Client{}
		for i := range 15 {
			client.Authed = append(client.Authed, graspKey(100+i))
		}
		client.Authed = append(client.Authed, me)
		requests[name] = slices.Clone(new(Request).Query(&host.Query{Client: client, Filters: filters}, now))
	}
	return requests
}

const anchor = 700_000 // a key

// trustRelay is a relay with the follow lists of the anchor, of whom he follows, and
// of nobody else.
func trustRelay(lists ...[]string) *memfacts.Facts {
	var names []int
	for i := range lists {
		names = append(names, 1+i)
	}
	stored := []*host.Event{graspEvent(3, anchor, follows(names...)...)}
	for i, tags := range lists {
		stored = append(stored, graspEvent(3, 1+i, tags...))
	}
	return memfacts.New(stored, nil)
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
	for name, relay := range map[string]*memfacts.Facts{
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
