package relaysync

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"talon/host"
	"talon/host/plugin"
	"talon/host/plugin/guest"
	"talon/host/plugin/plugintest"
	"talon/internal/testkit"
	"talon/sdk/abi/manifest"
)

// moduleStrategy is a strategy as the daemon has it.
type moduleStrategy struct{ *plugin.Reducer }

func (m moduleStrategy) Call(ctx context.Context, request []byte, now int64) ([]byte, bool, error) {
	return m.Reducer.Call(ctx, guest.Step, request, now)
}

// The default strategy and each example, as a module, brings in what two relays have
// about a repository: what was there before, what comes live, what comes during an
// outage; and nothing else. TestDevnetStrategies of the program has the others.
func TestStrategiesConverge(t *testing.T) {
	if testing.Short() || testkit.RaceDetector {
		t.Skip("compiles modules, and each step runs for long under the race detector")
	}
	for _, folder := range []string{"plugins/mirror", "examples/three-relays", "examples/no-negentropy"} {
		t.Run(filepath.Base(folder), func(t *testing.T) { converge(t, folder) })
	}
}

func TestMain(m *testing.M) { os.Exit(plugintest.Main(m)) }

func converge(t *testing.T, folder string) {
	name := filepath.Base(folder)
	dir, cache := plugintest.Build(t, folder, "plugins/open"), plugintest.MachineCode(t, folder, "plugins/open")
	one, two := newRemote(t, nil), newRemote(t, func(r *remote) { r.neg, r.most = false, 7 })
	urls := []string{one.url, two.url}
	config := "[config]\nbatch_seconds = 1\n"
	if name == "three-relays" {
		config += fmt.Sprintf("relays = [%q, %q, \"ws://127.0.0.1:1\"]\n", one.url, two.url) // nobody listens there
		other := newRemote(t, nil)
		urls = append(urls, other.url)
		defer func() {
			if n := other.connections(); n != 0 {
				t.Errorf("%d connections to a relay that the operator does not name", n)
			}
		}()
	}
	if err := os.WriteFile(filepath.Join(dir, name+".toml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "open.toml"), []byte("[config]\nevery = true\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w := start(t, nil, func(_ *Config, d *Deps) {
		p := d.Strategy.(*plan) // knows the Sync, when there is one
		registry, err := plugin.Open(t.Context(), plugin.Options{
			Dir: dir, CacheDir: cache, Facts: d.Facts, Held: d.Facts, Limits: guest.Limits{Fuel: 1e10, Memory: 64 << 20}, Log: slog.New(slog.NewTextHandler(logs{t}, nil)),
		})
		if err != nil {
			t.Fatal(err)
		}
		reducer := registry.Reducer(manifest.WorldStrategy, func() []byte { return p.init() })
		t.Cleanup(func() {
			reducer.Close()
			_ = registry.Close(context.Background())
		})
		d.Strategy = moduleStrategy{reducer}
	})
	w.store.SetPolicy(w.store.About(""))

	repo := announce(t, alice, "demo", time.Now().Unix()-60, urls...)
	address, _ := repo.Address()
	serial, begun := 0, time.Now().Unix()-60
	issue := func() *host.Event {
		serial++
		return signed(t, bob, 1621, begun+int64(serial/5), fmt.Sprint("issue ", serial), host.Tag{"a", address.String()})
	}
	comment := func(of *host.Event) *host.Event {
		serial++
		return signed(t, alice, 1111, begun+int64(serial/5), fmt.Sprint("comment ", serial), host.Tag{"E", of.ID.String()})
	}
	var wanted, issues []*host.Event
	give := func(e *host.Event, to ...*remote) *host.Event {
		wanted = append(wanted, e)
		for _, r := range to {
			r.add(e)
		}
		return e
	}
	arrived := func(what string) {
		testkit.Eventually(t, what, func() bool {
			for _, e := range wanted {
				if !w.store.Has(e.ID) {
					return false
				}
			}
			return true
		})
	}
	for i := range 30 {
		e := give(issue(), []*remote{one, two}[i%2])
		issues = append(issues, e)
		give(comment(e), []*remote{two, one}[i/2%2])
	}
	one.add(signed(t, bob, 1, epoch, "noise"), signed(t, bob, 1621, epoch, "of another", host.Tag{"a", "30617:x:y"}))
	w.put(repo)
	arrived("the arrival of what is stored")

	give(comment(issues[0]), one)
	give(issue(), two)
	arrived("the arrival of what is live")

	one.refuse(true)
	give(comment(issues[1]), one)
	late := give(issue(), one)
	one.refuse(false)
	arrived("the arrival of what was missed")
	give(comment(late), two)
	arrived("the arrival of a comment on it")

	if stored := w.store.Len(); stored != len(wanted)+1 {
		t.Errorf("%d events are here, want %d", stored, len(wanted)+1)
	}
	if n := one.count("NEG-OPEN"); name == "no-negentropy" && n != 0 {
		t.Errorf("negentropy was used %d times", n)
	}
	if one.connections() > 3 || two.connections() > 1 {
		t.Errorf("%d and %d connections", one.connections(), two.connections())
	}
}
