package relaysync_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"talon/host"
	"talon/host/relaymodel"
	"talon/internal/race"
	"talon/internal/testkit"
)

// side is a world in which strategies are compared.
type side struct {
	name               string
	profile            string
	relays, repos, per int // relays that a repository names
	roots, comments    int // of a repository, of a root
	everywhere         bool
}

// besideEvent is what is said while relays are listened to.
type besideEvent struct {
	matrixEvent
	at time.Duration
}

// stored are the events of a world before Talon begins: each is at one to all of the
// relays that its repository names, or at all.
func (s side) stored() (stored []matrixEvent, said []besideEvent) {
	random := rand.New(rand.NewPCG(5, 6))
	people := []*testkit.Signer{testkit.NewSigner(11), testkit.NewSigner(12), testkit.NewSigner(13)}
	prose := strings.Repeat("Some words about it. ", 30)
	at := int64(matrixBegin - 500_000)
	some := func(relays []int) []int {
		relays = slices.Clone(relays)
		random.Shuffle(len(relays), func(i, j int) { relays[i], relays[j] = relays[j], relays[i] })
		if s.everywhere {
			return relays
		}
		return relays[:1+random.IntN(len(relays))]
	}
	type issue struct {
		*host.Event
		relays []int
	}
	var issues []issue
	var addresses []string
	var homes [][]int
	for i := range s.repos {
		relays := random.Perm(s.relays)[:s.per]
		list := host.Tag{"relays", "wss://" + ownDomain}
		for _, k := range relays {
			list = append(list, matrixURL(k))
		}
		d := fmt.Sprintf("repo-%d", i)
		e := people[0].Event(30617, at, "", host.Tag{"d", d}, host.Tag{"clone", "https://" + ownDomain + "/x/" + d + ".git"}, list)
		a, _ := e.Address()
		stored = append(stored, matrixEvent{e, slices.Compact(slices.Sorted(slices.Values(append([]int{0}, relays...)))), relays})
		addresses, homes = append(addresses, a.String()), append(homes, relays)
		for range s.roots {
			at++
			root := people[1].Event(1621, at, prose, host.Tag{"a", a.String()})
			stored = append(stored, matrixEvent{root, some(relays), relays})
			issues = append(issues, issue{root, relays})
			for range s.comments {
				at++
				e := people[2].Event(1111, at, prose, host.Tag{"E", root.ID.String()}, host.Tag{"e", root.ID.String()})
				stored = append(stored, matrixEvent{e, some(relays), relays})
			}
		}
	}
	// For three hours there is an event each 20 seconds; each third is a new issue, which
	// has a comment half a second later.
	for n := range 540 {
		i, moment := random.IntN(s.repos), time.Duration(n)*20*time.Second
		date := int64(0) // when it is said
		tell := func(e *host.Event, relays []int, home []int, at time.Duration) {
			said = append(said, besideEvent{matrixEvent{e, relays, home}, at})
		}
		date = matrixBegin + int64(besideBegin/time.Second) + int64(moment/time.Second)
		if n%3 > 0 {
			root := issues[random.IntN(len(issues))]
			tell(people[2].Event(1111, date, prose, host.Tag{"E", root.ID.String()}, host.Tag{"e", root.ID.String()}), some(root.relays), root.relays, moment)
			continue
		}
		root := people[1].Event(1621, date, prose, host.Tag{"a", addresses[i]})
		relays := some(homes[i])
		tell(root, relays, homes[i], moment)
		tell(people[2].Event(1111, date+1, prose, host.Tag{"E", root.ID.String()}, host.Tag{"e", root.ID.String()}), relays, homes[i], moment+500*time.Millisecond)
	}
	return stored, said
}

// besideBegin is when people begin to say something new: the first sync is over.
const besideBegin = time.Hour

// besideResult is what one strategy needs in a world.
type besideResult struct {
	wrong               string
	first               time.Duration // until all was here
	events, size        int           // of them
	firstRelays         relaymodel.Stats
	day                 relaymodel.Stats // of three hours in which something is said
	said, saidSize      int
	staleness, comments []time.Duration  // until what was said is here
	idle, restart       relaymodel.Stats // the rest of the first hour; all over again
}

func (w *matrixWorld) sum() (sum relaymodel.Stats) {
	for _, r := range w.relays {
		r.View(func(r *relaymodel.Relay) {
			s := r.Stats()
			sum.Connections += s.Connections
			sum.Requests += s.Requests
			sum.Comparisons += s.Comparisons
			sum.SentEvents += s.SentEvents
			sum.SentBytes += s.SentBytes
			sum.Received += s.Received
		})
	}
	return sum
}

// since is what was counted after an earlier sum.
func since(now, before relaymodel.Stats) relaymodel.Stats {
	now.Connections -= before.Connections
	now.Requests -= before.Requests
	now.Comparisons -= before.Comparisons
	now.SentEvents -= before.SentEvents
	now.SentBytes -= before.SentBytes
	now.Received -= before.Received
	return now
}

