package relaysync_test

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"talon/host"
	"talon/host/relaymodel"
	"talon/internal/race"
	"talon/internal/testkit"
)

// copiesRun is how long people speak in a world of copies, five events a second.
const copiesRun = 10 * time.Minute

// copies is a world of three relays and six repositories that list all three. Each event is
// at some of them.
type copies struct {
	count int
	burst time.Duration // the events of that time are said together
	syncs bool          // the last relay soon has all that the others have
	push  bool          // before, maintainers push: the state of each repository is at all relays
}

// spoken is one copy of an event.
type spoken struct {
	matrixEvent
	at       time.Duration
	replaced bool // by a later one
}

func (c copies) events() (stored []matrixEvent, said []spoken) {
	random := rand.New(rand.NewPCG(7, uint64(c.count)))
	people := []*testkit.Signer{testkit.NewSigner(11), testkit.NewSigner(12)}
	all := []int{0, 1, 2}
	list := host.Tag{"relays", "wss://" + ownDomain, matrixURL(0), matrixURL(1), matrixURL(2)}
	var addresses []string
	for i := range 6 {
		d := fmt.Sprintf("repo-%d", i)
		e := people[0].Event(30617, matrixBegin-1000, "", host.Tag{"d", d}, host.Tag{"clone", "https://" + ownDomain + "/x/" + d + ".git"}, list)
		a, _ := e.Address()
		stored, addresses = append(stored, matrixEvent{e, all, all}), append(addresses, a.String())
	}
	if c.push {
		for n := range 12 {
			e := people[0].Event(30618, matrixBegin+int64(n/6), "", host.Tag{"d", fmt.Sprintf("repo-%d", n%6)}, host.Tag{"refs/heads/main", fmt.Sprintf("%040x", n+1)})
			said = append(said, spoken{matrixEvent{e, all, all}, 30 * time.Second, n < 6})
		}
	}
	begin := time.Minute
	for n := range int(copiesRun/time.Second) * 5 {
		at := begin + time.Duration(n)*time.Second/5
		if c.burst > 0 {
			at = at.Truncate(c.burst) + c.burst
		}
		e := people[1].Event(1621, matrixBegin+int64(at/time.Second), fmt.Sprint("issue ", n), host.Tag{"a", addresses[random.IntN(6)]})
		first := true
		relays := random.Perm(3)[:c.count]
		if c.syncs && !slices.Contains(relays, 2) {
			relays = append(relays, 2)
		}
		for _, relay := range relays {
			late := time.Duration(0)
			if !first {
				late = time.Duration(random.Int64N(int64(time.Second)))
			}
			first = false
			said = append(said, spoken{matrixEvent: matrixEvent{e, []int{relay}, all}, at: at + late})
		}
	}
	slices.SortStableFunc(said, func(a, b spoken) int { return int(a.at - b.at) })
	return stored, said
}

// run returns how long events took to arrive, and how many came once more for each.
func (c copies) run(w *matrixWorld, stored []matrixEvent, said []spoken) (late []time.Duration, twice float64, wrong string) {
	began := time.Now()
	w.say(stored)
	w.begin()
	time.Sleep(20 * time.Second)
	before := w.sum().SentEvents
	first := map[host.ID]time.Duration{}
	for _, e := range said {
		time.Sleep(e.at - time.Since(began))
		if _, ok := first[e.ID]; !ok {
			first[e.ID] = e.at
		}
		w.say([]matrixEvent{e.matrixEvent})
		if e.replaced {
			delete(w.expected, e.ID)
			delete(first, e.ID)
		}
	}
	time.Sleep(10 * time.Second)
	sent := w.sum().SentEvents - before
	if wrong = w.within(visit); wrong != "" {
		return nil, 0, wrong
	}
	for id, at := range first {
		late = append(late, w.here.StoredAt(id).Sub(began.Add(at)))
	}
	slices.Sort(late)
	return late, float64(sent)/float64(len(first)) - 1, ""
}

// Events come within seconds from relays that are connected, however many of them have each
// event: a relay that holds what others lack is never spared, and one whose events others
// have too is. The figures are those of docs/strategies.md. make test has three of these worlds.
func TestCopies(t *testing.T) {
	if testing.Short() || race.Detector {
		t.Skip("compiles modules, and each step runs for long under the race detector")
	}
	p := matrixProfile(t, "strfry", "")
	modules, code := matrixModules(t, "plugins/mirror", "")
	// Duplicates for each event. To listen to all relays would cost 0, 1 and 2. Those of bursts
	// depend on which relay is faster, so only that much is held. On a busy machine a few events of
	// 300 come twice in bursts (up to 5 were seen), since a check and a subscription overlap.
	burst := 30 * time.Second
	// While a subscription takes the place of another, an event comes by both. A relay that syncs itself
	// is listened to all the time, since it has a third of the events alone.
	most := map[copies]float64{
		{count: 1}: 0.02, {count: 2}: 0.6, {count: 3}: 1.4,
		{count: 1, burst: burst}: 0.05, {count: 2, burst: burst}: 1, {count: 3, burst: burst}: 2,
		{count: 1, push: true}:  0.04,
		{count: 1, syncs: true}: 0.8, {count: 1, burst: burst, syncs: true}: 0.85,
	}
	for _, c := range slices.SortedFunc(maps.Keys(most), func(a, b copies) int { return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b)) }) {
		t.Run(fmt.Sprintf("%d-of-3-every-%v-syncs-%v-push-%v", c.count, c.burst, c.syncs, c.push), func(t *testing.T) {
			if (c.burst != 0 || c.count != 2 && !c.syncs) && !c.push {
				testkit.Nightly(t, "two copies are tried, a relay that syncs, and pushes")
			}
			stored, said := c.events()
			var late []time.Duration
			var twice float64
			var wrong string
			synctest.Test(t, func(t *testing.T) {
				w := newMatrixWorld(t, modules, code, slices.Repeat([]*relaymodel.Profile{p}, 3))
				defer w.close()
				late, twice, wrong = c.run(w, stored, said)
			})
			if wrong != "" {
				t.Fatal(wrong)
			}
			p99 := late[(len(late)-1)*99/100]
			t.Logf("p50 %v, p99 %v, at most %v; %.3f duplicates an event", late[len(late)/2], p99, late[len(late)-1], twice)
			if p99 > 5*time.Second {
				t.Errorf("p99 is %v", p99)
			}
			if twice > most[c] {
				t.Errorf("%.3f duplicates an event, want at most %.3f", twice, most[c])
			}
		})
	}
}
