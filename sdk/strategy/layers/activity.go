package layers

import (
	"math"

	"talon/sdk/abi"
	"talon/sdk/strategy"
)

// Touch notes activity about a root event, in unix seconds, and returns its number; false if it
// has none.
func (x *Index) Touch(id *[32]byte, at int64) (root uint32, ok bool) {
	n, _, known := x.roots.find(id)
	if !known {
		return 0, false
	}
	at = min(max(at, 0), math.MaxUint32)
	x.roots.dates[n] = max(x.roots.dates[n], uint32(at))
	return n, true
}

// Newest divides root events in the n with the latest activity and the others. Of roots with
// equal dates the higher number counts as later.
func (x *Index) Newest(roots Set, n int) (latest, others Set) { return newest(x.roots.dates, roots, n) }

// newest divides numbers in the n with the latest dates and the others.
func newest(dates []uint32, roots Set, n int) (newest, others Set) {
	if roots.Len() <= n {
		return roots, Set{}
	}
	// The earliest date among the newest is found byte by byte. left are those of that date.
	from, left, equal := uint32(0), n, 0
	for shift := 24; shift >= 0; shift -= 8 {
		var counts [256]int
		for root := range roots.All() {
			if d := dates[root]; uint64(d)>>(shift+8) == uint64(from)>>(shift+8) {
				counts[byte(d>>shift)]++
			}
		}
		b := 255
		for ; b > 0 && counts[b] < left; b-- {
			left -= counts[b]
		}
		from |= uint32(b) << shift
		equal = counts[b]
	}
	early := equal - left // of those of that date
	for root := range roots.All() {
		switch d := dates[root]; {
		case d > from:
			newest.push(root)
		case d == from && early == 0:
			newest.push(root)
		case d == from:
			early--
			others.push(root)
		default:
			others.push(root)
		}
	}
	return newest, others
}

// after returns the root events whose latest activity is after a date, in unix seconds.
func (x *Index) after(roots Set, date int64) (later Set) {
	for root := range roots.All() {
		if int64(x.roots.dates[root]) > date {
			later.push(root)
		}
	}
	return later
}

// push adds a number that is higher than all others.
func (s *Set) push(n uint32) {
	if last := len(s.spans) - 1; last >= 0 && s.spans[last].to == n {
		s.spans[last].to++
		return
	}
	s.spans = append(s.spans, span{n, n + 1})
}

// meanDate returns the mean date of root events.
func (x *Index) meanDate(roots Set) int64 {
	sum, n := int64(0), int64(0)
	for root := range roots.All() {
		sum += int64(x.roots.dates[root])
		n++
	}
	return sum / max(n, 1)
}

// active takes root events with new events about them. It opens subscriptions for those without
// one, and fetches their missed events.
func (d *Driver) active(a abi.RootActivityView) {
	var roots Set
	dates := a.Latest()
	for i := range a.NumRoots() {
		if !dates.Next() {
			break
		}
		id := a.Root(i)
		if n, ok := d.Index.Touch(&id, min(int64(dates.Latest()), d.budget.now/1000)); ok {
			roots.Add(n)
		}
	}
	if d.set.Authors {
		d.authorsActive(a)
	}
	if roots.Empty() {
		return
	}
	for p := range d.Peers {
		p.heed(Items{Roots: roots})
	}
}

// authorsActive takes the authors of new events about root events.
func (d *Driver) authorsActive(a abi.RootActivityView) {
	roots, dates := a.AuthorRoots(), a.Latest()
	d.Index.search = maxSearched
	var latest []uint32
	for dates.Next() {
		latest = append(latest, dates.Latest())
	}
	for i := range a.NumAuthors() {
		if !roots.Next() {
			break
		}
		root := int(roots.AuthorRoot())
		if root >= a.NumRoots() || root >= len(latest) {
			continue
		}
		id, key := a.Root(root), a.Author(i)
		d.Index.saidAbout(&id, &key, min(int64(latest[root]), d.budget.now/1000))
	}
	for relay := range d.Index.moreAuthors.All() {
		if p := d.peer(relay); p != nil && p.byAuthors {
			d.Index.Touched.Add(relay)
		}
	}
	d.Index.moreAuthors = Set{}
	d.moreWanted(false)
}

// heed subscribes to polled items that are more recent than items with a subscription.
func (p *Peer) heed(items Items) {
	items = p.unheard.Items.common(items)
	if p.Covered().inLayers() >= p.room(true) {
		least, date := p.stalest()
		if least == nil {
			return
		}
		items.Roots = p.driver.Index.after(items.Roots, date)
	}
	if items.Empty() {
		return
	}
	items = items.Clone()
	p.unheard.Items.RemoveItems(items)
	p.opens(&opening{content: Of(items.Clone()), Opening: Opening{Live: true}, which: allParts})
	p.fetches(&job{
		content: Of(items), which: allParts,
		Fetching: Fetching{Method: p.driver.set.Method, Since: p.driver.since(p.polled), Purpose: strategy.PurposeLive},
	})
}
