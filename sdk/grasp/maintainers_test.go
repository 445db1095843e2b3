package grasp

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// lists returns an announcement by author, which lists others as maintainers.
func lists(t testing.TB, author int, at int64, others ...int) *Announcement {
	t.Helper()
	tag := "maintainers"
	for _, other := range others {
		tag += " " + hexString(key(other))
	}
	return announcement(t, author, at, tag)
}

func keys(numbers ...int) (keys []PubKey) {
	for _, n := range numbers {
		keys = append(keys, key(n))
	}
	return keys
}

func TestMaintainers(t *testing.T) {
	g := NewGraph([]*Announcement{
		lists(t, 1, 1, 2, 3),    // depth-first: 2 and what is behind it come before 3
		lists(t, 2, 1, 4, 1),    // a cycle
		lists(t, 4, 1, 4, 5),    // 5 has no announcement of its own
		lists(t, 6, 1, 1),       // outside: lists 1, nobody lists it
		lists(t, 7, 1),          // alone
		lists(t, 8, 1, 7, 8, 8), // itself
		lists(t, 9, 2, 7),
		lists(t, 9, 1, 5),  // older: does not count
		lists(t, 10, 1, 5), // replaced
		lists(t, 10, 2, 7),
	})
	for owner, want := range map[int][]PubKey{
		1: keys(1, 2, 4, 5, 3), 2: keys(2, 4, 5, 1, 3), 4: keys(4, 5), 6: keys(6, 1, 2, 4, 5, 3), 7: keys(7), 8: keys(8, 7), 9: keys(9, 7), 10: keys(10, 7),
		3: nil, 5: nil, 99: nil, // no announcement: no repository
	} {
		if got := g.Maintainers(key(owner)); !slices.Equal(got, want) {
			t.Errorf("maintainers of %d: %x, want %x", owner, got, want)
		}
	}
	for author, want := range map[int][]PubKey{
		1: keys(1, 2, 6), 3: keys(1, 2, 6), 5: keys(1, 2, 4, 6), 6: keys(6), 7: keys(7, 8, 9, 10), 99: nil,
	} {
		if got := g.Owners(key(author)); !slices.Equal(got, want) {
			t.Errorf("owners that trust %d: %x, want %x", author, got, want)
		}
	}
	if empty := NewGraph(nil); empty.Maintainers(key(1)) != nil || empty.Owners(key(1)) != nil {
		t.Error("an empty graph has maintainers")
	}
}

// TestMaintainersOfOneIdentifier checks that announcements of another identifier have no effect.
func TestMaintainersOfOneIdentifier(t *testing.T) {
	other := lists(t, 2, 1, 3)
	other.Identifier = "other"
	g := NewGraph([]*Announcement{lists(t, 1, 1, 2), other})
	if got := g.Maintainers(key(1)); !slices.Equal(got, keys(1, 2)) {
		t.Errorf("got %x", got)
	}
}

// Owners and Maintainers say the same of any graph.
func TestOwnersAgreeWithMaintainers(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		n := 1 + rng.IntN(12)
		var announcements []*Announcement
		for author := range n {
			var others []int
			for range rng.IntN(3) {
				others = append(others, rng.IntN(n+3))
			}
			announcements = append(announcements, lists(t, author, 1, others...))
		}
		g := NewGraph(announcements)
		for author := range n + 3 {
			for owner := range n {
				in := slices.Contains(g.Maintainers(key(owner)), key(author))
				if slices.Contains(g.Owners(key(author)), key(owner)) != in {
					t.Fatalf("%d in the set of %d: %v", author, owner, in)
				}
			}
		}
	}
}

func TestAdmitState(t *testing.T) {
	g := NewGraph([]*Announcement{lists(t, 1, 1, 2), lists(t, 3, 1, 1)})
	if owners, reason := AdmitState(state(t, 2, 1), g); !slices.Equal(owners, keys(1, 3)) || reason != "" {
		t.Errorf("a maintainer: %x, %q", owners, reason)
	}
	if owners, reason := AdmitState(state(t, 4, 1), g); owners != nil || reason != "invalid: author not authorized for this repository" {
		t.Errorf("a stranger: %x, %q", owners, reason)
	}
	for _, none := range []*Graph{nil, NewGraph(nil)} {
		if owners, reason := AdmitState(state(t, 1, 1), none); owners != nil || reason != "invalid: no announcement exists for this repository" {
			t.Errorf("nothing announced: %x, %q", owners, reason)
		}
	}
}

// A chain of a thousand, and a thousand who all list each other.
func TestHugeGraphs(t *testing.T) {
	var chain []*Announcement
	for i := range 1000 {
		chain = append(chain, lists(t, i, 1, i+1))
	}
	if got := len(NewGraph(chain).Maintainers(key(0))); got != 1001 {
		t.Errorf("chain: %d", got)
	}
	if got := len(NewGraph(everyone(t, 1000)).Maintainers(key(0))); got != 1000 {
		t.Errorf("everyone: %d", got)
	}
}

// everyone returns announcements of n authors who all list each other.
func everyone(t testing.TB, n int) (announcements []*Announcement) {
	var values []string
	for i := range n {
		values = append(values, hexString(key(i)))
	}
	full := announcement(t, 0, 1, "maintainers "+strings.Join(values, " "))
	for i := range n {
		a := *full
		a.PubKey = key(i)
		announcements = append(announcements, &a)
	}
	return announcements
}
