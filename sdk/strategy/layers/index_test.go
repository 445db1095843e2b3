package layers

import (
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
	full   bool
	relays []string
	roots  map[[32]byte]bool
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
		switch r := model[address]; random.IntN(8) {
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
				r = &plainRepo{roots: make(map[[32]byte]bool)}
				model[address] = r
			}
			r.full, r.relays = level == strategy.LevelFull, relays
			x.SetRepo(address, level, textsOf(append(relays, "wss://own")...), func(url string) bool { return url == "wss://own" })
		case 1:
			if random.IntN(3) == 0 {
				delete(model, address)
				x.RemoveRepo(address)
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
		wantRepos, wantRoots := map[string]bool{}, map[[32]byte]bool{}
		for address, r := range model {
			if r.full && slices.Contains(r.relays, url) {
				wantRepos[address] = true
				maps.Copy(wantRoots, r.roots)
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
			gotRepos, gotRoots := map[string]bool{}, map[[32]byte]bool{}
			for n := range items.Repos.All() {
				gotRepos[x.Address(n)] = true
			}
			for n := range items.Roots.All() {
				gotRoots[*x.Root(n)] = true
			}
			if !maps.Equal(gotRepos, wantRepos) || !maps.Equal(gotRoots, wantRoots) {
				t.Fatalf("step %d: %s of %s: %d repositories and %d roots, want %d and %d",
					step, what, url, len(gotRepos), len(gotRoots), len(wantRepos), len(wantRoots))
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