func (s side) run(w *matrixWorld, stored []matrixEvent, said []besideEvent) (r besideResult) {
	began := time.Now()
	w.say(stored)
	for _, e := range stored {
		r.events++
		r.size += len(e.JSON)
	}
	w.begin()
	if r.wrong = w.within(visit); r.wrong != "" {
		return r
	}
	r.first = time.Since(began)
	time.Sleep(30 * time.Second)
	r.firstRelays = w.sum()
	time.Sleep(besideBegin - time.Since(began))
	hour := w.sum()
	r.idle = since(hour, r.firstRelays)

	for _, e := range said {
		time.Sleep(besideBegin + e.at - time.Since(began))
		w.say([]matrixEvent{e.matrixEvent})
		r.saidSize += len(e.JSON)
	}
	if r.wrong = w.within(visit); r.wrong != "" {
		return r
	}
	time.Sleep(besideBegin + 3*time.Hour - time.Since(began))
	r.day, r.said = since(w.sum(), hour), len(said)
	for i, e := range said {
		took := w.here.StoredAt(e.ID).Sub(began.Add(besideBegin + e.at))
		r.staleness = append(r.staleness, took)
		if i > 0 && e.at == said[i-1].at+500*time.Millisecond {
			r.comments = append(r.comments, took)
		}
	}
	slices.Sort(r.staleness)
	slices.Sort(r.comments)

	before := w.sum()
	w.stop()
	time.Sleep(time.Hour)
	w.begin()
	time.Sleep(10 * time.Minute)
	r.restart = since(w.sum(), before)
	return r
}

// compare fails the test if mirror is worse than layered-v5 in a measure where it should be better.
func (s side) compare(t *testing.T, layered, mirror besideResult) {
	of := func(list []time.Duration, share int) time.Duration { return list[(len(list)-1)*share/100] }
	if took := of(mirror.comments, 90); took > 1500*time.Millisecond {
		t.Errorf("%s: a comment on a new issue takes %v", s.name, took)
	}
	if m, l := of(mirror.staleness, 99), of(layered.staleness, 99); m > l {
		t.Errorf("%s: events come after %v with mirror, %v with layered-v5", s.name, m, l)
	}
	for _, n := range []struct {
		what            string
		mirror, layered uint64
	}{
		{"a first sync", mirror.firstRelays.SentBytes, layered.firstRelays.SentBytes},
		{"three hours", mirror.day.SentBytes, layered.day.SentBytes},
		{"a restart, both ways", mirror.restart.SentBytes + mirror.restart.Received, layered.restart.SentBytes + layered.restart.Received},
	} {
		if n.mirror > n.layered+n.layered/5 {
			t.Errorf("%s: %s takes %d bytes with mirror, %d with layered-v5", s.name, n.what, n.mirror, n.layered)
		}
	}
}

func (r *besideResult) String() string {
	kB := func(n uint64) string { return fmt.Sprintf("%.0f kB", float64(n)/1000) }
	of := func(list []time.Duration, share int) time.Duration {
		return list[(len(list)-1)*share/100].Round(time.Millisecond)
	}
	return fmt.Sprintf("first sync %v, %.2f bytes a byte of events, %d of %d sent twice, %d comparisons, %d REQ, %s sent to relays; then nothing new, %s received, %s sent; "+
		"3 h: %.2f bytes a byte, staleness p50 %v p90 %v p99 %v, comment on a new issue p50 %v p90 %v, %s sent; restart %s received, %s sent",
		r.first.Round(time.Second), float64(r.firstRelays.SentBytes)/float64(r.size), int(r.firstRelays.SentEvents)-r.events, r.events, r.firstRelays.Comparisons, r.firstRelays.Requests, kB(r.firstRelays.Received), kB(r.idle.SentBytes), kB(r.idle.Received),
		float64(r.day.SentBytes)/float64(max(r.saidSize, 1)), of(r.staleness, 50), of(r.staleness, 90), of(r.staleness, 99), of(r.comments, 50), of(r.comments, 90), kB(r.day.Received),
		kB(r.restart.SentBytes), kB(r.restart.Received))
}

// TestBeside compares strategies in worlds whose events are at some of their repository's relays,
// or at all of them, in virtual time. It measures the bytes that they receive, and the delays.
// make test has half of the first world. TALON_TEST_DEVNET=1 has 1,000 repositories at 5 of 100 relays each.
func TestBeside(t *testing.T) {
	if testing.Short() || race.Detector {
		t.Skip("compiles modules, and each step runs for long under the race detector")
	}
	small := side{relays: testkit.Sized(10, 15), repos: testkit.Sized(30, 60), per: 5, roots: 5, comments: 4}
	if os.Getenv("TALON_TEST_DEVNET") != "" {
		small.relays, small.repos, small.roots = 100, 1000, 10
	}
	for _, s := range []side{
		{name: "spread", profile: "ngit-grasp"},
		{name: "everywhere", profile: "ngit-grasp", everywhere: true},
		{name: "pages", profile: "khatru"},
	} {
		s.relays, s.repos, s.per, s.roots, s.comments = small.relays, small.repos, small.per, small.roots, small.comments
		stored, said := s.stored()
		results := map[string]besideResult{}
		for _, strategy := range []string{"layered-v5", "mirror"} {
			t.Run(s.name+"/"+strategy, func(t *testing.T) {
				if s.name != "spread" && os.Getenv("TALON_TEST_DEVNET") == "" {
					testkit.Nightly(t, "the world spread has both strategies")
				}
				p := matrixProfile(t, s.profile, "")
				modules, code := matrixModules(t, "plugins/"+strategy, "")
				var r besideResult
				synctest.Test(t, func(t *testing.T) {
					w := newMatrixWorld(t, modules, code, slices.Repeat([]*relaymodel.Profile{p}, s.relays))
					defer w.close()
					r = s.run(w, stored, said)
				})
				if r.wrong != "" {
					t.Fatal(r.wrong)
				}
				t.Logf("%s", r.String())
				results[strategy] = r
			})
		}
		if len(results) == 2 {
			s.compare(t, results["layered-v5"], results["mirror"])
		}
	}
}
