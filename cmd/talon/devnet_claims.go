package main

import (
	"context"

	"talon/cmd/internal/devnet"
	"talon/host"
	"talon/host/admin"
	"talon/host/relaysync"
)

// claims compares what Talon says of its sync (talon sync status) with what it lacks.
type claims struct {
	server *admin.Client // nil: there is no Talon that can be asked
	lacked map[claim]int // looks in a row
}

// claim says that Talon lacks an event of a relay that it calls complete.
type claim struct {
	relay int
	event host.ID
}

// claimLooks is how many looks in a row show that a claim is wrong: a live event is on its way
// for a moment.
const claimLooks = 10

// claimMoment is what one look found of the claims.
type claimMoment struct {
	asked    bool
	complete map[string]bool // relays that Talon calls complete, by URL
	wrong    int             // relays of these that have an event which Talon has lacked for claimLooks looks
}

// check asks Talon. Events that Talon holds for their git data are not served, so nothing is said
// while it looks for some.
func (c *claims) check(ctx context.Context, n *devnet.Net, lacks []host.ID) claimMoment {
	if c.server == nil {
		return claimMoment{}
	}
	status, err := c.server.Sync(ctx, relaysync.Query{Limit: 1000})
	if err != nil {
		return claimMoment{} // it has just been started, or ends
	}
	m := claimMoment{asked: true, complete: map[string]bool{}}
	for i := range status.Relays {
		r := &status.Relays[i]
		m.complete[r.Relay] = !r.Complete.IsZero()
	}
	hunt, err := c.server.Hunt(ctx, 1)
	if err != nil || len(hunt.Repositories) > 0 || hunt.Requests > 0 {
		c.lacked = nil
		return m
	}
	m.wrong = c.count(lacks, func(id host.ID) (relays []int) {
		_, all := n.Event(id)
		for _, k := range all {
			if m.complete[n.Relays[k].URL] {
				relays = append(relays, k)
			}
		}
		return relays
	})
	return m
}

// count notes what Talon lacks of relays that it calls complete, and returns how many relays have
// an event that it has lacked for claimLooks looks.
func (c *claims) count(lacks []host.ID, of func(host.ID) (relays []int)) int {
	lacked, wrong := map[claim]int{}, map[int]bool{}
	for _, id := range lacks {
		for _, k := range of(id) {
			at := claim{k, id}
			if lacked[at] = c.lacked[at] + 1; lacked[at] >= claimLooks {
				wrong[k] = true
			}
		}
	}
	c.lacked = lacked
	return len(wrong)
}
