package abi

import (
	"strings"
	"testing"
)

func TestHexes(t *testing.T) {
	var h Hexes
	var all []string
	for i := range 100 {
		all = append(all, h.Add(&[32]byte{byte(i), 0xab}))
	}
	for i, s := range all {
		if want := string("0123456789abcdef"[i>>4]) + string("0123456789abcdef"[i&15]) + "ab" + strings.Repeat("0", 60); s != want {
			t.Errorf("%d is written %s, want %s", i, s, want)
		}
	}
	if n := testing.AllocsPerRun(10, func() {
		h.Reset()
		for range 100 {
			h.Add(&[32]byte{1})
		}
	}); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}
