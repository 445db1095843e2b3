package loop_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"talon/host"
	"talon/host/relaysync/loop"
	"talon/internal/testkit"
	"talon/sdk/abi"
)

// The strategy gets what comments are about, in one input for many of them, with the date of the
// latest and with the authors. An event that tags thousands of others costs no more than a few.
func TestActivity(t *testing.T) {
	who, other := testkit.NewSigner(3), testkit.NewSigner(4)
	names := map[host.PubKey]string{who.PubKey: "who", other.PubKey: "other"}
	var got [][]string
	n := newNetwork(t, func(v *abi.StepView) []abi.StepAction {
		if v.Kind == abi.InputRootActivity {
			a := v.RootActivity()
			var list []string
			dates := a.Latest()
			for i := range a.NumRoots() {
				dates.Next()
				id := a.Root(i)
				list = append(list, fmt.Sprintf("%x %d", id[:1], dates.Latest()))
			}
			roots := a.AuthorRoots()
			for i := 0; roots.Next(); i++ {
				id, key := a.Root(int(roots.AuthorRoot())), host.PubKey(a.Author(i))
				list = append(list, fmt.Sprintf("%x by %s", id[:1], names[key]))
			}
			got = append(got, list)
		}
		return nil
	})
	id := func(b byte) string { return fmt.Sprintf("%02x", b) + strings.Repeat("00", 31) }
	say := func(at int64, tags ...[]string) {
		e := who.Event(1111, at, "a comment", tags...)
		n.loop.Changed(n.clock.Now(), []loop.Change{{Event: e, Kind: loop.Stored, First: true}})
		n.turn()
	}
	say(100, []string{"E", id(1)}, []string{"e", id(2)}, []string{"p", id(3)}, []string{"e", "short"})
	say(90, []string{"q", id(1)})
	for _, kind := range []host.Kind{5, 1618, 7} {
		e := other.Event(kind, 95, "deletions and root events are deleted by what they tag", []string{"e", id(2)})
		n.loop.Changed(n.clock.Now(), []loop.Change{{Event: e, Kind: loop.Stored, First: true}})
	}
	many := [][]string{}
	for i := range 3000 {
		many = append(many, []string{"e", fmt.Sprintf("%064x", i+1<<20)})
	}
	if n.pass(2000); len(got) != 1 || !slices.Equal(slices.Sorted(slices.Values(got[0])), []string{"01 100", "01 by who", "02 100", "02 by other", "02 by who"}) {
		t.Errorf("it gets %q", got)
	}
	say(110, many...)
	if n.pass(2000); len(got) != 2 || len(got[1]) > 32 {
		t.Errorf("it gets %d inputs, and of one event %d ids", len(got), len(got[len(got)-1]))
	}
	if n.pass(600_000); len(got) != 2 {
		t.Errorf("it gets %q with nothing new", got[2:])
	}
}

// A relay without room for everything is not complete. The operator sees how much that is
// and since when, across connections; the log has one line.
func TestUncovered(t *testing.T) {
	r := &remote{url: "wss://r.example", latency: 20}
	uncovered := func(n uint32) abi.StepAction {
		return abi.StepAction{Do: abi.DoUncovered, Relay: r.url, Repositories: 1, Roots: n}
	}
	n := newNetwork(t, func(v *abi.StepView) []abi.StepAction {
		switch v.Kind {
		case abi.InputInit:
			return []abi.StepAction{connectTo(r.url)}
		case abi.InputRelayConnected:
			return []abi.StepAction{live(r.url, "l", 1), uncovered(300), {Do: abi.DoSetTimer, ID: "t", At: v.Now + 1_000_000}}
		case abi.InputTimerFired:
			return []abi.StepAction{{Do: abi.DoUncovered, Relay: r.url}}
		}
		return nil
	}, r)
	n.pass(60_000)
	began := n.clock.Now() - 60_000
	look := func() loop.RelayStatus { return n.loop.Status()[0] }
	st := look()
	since := st.UncoveredSince
	if st.UncoveredRoots != 300 || st.UncoveredRepositories != 1 || since < began || st.CompleteSince != 0 || st.Pending != 0 {
		t.Errorf("status %+v", st)
	}
	r.setAway(true)
	n.pass(1000)
	r.setAway(false)
	n.pass(120_000)
	if st = look(); !st.Up || st.UncoveredRoots != 300 || st.UncoveredSince != since {
		t.Errorf("after an outage: %+v, want since %d", st, since)
	}
	n.pass(2_000_000)
	if st = look(); st.UncoveredRoots != 0 || st.UncoveredSince != 0 || st.CompleteSince == 0 {
		t.Errorf("with room for all: %+v", st)
	}
	lines := slices.DeleteFunc(slices.Clone(n.log), func(s string) bool { return !strings.Contains(s, "no room for subscriptions") })
	if len(lines) != 1 {
		t.Errorf("the log says %q", lines)
	}
}
