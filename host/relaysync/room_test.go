package relaysync_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"talon/host"
	"talon/host/relaymodel"
	"talon/host/relaysync"
	"talon/internal/race"
	"talon/internal/testkit"
)

// olderTalon is a Talon that has room for some values, and says so in the words of a rate limit.
const olderTalon = `
info.nips = [1, 9, 11, 42, 77]
info.limitation = { max_message_length = 3145728, max_subscriptions = 64, max_filters = 20, max_limit = 5000%s }
limits.subscriptions = 64
limits.filters = 20
limits.subscription-values = %d
limits.limit = 5000
limits.default-limit = 500
limits.message-bytes = 3145728
refuse.subscriptions = { by = "closed", text = "rate-limited: too many subscriptions on this connection, close one first" }
refuse.subscription-values = { by = "closed", text = "rate-limited: the subscriptions of this connection hold too many values, close one first" }
`

// roomRelays are relays with too little room for subscriptions to everything, by their number of
// root events: whether they compare, how many values older Talons take, and the profile.
func roomRelays(values int) map[string]struct{ base, keys string } {
	return map[string]struct{ base, keys string }{
		"talon":                      {"strfry", fmt.Sprintf(olderTalon, fmt.Sprintf(", max_subscription_values = %d", values), values)},
		"talon that does not say it": {"strfry", fmt.Sprintf(olderTalon, "", values)},
		"strfry with 10 and 20": {"strfry", `
info.limitation = { max_message_length = 131072, max_subscriptions = 10, max_limit = 500 }
limits.subscriptions = 10
limits.filters = 20
`},
		"nostream": {"nostream", ""},
	}
}

// roomScale is the number of repositories, of root events of each, and of values.
type roomScale struct{ repos, roots, values int }

// TestRoom: a relay that has no room for subscriptions to everything has what is recent within
// seconds, and all the rest within one check. The operator sees that not everything has a
// subscription. TALON_TEST_DEVNET=1 has more root events than any relay takes, in one repository
// and in a thousand. make test has layered-v5 at strfry alone.
func TestRoom(t *testing.T) {
	if testing.Short() || race.Detector {
		t.Skip("compiles modules, and each step runs for long under the race detector")
	}
	// A fetch may hold 1,000 values at once, so that fewer may be learnt than there are.
	scales := []roomScale{{8, 150, 2_000}}
	if os.Getenv("TALON_TEST_DEVNET") != "" {
		scales = []roomScale{{1, 20_000, 20_000}, {1000, 50, 20_000}}
	}
	for _, scale := range scales {
		said := newRoomEvents(scale)
		for _, strategy := range []string{"mirror", "layered-v5"} {
			// Little fits in a filter where there is little in all.
			config := ""
			if scale.values < 20_000 {
				config = "values_per_filter = 10"
			}
			modules, code := matrixModules(t, "plugins/"+strategy, config)
			for name, r := range roomRelays(scale.values) {
				t.Run(fmt.Sprintf("%s/%s/%d×%d", strategy, name, scale.repos, scale.roots), func(t *testing.T) {
					if strategy != "mirror" && name != "strfry with 10 and 20" && len(scales) == 1 {
						testkit.Nightly(t, "mirror is tried at this relay")
					}
					p := matrixProfile(t, r.base, r.keys)
					synctest.Test(t, func(t *testing.T) { said.run(t, modules, code, p) })
				})
			}
		}
	}
}

// roomEvents are what is said in a world with one relay.
type roomEvents struct {
	stored []matrixEvent
	issues []*host.Event // the oldest first
	who    *testkit.Signer
}

