package known

import (
	"cmp"
	"encoding/binary"
	"slices"

	"talon/host"
	"talon/host/relaysync/match"
)

// Refusals are written in pages, each of those with so many numbers in a row, so that what is
// new is written without the rest.
const pageSize = 1024

// page returns the page of a refusal.
func page(number uint64) uint64 { return number / pageSize }

// Pages returns, whole, the pages of refusals that have changed since Pages was called last,
// by their numbers. Those below first need not be kept.
func (k *Set) Pages(now int64) (pages map[uint64][]byte, first uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	from := page(k.written)
	pages = make(map[uint64][]byte)
	first = page(k.numbered + pageSize - 1) // the next one
	for r := k.oldest; r != nil; r = r.next {
		if now-r.at >= k.age || k.refused[r.digest.ID] != r {
			continue
		}
		p := page(r.number)
		first = min(first, p)
		if p < from || k.written == k.numbered {
			continue
		}
		b := binary.AppendVarint(pages[p], r.at)
		pages[p] = r.digest.Append(b)
	}
	k.written = k.numbered
	return pages, first
}

// Unwritten has Pages return all of them: the last ones were not written.
func (k *Set) Unwritten() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.written = k.numbered
	if k.oldest != nil {
		k.written = k.oldest.number
	}
}

// Restore takes pages that were written before a restart, by the same key and for the same
// policies. A page that cannot be read is passed over. It is called before anything is
// refused.
//
// What would have had an event tried again is not known any more. So one that is restored is
// forgotten, and with it fetched again, when something arrives that it may have waited for.
func (k *Set) Restore(pages map[uint64][]byte, now int64) {
	numbers := make([]uint64, 0, len(pages))
	for p := range pages {
		numbers = append(numbers, p)
	}
	slices.Sort(numbers)
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, p := range numbers {
		k.numbered = p * pageSize
		for b := pages[p]; len(b) > 0; {
			at, n := binary.Varint(b)
			if n <= 0 {
				break
			}
			d, rest, ok := match.Decode(b[n:])
			if !ok {
				break
			}
			b = rest
			if at > now || now-at >= k.age || k.here.has(d.ID) || k.refused[d.ID] != nil {
				continue
			}
			k.refuseLocked(&refusal{digest: d, at: at})
			for _, mark := range d.Waits() {
				k.restored = append(k.restored, waiting{mark, d.ID})
			}
		}
		k.numbered = (p + 1) * pageSize
	}
	k.written = k.numbered
	k.restoredAt = now
	slices.SortFunc(k.restored, func(a, b waiting) int { return cmp.Compare(a.mark, b.mark) })
}

// waiting is what a restored event may wait for.
type waiting struct {
	mark uint32
	id   host.ID
}

// Arrived forgets restored refusals of events that may have waited for one that was accepted.
func (k *Set) Arrived(e *host.Event, now int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.restored == nil {
		return
	}
	if now-k.restoredAt >= k.age {
		k.restored = nil // they are forgotten by now
		return
	}
	marks, ids := k.hash.Answers(e)
	for _, mark := range marks {
		at, _ := slices.BinarySearchFunc(k.restored, mark, func(w waiting, mark uint32) int { return cmp.Compare(w.mark, mark) })
		for _, w := range k.restored[at:] {
			if w.mark != mark {
				break
			}
			k.forgetRestored(w.id)
		}
	}
	for _, id := range ids {
		k.forgetRestored(id)
	}
}

// forgetRestored forgets the refusal of an event, unless it was refused since. REQUIRES: mu.
func (k *Set) forgetRestored(id host.ID) {
	if r := k.refused[id]; r != nil && r.at <= k.restoredAt {
		delete(k.refused, id) // its place in the order stays until it is old
	}
}
