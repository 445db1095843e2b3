package relaysync_test

import (
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"talon/host/plugin/plugintest"
	"talon/host/relaymodel"
	"talon/internal/race"
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
		time.Sleep(5 * time.Minute) // less than what strategies fetch once more by since
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
		if wrong := w.withinDay(w.lateLive); wrong != "" {
			return "live: " + wrong
		}
		w.relays[1].SetAway(0)
		for _, e := range matrixSaid().fresh[1] {
			if e.relays = []int{1}; slices.Contains(e.listed, 1) {
				w.say([]matrixEvent{e})
			}
		}
		time.Sleep(5 * time.Minute) // less than what strategies fetch once more by since
		w.relays[1].SetAway(-1)
		if wrong := w.withinDay(w.lateAway); wrong != "" {
			return wrong
		}
		w.say(matrixSaid().fresh[2])
		if wrong := w.withinDay(w.lateAgain); wrong != "" {
			return "live again: " + wrong
		}
		return ""
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

// Why it takes a day instead of a visit until something late is here.
const (
	liveSince = "what is live has a since in the document of this strategy"
	catchupBy = "the document of this strategy catches up by REQ with since, and has no comparison but once a day"
)

// matrixLate says why events with old dates wait for the daily sync. live is for those that come
// while relays are listened to, away for those that come during an absence, and again for those
// that come after it. "": they do not wait.
func matrixLate(strategy string) (live, away, again string) {
	switch {
	case strategy == "layered-v1":
		return liveSince, "", liveSince
	case strategy == "layered-v2":
		return "", catchupBy, liveSince
	case strategy == "layered-v4":
		return "", catchupBy, ""
	}
	return "", "", ""
}

// daily is the longest time until everything is compared again, and what that takes.
const daily = 26 * time.Hour

// matrixProfiles are the relays that exist, and two with a fault, which are tried in a
// plain world alone.
func matrixProfiles() []string { return append(relaymodel.Names(), "limited", "notice-only") }

var matrixStrategies = []string{"layered-v1", "layered-v2", "layered-v4", "layered-v5", "mirror"}

// TestMatrix combines each strategy, each kind of relay, and each fault. Talon must have exactly
// the expected events, within the time of a visit, in virtual time. Old dates are tried with each
// relay, because the requests of a strategy depend on the relay. make test has
//   - mirror with old dates at each relay,
//   - both strategies with each fault at one relay, and in a plain world with relays of a few kinds.
//
// TALON_TEST_DEVNET=1 runs all of it.
func TestMatrix(t *testing.T) {
	if testing.Short() || race.Detector {
		t.Skip("compiles modules, and each step runs for long under the race detector")
	}
	all := os.Getenv("TALON_TEST_DEVNET") != ""
	matrixSaid()
	var mu sync.Mutex
	cells := map[string]string{}
	t.Run("cells", func(t *testing.T) {
		for _, strategy := range matrixStrategies {
			if !all && strategy != "layered-v5" && strategy != "mirror" {
				continue
			}
			modules, code := matrixModules(t, "plugins/"+strategy, "")
			for i, profile := range matrixProfiles() {
				for k, scenario := range matrixScenarios {
					exists, late := i < len(relaymodel.Names()), scenario.name == "late" && strategy == "mirror"
					faulty := late || (i+k)%len(relaymodel.Names()) == 0
					plain := profile == "strfry" || profile == "nostr-rs-relay" || profile == "limited" || profile == "notice-only" && strategy == "mirror"
					switch {
					case scenario.only != "" && (!all || scenario.only != profile),
						scenario.only == "" && k != 0 && (!exists || !all && !faulty),
						k == 0 && !all && !plain:
						continue
					}
					name := strategy + "/" + profile + "/" + scenario.name
					t.Run(name, func(t *testing.T) {
						t.Parallel()
						p := matrixProfile(t, profile, scenario.keys)
						profiles := []*relaymodel.Profile{p, p, p}
						if scenario.neighbour != "" {
							profiles[1] = matrixProfile(t, scenario.neighbour, "")
						}
						wrong := ""
						synctest.Test(t, func(t *testing.T) {
							w := newMatrixWorld(t, modules, code, profiles)
							defer w.close()
							w.lateLive, w.lateAway, w.lateAgain = matrixLate(strategy)
							w.sooner = strategy == "layered-v1" && p.Limits.Subscriptions > 0
							w.say(matrixSaid().stored)
							if wrong = scenario.run(w); wrong != "" {
								wrong += w.warnings.String()
							}
						})
						mu.Lock()
						defer mu.Unlock()
						cells[name] = wrong
						if wrong != "" {
							t.Error(wrong)
						}
					})
				}
			}
		}
	})
	t.Logf("\n%s", matrixTable(cells))
}

// Each example of a strategy brings in what three relays have, one of which has no
// negentropy and gives seven events at once: what was there before, what comes live, what
// comes during an outage; and nothing else.
func TestExamples(t *testing.T) {
	if testing.Short() || race.Detector {
		t.Skip("compiles modules, and each step runs for long under the race detector")
	}
	strfry, small := matrixProfile(t, "strfry", ""), matrixProfile(t, "nostr-rs-relay", "limits.limit = 7")
	for name, c := range map[string]struct {
		config  string
		unnamed int // a relay that the operator does not name; 0: there is none
	}{
		"no-negentropy": {"batch_seconds = 1", 0},
		// At the last one of these nobody listens.
		"three-relays": {fmt.Sprintf("batch_seconds = 1\nrelays = [%q, %q, %q]", matrixURL(0), matrixURL(1), matrixURL(9)), 2},
	} {
		t.Run(name, func(t *testing.T) {
			modules, code := matrixModules(t, "examples/"+name, c.config)
			synctest.Test(t, func(t *testing.T) {
				w := newMatrixWorld(t, modules, code, []*relaymodel.Profile{strfry, small, strfry})
				defer w.close()
				w.honest[2] = c.unnamed != 2 // what is to be here is at the others
				w.say(matrixSaid().stored)
				w.begin()
				step := func(what string) {
					if wrong := w.within(visit); wrong != "" {
						t.Errorf("%s: %s%s", what, wrong, w.warnings)
					}
				}
				step("what is stored")
				w.say(matrixNow(0))
				step("what is live")
				w.relays[1].SetAway(0)
				w.say(matrixNow(1))
				time.Sleep(5 * time.Minute)
				w.relays[1].SetAway(-1)
				step("what was missed")
				w.say(matrixNow(2))
				step("what comes afterwards")
				if n := w.sum().Comparisons; name == "no-negentropy" && n != 0 {
					t.Errorf("negentropy was used %d times", n)
				}
				if one, other := w.connections(0), w.connections(1); one != 1 || other > 3 {
					t.Errorf("%d connections to a relay that was always there, %d to one that was away once", one, other)
				}
				if n := w.connections(2); c.unnamed == 2 && n != 0 {
					t.Errorf("%d connections to a relay that the operator does not name", n)
				}
			})
		})
	}
}

func TestMain(m *testing.M) { os.Exit(plugintest.Main(m)) }

// matrixProfile returns a profile of a relay with keys over it.
func matrixProfile(t *testing.T, name, keys string) *relaymodel.Profile {
	t.Helper()
	p, err := relaymodel.Builtin(name)
	if err == nil {
		p, err = p.With([]byte(keys))
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// matrixModules builds a strategy, a throttle and a policy, without which there is no
// registry. It returns the folders of the modules and of their machine code.
func matrixModules(t *testing.T, strategy, config string) (modules, code string) {
	t.Helper()
	folders := []string{strategy, "plugins/polite", "plugins/open"}
	modules, code = plugintest.Build(t, folders...), plugintest.MachineCode(t, folders...)
	for name, text := range map[string]string{"open": "every = true", path.Base(strategy): config} {
		if err := os.WriteFile(filepath.Join(modules, name+".toml"), []byte("[config]\n"+text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return modules, code
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
					if state, ran = "ok", true; wrong != "" {
						state = "FAILS"
					}
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
