package guest

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"talon/host"
	"talon/host/plugin/plugintest"
	"talon/internal/race"
)

const now = 1_700_000_000

// item is an event of about 1 kB with four tags.
func item(kind host.Kind, content string) *host.Item {
	e := &host.Event{
		Kind: kind, CreatedAt: now, Content: content,
		Tags: host.Tags{
			{"e", strings.Repeat("ab", 32), "wss://relay.example.com", "root"},
			{"p", strings.Repeat("cd", 32)},
			{"t", "nostr"},
			{"client", "talon"},
		},
	}
	e.ID[0], e.PubKey[0] = 1, 2
	return &host.Item{Event: e, Source: &host.Source{Addr: netip.MustParseAddr("192.0.2.7")}}
}

// goModule compiles a folder of a Go module.
func goModule(t testing.TB, folder string) []byte {
	t.Helper()
	wasm, err := os.ReadFile(filepath.Join(plugintest.Build(t, folder), filepath.Base(folder)+".wasm"))
	if err != nil {
		t.Fatal(err)
	}
	return wasm
}

// ownCode returns a folder for [Options.CacheDir] that no other test uses, with the machine code of a Go module.
func ownCode(t testing.TB, folder string) string {
	t.Helper()
	cache, key := t.TempDir(), sha256.Sum256(goModule(t, folder))
	if err := os.CopyFS(codeDir(cache, key), os.DirFS(codeDir(plugintest.MachineCode(t, folder), key))); err != nil {
		t.Fatal(err)
	}
	return cache
}

// loadGo loads a Go module by its own name.
func loadGo(t testing.TB, folder string, change func(*Options)) *Module {
	t.Helper()
	return mustLoad(t, goModule(t, folder), func(o *Options) {
		o.Name, o.CacheDir = filepath.Base(folder), plugintest.MachineCode(t, folder)
		if change != nil {
			change(o)
		}
	})
}

func config(values map[string]any) func(*Options) {
	return func(o *Options) { o.Config = values }
}

func TestBundledModules(t *testing.T) {
	lists := loadGo(t, "plugins/lists", config(map[string]any{"deny_words": []any{"casino"}, "accept_kinds": []any{int64(7)}}))
	limits := loadGo(t, "plugins/limits", config(map[string]any{"max_content_bytes": int64(1000)}))
	open := loadGo(t, "plugins/open", config(map[string]any{"every": true}))
	for _, test := range []struct {
		name   string
		module *Module
		item   *host.Item
		want   host.Ruling
	}{
		{"passed", lists, item(1, "hello"), host.Ruling{}},
		{"accepted", open, item(1, "hello"), host.Ruling{Action: host.Accept, Rule: "open"}},
		{"refused by a word", lists, item(1, "best CASINO"), host.Ruling{
			Action: host.Reject, Rule: "deny-word", Reason: "blocked: the content has a word that is not accepted here",
		}},
		{"accepted by kind", lists, item(7, strings.Repeat("x", 2000)), host.Ruling{Action: host.Accept, Rule: "accept-kind"}},
		{"within limits", limits, item(1, "hello"), host.Ruling{}},
		{"refused by size", limits, item(1, strings.Repeat("x", 1001)), host.Ruling{
			Action: host.Reject, Rule: "content-too-large", Reason: "blocked: the content is larger than 1000 bytes",
		}},
		{"larger than the first buffer", limits, item(1, strings.Repeat("x", 300_000)), host.Ruling{
			Action: host.Reject, Rule: "content-too-large", Reason: "blocked: the content is larger than 1000 bytes",
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.want.Module = test.module.name
			if got := admit(t, test.module, test.item); got != test.want {
				t.Errorf("%+v, want %+v", got, test.want)
			}
		})
	}
}

// TestLargestEvents scans content for words as large as a message may be: fuel
// must suffice for it.
func TestLargestEvents(t *testing.T) {
	modules := []*Module{
		loadGo(t, "plugins/lists", config(map[string]any{"deny_words": []any{"casino", "größe"}})),
		loadGo(t, "examples/hello-policy", nil),
	}
	for _, piece := range []string{"x", "ö", "casin", "X."} {
		for _, m := range modules {
			if _, err := ask(t, m, item(1, strings.Repeat(piece, 1<<20/len(piece))), nil); err != nil {
				t.Errorf("%s with 1 MiB of %q: %v", m.name, piece, err)
			}
		}
	}
}

