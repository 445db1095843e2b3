package layers

import (
	"cmp"
	"slices"

	"talon/sdk/strategy"
)

// A relay may have no room for subscriptions to all wanted items: it limits their number, and the
// values in all of them. Announcements and repositories then come first, and root events in the
// order of their latest activity. The others are polled: see [Peer.poll]. A part of the room is
// kept for items that become wanted later. When that is used up, subscriptions to few items are
// joined, and the one with the least recent root events gives way.

// maxValues is how many values all subscriptions may have; 0: there is no limit. Some that the
// relay takes are for fetches.
func (p *Peer) maxValues() int { return int(p.Caps.MaxValues) - int(p.Caps.MaxValues)/8 }

// fits reports whether the relay takes this number of further values.
func (p *Peer) fits(values int) bool {
	limit := p.maxValues()
	if limit == 0 {
		return true
	}
	s := p.shape()
	used := len(p.stale) * 3 * s.chunks * (s.values + 1) // of the strategy before: as many as may be
	for _, sub := range p.subs {
		used += sub.values
	}
	return used+values <= limit
}

// fitting is how many items, up to a number, the relay takes once old subscriptions are closed.
func (p *Peer) fitting(items int, s shape) int {
	free := p.maxValues()
	if free == 0 {
		return items
	}
	for _, sub := range p.subs {
		if !sub.old {
			free -= sub.values
		}
	}
	for items > 0 && s.valuesFor(items) > free {
		items--
	}
	return items
}

// holds is how many items one subscription has at most, or three where one has not all filters.
func (s shape) holds(live bool) int {
	if live && s.filters >= 3 {
		return s.values * s.chunks
	}
	return s.values
}

// apart is how many subscriptions it takes for one chunk.
func (s shape) apart() int {
	if s.filters < 3 {
		return 3
	}
	return 1
}

// valuesFor is how many values it takes to ask for a number of items of one kind.
func (s shape) valuesFor(items int) int {
	return 3 * (items + (items+max(s.values, 1)-1)/max(s.values, 1))
}

// room returns how many items subscriptions may have at first. The rest is for items that become
// wanted later.
func (p *Peer) room(live bool) int {
	s := p.shape()
	subs := (p.maxSubs() - 1) / s.apart()
	items := max(0, subs-max(2, subs/8)) * s.holds(live)
	if limit := p.maxValues(); limit > 0 {
		all := max(0, limit-3) * s.values / (3 * (s.values + 1))
		items = min(items, all-all/8)
	}
	return items
}

// divide takes off content the root events for which there is no room.
func (p *Peer) divide(c *Content, live bool) (rest Items) {
	s := p.shape()
	count := c.Items.inLayers()
	if !s.possible() || count <= s.holds(live) || !p.Covered().Empty() {
		return Items{} // giveWay compares it with what is open
	}
	left := max(p.room(live), s.holds(live))
	if count <= left {
		return Items{}
	}
	c.Items.Roots, rest.Roots = p.driver.Index.Newest(c.Items.Roots, max(0, left-c.Items.Repos.Len()))
	return rest
}

// makeRoom has something give way to an opening. If nothing may, the opening is polled.
func (p *Peer) makeRoom(t *stepBudget, o *opening, s shape) bool {
	switch {
	case slices.ContainsFunc(p.subs, func(s *sub) bool { return s.old }) || len(p.stale) > 0:
		return p.retireOne(t, o.Live)
	case p.authorsGiveWay(o):
	case p.giveWay(o, s):
	default:
		p.withoutSub(o)
	}
	return true
}

// join takes open subscriptions to few items into an opening, if one more subscription is all that
// there is room for. It reports whether there are some.
func (p *Peer) join(o *opening, s shape) bool {
	size := sizeOf(o.content)
	if s.apart() > 1 || o.joined || o.which != allParts || o.content.Announcements || s.chunksFor(size) > s.chunks {
		return false
	}
	var list []*sub
	for _, sub := range p.subs {
		if !sub.old && sub.batch == nil && sub.which == allParts && !sub.content.Announcements && sub.content.Items.inLayers() > 0 {
			list = append(list, sub)
		}
	}
	slices.SortStableFunc(list, func(a, b *sub) int { return cmp.Compare(a.content.Items.Len(), b.content.Items.Len()) })
	for _, sub := range list {
		all := size
		all.add(sizeOf(sub.content))
		if s.chunksFor(all) > s.chunks || !p.fits(s.valuesFor(all.repos)+s.valuesFor(all.roots)) {
			break
		}
		size = all
		p.takeOver(o, sub)
	}
	return o.joined
}

