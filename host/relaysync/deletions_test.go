package relaysync_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"talon/host"
	"talon/host/relaymodel"
	"talon/internal/race"
	"talon/internal/testkit"
)

// deletionEvents are one repository at one relay, an issue with comments, and deletions of these
// comments and reactions to them. These tag only the comment, and half of them say its kind. Noise
// is deletions of other events.
func deletionEvents() (stored, deletions, reactions, noise []matrixEvent) {
	people := []*testkit.Signer{testkit.NewSigner(11), testkit.NewSigner(12)}
	at := int64(matrixBegin - 1000)
	said := func(list *[]matrixEvent, who int, kind host.Kind, text string, tags ...host.Tag) *host.Event {
		at++
		e := people[who].Event(kind, at, text, tags...)
		*list = append(*list, matrixEvent{e, []int{0}, []int{0}})
		return e
	}
	repo := said(&stored, 0, 30617, "", host.Tag{"d", "lib"}, host.Tag{"clone", "https://" + ownDomain + "/x/lib.git"}, host.Tag{"relays", "wss://" + ownDomain, matrixURL(0)})
	address, _ := repo.Address()
	root := said(&stored, 0, 1621, "issue", host.Tag{"a", address.String()})
	for n := range 12 {
		c := said(&stored, 1, 1111, fmt.Sprint("comment ", n), host.Tag{"E", root.ID.String()}, host.Tag{"e", root.ID.String()})
		tags := []host.Tag{{"e", c.ID.String()}}
		if n%2 == 0 {
			tags = append(tags, host.Tag{"k", "1111"})
		}
		if n < 8 {
			said(&deletions, 1, 5, "", tags...)
		} else {
			said(&reactions, 0, 7, "+", tags...)
		}
	}
	for n := range 20 {
		said(&noise, 1, 5, "", host.Tag{"e", fmt.Sprintf("%064x", n+1)}, host.Tag{"k", "1"})
	}
	return stored, deletions, reactions, noise
}

// Deletions that tag only a comment come live, and after an absence, as reactions do: from a relay
// that has few others all of them, else those that say the kind. The layered strategies ask for them if their
// setting says so.
func TestDeletions(t *testing.T) {
	if testing.Short() || race.Detector {
		t.Skip("compiles modules, and each step runs for long under the race detector")
	}
	stored, deletions, reactions, noise := deletionEvents()
	for _, c := range []struct {
		strategy, config, profile string
		noisy                     bool
		want                      int // of two
	}{
		{"mirror", "", "strfry", false, 2},
		{"mirror", "", "khatru", false, 2},
		{"mirror", "", "nostream", true, 1},
		{"layered-v5", "", "strfry", false, 0},
		{"layered-v5", "second_level = 1", "nostream", false, 1},
		{"layered-v5", "second_level = 2", "khatru", true, 2},
	} {
		t.Run(fmt.Sprintf("%s/%s/noisy=%v/%s", c.strategy, c.profile, c.noisy, c.config), func(t *testing.T) {
			modules, code := matrixModules(t, "plugins/"+c.strategy, c.config)
			p := matrixProfile(t, c.profile, "")
			synctest.Test(t, func(t *testing.T) {
				w := newMatrixWorld(t, modules, code, slices.Repeat([]*relaymodel.Profile{p}, 1))
				defer w.close()
				w.say(stored)
				if c.noisy {
					for _, e := range noise {
						w.relays[0].Add(e.Event)
					}
				}
				w.begin()
				if wrong := w.within(visit); wrong != "" {
					t.Fatal(wrong)
				}
				time.Sleep(2 * time.Minute)
				come := func(when string, list []matrixEvent) {
					t.Helper()
					n := 0
					for _, e := range list {
						if w.here.Has(e.ID) {
							n++
						}
					}
					if want := c.want * len(list) / 2; n != want {
						t.Errorf("%s: %d of %d are here, want %d", when, n, len(list), want)
					}
				}
				say := func(list []matrixEvent) {
					for _, e := range list {
						w.relays[0].Add(e.Event)
					}
				}
				say(deletions[:4])
				time.Sleep(5 * time.Second)
				come("deletions live", deletions[:4])
				w.stop()
				say(deletions[4:])
				say(reactions)
				w.begin()
				time.Sleep(time.Minute)
				come("deletions after a restart", deletions[4:])
				come("reactions after a restart", reactions)
			})
		})
	}
}