// TestManyCallers asks from many goroutines concurrently.
func TestManyCallers(t *testing.T) {
	m := loadGo(t, "plugins/lists", func(o *Options) {
		o.Instances, o.Config = 3, map[string]any{"deny_words": []any{"casino"}}
	})
	var group sync.WaitGroup
	for g := range 8 {
		group.Go(func() {
			for i := range 300 {
				it, want := item(1, fmt.Sprintf("hello %d %d", g, i)), ""
				if i%3 == 0 {
					it, want = item(1, fmt.Sprintf("casino %d %d", g, i)), "deny-word"
				}
				if got, err := ask(t, m, it, nil); err != nil || got.Rule != want {
					t.Errorf("%+v, %v; want rule %q", got, err, want)
				}
			}
		})
	}
	group.Wait()
	if n := m.Instances(); n < 1 || n > 3 {
		t.Errorf("%d instances live, want 1 to 3", n)
	}
}

func TestMetrics(t *testing.T) {
	metrics := NewMetrics()
	m := loadGo(t, "plugins/lists", func(o *Options) {
		o.Instances, o.Metrics, o.Config = 1, metrics, map[string]any{"deny_words": []any{"casino"}}
	})
	admit(t, m, item(1, "hello"))
	admit(t, m, item(1, "casino"))
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(metrics.Collectors()...)
	const want = `
		# HELP talon_plugin_calls_total Calls of a module.
		# TYPE talon_plugin_calls_total counter
		talon_plugin_calls_total{function="admit",module="lists"} 2
		# HELP talon_plugin_instances Live instances of a module.
		# TYPE talon_plugin_instances gauge
		talon_plugin_instances{module="lists"} 1
		# HELP talon_plugin_verdicts_total Verdicts of a module.
		# TYPE talon_plugin_verdicts_total counter
		talon_plugin_verdicts_total{action="pass",module="lists",rule="",source="client"} 1
		talon_plugin_verdicts_total{action="reject",module="lists",rule="deny-word",source="client"} 1
	`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want),
		"talon_plugin_instances", "talon_plugin_verdicts_total"); err != nil {
		t.Error(err)
	}
	if n := testutil.ToFloat64(metrics.calls.WithLabelValues("lists", "admit")); n != 2 {
		t.Errorf("%v calls are counted, want 2", n)
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
	metrics.Forget("lists")
	for _, c := range metrics.Collectors() {
		if n := testutil.CollectAndCount(c); n != 0 {
			t.Errorf("%d series of a plugin that is gone are left", n)
		}
	}
}

func TestDecisionAllocatesNothing(t *testing.T) {
	if race.Detector {
		t.Skip("allocations cannot be counted under the race detector")
	}
	m := loadGo(t, "plugins/lists", config(map[string]any{"deny_words": []any{"casino"}}))
	for name, it := range map[string]*host.Item{
		"passed": item(1, strings.Repeat("x", 400)), "refused": item(1, "casino"),
	} {
		ctx := t.Context()
		var q Request
		if n := testing.AllocsPerRun(200, func() { m.Rule(ctx, Admit, q.Admit(it, now), nil, now, "client") }); n != 0 {
			t.Errorf("%s: a decision allocates %v times on the host, want 0", name, n)
		}
	}
}

func TestWrongConfigurationIsRefused(t *testing.T) {
	for _, test := range []struct {
		name   string
		folder string
		config map[string]any
		want   string
	}{
		{"value that only the module can judge", "plugins/lists", map[string]any{"deny_authors": []any{"npub1x"}},
			`config deny_authors has "npub1x": want an npub, 64 hex digits, or set:NAME`},
		{"unknown key", "plugins/limits", map[string]any{"max_tag": int64(1)}, "config max_tag = 1: want one of the keys"},
		{"wrong type", "plugins/limits", map[string]any{"max_tags": "many"}, `config max_tags = "many": want a whole number, at least 0`},
		{"out of range", "plugins/limits", map[string]any{"max_tags": int64(-1)}, `config max_tags = -1: want`},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := Options{Name: "x", CacheDir: plugintest.MachineCode(t, test.folder), Config: test.config}
			_, err := Load(t.Context(), goModule(t, test.folder), o)
			if err == nil || !strings.HasPrefix(err.Error(), test.want) {
				t.Errorf("load: %v, want %q", err, test.want)
			}
			if err := SelfTest(context.Background(), goModule(t, test.folder), o); err == nil || !strings.HasPrefix(err.Error(), test.want) {
				t.Errorf("self-test: %v, want %q", err, test.want)
			}
		})
	}
}
