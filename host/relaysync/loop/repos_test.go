package loop

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"

	"talon/host"
	"talon/host/relaysync/known"
	"talon/host/relaysync/match"
)

// storedEvents are events that a store has, newest first.
type storedEvents struct {
	quiet
	events []*host.Event
}

func (s storedEvents) Query(f host.Filter) (texts [][]byte, err error) {
	for _, e := range s.events {
		if len(texts) < f.Limit && f.Matches(e) {
			texts = append(texts, e.AppendJSON(nil))
		}
	}
	return texts, nil
}

// Page by page each event comes once, however many are of one second.
func TestEachEvent(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 1))
		var s storedEvents
		for second := int64(r.IntN(3)); len(s.events) < r.IntN(4*eachPage); second++ {
			for range []int{1, 3, eachPage - 1, eachPage, eachPage + 1, 3 * eachPage}[r.IntN(6)] {
				e := &host.Event{CreatedAt: second, Kind: 1}
				binary.BigEndian.PutUint64(e.ID[:], r.Uint64())
				s.events = append(s.events, e)
			}
		}
		slices.SortFunc(s.events, func(a, b *host.Event) int {
			if a.Before(b) {
				return -1
			}
			return 1
		})
		var got []host.ID
		l := &Loop{deps: Deps{Facts: s}}
		if err := l.eachEvent(host.Filter{Limit: -1}, func(e *host.Event) { got = append(got, e.ID) }); err != nil {
			t.Fatal(err)
		}
		if !slices.EqualFunc(got, s.events, func(id host.ID, e *host.Event) bool { return id == e.ID }) {
			t.Errorf("seed %d: %d events came of %d, or in another order", seed, len(got), len(s.events))
		}
	}
}

// An event of a relay that expires in purgatory is decided again after a pause. Events
// of users, announcements and stored events are not.
func TestExpiredAgain(t *testing.T) {
	o := openLoop(t)
	k := known.New(match.NewHash(1, 2), 10, 3600)
	event := func(n byte, kind host.Kind) *host.Event {
		e := &host.Event{ID: host.ID{n}, Kind: kind, CreatedAt: o.now / 1000, Tags: host.Tags{{"d", string(rune('a' + n))}}}
		e.JSON = e.AppendJSON(nil)
		return e
	}
	fates := func(status host.HeldStatus, list ...*host.Event) {
		var held []host.HeldChange
		for _, e := range list {
			held = append(held, host.HeldChange{Event: e, Status: status, Synced: status == host.StatusHeld && e.ID[0] != 2})
		}
		o.Changed(o.now, Followed(k, o.now/1000, nil, held))
	}
	state, sent, announcement, stored := event(1, 30618), event(2, 30618), event(3, 30617), event(4, 1618)
	for _, e := range []*host.Event{state, announcement, stored} {
		k.MarkInFlight(e.ID, openedRelay)
	}
	fates(host.StatusHeld, state, sent, announcement, stored)
	o.now += 30 * minute
	fates(host.StatusExpired, state, sent, announcement)
	fates(host.StatusReleased, stored)
	o.Changed(o.now, Published(k, o.now/1000, []host.Published{{Event: stored, Seq: 1}}))
	again := func() (list []Resubmit) {
		o.Turn(o.now)
		for _, e := range o.Effects() {
			if r, ok := e.(Resubmit); ok {
				list = append(list, r)
			}
		}
		return list
	}
	o.now += 30*minute - 1000
	if list := again(); len(list) > 0 {
		t.Errorf("after 59 minutes %v are decided again", list)
	}
	o.now += 1000
	if list := again(); len(list) != 1 || list[0] != (Resubmit{state, openedRelay}) {
		t.Errorf("after an hour %v are decided again", list)
	}
	// The pipeline is busy: it is decided later.
	o.Retried(o.now, Retry{Event: state, Relay: openedRelay, Failed: true})
	fates(host.StatusHeld, state)
	fates(host.StatusExpired, state)
	o.now += 61 * minute
	if list := again(); len(list) != 1 || list[0].Event != state {
		t.Errorf("after two hours %v are decided again", list)
	}
}
