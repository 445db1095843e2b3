package relaysync_test

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"talon/host"
	"talon/host/relaymodel"
	"talon/internal/race"
	"talon/internal/testkit"
)

// jointWorld is repositories at four of several relays each. People speak from the first second on,
// while relays have their first comparison. Each event is at one relay.
type jointWorld struct {
	stored []matrixEvent
	said   []spoken
}

const (
	jointRepos = 24
	jointTime  = 2 * time.Minute
	jointEach  = 250 * time.Millisecond
)

func jointSaid(relays int, seed uint64) *jointWorld {
	random := rand.New(rand.NewPCG(5, seed))
	people := []*testkit.Signer{testkit.NewSigner(11), testkit.NewSigner(12), testkit.NewSigner(13)}
	x := &jointWorld{}
	var listed [][]int
	var addresses []string
	roots := make([][]*host.Event, jointRepos)
	issue := func(repo int, at int64, list *[]matrixEvent) *host.Event {
		e := people[random.IntN(3)].Event(1621, at, fmt.Sprint("issue ", at, len(*list), random.Int()), host.Tag{"a", addresses[repo]})
		relay := listed[repo][random.IntN(4)]
		*list = append(*list, matrixEvent{e, []int{relay}, listed[repo]})
		roots[repo] = append(roots[repo], e)
		return e
	}
	for i := range jointRepos {
		var at []int
		urls := host.Tag{"relays", "wss://" + ownDomain}
		for k := range 4 {
			n := (i*2 + k*(1+i%2)) % relays
			at, urls = append(at, n), append(urls, matrixURL(n))
		}
		d := fmt.Sprintf("repo-%d", i)
		e := people[0].Event(30617, matrixBegin-1000, "", host.Tag{"d", d}, host.Tag{"clone", "https://" + ownDomain + "/x/" + d + ".git"}, urls)
		a, _ := e.Address()
		listed, addresses = append(listed, at), append(addresses, a.String())
		x.stored = append(x.stored, matrixEvent{e, append([]int{0}, at...), at})
		for range 4 {
			issue(i, matrixBegin-500, &x.stored)
		}
	}
	for n := range int(jointTime / jointEach) {
		at := time.Duration(n) * jointEach
		repo, date := random.IntN(jointRepos), matrixBegin+int64(at/time.Second)
		var list []matrixEvent
		if n%5 == 0 {
			issue(repo, date, &list)
		} else {
			root := roots[repo][random.IntN(len(roots[repo]))]
			e := people[random.IntN(3)].Event(1111, date, fmt.Sprint("comment ", n), host.Tag{"E", root.ID.String()}, host.Tag{"K", "1621"}, host.Tag{"e", root.ID.String()}, host.Tag{"k", "1621"})
			list = append(list, matrixEvent{e, []int{listed[repo][random.IntN(4)]}, listed[repo]})
		}
		x.said = append(x.said, spoken{matrixEvent: list[0], at: at})
	}
	return x
}

// late returns how long events took to arrive. A comment counts from when its root event is here.
func (x *jointWorld) late(w *matrixWorld, began time.Time) (late []time.Duration) {
	for _, e := range x.said {
		at := began.Add(e.at)
		if e.Kind == 1111 {
			var root host.ID
			_, _ = hex.Decode(root[:], []byte(e.Tags[0][1]))
			if there := w.here.StoredAt(root); there.After(at) {
				at = there
			}
		}
		took := w.here.StoredAt(e.ID).Sub(at)
		if took > 5*time.Second && os.Getenv("TALON_TEST_LOG") != "" {
			w.t.Logf("%v after the begin at relay %v: kind %d took %v", e.at, e.relays, e.Kind, took)
		}
		late = append(late, took)
	}
	slices.Sort(late)
	return late
}

// Live events come within seconds, also at relays of which a part of the past cannot be had: all announcements
// are of one second, and khatru does not say how many events it gives at once. Its other events do not
// wait for that.
func TestJoint(t *testing.T) {
	if testing.Short() || race.Detector {
		t.Skip("compiles modules, and each step runs for long under the race detector")
	}
	var profiles []*relaymodel.Profile
	for _, name := range []string{"ngit-relay", "khatru", "khatru", "strfry", "strfry", "khatru", "strfry", "ngit-grasp"} {
		profiles = append(profiles, matrixProfile(t, name, ""))
	}
	modules, code := matrixModules(t, "plugins/mirror", "")
	for seed := range uint64(6) {
		for _, during := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d-during-first-sync-%v", seed, during), func(t *testing.T) {
				if seed > 1 {
					testkit.Nightly(t, "two worlds are tried")
				}
				x := jointSaid(len(profiles), seed)
				synctest.Test(t, func(t *testing.T) {
					w := newMatrixWorld(t, modules, code, profiles)
					defer w.close()
					began := time.Now()
					w.say(x.stored)
					w.begin()
					if !during {
						if wrong := w.within(30 * time.Second); wrong != "" {
							t.Fatalf("first sync: %s", wrong)
						}
						began = time.Now()
					}
					for _, e := range x.said {
						time.Sleep(e.at - time.Since(began))
						w.say([]matrixEvent{e.matrixEvent})
					}
					if wrong := w.within(30 * time.Second); wrong != "" {
						t.Error(wrong)
					}
					late := x.late(w, began)
					p99, longest := late[(len(late)-1)*99/100], late[len(late)-1]
					t.Logf("p50 %v, p99 %v, at most %v", late[len(late)/2], p99, longest)
					// New root events are gathered for 5 seconds, and the next turn begins after 5 more.
					if p99 > 10*time.Second || longest > 30*time.Second {
						t.Errorf("p99 is %v, the longest time %v", p99, longest)
					}
				})
			})
		}
	}
}