// takeOver adds the content of an open subscription to an opening. A fetch brings the stored
// events.
func (p *Peer) takeOver(o *opening, from *sub) {
	p.fetchApart(o)
	o.joined = true
	o.content.Items.AddItems(from.content.Items)
	from.old, from.replaced = true, true
}

// fetchApart makes an opening ask for new events only. A fetch brings the stored ones.
func (p *Peer) fetchApart(o *opening) {
	if o.Live {
		return
	}
	p.fetches(&job{
		content: o.content.clone(), which: o.which,
		Fetching: Fetching{Method: strategy.MethodREQ, Since: o.Since, Purpose: o.Purpose, Track: o.Track},
	})
	o.Opening = Opening{Live: true}
}

// stalest returns the open subscription whose root events are the least recent, and their mean date; nil if
// there is none.
func (p *Peer) stalest() (found *sub, date int64) {
	for _, sub := range p.subs {
		if sub.old || sub.batch != nil || sub.content.Items.Roots.Empty() {
			continue
		}
		if d := p.driver.Index.meanDate(sub.content.Items.Roots); found == nil || d < date {
			found, date = sub, d
		}
	}
	return found, date
}

// giveWay closes the subscriptions of the chunk whose root events are the least recent, if some of an opening
// are more so. The most recent of both get one in its place, the others are polled. Announcements and
// repositories come before all root events. Repositories that the chunk asked for get another one.
func (p *Peer) giveWay(o *opening, s shape) bool {
	x, all := &p.driver.Index, &o.content.Items
	first := o.content.Announcements || !all.Repos.Empty()
	least, date := p.stalest()
	if least == nil {
		return false
	}
	best, _ := x.Newest(x.after(all.Roots, date), s.holds(true))
	if !first && best.Empty() {
		return false
	}
	items := p.closeChunk(least.group, Items{})
	if o.which != allParts {
		// The chunk may be the one of the opening: one letter without the others brings only a part.
		all.RemoveItems(all.common(items).Clone())
	}
	if first || o.which != allParts {
		// A chunk may have recent root events, too.
		needs := 1 + all.Repos.Len()
		if !first {
			needs += all.Roots.Len() / 3
		}
		if p.maxValues() > 0 && items.Roots.Len() > 2*needs {
			stay, leave := x.Newest(items.Roots, items.Roots.Len()-needs)
			p.polls(Of(Items{Roots: leave}))
			p.moves(Items{Roots: stay})
		} else {
			p.leaves(items.Roots)
		}
	} else {
		others := Items{Roots: all.Roots.Clone()}
		others.Roots.Remove(best)
		if !others.Roots.Empty() {
			// They are next, so that a fetch that follows them does not come before they open.
			p.openings = slices.Insert(p.openings, 1, &opening{content: Of(others), Opening: o.Opening, turn: o.turn, which: o.which})
		}
		all.Roots = best
		p.fetchApart(o)
		all.Roots.AddSet(items.Roots)
		// A part of the room stays free for the next ones.
		stay, leave := x.Newest(all.Roots, p.fitting(max(best.Len(), s.holds(true)-s.holds(true)/8), s))
		all.Roots = stay.Clone()
		p.leaves(leave)
		p.fetchGap(Items{Roots: items.Roots}.common(Items{Roots: stay}))
		p.pollNoMore(Of(Items{Roots: stay}), Opening{Live: true})
	}
	p.moves(Items{Repos: items.Repos})
	return true
}

// leaves has root events polled that have just lost their subscription. Those that are more recent than the
// chunk that is the next to give way look for room again.
func (p *Peer) leaves(roots Set) {
	if next, date := p.stalest(); next != nil {
		again := p.driver.Index.after(roots, date)
		roots.Remove(again)
		p.moves(Items{Roots: again})
	}
	p.polls(Of(Items{Roots: roots}))
}

// moves has items that have just lost their subscription get another one, behind all that waits.
func (p *Peer) moves(items Items) {
	if items.Empty() {
		return
	}
	p.opens(&opening{content: Of(items.Clone()), Opening: Opening{Live: true}, which: allParts})
	p.fetchGap(items)
}

