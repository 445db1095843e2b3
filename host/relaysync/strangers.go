package relaysync

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"talon/host"
	"talon/host/bound"
	"talon/host/netguard"
	"talon/host/relaysync/loop"
)

// strangers limits what announcements without git data have sync do (loop.Strangers). Each network
// has a share of the relays that they bring, and of the visits to these.
type strangers struct {
	relays *bound.Pot
	visits *bound.Visits
	namer  func(announcement host.ID, author host.PubKey) bound.Namer
}

// newStrangers returns nil if nobody says who sent an announcement.
func newStrangers(connections int, namer func(announcement host.ID, author host.PubKey) bound.Namer, now func() time.Time) *strangers {
	if namer == nil {
		return nil
	}
	total := int64(max(1, connections/2))
	return &strangers{
		relays: bound.NewPot(bound.Spec{
			// As many again remain for the relays of repositories that are served.
			Name: "relays that only held announcements name", Unit: "relays", Total: total, Known: bound.KnownPart(total),
			Yields: "the network that holds most loses the relay that was named first",
		}),
		visits: bound.NewVisits("relays", now),
		namer:  namer,
	}
}

// Bounds returns the rows of the table of bounds.
func (v *Sync) Bounds() []bound.Spec {
	rows := []bound.Spec{{
		Name: "events of other relays that were refused here", Unit: "events", Total: int64(v.cfg.Limits.Refused),
		Yields: "the oldest, which the next comparison fetches once more",
	}}
	if v.strangers == nil {
		return rows
	}
	return append(append(rows, v.strangers.relays.Spec()), v.strangers.visits.Bounds()...)
}

func (s *strangers) Admit(id host.ID, author host.PubKey, evict func()) (release func(), ok bool) {
	by := s.namer(id, author)
	if s.visits.Wait(by) > 0 {
		return nil, false
	}
	// Relays of synced announcements do not displace one another: nobody tells which matter.
	if network, _ := bound.Networks(by.Addr); !network.IsValid() && !by.Known && s.relays.Used() >= s.relays.Spec().Total {
		return nil, false
	}
	hold, err := s.relays.Acquire(bound.Holder{Addr: by.Addr, Known: by.Known}, 1, evict)
	if err != nil {
		return nil, false
	}
	_ = s.visits.Reserve(by)
	return hold.Release, true
}

func (s *strangers) Wait(id host.ID, author host.PubKey) int64 {
	return milliseconds(s.visits.Wait(s.namer(id, author)))
}

func (s *strangers) Visit(id host.ID, author host.PubKey) { _ = s.visits.Reserve(s.namer(id, author)) }

// milliseconds rounds up.
func milliseconds(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}

// postponedError is the error of a connection to an address that was contacted often enough.
type postponedError struct {
	to   netip.Addr
	wait time.Duration
}

func (e *postponedError) Error() string {
	return fmt.Sprintf("%s was contacted often for announcements without git data: it is contacted again in %v", e.to, e.wait.Round(time.Second))
}

// guard returns a guard that also charges each address which it connects to.
func (s *strangers) guard(g netguard.Guard) *netguard.Guard {
	g.Charge = func(to netip.Addr) error {
		if wait := s.visits.ReserveAddress(to); wait > 0 {
			return &postponedError{to, wait}
		}
		return nil
	}
	return &g
}

// postponed returns when an address may be contacted that an error is about, 0 if it is about
// something else.
func postponed(err error) int64 {
	var p *postponedError
	if errors.As(err, &p) {
		return milliseconds(p.wait)
	}
	return 0
}

var _ loop.Strangers = (*strangers)(nil)
