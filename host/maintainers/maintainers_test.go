package maintainers

import (
	"context"
	"crypto/sha256"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"talon/host"
	"talon/host/memfacts"
	"talon/sdk/grasp"
)

// relay has announcements, and counts what is read of them.
type relay struct {
	stored, held []*host.Event
	read         int
	fails        error // of what is stored
}

func (r *relay) answer(list []*host.Event, f host.Filter) (texts [][]byte, err error) {
	texts = memfacts.Query(list, f)
	r.read += len(texts)
	return texts, nil
}

func (r *relay) Query(_ context.Context, f host.Filter) ([][]byte, error) {
	texts, _ := r.answer(r.stored, f)
	return texts, r.fails
}
func (r *relay) HeldBy(_ context.Context, f host.Filter) ([][]byte, error) {
	return r.answer(r.held, f)
}

func key(n int) grasp.PubKey { return grasp.PubKey{byte(n), byte(n >> 8), 1} }

// announces is an announcement of "repo" that lists maintainers.
func announces(author int, at int64, listed ...int) *host.Event {
	e := &host.Event{PubKey: key(author), Kind: grasp.KindAnnouncement, CreatedAt: at, Tags: host.Tags{{"d", "repo"}}}
	list := host.Tag{"maintainers"}
	for _, n := range listed {
		list = append(list, host.PubKey(key(n)).String())
	}
	e.Tags = append(e.Tags, list)
	e.ID = sha256.Sum256(e.AppendCanonical(nil))
	e.JSON = e.AppendJSON(nil)
	return e
}

func owners(t *testing.T, r *relay, author int) (list []Owner) {
	t.Helper()
	list, err := Owners(t.Context(), r, "repo", key(author))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestOwners(t *testing.T) {
	other := announces(9, 1, 3)
	other.Tags[0][1] = "other"
	other.JSON = other.AppendJSON(nil)
	r := &relay{
		stored: []*host.Event{announces(1, 1, 2), announces(2, 1, 3, 1), announces(4, 1, 3), announces(6, 1, 7), other},
		held:   []*host.Event{announces(3, 2, 2), announces(4, 2), announces(5, 2, 3)},
	}
	for author, want := range map[int][]Owner{
		// 3 has an announcement; 2 and 5 list it, 1 lists 2; 4 did so and does not any more.
		3: {{key(3), true}, {key(2), false}, {key(5), true}, {key(1), false}},
		7: {{key(6), false}}, // without an announcement of its own
		8: nil,
	} {
		if got := owners(t, r, author); !slices.Equal(got, want) {
			t.Errorf("%d: %v, want %v", author, got, want)
		}
	}
}

// TestOwnersAgreeWithTheRules compares with the graph of all announcements.
func TestOwnersAgreeWithTheRules(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		r := new(relay)
		var all []*grasp.Announcement
		n := 1 + rng.IntN(9)
		add := func(to *[]*host.Event, author int, at int64) {
			var listed []int
			for range rng.IntN(3) {
				listed = append(listed, rng.IntN(n+3))
			}
			e := announces(author, at, listed...)
			*to = append(*to, e)
			a, err := e.Announcement()
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, a)
		}
		for author := range n {
			switch rng.IntN(4) {
			case 0:
				add(&r.held, author, 2)
			case 1:
				add(&r.held, author, 2)
				add(&r.stored, author, 1)
			default:
				add(&r.stored, author, 1)
			}
		}
		g := grasp.NewGraph(all)
		for author := range n + 3 {
			var got []grasp.PubKey
			for _, owner := range owners(t, r, author) {
				got = append(got, owner.PubKey)
			}
			want := g.Owners(key(author))
			for _, list := range [][]grasp.PubKey{got, want} {
				slices.SortFunc(list, func(a, b grasp.PubKey) int { return slices.Compare(a[:], b[:]) })
			}
			if !slices.Equal(got, want) {
				t.Fatalf("%d: %x, want %x", author, got, want)
			}
			below, err := Below(t.Context(), r, "repo", key(author))
			if err != nil {
				t.Fatal(err)
			}
			var list []*grasp.Announcement
			for _, a := range below {
				list = append(list, a.Announcement)
			}
			if got, want := grasp.NewGraph(list).Maintainers(key(author)), g.Maintainers(key(author)); !slices.Equal(got, want) {
				t.Fatalf("maintainers of %d: %x, want %x", author, got, want)
			}
		}
	}
}

