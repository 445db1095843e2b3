package plugin

import (
	"context"
	"strings"
	"syscall"
	"testing"
	"time"

	"talon/host"
	"talon/host/plugin/plugintest"
)

// BenchmarkChain is the cost of the default chain for an event of 1 kB with four
// tags: encoding the request, two modules, metrics.
func BenchmarkChain(b *testing.B) {
	dir := plugintest.Build(b, "plugins/lists", "plugins/open")
	for _, bench := range []struct {
		name   string
		config map[string]any
	}{
		{"defaults", nil},
		{"lists", map[string]any{
			"deny_authors": []any{strings.Repeat("ab", 32)}, "deny_kinds": []any{"4", "1059"}, "deny_tags": []any{"t:spam"},
			"accept_authors": []any{strings.Repeat("cd", 32)},
		}},
		{"words", map[string]any{"deny_words": []any{"casino", "viagra", "airdrop"}}},
	} {
		b.Run(bench.name, func(b *testing.B) {
			c := openChain(b, Options{
				Dir: dir, Chain: []string{"lists", "open"}, Config: map[string]map[string]any{"lists": bench.config},
			})
			it, ctx := item(1, strings.Repeat("x ", 200)), b.Context()
			b.ReportAllocs()
			before := cpuTime(b)
			for b.Loop() {
				c.Admit(ctx, it, nil, now)
			}
			b.ReportMetric(float64(cpuTime(b)-before)/float64(b.N), "cpu-ns/op")
		})
	}
}

// cpuTime is what this process has used: stable also where others use the
// machine.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// BenchmarkStart opens the default chain: without compiled code, and with it.
func BenchmarkStart(b *testing.B) {
	dir := plugintest.Build(b, "plugins/lists", "plugins/open")
	start := func(b *testing.B, cache string) {
		c, err := Open(b.Context(), Options{Dir: dir, Chain: []string{"lists", "open"}, CacheDir: cache})
		if err != nil {
			b.Fatal(err)
		}
		c.Close(context.Background())
	}
	b.Run("cold", func(b *testing.B) {
		for b.Loop() {
			start(b, b.TempDir())
		}
	})
	b.Run("warm", func(b *testing.B) {
		cache := b.TempDir()
		start(b, cache)
		for b.Loop() {
			start(b, cache)
		}
	})
}

// BenchmarkInstance makes one more instance of a loaded module.
func BenchmarkInstance(b *testing.B) {
	c := openChain(b, Options{Dir: plugintest.Build(b, "plugins/open"), Chain: []string{"open"}})
	for b.Loop() {
		inst, err := newInstance(b.Context(), c.modules[0])
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(inst.memory.Size()), "guest-bytes")
		inst.guest.Close(context.Background())
	}
}

// BenchmarkStoreGet is one store.get of an event of 1 kB, by a guest that does
// nothing else.
func BenchmarkStoreGet(b *testing.B) {
	c, _, err := openGuest(b, getting(1).assemble(), nil)
	if err != nil {
		b.Fatal(err)
	}
	facts := &fakeFacts{stored: map[host.ID][]byte{{}: storedJSON(b)}}
	it, ctx := item(1, ""), b.Context()
	for b.Loop() {
		c.Admit(ctx, it, facts, now)
	}
}
