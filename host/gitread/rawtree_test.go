package gitread

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// rawOf writes a tree as git does.
func rawOf(entries map[string]Entry) []byte {
	names := slices.Collect(maps.Keys(entries))
	slices.SortFunc(names, func(a, b string) int {
		key := func(name string) string {
			if entries[name].Mode == ModeTree {
				return name + "/"
			}
			return name
		}
		return strings.Compare(key(a), key(b))
	})
	var b []byte
	for _, name := range names {
		b = fmt.Appendf(b, "%o %s\x00%s", uint32(entries[name].Mode), name, entries[name].ID)
	}
	return b
}

// TestDifferences compares the names that differ with a comparison by maps.
func TestDifferences(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	modes := []Mode{ModeFile, ModeTree, ModeProgram, ModeLink}
	for range 2000 {
		a := map[string]Entry{}
		for range r.IntN(60) {
			name := fmt.Sprint("f", r.IntN(90), strings.Repeat(".x", r.IntN(2)))
			a[name] = Entry{Mode: modes[r.IntN(4)], ID: strings.Repeat(string(rune('a'+r.IntN(20))), 20)}
		}
		b := maps.Clone(a)
		for range r.IntN(4) {
			name := fmt.Sprint("f", r.IntN(90))
			if r.IntN(2) == 0 {
				delete(b, name)
			} else {
				b[name] = Entry{Mode: modes[r.IntN(4)], ID: strings.Repeat("z", 20)}
			}
		}
		want := map[string]bool{}
		for name := range a {
			if a[name] != b[name] {
				want[name] = true
			}
		}
		for name := range b {
			if a[name] != b[name] {
				want[name] = true
			}
		}
		if got := differences(rawOf(a), rawOf(b), 20); !maps.Equal(got, want) {
			t.Fatalf("%v differ, want %v", got, want)
		}
	}
}

// FuzzDifferences shows that damaged trees end.
func FuzzDifferences(f *testing.F) {
	f.Add([]byte("100644 a\x00aaaaaaaaaaaaaaaaaaaa"), []byte("100644 b\x00aaaaaaaaaaaaaaaaaaaa"))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		differences(a, b, 20)
		subtree(a, "a", 20)
		if _, err := parseTree(a, 20); err == nil && len(differences(a, a, 20)) > 0 {
			t.Errorf("%q differs from itself", a)
		}
	})
}
