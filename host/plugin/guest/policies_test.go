package guest

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"

	"talon/host"
	"talon/host/plugin/plugintest"
	"talon/internal/testkit"
)

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
				_, fuel, err := m.Rule(t.Context(), f, request, new(vectorFacts), now, "client")
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
