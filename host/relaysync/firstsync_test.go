package relaysync_test

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"talon/host/relaymodel"
	"talon/internal/race"
	"talon/internal/testkit"
)

// mostReceived is how many bytes a first sync with mirror may receive for each byte of the
// events, if an event has that many copies.
//
// A comparison lists the id of each copy that another relay lacks: 72 bytes. A relay without
// NIP-77 sends each copy.
func mostReceived(p *relaymodel.Profile, relays int, copies float64) float64 {
	switch {
	case p.Negentropy.Supported:
		return 1.15
	case relays == 1:
		return 1.3
	}
	return 1.6 * copies
}

// TestFirstSync is the first sync of 20 repositories: the bytes that relays send for each byte
// of the events. The figures are those of docs/strategies.md. One world has a relay with
// everything. In the others each repository lists three of five relays, and an event is at one
// to three of these, or at all three. make test has one profile in the worlds but the second.
// TALON_TEST_DEVNET=1 has all profiles, and layered-v5.
func TestFirstSync(t *testing.T) {
	if testing.Short() || race.Detector {
		t.Skip("compiles modules, and each step runs for long under the race detector")
	}
	one := side{relays: 1, repos: 20, per: 1, roots: 10, comments: 4}
	some := side{relays: 5, repos: 20, per: 3, roots: 10, comments: 4}
	all := some
	all.everywhere = true
	strategies, profiles := []string{"mirror"}, []string{"strfry", "khatru", "nostr-rs-relay", "nostream"}
	if os.Getenv("TALON_TEST_DEVNET") != "" {
		strategies, profiles = append(strategies, "layered-v5"), relaymodel.Names()
	}
	for _, strategy := range strategies {
		modules, code := matrixModules(t, "plugins/"+strategy, "")
		for _, s := range []side{one, some, all} {
			stored, _ := s.stored()
			size, sum := 0, 0
			for _, e := range stored {
				size += len(e.JSON)
				sum += len(e.relays)
			}
			copies := float64(sum) / float64(len(stored))
			for _, profile := range profiles {
				t.Run(fmt.Sprintf("%s/%s/%d-relays-%.1f-copies", strategy, profile, s.relays, copies), func(t *testing.T) {
					if len(strategies) == 1 && (s.everywhere || s.relays == 1) && profile != profiles[0] {
						testkit.Nightly(t, "a world has this profile")
					}
					p := matrixProfile(t, profile, "")
					var sent relaymodel.Stats
					var wrong string
					synctest.Test(t, func(t *testing.T) {
						w := newMatrixWorld(t, modules, code, slices.Repeat([]*relaymodel.Profile{p}, s.relays))
						defer w.close()
						w.say(stored)
						w.begin()
						wrong = w.within(visit)
						time.Sleep(30 * time.Second)
						sent = w.sum()
					})
					if wrong != "" {
						t.Fatal(wrong)
					}
					got := float64(sent.SentBytes) / float64(size)
					t.Logf("%d events of %d bytes: %.2f bytes for each byte, %.2f for each of a copy", len(stored), size/len(stored), got, got/copies)
					if most := mostReceived(p, s.relays, copies); strategy == "mirror" && got > most {
						t.Errorf("%.2f bytes are received for each byte, want at most %.2f", got, most)
					}
				})
			}
		}
	}
}