func newRoomEvents(s roomScale) *roomEvents {
	m := &roomEvents{who: testkit.NewSigner(21)}
	at := int64(matrixBegin - 10_000_000)
	say := func(kind host.Kind, tags ...host.Tag) *host.Event {
		at += 60
		e := m.who.Event(kind, at, "", tags...)
		m.stored = append(m.stored, matrixEvent{e, []int{0}, []int{0}})
		return e
	}
	var addresses []string
	for i := range s.repos {
		d := fmt.Sprintf("repo-%d", i)
		e := say(30617, host.Tag{"d", d}, host.Tag{"clone", "https://" + ownDomain + "/x/" + d + ".git"}, host.Tag{"relays", "wss://" + ownDomain, matrixURL(0)})
		a, _ := e.Address()
		addresses = append(addresses, a.String())
	}
	for range s.roots {
		for _, a := range addresses {
			m.issues = append(m.issues, say(1621, host.Tag{"a", a}))
		}
	}
	return m
}

// run lets Talon sync with the relay, and measures how late things come.
func (m *roomEvents) run(t *testing.T, modules, code string, p *relaymodel.Profile) {
	w := newMatrixWorld(t, modules, code, []*relaymodel.Profile{p})
	defer w.close()
	w.say(m.stored)
	w.begin()
	began := time.Now()
	if wrong := w.within(2 * time.Hour); wrong != "" {
		t.Fatal("first sync: ", wrong, w.warnings)
	}
	t.Logf("everything is here after %v", time.Since(began))
	time.Sleep(5 * time.Minute) // relays that had not said their limits are connected to again

	// comment says something about an issue, and returns how long that takes to come.
	n := 0
	comment := func(issue *host.Event, limit time.Duration) time.Duration {
		n++
		e := m.who.Event(1111, time.Now().Unix(), fmt.Sprint("comment ", n), host.Tag{"E", issue.ID.String()}, host.Tag{"e", issue.ID.String()})
		w.say([]matrixEvent{{e, []int{0}, []int{0}}})
		began := time.Now()
		for time.Since(began) < limit && !w.here.Has(e.ID) {
			time.Sleep(min(max(time.Since(began)/20, 50*time.Millisecond), 10*time.Second))
		}
		return time.Since(began)
	}
	var recent []time.Duration
	for _, issue := range m.issues[len(m.issues)-100:] {
		recent = append(recent, comment(issue, time.Hour))
	}
	slices.Sort(recent)
	if p99 := recent[98]; p99 > 5*time.Second {
		t.Errorf("comments on recent issues take %v (p99)%s", p99, w.warnings)
	}
	check := time.Hour
	if p.Negentropy.Supported {
		check = 30 * time.Minute
	}
	old := comment(m.issues[0], 3*time.Hour)
	if old > check+5*time.Minute {
		t.Errorf("a comment on an old issue takes %v, want one check of %v at most%s", old, check, w.warnings)
	}
	time.Sleep(10 * time.Second)
	again, soon := comment(m.issues[0], 3*time.Hour), 5*time.Second
	if p.Rate.Messages.PerMinute > 0 {
		soon = 5 * time.Minute // it says "rate limited" while the others are asked for
	}
	if again > soon {
		t.Errorf("the next comment on it takes %v: it has no subscription%s", again, w.warnings)
	}
	t.Logf("comments on recent issues: p99 %v; on an old one: %v, then %v", recent[98], old, again)

	// A subscription that is opened again, to a relay that takes few messages, counts again when it is open.
	var r relaysync.RelaySnapshot
	for began := time.Now(); ; time.Sleep(time.Second) {
		st, err := w.strategy.sync.Status(context.Background(), relaysync.Query{})
		if err != nil {
			t.Fatal(err)
		}
		if r = st.Relays[0]; r.Uncovered == nil || r.Uncovered.Repositories == 0 || time.Since(began) > time.Minute {
			break
		}
	}
	if r.Uncovered == nil || r.Uncovered.Roots == 0 || r.Uncovered.Repositories != 0 || !r.Complete.IsZero() || r.Uncovered.Since.After(time.Now().Add(-5*time.Minute)) {
		t.Errorf("status says uncovered %+v, complete since %v", r.Uncovered, r.Complete)
	}
	if n := w.connections(0); n > 2 || r.State != relaysync.StateConnected {
		t.Errorf("%d connections; it is %s", n, r.State)
	}
	t.Logf("%d subscriptions with %d filters; no subscription for %+v", r.Subscriptions, r.Filters, *r.Uncovered)
}
