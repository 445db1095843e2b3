package world

import (
	"math"
	"slices"
	"strings"
	"testing"

	"talon/cmd/internal/lab/scenario"
	"talon/host"
	"talon/sdk/grasp"
)

func drawn(t *testing.T, name string, seed uint64) *World {
	t.Helper()
	s, _, err := scenario.Builtin(name)
	if err != nil {
		t.Fatal(err)
	}
	return Draw(s, seed)
}

// Equal seeds draw equal worlds, and each wanted event is at an honest relay.
func TestDraw(t *testing.T) {
	for _, name := range []string{"small", "liars", "late", "policy", "git"} {
		a, b := drawn(t, name, 7), drawn(t, name, 7)
		if len(a.Events) != len(b.Events) || len(a.Faults) != len(b.Faults) {
			t.Fatalf("%s: two worlds of one seed differ", name)
		}
		seen := map[host.ID]bool{}
		for i, e := range a.Events {
			if e.ID != b.Events[i].ID || !slices.Equal(e.Copies, b.Events[i].Copies) {
				t.Fatalf("%s: event %d differs between two worlds of one seed", name, i)
			}
			if Verify(e.Event) != nil || seen[e.ID] {
				t.Errorf("%s: event %d is forged, or there twice", name, i)
			}
			seen[e.ID] = true
			honest := slices.ContainsFunc(e.Copies, func(c Copy) bool { return int(c.Place) < len(a.Relays) && a.Relays[c.Place].Honest })
			if e.Repo != nil && !honest {
				t.Errorf("%s: event %d of kind %d is at no honest relay", name, i, e.Kind)
			}
			if i > 0 && e.At < a.Events[i-1].At {
				t.Errorf("%s: event %d is out of order", name, i)
			}
		}
		if other := drawn(t, name, 8); other.Events[0].ID == a.Events[0].ID {
			t.Errorf("%s: two seeds draw the same", name)
		}
	}
}

// Each repository names an honest git server, and what is pushed reaches one: none has it
// before the push. A server more changes no event of others.
func TestGit(t *testing.T) {
	w := drawn(t, "git", 3)
	states, unpushed := 0, 0
	for _, e := range w.Events {
		if e.Data == nil {
			continue
		}
		if states++; len(e.Data.Servers) == 0 {
			unpushed++
		}
		if e.Data.At < e.At || e.Data.Bytes <= 0 {
			t.Fatalf("event %d: its data are %+v", e.Number, e.Data)
		}
		for _, g := range e.Data.Servers {
			if w.Git[g].Lying || !slices.Contains(e.Repo.Git, g) {
				t.Fatalf("event %d: its data are at %s", e.Number, w.Git[g].Name)
			}
		}
	}
	if share := float64(unpushed) / float64(states); share < 0.02 || share > 0.08 {
		t.Errorf("%d of %d states are not pushed, want about 4 %%", unpushed, states)
	}
	if at := w.Git[0].Domain; at != "dying-0.example" || len(w.Git) != 12 {
		t.Errorf("%d servers, the first is %s", len(w.Git), at)
	}
	fewer, err := w.Scenario.With("git.home.outage-every", "0s")
	if err != nil {
		t.Fatal(err)
	}
	other := Draw(fewer, 3)
	if len(other.Faults) >= len(w.Faults) || len(other.Events) != len(w.Events) || other.Events[len(w.Events)-1].ID != w.Events[len(w.Events)-1].ID {
		t.Error("without outages of git servers, events differ, or outages do not")
	}
}

// A change of one thing that is drawn leaves the others as they are.
func TestStreams(t *testing.T) {
	s, _, err := scenario.Builtin("small")
	if err != nil {
		t.Fatal(err)
	}
	more, err := s.With("relays.khatru.outage-every", "1h")
	if err != nil {
		t.Fatal(err)
	}
	a, b := Draw(s, 3), Draw(more, 3)
	if len(b.Faults) <= len(a.Faults) || len(a.Events) != len(b.Events) {
		t.Fatalf("%d faults and %d events, then %d and %d", len(a.Faults), len(a.Events), len(b.Faults), len(b.Events))
	}
	for i := range a.Events {
		if a.Events[i].ID != b.Events[i].ID {
			t.Fatalf("event %d is another one when there are more outages", i)
		}
	}
}

// Only one version of what is replaced lasts.
func TestVersions(t *testing.T) {
	w := drawn(t, "late", 1)
	lasting := map[string]int{}
	for _, e := range w.Events {
		if a, ok := e.Address(); ok {
			lasting[a.String()] += 0
			if e.Ended == 0 {
				lasting[a.String()]++
			}
		}
	}
	gone := map[string]bool{}
	for _, r := range w.Repos {
		gone[r.Address] = r.Gone > 0
		gone[strings.Replace(r.Address, "30617:", "30618:", 1)] = r.Gone > 0
	}
	for address, n := range lasting {
		if gone[address] {
			n++
		}
		if n != 1 {
			t.Errorf("%d versions of %s last, want 1", n, address)
		}
	}
}

// A forged event is found, by its id or its signature.
func TestVerify(t *testing.T) {
	e := *drawn(t, "small", 1).Events[0].Event
	for _, change := range []func(*host.Event){
		func(e *host.Event) { e.ID[0] ^= 1 },
		func(e *host.Event) { e.Sig[63] ^= 1 },
		func(e *host.Event) { e.Content += "x" },
	} {
		forged := e
		if change(&forged); Verify(&forged) == nil {
			t.Error("a forged event is taken for a right one")
		}
	}
}

