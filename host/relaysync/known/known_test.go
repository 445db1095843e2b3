package known

import (
	"testing"

	"talon/host"
	"talon/host/relaysync/match"
)

// What the policy before refused while another took its place is not remembered.
func TestRefusedBeforeInvalidate(t *testing.T) {
	k := New(match.NewHash(1, 2), 10, 100)
	list := []*host.Event{{ID: host.ID{1}}, {ID: host.ID{2}}, {ID: host.ID{3}}}
	const epoch = 1_700_000_000
	k.Refuse(list[0], epoch, k.MarkInFlight(list[0].ID, "wss://x"))
	generation := k.MarkInFlight(list[1].ID, "wss://x")
	k.Invalidate()
	k.Refuse(list[1], epoch, generation)
	k.Refuse(list[2], epoch, k.MarkInFlight(list[2].ID, "wss://x"))
	for i, want := range []bool{false, false, true} {
		if got := k.Has(list[i].ID, epoch); got != want {
			t.Errorf("event %d is known: %v", i, got)
		}
	}
}
