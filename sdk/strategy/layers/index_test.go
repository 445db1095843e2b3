package layers

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"talon/sdk/strategy"
)

// texts are views of a list.
type texts struct {
	list []string
	at   int
}

func textsOf(list ...string) *texts { return &texts{list: list, at: -1} }

func (v *texts) Next() bool {
	v.at++
	return v.at < len(v.list)
}

func (v *texts) Text() string { return v.list[v.at] }

type plainRepo struct {
	full    bool
	relays  []string
	roots   map[[32]byte]bool
	authors map[[32]byte]bool
}

// TestIndexAgainstMaps does the same to an index and to plain maps. A mirror for
// each relay takes what Touched and Drop tell, as a strategy does, and must always
// be what is wanted.
func TestIndexAgainstMaps(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var x Index
	mirrors := make(map[uint32]*Items)
	mirror := func(relay uint32) *Items {
		if mirrors[relay] == nil {
			mirrors[relay] = &Items{}
		}
		return mirrors[relay]
	}
	x.Drop = func(relay uint32, gone Items) { mirror(relay).RemoveItems(gone) }
	x.Reset(7)
	model := make(map[string]*plainRepo)
	for step := range 20_000 {
		address := fmt.Sprintf("30617:ab:%d", random.IntN(12))
		switch r := model[address]; random.IntN(9) {
		case 0:
			var relays []string
			for _, i := range random.Perm(6)[:random.IntN(4)] {
				relays = append(relays, fmt.Sprintf("wss://%d", i))
			}
			level := uint32(strategy.LevelFull)
			if random.IntN(4) == 0 {
				level = strategy.LevelState
			}
			if r == nil {
				r = &plainRepo{roots: make(map[[32]byte]bool), authors: make(map[[32]byte]bool)}
				model[address] = r
			}
			r.full, r.relays = level == strategy.LevelFull, relays
			x.SetRepo(address, level, textsOf(append(relays, "wss://own")...), func(url string) bool { return url == "wss://own" })
		case 1:
			if random.IntN(3) == 0 {
				delete(model, address)
				x.RemoveRepo(address)
			}
		case 2:
			// Somebody said something about a root event: that counts for each repository that has it.
			id, key := [32]byte{31: byte(random.IntN(100))}, [32]byte{30: byte(random.IntN(100))}
			x.search = maxSearched
			x.saidAbout(&id, &key, int64(step))
			x.Touched.AddSet(x.moreAuthors)
			x.moreAuthors = Set{}
			for _, r := range model {
				if r.roots[id] {
					r.authors[key] = true
				}
			}
		default:
			id := [32]byte{31: byte(random.IntN(100))}
			if r != nil {
				r.roots[id] = true
			}
			x.AddRoot(address, &id)
		}
		for relay := range x.Touched.All() {
			m := mirror(relay)
			m.AddItems(Plan(x.Targets(relay), Items{}, *m))
		}
		x.Touched = Set{}
		if step%10 == 0 {
			compareIndex(t, step, &x, model, mirrors)
		}
	}
}

