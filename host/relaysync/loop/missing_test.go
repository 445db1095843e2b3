package loop

import (
	"fmt"
	"strings"
	"testing"

	"talon/host/relaysync/session"
)

// A relay that lacks much is one line an hour, with what was found since the last one.
func TestMissingAtRelays(t *testing.T) {
	m, s := newMissing(), new(Loop)
	add := func(relay string, count uint32, repos ...string) func() {
		return func() { m.add(relay, count, &session.MissingAtRelay{Repositories: repos}) }
	}
	for i, step := range []struct {
		after int64
		do    func()
		want  string
	}{
		{0, add("wss://a", 2, "repo"), "[relay wss://a count 2 repo repo]"},
		{0, add("wss://a", 3, "repo"), ""},
		{0, add("wss://b", 1, "one", "two"), "[relay wss://b count 1 repos 2]"},
		{missingEvery - 1, add("wss://a", 4), ""},
		{1, func() {}, "[relay wss://a count 7 comparisons 2]"},
		{0, add("wss://b", 1), "[relay wss://b count 1]"},
		{missingEvery, func() {}, ""},
	} {
		s.clock += step.after
		step.do()
		m.log(s)
		got := ""
		for _, e := range s.Effects() {
			attrs := e.(Log).Attrs
			got += fmt.Sprint(append(attrs[:4:4], attrs[6:]...)) // all but the event
		}
		if strings.TrimSpace(got) != step.want {
			t.Errorf("step %d: %q, want %q", i, got, step.want)
		}
	}
	if len(m.relays) != 0 {
		t.Errorf("%d relays are kept that lack nothing", len(m.relays))
	}
}
