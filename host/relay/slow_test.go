package relay

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"talon/host"
)

// TestSlowest: the longest queries of two minutes are remembered, a bounded number of them.
func TestSlowest(t *testing.T) {
	var s slowest
	now, addr := time.Unix(1_700_000_000, 0), netip.MustParseAddr("192.0.2.1")
	note := func(took time.Duration) {
		s.note(now.Add(-took), now, addr, "REQ", host.Filter{Kinds: []host.Kind{1}, Limit: -1}, host.Filter{Tags: []host.TagFilter{{Name: 't', Values: []string{strings.Repeat("é", 500)}}}})
	}
	note(slowFrom - 1)
	for i := range 3 * slowKept {
		note(slowFrom + time.Duration((7*i)%(3*slowKept))*time.Millisecond)
	}
	list := s.get(now)
	if len(list) != slowKept {
		t.Fatalf("%d are remembered, want %d", len(list), slowKept)
	}
	for i, q := range list {
		if want := slowFrom + time.Duration(3*slowKept-1-i)*time.Millisecond; q.Took != want {
			t.Errorf("%d took %v, want %v", i, q.Took, want)
		}
		if len(q.Filters) > maxSlowText || !strings.HasPrefix(q.Filters, `{"kinds":[1]} {`) {
			t.Errorf("the filters are %q", q.Filters)
		}
	}
	now = now.Add(slowFor + 1)
	note(time.Second)
	if list := s.get(now); len(list) != 1 || list[0].Took != time.Second {
		t.Errorf("after two minutes: %v", list)
	}
}
