package labtest_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"talon/cmd/internal/author"
	"talon/cmd/labtest"
	"talon/internal/race"
	"talon/sdk/strategy"
)

const manifest = `{"talon_manifest": 1, "name": "plain", "version": "1.0.0", "summary": "Asks each relay for all announcements, and for what tags them.", "worlds": ["strategy"], "place": 50, "capabilities": []}`

// plain asks the one relay of the network for everything, as it becomes known.
type plain struct {
	panics bool
	open   int
}

func (*plain) Configure(strategy.Config) error { return nil }

func (p *plain) Step(in strategy.Input, out *strategy.Actions) {
	const relay = "wss://only-0.example"
	switch in.Kind() {
	case strategy.RelayConnected:
		out.Subscribe(strategy.Subscription{Relay: relay, ID: "all", Filters: []strategy.Filter{{Kinds: []uint32{30617}}}})
	case strategy.LocalEvent:
		if p.panics {
			panic("a mistake")
		}
		event := in.LocalEvent()
		for it := event.Repositories(); it.Next() && event.Kind == 30617; {
			p.open++
			out.Subscribe(strategy.Subscription{
				Relay: relay, ID: strings.Repeat("x", p.open), Filters: []strategy.Filter{{Tags: []strategy.TagFilter{{Name: "a", Values: []string{strings.Clone(it.Text())}}}}},
			})
		}
	}
}

const network = `
duration = "1h"
quiet = "20m"
[relays.only]
count = 1
bootstrap = 1
[repositories]
count = 3
relays-min = 1
relays-max = 1
comments = 0
states = false
[publishers]
comments-per-day = 0
states-per-day = 0
`

func scenario(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "network.toml")
	if err := os.WriteFile(file, []byte(network), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestRun(t *testing.T) {
	m := labtest.Run(t, scenario(t), 3, labtest.Strategy{Manifest: manifest, New: func() strategy.Strategy { return new(plain) }})
	for _, complete := range m["completeness"] {
		if complete != 1 {
			t.Errorf("complete %v", m["completeness"])
		}
	}
	if len(m["bytes_down"]) != 3 || m["reqs"][0] != 4 {
		t.Errorf("%v bytes, %v REQs", m["bytes_down"], m["reqs"])
	}
}

// A new strategy follows announcements and all that is about them: the lab finds nothing in its
// smallest scenario. With TALON_TEST_GUIDES the one in Rust is tried too.
func TestNewStrategies(t *testing.T) {
	if race.Detector {
		t.Skip("to compile a Go module takes half a minute")
	}
	languages := []string{"go"}
	if os.Getenv("TALON_TEST_GUIDES") != "" {
		languages = append(languages, "rust")
	}
	for _, language := range languages {
		t.Run(language, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "mine")
			if err := author.Create(dir, "strategy", language); err != nil {
				t.Fatal(err)
			}
			for seed, complete := range labtest.Run(t, "small", 2, labtest.Strategy{File: dir})["completeness"] {
				if complete != 1 {
					t.Errorf("seed %d: completeness %v", seed+1, complete)
				}
			}
		})
	}
}

// recorder is a test that may fail.
type recorder struct {
	testing.TB
	failed []string
}

func (r *recorder) Errorf(format string, _ ...any) { r.failed = append(r.failed, format) }

// A strategy that panics fails the test, and is started again as the server does it.
func TestPanic(t *testing.T) {
	r := &recorder{TB: t}
	labtest.Run(r, scenario(t), 1, labtest.Strategy{Manifest: manifest, New: func() strategy.Strategy { return &plain{panics: true} }})
	if len(r.failed) == 0 {
		t.Error("a strategy that panics passes")
	}
}
