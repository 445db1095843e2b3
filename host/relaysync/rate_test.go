package relaysync_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"talon/host"
	"talon/host/relaymodel"
	"talon/internal/race"
	"talon/internal/testkit"
)

// TestRequestsASecond: a relay takes a number of requests a second, and says by a NOTICE alone that it passes
// over those beyond. Hundreds of root events come at once, again and again, so that a strategy opens its
// subscriptions again. The relay complains about one burst, and no more. Soon after the last event nothing is
// missing.
func TestRequestsASecond(t *testing.T) {
	if testing.Short() || race.Detector {
		t.Skip("compiles modules, and each step runs for long under the race detector")
	}
	for _, strategy := range []string{"mirror", "layered-v5"} {
		modules, code := matrixModules(t, "plugins/"+strategy, "")
		for _, rate := range []struct {
			perMinute float64
			burst     int
			within    time.Duration // after the last event
			bursts    uint64        // that the relay complains about, at most
		}{{180, 6, 30 * time.Second, 1}, {60, 3, 10 * time.Minute, 3}} {
			t.Run(fmt.Sprintf("%s/%v a minute", strategy, rate.perMinute), func(t *testing.T) {
				p := matrixProfile(t, "strfry", "")
				p.Rate.Requests = relaymodel.Rate{PerMinute: rate.perMinute, Burst: rate.burst, By: "notice", Text: "rate-limited: slow down there chief"}
				synctest.Test(t, func(t *testing.T) {
					w := newMatrixWorld(t, modules, code, []*relaymodel.Profile{p})
					defer w.close()
					rateSaid().run(t, w, rate.within, rate.bursts)
				})
			})
		}
	}
}

// rateEvents are what people say at a relay: first the events that are stored, then one each 250 ms, and many
// root events each 50 s.
type rateEvents struct {
	stored []matrixEvent
	live   [][]matrixEvent
}

const (
	rateStep = 250 * time.Millisecond
	rateTime = 4 * time.Minute
)

var rateSaid = sync.OnceValue(func() *rateEvents {
	who, random := testkit.NewSigner(31), rand.New(rand.NewPCG(1, 2))
	at := int64(matrixBegin)
	say := func(kind host.Kind, text string, tags ...host.Tag) matrixEvent {
		return matrixEvent{who.Event(kind, at, text, tags...), []int{0}, []int{0}}
	}
	m := &rateEvents{}
	repo := say(30617, "", host.Tag{"d", "repo"}, host.Tag{"clone", "https://" + ownDomain + "/x/repo.git"}, host.Tag{"relays", "wss://" + ownDomain, matrixURL(0)})
	m.stored = []matrixEvent{repo}
	address, _ := repo.Address()
	issue := func(text string) matrixEvent { return say(1621, text, host.Tag{"a", address.String()}) }
	var roots []*host.Event
	for i := range int(rateTime / rateStep) {
		at = matrixBegin + 60 + int64(time.Duration(i)*rateStep/time.Second)
		var list []matrixEvent
		if i%2 == 0 {
			list = append(list, issue(fmt.Sprint("issue ", i)))
			roots = append(roots, list[0].Event)
		} else {
			id := roots[random.IntN(len(roots))].ID.String()
			list = append(list, say(1111, fmt.Sprint("comment ", i), host.Tag{"E", id}, host.Tag{"e", id}))
		}
		for n := 0; i%200 == 199 && n < 400; n++ {
			list = append(list, issue(fmt.Sprint("issue ", i, " of many ", n)))
		}
		m.live = append(m.live, list)
	}
	return m
})

func (m *rateEvents) run(t *testing.T, w *matrixWorld, within time.Duration, maxBursts uint64) {
	w.say(m.stored)
	w.begin()
	time.Sleep(time.Minute)
	var waiting []*host.Event
	said := map[host.ID]time.Time{}
	var late []time.Duration
	var complaints, bursts uint64
	var complained time.Time
	look := func() {
		waiting = slices.DeleteFunc(waiting, func(e *host.Event) bool {
			if !w.here.Has(e.ID) {
				return false
			}
			late = append(late, time.Since(said[e.ID]))
			return true
		})
		before := complaints
		w.relays[0].View(func(r *relaymodel.Relay) { complaints = r.Stats().Refused })
		if complaints > before && time.Since(complained) > 10*time.Second {
			bursts++
			complained = time.Now()
		}
	}
	for _, list := range m.live {
		w.say(list)
		for _, e := range list {
			said[e.ID] = time.Now()
			waiting = append(waiting, e.Event)
		}
		time.Sleep(rateStep)
		look()
	}
	began := time.Now()
	for len(waiting) > 0 && time.Since(began) < time.Hour {
		time.Sleep(time.Second)
		look()
	}
	slices.Sort(late)
	if len(waiting) > 0 {
		t.Fatalf("%d events are missing an hour after the last%s", len(waiting), w.warnings)
	}
	t.Logf("p50 %v, p99 %v, max %v, all are here %v after the last; %d bursts of %d complaints", late[len(late)/2], late[len(late)*99/100], late[len(late)-1], time.Since(began), bursts, complaints)
	if took := time.Since(began); took > within {
		t.Errorf("all are here %v after the last, want %v%s", took, within, w.warnings)
	}
	if bursts == 0 || bursts > maxBursts {
		t.Errorf("the relay complains about %d bursts, want 1 to %d%s", bursts, maxBursts, w.warnings)
	}
}