// The functions that do not depend on the processor are right to a hundredth.
func TestFunctions(t *testing.T) {
	for x := -8.0; x <= 8; x += 0.37 {
		if got, want := exp(x), math.Exp(x); math.Abs(got/want-1) > 0.01 {
			t.Errorf("exp(%v) = %v, want %v", x, got, want)
		}
		if got := ln(math.Exp(x)); math.Abs(got-x) > 1e-9*max(1, math.Abs(x)) {
			t.Errorf("ln(e^%v) = %v", x, got)
		}
	}
	s := newStream(1, "test")
	var sum, squares float64
	const n = 20_000
	for range n {
		x := s.normal()
		sum += x
		squares += x * x
	}
	if mean, variance := sum/n, squares/n; math.Abs(mean) > 0.05 || math.Abs(variance-1) > 0.05 {
		t.Errorf("the bell curve has mean %v and variance %v", mean, variance)
	}
}

func TestUpFor(t *testing.T) {
	r := &Relay{Away: union([]Away{{50, 60}, {10, 20}, {15, 30}})}
	if got := r.UpFor(0, 100); got != 70 {
		t.Errorf("up for %d of 100, want 70", got)
	}
	for now, want := range map[int64]int64{5: 0, 15: 15, 40: 30, 55: 55, 100: 60} {
		if got := r.UpSince(now); got != want {
			t.Errorf("at %d up since %d, want %d", now, got, want)
		}
	}
}

// The numbers of copies are as often as their weights say. Measured latencies and outages are those of
// the relays, in turn.
func TestMeasuredWorld(t *testing.T) {
	s, err := drawn(t, "copies", 1).Scenario.With("publishers.copies", "[60, 0, 40]", "relays.strfry.latencies", `"x,0,30\nx,10m,90\ny,0,5"`, "relays.strfry.outages", `"x,60,90,503\ny,5m,6m"`, "relays.strfry.jitter", "0")
	if err != nil {
		t.Fatal(err)
	}
	w := Draw(s, 3)
	counts := map[int]int{}
	for _, e := range w.Events {
		if e.At >= 0 && e.Kind != 30617 {
			counts[len(e.Copies)]++
		}
	}
	if all := counts[1] + counts[3]; counts[2] > 0 || all < 1000 || float64(counts[1])/float64(all) < 0.55 || float64(counts[1])/float64(all) > 0.65 {
		t.Errorf("numbers of copies: %v, want 60 and 40 percent with 1 and 3", counts)
	}
	for relay, want := range map[int][2]int64{0: {30, 90}, 1: {5, 5}, 2: {30, 90}} {
		if r := w.Relays[relay]; r.LatencyAt(0) != want[0] || r.LatencyAt(600_000) != want[1] {
			t.Errorf("relay %d: latencies %d and %d, want %v", relay, r.LatencyAt(0), r.LatencyAt(600_000), want)
		}
	}
	if got, want := w.Relays[2].Away, []Away{{60_000, 90_000}}; !slices.Equal(got, want) || w.Faults[0].Status != 503 {
		t.Errorf("outages %v, status %d, want %v and 503", got, w.Faults[0].Status, want)
	}
}

// Keys of repositories make what a devnet needs: other maintainers' states, more refs, pull requests with a
// commit, statuses, and repositories that list no Talon.
func TestRepositoriesInFull(t *testing.T) {
	s, err := drawn(t, "git", 1).Scenario.With(
		"repositories.keepers", "0.5", "repositories.more-refs", "3", "repositories.pulls", "0.5", "repositories.statuses", "0.4", "repositories.elsewhere", "7", "repositories.roots", "400")
	if err != nil {
		t.Fatal(err)
	}
	w := Draw(s, 2)
	kept, elsewhere, pulls, statuses, comments, roots := 0, 0, 0, 0, 0, 0
	for _, r := range w.Repos {
		if len(r.Talons) == 0 {
			elsewhere++
		}
		if r.keeper != w.OwnerKey(r) {
			kept++
		}
	}
	for _, e := range w.Events {
		switch {
		case e.Kind == grasp.KindState:
			if e.PubKey != e.Repo.keeper || len(e.Tags) != 6 || e.Data == nil {
				t.Fatalf("a state of %s: %v", e.PubKey, e.Tags)
			}
		case e.At >= 0:
		case e.Kind == grasp.KindPullRequest:
			if pulls++; e.Data == nil || len(e.Data.Servers) != 1 || w.Git[e.Data.Servers[0]].Lying {
				t.Fatalf("a pull request has the data %+v", e.Data)
			}
			fallthrough
		case e.Kind == grasp.KindIssue, e.Kind == grasp.KindPatch:
			roots++
		case e.Kind >= grasp.KindOpen && e.Kind <= grasp.KindOpen+3:
			statuses++
		case e.Kind == grasp.KindComment:
			comments++
		}
	}
	share := func(n, of int) float64 { return float64(n) / float64(max(of, 1)) }
	if elsewhere < 7 || kept == 0 || kept == len(w.Repos) || share(pulls, roots) < 0.4 || share(pulls, roots) > 0.6 || share(statuses, statuses+comments) < 0.3 {
		t.Errorf("%d repositories elsewhere, %d of %d kept, %d of %d roots are pull requests, %d statuses and %d comments", elsewhere, kept, len(w.Repos), pulls, roots, statuses, comments)
	}
}
