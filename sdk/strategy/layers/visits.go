package layers

import (
	"cmp"
	"slices"

	"talon/sdk/strategy"
)

// Relays for which there is no connection are visited: some places are kept for them, and
// go round. A visitor that everything has been fetched from, or that takes too long, gives
// its place to the relay whose last visit is longest ago.

// maxVisit is how long a visit lasts at most, in looks at connections. One look passes in
// any case.
const maxVisit = 10

func (d *Driver) visitors() (count int) {
	for p := range d.Peers {
		if p.wanted && p.visitor {
			count++
		}
	}
	return count
}

// firstVisit is the time in which relays are visited that never were, if half of the
// places are enough for that.
const firstVisit = 30 * strategy.Minute

// visitSlots returns the number of places that relays without a place of their own share in turn.
// It is large enough to visit each of them once in the configured time, and sooner for the first
// time. A visit takes two looks. list has the relays that wait for a place.
func (d *Driver) visitSlots(list []*Peer, wanted, visitors int) int {
	room, all := d.freeConnections(), wanted+len(list)
	if d.set.Visit <= 0 || all <= room || room < 2 {
		return 0
	}
	fresh := wanted - room // that find no free place
	for _, p := range list {
		if p.visit == 0 && p.failures == 0 {
			fresh++
		}
	}
	in := func(guests int, time int64) int { return int((int64(guests)*2*d.set.Check + time - 1) / time) }
	// At least one relay has no place of its own. The relay that shares its place with it has none
	// either.
	need := max(1, in(max(len(list)+visitors, all-room+1), d.set.Visit))
	if fresh > 0 {
		need = max(need, in(fresh, min(firstVisit, d.set.Visit)), visitors) // as many until the last of them
	}
	return min(need, room/2)
}

// visited reports whether a relay may give its place to another.
func (d *Driver) visited(p *Peer) bool {
	took := d.budget.now - p.visit
	switch {
	case p.Bootstrap || !p.wanted || took < d.set.Check:
		return false
	case took >= maxVisit*d.set.Check:
		return true
	case !p.connected:
		return p.failures > 0
	}
	return p.started && !p.dirty && !p.Due && !p.waiting() && !p.behind()
}

// rotateVisits lets relays go whose visit is over, as many as others have waited for long
// enough.
func (d *Driver) rotateVisits() {
	list, wanted := d.waiting()
	visitors := d.visitors()
	places := d.visitSlots(list, wanted, visitors)
	if places == 0 {
		return
	}
	due := wanted - d.freeConnections() // less those that find a free place
	for _, p := range list {
		if p.visit == 0 || d.budget.now-p.visit >= d.set.Visit/2 {
			due++
		}
	}
	// Some relays lose their own places and share from now on: those that fewest repositories name.
	var residents []*Peer
	for p := range d.Peers {
		switch {
		case p.visitor && due > 0 && d.visited(p):
			due--
			if !d.letGo(p) {
				return
			}
		case p.wanted && !p.visitor:
			residents = append(residents, p)
		}
	}
	over := len(residents) - (d.freeConnections() - places)
	if over <= 0 {
		return
	}
	for _, p := range residents {
		p.named = d.Index.ReposOf(p.number).Len()
	}
	slices.SortStableFunc(residents, func(a, b *Peer) int { return cmp.Compare(a.named, b.named) })
	for _, p := range residents {
		if over > 0 && due > 0 && d.visited(p) {
			over--
			due--
			if !d.letGo(p) {
				return
			}
		}
	}
}

// letGo takes the place of a relay. It reports false if the answer had no room for that.
func (d *Driver) letGo(p *Peer) bool {
	if !d.budget.room(1, len(p.URL)+30) {
		return false
	}
	d.budget.out.Disconnect(p.URL, "others wait for their turn")
	p.disconnected(d.budget.now)
	for _, kind := range [...]Kind{wake, poll, Delay, Deadline} {
		d.Stop(p, kind)
	}
	p.wanted, p.visitor, p.visit = false, false, d.budget.now
	return true
}

// assignConnections asks for connections, as far as there is room. It reports whether the answer
// held all.
func (d *Driver) assignConnections() bool {
	list, wanted := d.waiting()
	visitors := d.visitors()
	places := d.visitSlots(list, wanted, visitors)
	if places == 0 {
		for p := range d.Peers {
			p.visitor = false // there is room for all
		}
		visitors = 0
	}
	residents := wanted - visitors
	var guests []*Peer
	for _, p := range list {
		switch {
		case wanted >= d.freeConnections():
			return true
		case residents >= d.freeConnections()-places:
			guests = append(guests, p)
			continue
		}
		given, fits := d.give(p)
		if !fits {
			return false
		}
		if given {
			p.visitor = false
			wanted++
			residents++
		}
	}
	slices.SortStableFunc(guests, func(a, b *Peer) int { return cmp.Compare(a.visit, b.visit) })
	for _, p := range guests {
		if visitors >= places || wanted >= d.freeConnections() {
			break
		}
		given, fits := d.give(p)
		if !fits {
			return false
		}
		if given {
			p.visitor = true
			wanted++
			visitors++
		}
	}
	return true
}

// give asks for a connection to a relay, unless its time has not come. It reports false
// if the answer had no room for that.
func (d *Driver) give(p *Peer) (given, fits bool) {
	if d.set.Jitter > 0 && !p.delayed {
		p.delayed = true
		d.After(p, Begin, d.Random(d.set.Jitter))
	}
	if _, later := d.timers.at[p.key(Begin)]; later {
		return false, true
	}
	if !d.budget.room(1, len(p.URL)+60) {
		return false, false
	}
	reason := id("named by ", uint32(p.named)) + " repositories"
	if p.named == 1 {
		reason = "named by " + d.Index.Address(d.Index.ReposOf(p.number).spans[0].from)
	}
	d.budget.out.Connect(p.URL, uint32(p.named), reason)
	d.budget.left -= workDo
	p.wanted, p.visit = true, d.budget.now
	return true, true
}

// visitHours reads how often relays without a connection are visited.
func visitHours(cfg strategy.Config) int64 { return cfg.Int("visit_hours") * strategy.Hour }
