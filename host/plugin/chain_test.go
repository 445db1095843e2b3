package plugin

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/nbd-wtf/go-nostr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"talon/host"
	"talon/host/plugin/plugintest"
)

const now = 1_700_000_000

// item is an event of about 1 kB with four tags.
func item(kind host.Kind, content string) *host.Item {
	e := &host.Event{
		Kind: kind, CreatedAt: now, Content: content,
		Tags: nostr.Tags{
			{"e", strings.Repeat("ab", 32), "wss://relay.example.com", "root"},
			{"p", strings.Repeat("cd", 32)},
			{"t", "nostr"},
			{"client", "talon"},
		},
	}
	e.ID[0], e.PubKey[0] = 1, 2
	return &host.Item{Event: e, Source: &host.Source{Addr: netip.MustParseAddr("192.0.2.7")}}
}

func openChain(t testing.TB, o Options) *Chain {
	t.Helper()
	if o.Log == nil {
		o.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	o.CacheDir = machineCode
	c, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(context.Background()); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return c
}

func admit(t testing.TB, c *Chain, it *host.Item) host.Ruling {
	t.Helper()
	r, err := c.Admit(t.Context(), it, nil, now)
	if err != nil {
		t.Fatalf("admit: %v", err)
	}
	return r
}

func TestBundledChain(t *testing.T) {
	c := openChain(t, Options{
		Dir: plugintest.Build(t, "plugins/lists", "plugins/open"), Chain: []string{"lists", "open"},
		Config: map[string]map[string]any{
			"lists": {"deny_words": []any{"casino"}, "accept_kinds": []any{int64(7)}},
			"open":  {"max_content_bytes": int64(1000)},
		},
	})
	for _, test := range []struct {
		name string
		item *host.Item
		want host.Ruling
	}{
		{"accepted by the last", item(1, "hello"), host.Ruling{Action: host.Accept, Rule: "open", Module: "open"}},
		{"refused by the first", item(1, "best CASINO"), host.Ruling{
			Action: host.Reject, Rule: "deny-word", Module: "lists", Reason: "blocked: the content has a word that is not accepted here",
		}},
		{"accepted by the first", item(7, strings.Repeat("x", 2000)), host.Ruling{Action: host.Accept, Rule: "accept-kind", Module: "lists"}},
		{"refused by the last", item(1, strings.Repeat("x", 1001)), host.Ruling{
			Action: host.Reject, Rule: "content-too-large", Module: "open", Reason: "blocked: the content is larger than 1000 bytes",
		}},
		{"larger than the first buffer", item(1, strings.Repeat("x", 300_000)), host.Ruling{
			Action: host.Reject, Rule: "content-too-large", Module: "open", Reason: "blocked: the content is larger than 1000 bytes",
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := admit(t, c, test.item); got != test.want {
				t.Errorf("%+v, want %+v", got, test.want)
			}
		})
	}
}

// TestLargestEvents scans content for words as large as a message may be: fuel
// must suffice for it.
func TestLargestEvents(t *testing.T) {
	c := openChain(t, Options{
		Dir: plugintest.Build(t, "plugins/lists", "examples/hello-policy"), Chain: []string{"lists", "hello-policy"},
		Config: map[string]map[string]any{"lists": {"deny_words": []any{"casino", "größe"}}},
	})
	for _, piece := range []string{"x", "ö", "casin", "X."} {
		if got := admit(t, c, item(1, strings.Repeat(piece, 1<<20/len(piece)))); got.Rule == "failed" {
			t.Errorf("1 MiB of %q: %+v", piece, got)
		}
	}
}

// TestManyCallers asks from many goroutines at once, with a module that fails on
// some events.
func TestManyCallers(t *testing.T) {
	c := openChain(t, Options{
		Dir: plugintest.Build(t, "plugins/lists", "plugins/open"), Chain: []string{"lists", "open"}, Instances: 3,
		Config: map[string]map[string]any{"lists": {"deny_words": []any{"casino"}}},
	})
	var group sync.WaitGroup
	for g := range 8 {
		group.Go(func() {
			for i := range 300 {
				it, want := item(1, fmt.Sprintf("hello %d %d", g, i)), "open"
				if i%3 == 0 {
					it, want = item(1, fmt.Sprintf("casino %d %d", g, i)), "deny-word"
				}
				if got, err := c.Admit(t.Context(), it, nil, now); err != nil || got.Rule != want {
					t.Errorf("%+v, %v; want rule %s", got, err, want)
				}
			}
		})
	}
	group.Wait()
}

func TestMetrics(t *testing.T) {
	c := openChain(t, Options{
		Dir: plugintest.Build(t, "plugins/lists", "plugins/open"), Chain: []string{"lists", "open"}, Instances: 1,
		Config: map[string]map[string]any{"lists": {"deny_words": []any{"casino"}}},
	})
	admit(t, c, item(1, "hello"))
	admit(t, c, item(1, "casino"))
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(c.Collectors()...)
	const want = `
		# HELP talon_plugin_calls_total Decisions asked of a module.
		# TYPE talon_plugin_calls_total counter
		talon_plugin_calls_total{module="lists"} 2
		talon_plugin_calls_total{module="open"} 1
		# HELP talon_plugin_instances Live instances of a module.
		# TYPE talon_plugin_instances gauge
		talon_plugin_instances{module="lists"} 1
		talon_plugin_instances{module="open"} 1
		# HELP talon_plugin_verdicts_total Decisions of a module by action and rule.
		# TYPE talon_plugin_verdicts_total counter
		talon_plugin_verdicts_total{action="accept",module="open",rule="open"} 1
		talon_plugin_verdicts_total{action="pass",module="lists",rule=""} 1
		talon_plugin_verdicts_total{action="reject",module="lists",rule="deny-word"} 1
	`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want),
		"talon_plugin_calls_total", "talon_plugin_instances", "talon_plugin_verdicts_total"); err != nil {
		t.Error(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	recorded := make(map[string]bool)
	for _, family := range families {
		for _, m := range family.Metric {
			recorded[family.GetName()] = recorded[family.GetName()] || m.GetHistogram().GetSampleCount() > 0 || m.GetGauge().GetValue() > 0
		}
	}
	for _, name := range []string{"talon_plugin_decision_seconds", "talon_plugin_decision_fuel", "talon_plugin_memory_bytes"} {
		if !recorded[name] {
			t.Errorf("%s is not recorded", name)
		}
	}
}

func TestAllPass(t *testing.T) {
	c := openChain(t, Options{Dir: plugintest.Build(t, "plugins/lists"), Chain: []string{"lists"}})
	if got := admit(t, c, item(1, "hello")); got != noneAccepts {
		t.Errorf("%+v, want %+v", got, noneAccepts)
	}
}

func TestDecisionAllocatesNothing(t *testing.T) {
	if raceDetector {
		t.Skip("allocations cannot be counted under the race detector")
	}
	c := openChain(t, Options{
		Dir: plugintest.Build(t, "plugins/lists", "plugins/open"), Chain: []string{"lists", "open"},
		Config: map[string]map[string]any{"lists": {"deny_words": []any{"casino"}}},
	})
	for name, it := range map[string]*host.Item{
		"accepted": item(1, strings.Repeat("x", 400)), "refused": item(1, "casino"),
	} {
		ctx := t.Context()
		if n := testing.AllocsPerRun(200, func() { c.Admit(ctx, it, nil, now) }); n != 0 {
			t.Errorf("%s: a decision allocates %v times on the host, want 0", name, n)
		}
	}
}

func TestWrongConfigurationIsRefused(t *testing.T) {
	dir := plugintest.Build(t, "plugins/lists", "plugins/open")
	for _, test := range []struct {
		name   string
		config map[string]map[string]any
		want   string
	}{
		{"value that only the module can judge", map[string]map[string]any{"lists": {"deny_authors": []any{"npub1x"}}},
			`load policy lists: config deny_authors has "npub1x": want an npub or 64 hex digits`},
		{"unknown key", map[string]map[string]any{"open": {"max_tag": int64(1)}}, "load policy open: config max_tag = 1: want one of the keys"},
		{"wrong type", map[string]map[string]any{"open": {"max_tags": "many"}}, `load policy open: config max_tags = "many": want a whole number, at least 0`},
		{"out of range", map[string]map[string]any{"open": {"max_tags": int64(-1)}}, `load policy open: config max_tags = -1: want`},
		{"not in the chain", map[string]map[string]any{"spam": {}}, `policy "spam", which is not in the chain`},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := Open(t.Context(), Options{Dir: dir, Chain: []string{"lists", "open"}, Config: test.config, CacheDir: machineCode})
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want %q in it", err, test.want)
			}
		})
	}
}

func TestWrongChainIsRefused(t *testing.T) {
	for want, chain := range map[string][]string{
		"the policy chain is empty":     nil,
		`policy "../x": want the name`:  {"../x"},
		`policy "a" is in the chain tw`: {"a", "a"},
		"load policy a: open ":          {"a"},
	} {
		_, err := Open(t.Context(), Options{Dir: t.TempDir(), Chain: chain})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("chain %q: %v, want %q in it", chain, err, want)
		}
	}
}