// TestStrangers: any number of announcements by strangers costs nothing, and those that
// list the author are read as far as is allowed.
func TestStrangers(t *testing.T) {
	r := &relay{stored: []*host.Event{announces(1, 1, 2, 1), announces(2, 1, 1, 2)}}
	few := owners(t, r, 2)
	read := r.read
	for i := range 3000 {
		r.held = append(r.held, announces(100+i, 5, 100+i+1))
	}
	r.read = 0
	if many := owners(t, r, 2); !slices.Equal(few, many) || r.read != read {
		t.Errorf("%v after %d reads, with strangers %v after %d", few, read, many, r.read)
	}
	r.held = nil
	for i := range 3000 {
		r.held = append(r.held, announces(100+i, 5, 2))
	}
	r.read = 0
	if many := owners(t, r, 2); len(many) > maxOwners || r.read > 10*maxListers || !slices.Equal(many[:2], few) {
		t.Errorf("%d owners after %d reads, first %v", len(many), r.read, many[:2])
	}
	// A chain has an end, and who lists very many.
	r.stored, r.held = nil, nil
	everybody := make([]int, 1000)
	for i := range 1000 {
		everybody[i] = i
		r.stored = append(r.stored, announces(i, 1, i+1))
	}
	if many := owners(t, r, 500); len(many) != maxOwners {
		t.Errorf("%d owners of a chain", len(many))
	}
	r.stored[0] = announces(0, 1, everybody...)
	below, err := Below(t.Context(), r, "repo", key(0))
	if err != nil || len(below) != maxBelow {
		t.Errorf("%d announcements below one that lists a thousand, %v", len(below), err)
	}
}

// TestFaults: a store that fails and an event that is damaged give an error, not an empty list.
func TestFaults(t *testing.T) {
	failing := &relay{stored: []*host.Event{announces(1, 1, 2)}, fails: errors.New("the disk is gone")}
	damaged := &relay{stored: []*host.Event{announces(1, 1, 2)}}
	damaged.stored[0].JSON = []byte("{")
	for _, r := range []*relay{failing, damaged} {
		if list, err := Below(t.Context(), r, "repo", key(1)); err == nil {
			t.Errorf("from the owner down: %v", list)
		}
	}
	if list, err := Owners(t.Context(), failing, "repo", key(2)); !errors.Is(err, failing.fails) {
		t.Errorf("from the maintainer up: %v, %v", list, err)
	}
}

// TestLongChain has 1,000 announcements of which each lists the next, and in one case the last one
// the first. A walk up or down reads a bounded part of them, and the rules follow all.
func TestLongChain(t *testing.T) {
	const chain = 1000
	for _, closed := range []bool{false, true} {
		r := new(relay)
		for i := range chain {
			var next []int
			if i+1 < chain || closed {
				next = []int{(i + 1) % chain}
			}
			r.held = append(r.held, announces(i, int64(i+1), next...))
		}
		if n := len(owners(t, r, chain-1)); n == 0 || n > maxOwners {
			t.Errorf("closed %v: %d owners of the last one's work were found, want some and at most %d", closed, n, maxOwners)
		}
		if n := r.read; n > 8*maxOwners {
			t.Errorf("closed %v: %d announcements were read for the owners", closed, n)
		}
		r.read = 0
		below, err := Below(t.Context(), r, "repo", key(0))
		if err != nil {
			t.Fatal(err)
		}
		if n := len(below); n == 0 || n > 2*maxBelow || r.read > 4*maxBelow {
			t.Errorf("closed %v: %d announcements were found from the first one down, and %d read", closed, n, r.read)
		}
		var all []*grasp.Announcement
		for _, e := range r.held {
			a, err := e.Announcement()
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, a)
		}
		if n := len(grasp.NewGraph(all).Maintainers(key(0))); n != chain {
			t.Errorf("closed %v: the first one's repository has %d maintainers, want %d", closed, n, chain)
		}
	}
}

// release serves what a relay holds as soon as it has answered with it.
type release struct{ relay }

func (r *release) HeldBy(ctx context.Context, f host.Filter) ([][]byte, error) {
	texts, err := r.relay.HeldBy(ctx, f)
	r.stored, r.held = append(r.stored, r.held...), nil
	return texts, err
}

// TestReadAllDuringRelease: an event that is released between the two questions comes once.
func TestReadAllDuringRelease(t *testing.T) {
	r := &release{relay{stored: []*host.Event{announces(1, 1)}, held: []*host.Event{announces(2, 2)}}}
	f := host.Filter{Kinds: []host.Kind{grasp.KindAnnouncement}, Limit: 10}
	came := make(map[grasp.PubKey]int)
	err := ReadAll(t.Context(), r, f, func(e *host.Event, held bool) {
		came[e.PubKey]++
		if held {
			t.Errorf("%x is stored, and came as held", e.PubKey[:2])
		}
	})
	if err != nil || came[key(1)] != 1 || came[key(2)] != 1 {
		t.Errorf("events came %v, %v; want each once", came, err)
	}
}
