package layers

import (
	"slices"

	"talon/sdk/strategy"
)

// drop takes out what is not wanted any more.
func (p *Peer) drop(gone Items) {
	p.Confirmed.RemoveItems(gone)
	p.Later.RemoveItems(gone)
	p.unheard.Items.RemoveItems(gone)
	for _, list := range [2][]*opening{p.openings, p.lost} {
		for _, o := range list {
			o.content.Items.RemoveItems(gone)
		}
	}
	for _, j := range p.jobs {
		j.content.Items.RemoveItems(gone)
	}
	if p.missed != nil {
		p.missed.content.Items.RemoveItems(gone)
	}
	for _, b := range p.batches {
		b.content.Items.RemoveItems(gone)
	}
	for _, s := range p.subs {
		if !s.old {
			s.left.AddItems(s.content.Items.common(gone))
		}
		s.content.Items.RemoveItems(gone)
	}
	p.driver.ready(p)
}

// takeBack takes off content what open subscriptions still ask for: it was wanted
// before, and is again. What is stored is fetched if opening it would have brought that.
func (p *Peer) takeBack(c *Content, how Opening) {
	if !slices.ContainsFunc(p.subs, func(s *sub) bool { return !s.old && !s.left.Empty() }) {
		return
	}
	back := c.Items
	for part := range 3 {
		var left Items
		for _, s := range p.subs {
			if !s.old && s.which&(1<<part) != 0 {
				left.AddItems(s.left)
			}
		}
		back = back.common(left)
	}
	if back.Empty() {
		return
	}
	for _, s := range p.subs {
		if !s.old {
			again := s.left.common(back)
			s.left.RemoveItems(again)
			s.content.Items.AddItems(again)
		}
	}
	c.Items.RemoveItems(back)
	if !how.Live {
		p.fetches(&job{
			content: Of(back.Clone()), which: allParts,
			Fetching: Fetching{Method: strategy.MethodREQ, Since: how.Since, Purpose: how.Purpose, Track: how.Track},
		})
	}
}
