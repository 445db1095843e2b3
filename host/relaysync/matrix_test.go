package relaysync_test

import (
	"fmt"
	"maps"
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
	"talon/host/relaysync"
	"talon/internal/testkit"
)

// visit is the longest time that something wanted may stay missing which a reachable
// relay has.
const visit = 6 * time.Hour

// matrixScenarios are what happens in a world. Each returns what is wrong, "" if nothing.
var matrixScenarios = []struct {
	name      string
	keys      string // over those of the profile
	neighbour string // profile of the second relay, where it is another one
	only      string // profile with which it is tried; empty: all that exist
	run       func(w *matrixWorld) string
}{
	{"plain", "", "", "", func(w *matrixWorld) string {
		w.begin()
		if wrong := w.within(visit); wrong != "" {
			return wrong
		}
		w.say(matrixNow(0))
		return w.within(visit)
	}},
	{"outage", "", "", "", func(w *matrixWorld) string {
		w.begin()
		if wrong := w.within(visit); wrong != "" {
			return wrong
		}
		w.relays[1].SetAway(0)
		w.say(matrixNow(0))
		time.Sleep(10 * time.Minute)
		w.relays[1].SetAway(-1)
		if wrong := w.within(visit); wrong != "" {
			return wrong
		}
		w.relays[2].SetAway(502)
		time.Sleep(2 * time.Hour)
		w.say(matrixNow(1))
		w.relays[2].SetAway(-1)
		return w.within(visit)
	}},
	{"restart", "[answer]\nper-second = 100\n", "", "", func(w *matrixWorld) string {
		w.begin()
		time.Sleep(2 * time.Second)
		w.stop()
		w.say(matrixNow(0))
		w.begin()
		if wrong := w.within(visit); wrong != "" {
			return wrong
		}
		w.stop()
		time.Sleep(time.Hour)
		w.say(matrixNow(1))
		w.begin()
		return w.within(visit)
	}},
	{"swap", "[answer]\nper-second = 1000\n", "", "", func(w *matrixWorld) string {
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
		w.say(matrixNow(0))
		return w.within(visit)
	}},
	{"late", "", "", "", func(w *matrixWorld) string {
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
		for _, e := range matrixSaid().fresh[1] {
			if e.relays = []int{1}; slices.Contains(e.listed, 1) {
				w.say([]matrixEvent{e})
			}
		}
		time.Sleep(10 * time.Minute)
		w.relays[1].SetAway(-1)
		return w.within(visit)
	}},
	// For a minute another server answers in a relay's place.
	{"redeploy", "", "", "strfry", func(w *matrixWorld) string {
		w.begin()
		if wrong := w.within(visit); wrong != "" {
			return wrong
		}
		for _, r := range w.relays {
			r.SetAway(404)
		}
		time.Sleep(time.Minute)
		w.say(matrixNow(0))
		for _, r := range w.relays {
			r.SetAway(-1)
		}
		return w.within(visit)
	}},
	// One relay lies, and one drops every connection: all the others have comes all the
	// same, and the one that drops is tried more and more seldom.
	{"liar", "", "lying", "strfry", func(w *matrixWorld) string {
		w.begin()
		return w.within(visit)
	}},
	{"dropper", "", "dropping", "strfry", func(w *matrixWorld) string {
		w.begin()
		if wrong := w.within(visit); wrong != "" {
			return wrong
		}
		time.Sleep(visit)
		const attempts = 30 // after 5 s, 10 s, 20 s … 1 h, 1 h, it is 16
		if n := w.connections(1); n < 3 || n > attempts {
			return fmt.Sprintf("the relay that drops is connected to %d times in %v, want 3 to %d", n, visit, attempts)
		}
		return ""
	}},
}

// matrixNow returns a round of events that are dated now.
func matrixNow(round int) []matrixEvent {
	who := testkit.NewSigner(14)
	var list []matrixEvent
	for i, e := range matrixSaid().fresh[round] {
		list = append(list, matrixEvent{who.Event(e.Kind, time.Now().Unix()-int64(i), e.Content+" now", e.Tags...), e.relays, e.listed})
	}
	return list
}

// Why cells do not converge today.
const (
	overRate  = "a relay loses what is over its rate, our CLOSE too, it seems: then it has no room, and we believe that it has"
	liveSince = "what is live has a since in this strategy: events with old dates are found by the daily comparison"
	sinceAway = "events that reach a relay while we are away, dated before since, are found by the daily comparison"
)

// sometimes marks a cell that depends on which goroutine is faster: no outcome of it
// fails the test.
func sometimes(why string) string { return "sometimes: " + why }

