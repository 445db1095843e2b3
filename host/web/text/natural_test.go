package text

import (
	"slices"
	"testing"
)

// Numbers in names count as numbers.
func TestNatural(t *testing.T) {
	want := []string{"", "10", "a", "v1.0", "v1.2", "v1.9", "v1.10", "v1.10-rc", "v002", "v2", "v2.0", "v010.1"}
	got := slices.Clone(want)
	slices.Reverse(got)
	slices.SortFunc(got, Natural)
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	if Natural("v01", "v1") == 0 || Natural("a1", "a1") != 0 {
		t.Error("names that differ are equal")
	}
}