// closeChunk closes the subscriptions to the letters of one chunk, now that another one, or a poll,
// takes their place. It returns these items and what they asked for.
func (p *Peer) closeChunk(group uint32, items Items) Items {
	for _, sub := range p.subs {
		if sub.group == group && !sub.old {
			items.AddItems(sub.content.Items)
			sub.old, sub.replaced = true, true
			p.fetchRest(sub)
		}
	}
	for _, o := range p.lost {
		p.takeOut(o, items)
	}
	p.lost = deleteFunc(p.lost, func(o *opening) bool { return o.content.empty() })
	for _, o := range p.openings[min(1, len(p.openings)):] { // the first one needs the room
		if o.which != allParts {
			p.takeOut(o, items)
		}
	}
	return items
}

// fetchRest fetches what is stored for a subscription that ends before all of it has come.
func (p *Peer) fetchRest(s *sub) {
	if b := s.batch; b != nil {
		s.batch = nil
		p.batches = deleteFunc(p.batches, func(o *batch) bool { return o == b })
		p.fetches(&job{content: b.content.clone(), which: s.which, Fetching: b.fetch})
	}
}

// takeOut has no subscription to items opened that waits for its time, and fetches what was missed.
// A relay may close one of several letters.
func (p *Peer) takeOut(o *opening, items Items) {
	again := o.content.Items.common(items).Clone()
	if again.Empty() {
		return
	}
	o.content.Items.RemoveItems(again)
	missed := Fetching{Method: strategy.MethodREQ, Since: o.Since, Purpose: o.Purpose, Track: o.Track}
	if o.Live {
		missed = Fetching{Method: p.driver.set.Method, Since: p.driver.since(o.at), Purpose: strategy.PurposeReconnect}
	}
	p.fetches(&job{content: Of(again), which: o.which, Fetching: missed})
}

// fetchGap fetches the events that come between the end of a subscription and the start of the
// next.
func (p *Peer) fetchGap(items Items) {
	if items.Empty() {
		return
	}
	p.fetches(&job{
		content: Of(items.Clone()), which: allParts,
		Fetching: Fetching{Method: p.driver.set.Method, Since: p.driver.since(p.driver.budget.now), Purpose: strategy.PurposeReconnect},
	})
}

// polls has content polled from now on.
func (p *Peer) polls(c Content) {
	if p.unheard.empty() {
		p.polled = p.driver.budget.now
		p.driver.After(p, poll, p.pollEvery())
	}
	p.unheard.Announcements = p.unheard.Announcements || c.Announcements
	p.unheard.Items.AddItems(c.Items)
}

// pollNoMore has content that was polled get a subscription instead. It fetches the events since the
// last poll, unless the subscription brings them.
func (p *Peer) pollNoMore(c Content, how Opening) {
	c = Content{Announcements: c.Announcements && p.unheard.Announcements, Items: p.unheard.Items.common(c.Items).Clone()}
	if c.empty() {
		return
	}
	p.unheard.Announcements = p.unheard.Announcements && !c.Announcements
	p.unheard.Items.RemoveItems(c.Items)
	if since := p.driver.since(p.polled); how.Live || how.Since > since {
		p.fetches(&job{
			content: c, which: allParts,
			Fetching: Fetching{Method: p.driver.set.Method, Since: since, Purpose: strategy.PurposeLive},
		})
	}
}

// pollEvery returns the time between two fetches of items without a subscription. A comparison
// costs less than a second copy of the events.
func (p *Peer) pollEvery() int64 {
	if p.Caps.Negentropy == strategy.SupportNo {
		return strategy.Hour
	}
	return 30 * strategy.Minute
}

// report says how much has no subscription, if that has changed.
func (p *Peer) report(t *stepBudget) bool {
	items := p.unheard.Items
	for _, o := range p.lost {
		if o.class == strategy.ClassLimit {
			items.AddItems(o.content.Items)
		}
	}
	now := [3]uint32{uint32(items.Repos.Len()), uint32(items.Roots.Len()), uint32(items.Authors.Len())}
	if now == p.reported {
		return true
	}
	if !t.room(1, len(p.URL)) {
		return false
	}
	t.out.Uncovered(p.URL, now[0], now[1], now[2])
	p.reported = now
	return true
}