// matrixKnown are the cells that do not converge today. One that does fails the test of
// all cells until its line is taken away.
var matrixKnown = map[string]string{
	"layered-v1/khatru/late":         liveSince,
	"layered-v1/ngit-grasp/late":     liveSince,
	"layered-v1/ngit-relay/late":     liveSince,
	"layered-v1/nostr-rs-relay/late": liveSince,
	"layered-v1/nostream/late":       liveSince,
	"layered-v1/nostream/outage":     sometimes(overRate),
	"layered-v1/nostream/plain":      sometimes(overRate),
	"layered-v1/nostream/restart":    sometimes(overRate),
	"layered-v1/nostream/swap":       sometimes(overRate),
	"layered-v1/paid/late":           liveSince,
	"layered-v1/strfry/late":         liveSince,
	"layered-v2/khatru/late":         sinceAway,
	"layered-v2/ngit-grasp/late":     sinceAway,
	"layered-v2/ngit-relay/late":     sinceAway,
	"layered-v2/nostr-rs-relay/late": sinceAway,
	"layered-v2/nostream/late":       sinceAway,
	"layered-v2/paid/late":           sinceAway,
	"layered-v2/strfry/late":         sinceAway,
	"layered-v4/khatru/late":         sinceAway,
	"layered-v4/ngit-grasp/late":     sinceAway,
	"layered-v4/ngit-relay/late":     sinceAway,
	"layered-v4/nostr-rs-relay/late": sinceAway,
	"layered-v4/nostream/late":       sinceAway,
	"layered-v4/paid/late":           sinceAway,
	"layered-v4/strfry/late":         sinceAway,
	"layered-v5/khatru/late":         sinceAway,
	"layered-v5/ngit-grasp/late":     sometimes(sinceAway),
	"layered-v5/ngit-relay/late":     sinceAway,
	"layered-v5/nostr-rs-relay/late": sinceAway,
	"layered-v5/nostream/late":       sinceAway,
	"layered-v5/paid/late":           sinceAway,
	"layered-v5/strfry/late":         sinceAway,
}

// matrixProfiles are the relays that exist, and two with a fault, which are tried in a
// plain world alone.
func matrixProfiles() []string { return append(relaymodel.Names(), "limited", "notice-only") }

var matrixStrategies = []string{"layered-v1", "layered-v2", "layered-v4", "layered-v5", "mirror"}

// TestMatrix: with each strategy, each relay that exists, and what happens to them,
// Talon has exactly what it is to have, within the time of a visit, in virtual time.
// TALON_TEST_DEVNET=1 runs all of it.
func TestMatrix(t *testing.T) {
	if testing.Short() || relaysync.RaceDetector {
		t.Skip("compiles modules, and each step runs for long under the race detector")
	}
	all := os.Getenv("TALON_TEST_DEVNET") != ""
	matrixSaid()
	var mu sync.Mutex
	cells := map[string]string{}
	t.Run("cells", func(t *testing.T) {
		for _, strategy := range matrixStrategies {
			folders := []string{"plugins/" + strategy, "plugins/polite", "plugins/open"}
			if !all && strategy != "layered-v5" && strategy != "mirror" {
				continue
			}
			modules, code := plugintest.Build(t, folders...), plugintest.MachineCode(t, folders...)
			if err := os.WriteFile(filepath.Join(modules, "open.toml"), []byte("[config]\nevery = true\n"), 0o600); err != nil {
				t.Fatal(err) // without a policy there is no registry
			}
			for i, profile := range matrixProfiles() {
				for k, scenario := range matrixScenarios {
					exists := i < len(relaymodel.Names())
					switch {
					case scenario.only != "" && (!all || scenario.only != profile),
						scenario.only == "" && k != 0 && (!exists || !all && (i+k)%len(relaymodel.Names()) != 0):
						continue
					}
					name := strategy + "/" + profile + "/" + scenario.name
					t.Run(name, func(t *testing.T) {
						t.Parallel()
						p, err := relaymodel.Builtin(profile)
						if err == nil {
							p, err = p.With([]byte(scenario.keys))
						}
						profiles := []*relaymodel.Profile{p, p, p}
						if scenario.neighbour != "" && err == nil {
							profiles[1], err = relaymodel.Builtin(scenario.neighbour)
						}
						if err != nil {
							t.Fatal(err)
						}
						wrong := ""
						synctest.Test(t, func(t *testing.T) {
							w := newMatrixWorld(t, modules, code, profiles)
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
						case wrong == "" && known && all && !strings.HasPrefix(why, sometimes("")):
							t.Errorf("it converges: take its line out of matrixKnown, which says %q", why)
						}
					})
				}
			}
		}
	})
	t.Logf("\n%s", matrixTable(cells))
}

// matrixTable shows which cells converge, and what is wrong with the others.
func matrixTable(cells map[string]string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-12s %-16s", "strategy", "relay")
	for _, s := range matrixScenarios {
		fmt.Fprintf(&b, " %-8s", s.name)
	}
	b.WriteByte('\n')
	for _, strategy := range matrixStrategies {
		for _, profile := range matrixProfiles() {
			row, ran := fmt.Sprintf("%-12s %-16s", strategy, profile), false
			for _, s := range matrixScenarios {
				name, state := strategy+"/"+profile+"/"+s.name, "-"
				if wrong, ok := cells[name]; ok {
					_, known := matrixKnown[name]
					state, ran = map[[2]bool]string{{true, false}: "ok", {true, true}: "ok now", {false, true}: "known", {false, false}: "FAILS"}[[2]bool{wrong == "", known}], true
				}
				row += fmt.Sprintf(" %-8s", state)
			}
			if ran {
				fmt.Fprintln(&b, row)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(cells)) {
		if wrong := cells[name]; wrong != "" {
			fmt.Fprintf(&b, "%s: %s\n", name, wrong)
		}
	}
	return b.String()
}
