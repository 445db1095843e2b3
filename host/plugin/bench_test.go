package plugin

import (
	"context"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"talon/host"
	"talon/host/plugin/plugintest"
	"talon/internal/testkit"
)

// bundled opens a registry of the bundled policies with side-cars, of a relay that
// accepts every event.
func bundled(b *testing.B, sidecars map[string]string) *Registry {
	b.Helper()
	dir := plugintest.Build(b, "plugins/grasp", "plugins/limits", "plugins/lists", "plugins/open", "plugins/rate")
	sidecars = maps.Clone(sidecars)
	if sidecars == nil {
		sidecars = map[string]string{}
	}
	sidecars["open"] = "[config]\nevery = true"
	for name, text := range sidecars {
		if err := os.WriteFile(filepath.Join(dir, name+".toml"), []byte(text), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	r, err := Open(b.Context(), Options{
		Dir: dir, CacheDir: b.TempDir(), Decisions: 100_000, Service: host.Service{Domain: "relay.example.com", PRs: true},
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = r.Close(context.Background()) })
	return r
}

// BenchmarkChain is what the bundled plugins cost for an event of 1 kB with four
// tags: encoding the request, the modules that are asked, metrics, the journal.
func BenchmarkChain(b *testing.B) {
	for _, bench := range []struct {
		name     string
		sidecars map[string]string
	}{
		{"defaults", nil},
		{"lists", map[string]string{"lists": `[config]
deny_authors = ["` + strings.Repeat("ab", 32) + `"]
deny_kinds = ["4", "1059"]
deny_tags = ["t:spam"]
accept_authors = ["` + strings.Repeat("cd", 32) + `"]`}},
		{"words", map[string]string{"lists": `[config]
deny_words = ["casino", "viagra", "airdrop"]`}},
		{"shadow", map[string]string{"lists": `mode = "shadow"`}},
	} {
		b.Run(bench.name, func(b *testing.B) {
			r := bundled(b, bench.sidecars)
			it, ctx := item(1), b.Context()
			it.Event.Content = strings.Repeat("x ", 200)
			it.Event.Tags = host.Tags{
				{"e", strings.Repeat("ab", 32), "wss://relay.example.com", "root"},
				{"p", strings.Repeat("cd", 32)},
				{"t", "nostr"},
				{"client", "talon"},
			}
			b.ReportAllocs()
			before, n := testkit.CPU(), byte(0)
			for b.Loop() {
				n++
				it.Event.ID[0] = n
				if _, err := r.Admit(ctx, it, nil, now); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(testkit.CPU()-before)/float64(b.N), "cpu-ns/op")
		})
	}
}

// BenchmarkAudience is what readers costs for one event, over the mix of kinds that general relays
// have: 32 direct messages, 6 gift wraps and 5 announcements among 1,000 events. It also has the cost
// of an event of each sort alone.
func BenchmarkAudience(b *testing.B) {
	dir := plugintest.Build(b, "plugins/open", "plugins/readers")
	sidecar := "[config]\nreaders_repositories = [\"secret\"]\n[sets.readers]\nfile = \"members.txt\"\n"
	for name, text := range map[string]string{"open.toml": "[config]\nevery = true\n", "readers.toml": sidecar, "members.txt": strings.Repeat("ab", 32) + "\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	r, err := Open(b.Context(), Options{Dir: dir, CacheDir: b.TempDir(), Decisions: 100_000, Service: host.Service{Domain: "relay.example.com"}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = r.Close(context.Background()) })
	sorts := map[string][]host.Kind{"note": {1}, "message": {4}, "announcement": {30617}}
	for i := range 1000 {
		kind := host.Kind(1)
		switch {
		case i%31 == 0 && i < 992:
			kind = 4
		case i%166 == 5:
			kind = 1059
		case i%200 == 7:
			kind = 30617
		}
		sorts["mix"] = append(sorts["mix"], kind)
	}
	for name, kinds := range sorts {
		b.Run(name, func(b *testing.B) {
			var events []*host.Event
			for i, kind := range kinds {
				e := item(1).Event.For(nil)
				e.ID, e.Kind = host.ID{byte(i), byte(i >> 8)}, kind
				e.Tags = host.Tags{{"p", strings.Repeat("cd", 32)}, {"d", "open"}, {"t", "nostr"}}
				events = append(events, e)
			}
			before, n := testkit.CPU(), 0
			for b.Loop() {
				if _, err := r.Audience(b.Context(), events[n%len(events)], nil, now); err != nil {
					b.Fatal(err)
				}
				n++
			}
			b.ReportMetric(float64(testkit.CPU()-before)/float64(b.N), "cpu-ns/op")
		})
	}
}

// BenchmarkJournal is what it costs to note a decision about an event that is new, when
// the journal is full.
func BenchmarkJournal(b *testing.B) {
	const entries = 100_000
	j := newJournal(entries)
	d := traceOf(host.ID{}, 0)
	d.chain, d.asked, d.answers = []string{"limits", "open"}, 2, make([]answer, 2)
	d.ruling = host.Ruling{Action: host.Accept, Rule: "open", Module: "open"}
	random := rand.NewChaCha8([32]byte{})
	ids := make([]host.ID, 4*entries)
	for i := range ids {
		random.Read(ids[i][:])
	}
	n := 0
	add := func() {
		d.item.Event.ID = ids[n%len(ids)]
		j.add(d)
		n++
	}
	for range entries {
		add()
	}
	b.ReportAllocs()
	before := testkit.CPU()
	for b.Loop() {
		add()
	}
	b.ReportMetric(float64(testkit.CPU()-before)/float64(b.N), "cpu-ns/op")
}