func compareIndex(t *testing.T, step int, x *Index, model map[string]*plainRepo, mirrors map[uint32]*Items) {
	t.Helper()
	roots := make(map[[32]byte]bool)
	for _, r := range model {
		maps.Copy(roots, r.roots)
	}
	if repos, n := x.Size(); repos != len(model) || n != len(roots) {
		t.Fatalf("step %d: %d repositories and %d roots, want %d and %d", step, repos, n, len(model), len(roots))
	}
	for i := range 6 {
		url := fmt.Sprintf("wss://%d", i)
		wantRepos, wantRoots, wantAuthors := map[string]bool{}, map[[32]byte]bool{}, map[[32]byte]bool{}
		for address, r := range model {
			if r.full && slices.Contains(r.relays, url) {
				wantRepos[address] = true
				maps.Copy(wantRoots, r.roots)
				maps.Copy(wantAuthors, r.authors)
			}
		}
		relay, ok := x.Find(url)
		if !ok {
			continue
		}
		held := Items{}
		if mirrors[relay] != nil {
			held = *mirrors[relay]
		}
		for what, items := range map[string]Items{"targets": x.Targets(relay), "a mirror": held} {
			gotRepos, gotRoots, gotAuthors := map[string]bool{}, map[[32]byte]bool{}, map[[32]byte]bool{}
			for n := range items.Repos.All() {
				gotRepos[x.Address(n)] = true
			}
			for n := range items.Roots.All() {
				gotRoots[*x.Root(n)] = true
			}
			for n := range items.Authors.All() {
				gotAuthors[*x.Author(n)] = true
			}
			if !maps.Equal(gotRepos, wantRepos) || !maps.Equal(gotRoots, wantRoots) || !maps.Equal(gotAuthors, wantAuthors) {
				t.Fatalf("step %d: %s of %s: %d repositories, %d roots and %d authors, want %d, %d and %d",
					step, what, url, len(gotRepos), len(gotRoots), len(gotAuthors), len(wantRepos), len(wantRoots), len(wantAuthors))
			}
		}
	}
}

// TestRelaysOfRepoAreBounded: an announcement may list as many relays as it likes.
func TestRelaysOfRepoAreBounded(t *testing.T) {
	var x Index
	x.Reset(1)
	many := make([]string, 1000)
	for i := range many {
		many[i] = fmt.Sprintf("wss://%d", i)
	}
	x.SetRepo("30617:ab:x", strategy.LevelFull, textsOf(many...), nil)
	if x.Touched.Len() != MaxRelaysOfRepo {
		t.Errorf("%d relays, want %d", x.Touched.Len(), MaxRelaysOfRepo)
	}
	x.SetRepo("30617:ab:x", strategy.LevelFull, textsOf(), nil)
	for n := range uint32(MaxRelaysOfRepo) {
		x.Forget(n)
	}
	if len(x.byURL) != 0 {
		t.Errorf("%d relays are left", len(x.byURL))
	}
}

// TestRootsAgainstMap adds, finds and drops ids, enough that all of the table grows.
func TestRootsAgainstMap(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	r := roots{seed: 3}
	model := make(map[[32]byte]uint32)
	id := func() (id [32]byte) {
		binary.LittleEndian.PutUint64(id[:], random.Uint64N(20_000))
		return id
	}
	for step := range 100_000 {
		id := id()
		n, free, known := r.find(&id)
		want, has := model[id]
		if known != has || known && n != want {
			t.Fatalf("step %d: %d, %v, want %d, %v", step, n, known, want, has)
		}
		switch {
		case !known:
			n = r.add(&id, free)
			if *r.id(n) != id {
				t.Fatalf("step %d: the number stands for something else", step)
			}
			model[id] = n
		case step%3 == 0:
			r.drop(n)
			delete(model, id)
		}
		if r.used != len(model) {
			t.Fatalf("step %d: %d, want %d", step, r.used, len(model))
		}
	}
	slots, limit := 0, 0
	for i := range r.table {
		slots += len(r.table[i].slots)
		limit = max(limit, len(r.table[i].slots))
		if len(r.table[i].slots) <= 16 {
			t.Errorf("segment %d never grew", i)
		}
	}
	if slots > 3*len(model) {
		t.Errorf("%d slots for %d ids", slots, len(model))
	}
	if limit > slots/segments*4 {
		t.Errorf("one segment has %d slots of %d: a step in which it grows costs too much", limit, slots)
	}
}

