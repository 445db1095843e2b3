package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"talon/sdk/grasp"
)

// A run of talon event push must give back the refs that its own states took from others.
func TestLostTo(t *testing.T) {
	for name, test := range map[string]struct {
		states string // author, time and refs of each, in the order in which they took effect
		lost   string
	}{
		"nothing happened":                  {"b1 main=1", ""},
		"a state of its own":                {"b1 main=1 | a2 main=1 x=9", ""},
		"nobody between":                    {"b1 main=1 | b2 main=2 | a3 main=2 x=9", ""},
		"a new branch":                      {"b1 main=1 | b2 main=1 y=5 | a3 main=1 x=9", "y -> 5"},
		"a branch that moved":               {"b1 main=1 | b2 main=2 | a3 main=1 x=9", "main 1 -> 2"},
		"a branch that went":                {"b1 main=1 y=5 | b2 main=1 | a3 main=1 y=5 x=9", "y 5 -> "},
		"HEAD":                              {"b1 main=1 HEAD=main | b2 main=1 HEAD=y | a3 main=1 HEAD=main x=9", "HEAD main -> y"},
		"its own ref moves":                 {"b1 x=1 | b2 x=2 | a3 x=9", ""},
		"given back":                        {"b1 main=1 | b2 main=1 y=5 | a3 main=1 x=9 | a4 main=1 x=9 y=5", ""},
		"given back by others":              {"b1 main=1 | b2 main=1 y=5 | a3 main=1 x=9 | b4 main=1 x=9 y=5", ""},
		"changed by others":                 {"b1 main=1 | b2 main=1 y=5 | a3 main=1 x=9 | b4 main=1 x=9 y=6", ""},
		"lost, and another state since":     {"b1 main=1 | b2 main=1 y=5 | a3 main=1 x=9 | b4 main=1 x=9 z=7", "y -> 5"},
		"a branch that came and went":       {"b1 main=1 y=5 | b2 main=1 | b3 main=1 y=5 | a4 main=1 x=9", "y -> 5"},
		"a branch that went back":           {"b1 main=1 | b2 main=2 | b3 main=1 | a4 main=2 x=9", ""},
		"lost by two":                       {"b1 main=1 | b2 main=1 y=5 | a3 main=1 x=9 | a4 main=1 x=8", "y -> 5"},
		"lost in two steps":                 {"b1 y=1 | b2 y=5 | a3 y=1 x=9 | b4 y=1 x=9 | a5 x=9", "y -> 5"},
		"another lost it":                   {"b1 main=1 | a2 main=1 x=9 | b3 main=1 y=5", ""},
		"a stranger's state":                {"b1 main=1 | s2 main=1 y=5 | a3 main=1 x=9", ""},
		"a state that came late":            {"b1 main=1 | b3 main=1 | b2 main=1 y=5 | a4 main=1 x=9", ""},
		"a state without refs says nothing": {"b1 main=1 y=5 | b2 | a3 main=1 x=9", "y -> 5"},
	} {
		t.Run(name, func(t *testing.T) {
			var states []*grasp.State
			for i, text := range strings.Split(test.states, " | ") {
				words := strings.Fields(text)
				s := &grasp.State{Stamp: grasp.Stamp{ID: grasp.ID{byte(i), words[0][0]}, PubKey: grasp.PubKey{words[0][0] / 's'}, CreatedAt: int64(words[0][1])}}
				for _, word := range words[1:] {
					ref, object, _ := strings.Cut(word, "=")
					if ref == headKey {
						s.Head = object
					} else {
						s.Refs = append(s.Refs, grasp.Ref{Name: ref, Object: object})
					}
				}
				states = append(states, s)
			}
			lost := lostTo(states, []grasp.PubKey{{0}}, func(id grasp.ID) bool { return id[1] == 'a' }, func(ref string) bool { return ref == "x" })
			var list []string
			for _, ref := range slices.Sorted(maps.Keys(lost)) {
				list = append(list, strings.ReplaceAll(fmt.Sprintf("%s %s -> %s", ref, lost[ref].has, lost[ref].want), "  ", " "))
			}
			if got := strings.Join(list, ", "); got != test.lost {
				t.Errorf("%q, want %q", got, test.lost)
			}
		})
	}
}
