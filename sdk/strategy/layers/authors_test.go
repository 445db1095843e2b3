package layers

import (
	"encoding/binary"
	"testing"

	"talon/sdk/strategy"
)

// A repository keeps the authors who spoke last, and all repositories together have a bound. The
// index tells relays of those who give way before it uses their numbers again.
func TestAuthorsAreBounded(t *testing.T) {
	var x Index
	var dropped, freed Set
	x.Drop = func(_ uint32, gone Items) { dropped.AddSet(gone.Authors) }
	x.freed = func(gone Items) { freed.AddSet(gone.Authors) }
	x.Reset(1)
	const repos = 100
	at := int64(0)
	for n := range repos {
		address := "30617:ab:" + string(rune('a'+n))
		x.SetRepo(address, strategy.LevelFull, textsOf("wss://a"), nil)
		repo, _ := x.Repo(address)
		for k := range 400 {
			at++
			key := [32]byte{}
			binary.BigEndian.PutUint32(key[:], uint32(400*n+k))
			x.search = maxSearched
			x.AddAuthor(repo, &key, at)
		}
		if count := x.repos[repo].authors.Len(); count > MaxAuthorsOfRepo {
			t.Fatalf("a repository has %d authors", count)
		}
		last := [32]byte{}
		binary.BigEndian.PutUint32(last[:], uint32(400*n+399))
		if number, _, ok := x.authors.find(&last); !ok || !x.repos[repo].authors.Has(number) {
			t.Fatalf("repository %d lost the author who spoke last", n)
		}
	}
	for n := range x.repos { // a stranger with many keys does not take the room of other repositories
		if count := x.repos[n].authors.Len(); count < MaxAuthors/repos/4 {
			t.Errorf("repository %d has %d authors", n, count)
		}
	}
	if x.authors.used > MaxAuthors || x.authors.used < MaxAuthors/2 {
		t.Errorf("%d authors", x.authors.used)
	}
	if dropped.Empty() || freed.Empty() {
		t.Error("nobody was told that authors gave way")
	}
	for n := range repos {
		x.RemoveRepo("30617:ab:" + string(rune('a'+n)))
	}
	if x.authors.used != 0 {
		t.Errorf("%d authors of repositories that are gone", x.authors.used)
	}
}
