package layers

import (
	"talon/sdk/strategy"
)

// Content is what a subscription or a fetch asks for.
type Content struct {
	Announcements bool // layer 1: kinds 30617 and 30618
	Items         Items
	All           bool // whatever the relay has
}

// Everything is whatever a relay has. It is only fetched, never tracked.
var Everything = Content{All: true}

// Announcements is layer 1.
var Announcements = Content{Announcements: true}

// Of is the content of layers 2 and 3 for these items.
func Of(items Items) Content { return Content{Items: items} }

func (c Content) empty() bool { return !c.All && !c.Announcements && c.Items.Empty() }

func (c Content) clone() Content { return Content{c.Announcements, c.Items.Clone(), c.All} }

// parts are the filters of a chunk: one for each of the tags a, A and q, or e, E
// and q. Layer 1, and all that a relay has, have the first of them.
type parts uint8

const allParts parts = 7

func (c Content) parts(which parts) parts {
	if c.Announcements || c.All {
		return 1
	}
	return which
}

var (
	announcementKinds = []uint32{30617, 30618}
	repoTags          = [3]string{"a", "A", "q"}
	rootTags          = [3]string{"e", "E", "q"}
)

// shape is how much one message to a relay may hold.
type shape struct {
	values      int // of one tag
	filters     int // of one subscription
	filterBytes int // of the values of one filter
	chunks      int // of three filters each, in one subscription
}

// chunk takes off what one filter can ask for: announcements, or repositories, or
// root events. An address that no message can hold is dropped.
func (x *Index) chunk(c *Content, s shape) Content {
	if c.All {
		c.All = false
		return Everything
	}
	if c.Announcements {
		c.Announcements = false
		return Announcements
	}
	for !c.Items.Repos.Empty() {
		count, size := 0, 0
		for n := range c.Items.Repos.All() {
			size += len(x.repos[n].address) + 4
			if size > s.filterBytes || count == s.values {
				break
			}
			count++
		}
		if count > 0 {
			return Of(Items{Repos: c.Items.Repos.Take(count)})
		}
		c.Items.Repos.Take(1)
	}
	return Of(Items{Roots: c.Items.Roots.Take(min(s.values, s.filterBytes/rootBytes))})
}

// rootBytes is what a root event takes in a filter: 64 hex digits, quotes, comma.
const rootBytes = 68

// writer makes filters. It is reused: what it returns is valid until the next
// reset.
type writer struct {
	filters []strategy.Filter
	tags    []strategy.TagFilter
	values  []string
	hexes   strategy.Hexes
	count   int // values written, as often as they are in filters
	size    int // bytes of them
}

func (w *writer) reset() {
	// A filter points into tags and values: what grows leaves the old ones behind.
	w.filters, w.tags, w.values = w.filters[:0], w.tags[:0], w.values[:0]
	w.hexes.Reset()
	w.count, w.size = 0, 0
}

// add appends the filters of content that chunk has returned.
func (w *writer) add(x *Index, c Content, which parts, since int64, until [3]int64) {
	if c.All {
		w.filters = append(w.filters, strategy.Filter{Since: since, Until: until[0]})
		w.size += 40
		return
	}
	if c.Announcements {
		w.filters = append(w.filters, strategy.Filter{Kinds: announcementKinds, Since: since, Until: until[0]})
		w.count += 2
		w.size += 40
		return
	}
	start, names := len(w.values), &repoTags
	for n := range c.Items.Repos.All() {
		w.values = append(w.values, x.repos[n].address)
	}
	if !c.Items.Roots.Empty() {
		names = &rootTags
		for _, p := range c.Items.Roots.spans {
			for n := p.from; n < p.to; n++ {
				w.values = append(w.values, w.hexes.Add(x.roots.id(n)))
			}
		}
	}
	values := w.values[start:len(w.values):len(w.values)]
	size := 0
	for _, v := range values {
		size += len(v) + 4
	}
	for i, name := range names {
		if which&(1<<i) == 0 {
			continue
		}
		at := len(w.tags)
		w.tags = append(w.tags, strategy.TagFilter{Name: name, Values: values})
		w.filters = append(w.filters, strategy.Filter{Tags: w.tags[at : at+1 : at+1], Since: since, Until: until[i]})
		w.count += len(values)
		w.size += size + 40
	}
}