// TestSetAgainstMap does the same to sets and to maps.
func TestSetAgainstMap(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	type both struct {
		set   Set
		model map[uint32]bool
	}
	sets := make([]both, 4)
	for i := range sets {
		sets[i].model = make(map[uint32]bool)
	}
	for step := range 20_000 {
		a, b := &sets[random.IntN(len(sets))], &sets[random.IntN(len(sets))]
		shared, before := a.set, slices.Collect(a.set.All())
		switch random.IntN(5) {
		case 0, 1:
			n := random.Uint32N(200)
			shared = Set{}
			a.set.Add(n)
			a.model[n] = true
		case 2:
			a.set.AddSet(b.set)
			maps.Copy(a.model, b.model)
		case 3:
			other := b.set.Clone()
			model := maps.Clone(b.model)
			a.set.Remove(other)
			maps.DeleteFunc(a.model, func(n uint32, _ bool) bool { return model[n] })
		case 4:
			limit := random.IntN(20)
			shared, a.set = Set{}, a.set.Clone()
			taken := a.set.Take(limit)
			lowest := before[:min(limit, len(before))]
			if got := slices.Collect(taken.All()); !slices.Equal(got, lowest) {
				t.Fatalf("step %d: took %v, want %v", step, got, lowest)
			}
			for _, n := range lowest {
				delete(a.model, n)
			}
		}
		if !shared.Empty() && !slices.Equal(slices.Collect(shared.All()), before) {
			t.Fatalf("step %d: a copy has changed", step)
		}
		want := slices.Sorted(maps.Keys(a.model))
		if got := slices.Collect(a.set.All()); !slices.Equal(got, want) || a.set.Len() != len(want) || a.set.Empty() != (len(want) == 0) {
			t.Fatalf("step %d: %v, want %v", step, got, want)
		}
		if n := random.Uint32N(200); a.set.Has(n) != a.model[n] {
			t.Fatalf("step %d: Has(%d) is %v", step, n, a.set.Has(n))
		}
		for i := 1; i < len(a.set.spans); i++ {
			if a.set.spans[i-1].to >= a.set.spans[i].from {
				t.Fatalf("step %d: spans %v touch", step, a.set.spans)
			}
		}
	}
}

func TestSpansOfBits(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 2000 {
		words, want := make([]uint64, 6), Set{}
		for range random.IntN(12) {
			from := random.Uint32N(384)
			for n := from; n < min(384, from+random.Uint32N(100)); n++ {
				words[n/64] |= 1 << (n % 64)
				want.Add(n)
			}
		}
		if got := spansOf(words, 0, 5); !slices.Equal(got.spans, want.spans) {
			t.Fatalf("%v, want %v", got.spans, want.spans)
		}
		if slices.Max(words) != 0 {
			t.Fatal("bits are left")
		}
	}
}

func TestPlan(t *testing.T) {
	wanted := Items{Repos: SetOf(1, 2, 3), Roots: SetOf(1, 2, 3, 4, 5)}
	got := Plan(wanted, Items{Repos: SetOf(1), Roots: SetOf(2)}, Items{Repos: SetOf(3, 9), Roots: SetOf(4, 5)})
	if !slices.Equal(slices.Collect(got.Repos.All()), []uint32{2}) || !slices.Equal(slices.Collect(got.Roots.All()), []uint32{1, 3}) {
		t.Errorf("%v", got)
	}
}

// TestTimersAgainstMap takes points in time in their order.
func TestTimersAgainstMap(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var timers Timers
	timers.reset()
	model := make(map[uint64]int64)
	for now := int64(1); now < 30_000; now++ {
		key, at := random.Uint64N(50), now+random.Int64N(300)
		switch random.IntN(4) {
		case 0:
			timers.Stop(key)
			delete(model, key)
		case 1:
			timers.Sooner(key, at)
			if before, ok := model[key]; !ok || at < before {
				model[key] = at
			}
		default:
			timers.Set(key, at)
			model[key] = at
		}
		var last due
		for {
			key, ok := timers.Take(now)
			if !ok {
				break
			}
			d := due{model[key], key}
			if d.at == 0 || d.at > now || d.before(last) {
				t.Fatalf("at %d: %v after %v", now, d, last)
			}
			delete(model, key)
			last = d
		}
		for key, at := range model {
			if at <= now {
				t.Fatalf("at %d: %d of %d was not taken", now, key, at)
			}
		}
		if len(timers.heap) > 300 {
			t.Fatalf("%d entries for %d points in time", len(timers.heap), len(model))
		}
	}
}
