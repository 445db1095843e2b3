package session

import (
	"bytes"

	"talon/host"
	"talon/host/negentropy"
	"talon/host/relaysync/holdings"
)

// Offer says what a comparison offers of the local events that match a filter. If the relay was
// compared for most of the filter, it is what the relay is believed to hold: two sets that are alike
// cost next to nothing, and events beyond them come as a list of ids. Offer reports this as within.
// Otherwise it is all but what the relay lacks by an earlier comparison of another tag. A comparison
// that pushes offers everything.
func (b *Build) Offer(relay *holdings.Set, push bool) (within bool) {
	if push {
		return false
	}
	if within = relay.Knows(&b.Filter); within {
		view := relay.View()
		b.Within = &view
		return true
	}
	lacked := relay.Lacked()
	b.Without = &lacked
	return false
}

// HoldsAll reports whether the relay is believed to hold all of a set, which is not empty. Then one
// fingerprint is most likely enough.
func HoldsAll(relay *holdings.Set, set *negentropy.Set) bool {
	view, all := relay.View(), set.Len() > 0
	set.Each(func(it negentropy.Item) { all = all && view.Has(it.ID) })
	return all
}

// Outside is what a [Build] has left out by Within or Without: stored and held events.
type Outside struct {
	Count int
	First host.ID // the least
}

// LocalSet gathers the answer to a [Build].
type LocalSet struct {
	build   *Build
	items   negentropy.Builder
	outside Outside
}

// NewLocalSet returns the answer to a Build without events.
func NewLocalSet(b *Build) *LocalSet { return &LocalSet{build: b} }

// Add notes an event that is stored or held here.
func (l *LocalSet) Add(createdAt int64, id host.ID) {
	if l.offers(id) {
		l.addItem(createdAt, id)
		return
	}
	if o := &l.outside; o.Count == 0 || bytes.Compare(id[:], o.First[:]) < 0 {
		o.First = id
	}
	l.outside.Count++
}

// AddRefused notes an event that was refused here.
func (l *LocalSet) AddRefused(createdAt int64, id host.ID) {
	if l.offers(id) {
		l.addItem(createdAt, id)
	}
}

// offers reports whether a local event is offered.
func (l *LocalSet) offers(id host.ID) bool {
	b := l.build
	return (b.Within == nil || b.Within.Has(id)) && (b.Without == nil || !b.Without.Has(id))
}

// addItem adds an event with a date that the protocol can write.
func (l *LocalSet) addItem(createdAt int64, id host.ID) {
	if createdAt >= 0 {
		l.items.Add(negentropy.Item{CreatedAt: uint64(createdAt), ID: id})
	}
}

// Built returns what was gathered.
func (l *LocalSet) Built() (*negentropy.Set, Outside) { return l.items.Build(), l.outside }
