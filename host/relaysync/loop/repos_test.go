package loop

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"

	"talon/host"
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
