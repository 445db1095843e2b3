package relaysync_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"talon/host"
	"talon/host/relaymodel"
	"talon/internal/race"
	"talon/internal/testkit"
)

// TestReopenedLive has a relay that sends a stored event some time later, and only to subscriptions that
// are older than the event (strfry). Strategies open their subscriptions again and again, since each event
// is a new root event. None is lost.
func TestReopenedLive(t *testing.T) {
	if testing.Short() || race.Detector {
		t.Skip("compiles modules, and each step runs for long under the race detector")
	}
	p := matrixProfile(t, "strfry", "[live]\ndelay-s = 0.1\nolder-alone = true\n")
	who := testkit.NewSigner(11)
	list := host.Tag{"relays", "wss://" + ownDomain, matrixURL(0)}
	repo := who.Event(30617, matrixBegin-1000, "", host.Tag{"d", "a"}, host.Tag{"clone", "https://" + ownDomain + "/x/a.git"}, list)
	a, _ := repo.Address()
	var said []matrixEvent
	for n := range 300 {
		e := who.Event(1621, matrixBegin-500, fmt.Sprint("issue ", n), host.Tag{"a", a.String()})
		said = append(said, matrixEvent{e, []int{0}, []int{0}})
	}
	for strategy, config := range map[string]string{
		"mirror": "consolidate_above_filters = 9", "layered-v5": "consolidate_above_filters = 9\nbatch_seconds = 1",
	} {
		t.Run(strategy, func(t *testing.T) {
			modules, code := matrixModules(t, "plugins/"+strategy, config)
			synctest.Test(t, func(t *testing.T) {
				w := newMatrixWorld(t, modules, code, []*relaymodel.Profile{p})
				defer w.close()
				w.say([]matrixEvent{{repo, []int{0}, []int{0}}})
				w.begin()
				time.Sleep(time.Minute)
				asked := w.sum().Requests
				for _, e := range said {
					w.say([]matrixEvent{e})
					time.Sleep(83 * time.Millisecond)
				}
				time.Sleep(10 * time.Second)
				lost := 0
				for _, e := range said {
					if w.here.StoredAt(e.ID).IsZero() {
						lost++
					}
				}
				t.Logf("%d requests, %d events are lost", w.sum().Requests-asked, lost)
				if lost > 0 {
					t.Errorf("%d of %d live events are lost", lost, len(said))
				}
			})
		})
	}
}
