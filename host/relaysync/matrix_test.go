package relaysync_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"talon/host/plugin/plugintest"
	"talon/host/relaymodel"
	"talon/internal/testkit"
)

// visit is the longest time that something wanted may stay missing which a reachable
// relay has.
const visit = 6 * time.Hour

// matrixScenarios are what happens in a world. Each returns what is wrong, "" if nothing.
var matrixScenarios = []struct {
	name string
	keys string // over those of the profile
	run  func(w *matrixWorld) string
}{
	{"plain", "", func(w *matrixWorld) string {
		w.begin()
		if wrong := w.within(visit); wrong != "" {
			return wrong
		}
		w.say(matrixNow(w, 0))
		return w.within(visit)
	}},
	{"outage", "", func(w *matrixWorld) string {
		w.begin()
		if wrong := w.within(visit); wrong != "" {
			return wrong
		}
		w.relays[1].SetAway(0)
		w.say(matrixNow(w, 0))
		time.Sleep(10 * time.Minute)
		w.relays[1].SetAway(-1)
		if wrong := w.within(visit); wrong != "" {
			return wrong
		}
		w.relays[2].SetAway(502)
		time.Sleep(2 * time.Hour)
		w.say(matrixNow(w, 1))
		w.relays[2].SetAway(-1)
		return w.within(visit)
	}},
	{"restart", "[answer]\nper-second = 100\n", func(w *matrixWorld) string {
		w.begin()
		time.Sleep(2 * time.Second)
		w.stop()
		w.say(matrixNow(w, 0))
		w.begin()
		if wrong := w.within(visit); wrong != "" {
			return wrong
		}
		w.stop()
		time.Sleep(time.Hour)
		w.say(matrixNow(w, 1))
		w.begin()
		return w.within(visit)
	}},
	{"swap", "[answer]\nper-second = 1000\n", func(w *matrixWorld) string {
		w.say(matrixSaid().bulk)
		w.begin()
		// In the middle of it: announcements are here, and the first issues.
		if wrong := w.until(visit, 10*time.Millisecond, len(w.expected)*9/10); wrong != "" {
			return "before the swap: " + wrong
		}
		for range 4 {
			w.strategy.swap()
			time.Sleep(300 * time.Millisecond)
		}
		if wrong := w.within(visit); wrong != "" {
			return wrong
		}
		w.say(matrixNow(w, 0))
		return w.within(visit)
	}},
	{"late", "", func(w *matrixWorld) string {
		w.begin()
		if wrong := w.within(visit); wrong != "" {
			return wrong
		}
		// With old dates, while the relays are up, and while one of them is away.
		w.say(matrixSaid().fresh[0])
		if wrong := w.within(visit); wrong != "" {
			return "live: " + wrong
		}
		w.relays[1].SetAway(0)
		w.say(matrixSaid().fresh[1])
		time.Sleep(10 * time.Minute)
		w.relays[1].SetAway(-1)
		return w.within(visit)
	}},
}

// matrixNow returns a round of events that are dated now.
func matrixNow(_ *matrixWorld, round int) []matrixEvent {
	who := testkit.NewSigner(14)
	var list []matrixEvent
	for i, e := range matrixSaid().fresh[round] {
		list = append(list, matrixEvent{who.Event(e.Kind, time.Now().Unix()-int64(i), e.Content+" now", e.Tags...), e.relays})
	}
	return list
}

// matrixKnown are the cells that do not converge today, and why. One that does fails
// the test until its line is taken away.
var matrixKnown = map[string]string{}

var matrixStrategies = []string{"layered-v1", "layered-v2", "layered-v4", "layered-v5"}

// TestMatrix: with each strategy, each relay that exists, and what happens to them,
// Talon has exactly what it is to have, within the time of a visit, in virtual time.
// TALON_TEST_DEVNET=1 runs all of it.
func TestMatrix(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles modules")
	}
	all := os.Getenv("TALON_TEST_DEVNET") != ""
	matrixSaid()
	var mu sync.Mutex
	cells := map[string]string{}
	t.Run("cells", func(t *testing.T) {
		for _, strategy := range matrixStrategies {
			folders := []string{"plugins/" + strategy, "plugins/polite", "plugins/open"}
			if !all && strategy != "layered-v5" {
				continue
			}
			modules, code := plugintest.Build(t, folders...), plugintest.MachineCode(t, folders...)
			if err := os.WriteFile(filepath.Join(modules, "open.toml"), []byte("[config]\nevery = true\n"), 0o600); err != nil {
				t.Fatal(err) // without a policy there is no registry
			}
			for i, profile := range relaymodel.Names() {
				for k, scenario := range matrixScenarios {
					if !all && k != 0 && (i+k)%len(relaymodel.Names()) != 0 {
						continue
					}
					name := strategy + "/" + profile + "/" + scenario.name
					t.Run(name, func(t *testing.T) {
						t.Parallel()
						p, err := relaymodel.Builtin(profile)
						if err == nil {
							p, err = p.With([]byte(scenario.keys))
						}
						if err != nil {
							t.Fatal(err)
						}
						wrong := ""
						synctest.Test(t, func(t *testing.T) {
							w := newMatrixWorld(t, modules, code, p)
							defer w.close()
							w.say(matrixSaid().stored)
							if wrong = scenario.run(w); wrong != "" {
								wrong += w.warnings.String()
							}
						})
						mu.Lock()
						defer mu.Unlock()
						cells[name] = wrong
						switch why, known := matrixKnown[name]; {
						case wrong != "" && !known:
							t.Error(wrong)
						case wrong == "" && known:
							t.Errorf("it converges: take its line out of matrixKnown, which says %q", why)
						}
					})
				}
			}
		}
	})
	t.Logf("\n%s", matrixTable(cells))
}

// matrixTable shows which cells converge: ok, or how many events are missing.
func matrixTable(cells map[string]string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-12s %-16s", "strategy", "relay")
	for _, s := range matrixScenarios {
		fmt.Fprintf(&b, " %-10s", s.name)
	}
	b.WriteByte('\n')
	var wrong []string
	for _, strategy := range matrixStrategies {
		for _, profile := range relaymodel.Names() {
			row, any := fmt.Sprintf("%-12s %-16s", strategy, profile), false
			for _, s := range matrixScenarios {
				name := strategy + "/" + profile + "/" + s.name
				text, ok := cells[name]
				any = any || ok
				switch {
				case !ok:
					row += fmt.Sprintf(" %-10s", "-")
				case text == "":
					row += fmt.Sprintf(" %-10s", "ok")
				default:
					row += fmt.Sprintf(" %-10s", "known")
					if matrixKnown[name] == "" {
						row = strings.TrimSuffix(row, fmt.Sprintf("%-10s", "known")) + fmt.Sprintf("%-10s", "FAILS")
					}
					wrong = append(wrong, name+": "+text)
				}
			}
			if any {
				fmt.Fprintln(&b, row)
			}
		}
	}
	slices.Sort(wrong)
	for _, line := range wrong {
		fmt.Fprintln(&b, line)
	}
	return b.String()
}
