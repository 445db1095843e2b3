package relaysync

import (
	"slices"

	"talon/host"
	"talon/sdk/abi"
)

// pages is where a historic that asks page by page stands.
//
// A page ends where the relay's own limit, which may be smaller than ours, cuts it: in
// the middle of a second. So the next page begins with that second once more, and the
// end is a page with nothing that was not seen. A page of one second alone may not be
// all of that second: it is a pile, which is asked for with a larger limit, and in parts,
// by the values of the filter. A small page of one second is taken for all there is, unless
// another page shows that the relay gives no more at once.
type pages struct {
	until    *int64               // of the next page
	boundary map[host.ID]struct{} // seen events of that second
	biggest  int                  // events of the largest answer so far: the relay gives so many at once
	pile     []host.Filter        // parts of one second that are still to be asked for
	second   int64                // of the pile
	unsure   bool                 // that second was not asked for in parts: if there is more before it, it was cut
	last     int                  // events of the page before
	cut      int                  // events of a page after which more came: the relay gives so many at once; 0: there was none
	total    int                  // events so far, for a filter with a limit
}

// page is one REQ of these.
type page struct {
	h      *historic
	filter host.Filter
	seen   map[host.ID]struct{}
	unseen int       // of them, those that were not at the boundary
	low    []host.ID // those with the oldest created_at
	lowAt  int64
	piled  bool // it is a part of a pile
}

func (p *page) of() *historic { return p.h }

// page asks for the next page.
func (h *historic) page(c *conn) {
	h.method = abi.MethodREQ
	if c.rests(h, h.page) {
		return
	}
	ps := &h.pages
	p := &page{h: h, seen: make(map[host.ID]struct{})}
	if n := len(ps.pile); n > 0 {
		p.filter, p.piled = ps.pile[n-1], true
		ps.pile = ps.pile[:n-1]
	} else {
		p.filter = h.filter
		p.filter.Limit = h.limit
		if ps.until != nil {
			p.filter.Until = ps.until
		}
		if h.filter.Limit >= 0 {
			left := h.filter.Limit - ps.total
			p.filter.Limit = min(h.limit, left+len(ps.boundary))
			if left <= 0 {
				h.finish(c)
				return
			}
		}
		if p.filter.Empty() || ps.until != nil && *ps.until < 0 {
			h.finish(c)
			return
		}
	}
	if h.rounds++; h.rounds > c.env.cfg.Limits.Rounds {
		h.lack(abi.ClassTooMuch, "too many pages")
		h.finish(c)
		return
	}
	c.ask(p, h.purpose, []host.Filter{p.filter}, newMatchers([]host.Filter{p.filter}))
}

func (p *page) saw(_ *request, d *digest) bool {
	if _, ok := p.seen[d.id]; ok {
		return false
	}
	p.seen[d.id] = struct{}{}
	if _, ok := p.h.pages.boundary[d.id]; !ok {
		p.unseen++
	}
	if len(p.low) == 0 || d.createdAt < p.lowAt {
		p.lowAt, p.low = d.createdAt, p.low[:0]
	}
	if d.createdAt == p.lowAt {
		p.low = append(p.low, d.id)
	}
	return true
}

func (p *page) complete(c *conn, r *request) {
	c.hangUp(r)
	h, ps := p.h, &p.h.pages
	h.add(r)
	n := len(p.seen)
	ps.total += p.unseen
	switch {
	case p.piled:
		p.parts(c)
		if len(ps.pile) == 0 {
			ps.before(ps.second)
		}
	case n == 0 || p.unseen == 0 && n < ps.biggest:
		h.finish(c)
		return
	default:
		if ps.last > 0 && p.unseen > 0 {
			ps.cut = ps.last
		}
		if ps.unsure {
			ps.unsure = false
			if one, two, ok := split(inSecond(h.filter, &ps.second)); ok {
				ps.pile = []host.Filter{one, two} // and this page is asked for after it
				ps.total -= p.unseen
				break
			}
			h.lack(abi.ClassTooMuch, tooDense)
		}
		ps.last, ps.biggest = n, max(ps.biggest, n)
		if len(p.low) == n {
			p.heap()
			break
		}
		until := p.lowAt
		ps.until = &until
		ps.boundary = make(map[host.ID]struct{}, len(p.low))
		for _, id := range p.low {
			ps.boundary[id] = struct{}{}
		}
	}
	h.page(c)
}

// tooDense says why a historic is not complete.
const tooDense = "one second has more events than the relay gives at once"

// before goes on with what is older than a second.
func (ps *pages) before(second int64) {
	until := second - 1
	ps.until, ps.boundary = &until, nil
}

// pileLimit is what is asked for of a second that holds more than a page, and
// pileFrom is the number of events of one second from which the relay's limit may be the
// reason that there are no more.
const (
	pileLimit = 5000
	pileFrom  = 10
)

// heap looks at a page that is of one second alone.
func (p *page) heap() {
	ps := &p.h.pages
	ps.second = p.lowAt
	f, n := inSecond(p.filter, &ps.second), len(p.seen)
	if n >= p.filter.Limit {
		ps.pile = []host.Filter{f}
		return
	}
	if one, two, ok := split(f); ok && (n >= pileFrom || ps.cut > 1 && n >= ps.cut) {
		ps.pile = []host.Filter{one, two}
		return
	}
	ps.unsure = n > 1
	ps.before(ps.second)
}

// inSecond returns what of a filter is of one second.
func inSecond(f host.Filter, second *int64) host.Filter {
	f.Since, f.Until, f.Limit = second, second, pileLimit
	return f
}

// parts asks once more, in two parts, if the answer about a part of a pile may have
// been cut.
func (p *page) parts(c *conn) {
	n, ps := len(p.seen), &p.h.pages
	most := int(c.caps.MaxLimit)
	if n < ps.biggest || n < p.filter.Limit && n < most {
		return
	}
	grew := n > ps.biggest
	ps.biggest = n
	if one, two, ok := split(p.filter); ok {
		ps.pile = append(ps.pile, one, two)
		return
	}
	if !grew || n == most || n%100 == 0 { // relays have round limits
		p.h.lack(abi.ClassTooMuch, tooDense)
	}
}

// split divides the values of the longest list of a filter.
func split(f host.Filter) (one, two host.Filter, ok bool) {
	one, two = f, f
	one.Tags, two.Tags = slices.Clone(f.Tags), slices.Clone(f.Tags)
	longest, tag := max(len(f.IDs), len(f.Authors), len(f.Kinds)), -1
	for i := range f.Tags {
		if n := len(f.Tags[i].Values); n > longest {
			longest, tag = n, i
		}
	}
	half := longest / 2
	switch {
	case longest < 2:
		return one, two, false
	case tag >= 0:
		one.Tags[tag].Values, two.Tags[tag].Values = f.Tags[tag].Values[:half], f.Tags[tag].Values[half:]
	case len(f.IDs) == longest:
		one.IDs, two.IDs = f.IDs[:half], f.IDs[half:]
	case len(f.Authors) == longest:
		one.Authors, two.Authors = f.Authors[:half], f.Authors[half:]
	default:
		one.Kinds, two.Kinds = f.Kinds[:half], f.Kinds[half:]
	}
	return one, two, true
}

func (p *page) closed(c *conn, r *request, class uint32, reason string) {
	p.h.add(r)
	p.h.lack(class, reason)
	p.h.finish(c)
}
