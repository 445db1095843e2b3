package main

import (
	"strconv"
	"testing"
)

func TestTexts(t *testing.T) {
	set := newTexts("0")
	for n := 1; n < 3*fewTexts; n++ {
		next := strconv.Itoa(n)
		if set.has(next) {
			t.Errorf("%s is there before it was added", next)
		}
		set.add(next)
		set.add("0")
		for i := range n + 1 {
			if !set.has(strconv.Itoa(i)) {
				t.Errorf("of %d texts, %d is missing", n+1, i)
			}
		}
	}
	if len(set.few)+len(set.many) != 3*fewTexts {
		t.Errorf("%d and %d texts, want %d", len(set.few), len(set.many), 3*fewTexts)
	}
}
