package layers

import (
	"slices"

	"talon/sdk/strategy"
)

// Content is the content of a subscription or a fetch.
type Content struct {
	Announcements bool // layer 1: kinds 30617 and 30618, and what tags only comments (see [SecondLevel])
	Items         Items
	All           bool // whatever the relay has
	SecondLevel   bool // with All: only deletions and reactions
}

// Everything is all content of a relay. It is only fetched, never tracked.
var Everything = Content{All: true}

// AllSecondLevel is all deletions and reactions of a relay. It is only fetched, never tracked.
var AllSecondLevel = Content{All: true, SecondLevel: true}

// Announcements is layer 1.
var Announcements = Content{Announcements: true}

// Of returns the content of layers 2 and 3 for these items.
func Of(items Items) Content { return Content{Items: items} }

func (c Content) empty() bool { return !c.All && !c.Announcements && c.Items.Empty() }

func (c Content) clone() Content {
	return Content{c.Announcements, c.Items.Clone(), c.All, c.SecondLevel}
}

// parts are the filters of a chunk: one for each of the tags a, A and q, or e, E
// and q. Layer 1, and all that a relay has, have the first of them.
type parts uint8

const allParts parts = 7

// parts returns the parts of content that chunk has returned.
func (p *Peer) parts(c Content, which parts) parts {
	switch {
	case c.Announcements && p.SecondLevel != NoSecondLevel:
		return 3
	case c.Announcements || c.All || !c.Items.Authors.Empty():
		return 1
	}
	return which
}

// SecondLevel says which deletions and reactions (kinds 5 and 7) layer 1 asks for. Layers 2 and 3
// bring those that tag a repository or a root event. Others tag only a comment. Live subscriptions
// ask for deletions alone: layer 3 would bring each reaction to a root event once more.
type SecondLevel uint8

// Which of them.
const (
	NoSecondLevel      SecondLevel = iota
	GitSecondLevel                 // those with a tag k of a kind of git events
	WholeSecondLevel               // all of the relay
	authorsSecondLevel             // of a setting: as GitSecondLevel, and deletions by the authors of comments
)

var (
	announcementKinds = []uint32{30617, 30618}
	secondLevelKinds  = []uint32{5, 7}
	commentKinds      = []string{"1111", "1617", "1618", "1619", "1621", "1622", "1630", "1631", "1632", "1633", "30617", "30618"}
	answerKinds       = []string{"1", "5", "7", "1111", "1619", "1622", "1630", "1631", "1632", "1633"}
	repoTags          = [3]string{"a", "A", "q"}
	rootTags          = [3]string{"e", "E", "q"}
)

// shape is how much one message to a relay may hold.
type shape struct {
	values      int // of one tag
	filters     int // of one subscription
	filterBytes int // of the values of one filter
	bytes       int // of the values of all filters
	chunks      int // of three filters each, in one subscription, at most
}

// chunk takes off the content of one filter: announcements, or repositories, or root events, or
// authors. It drops an address that no message can hold.
func (x *Index) chunk(c *Content, s shape) Content {
	if c.All {
		c.All = false
		return Content{All: true, SecondLevel: c.SecondLevel}
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
	count := min(s.values, s.filterBytes/rootBytes)
	if c.Items.Roots.Empty() {
		return Of(Items{Authors: c.Items.Authors.Take(count)})
	}
	return Of(Items{Roots: c.Items.Roots.Take(count)})
}

// rootBytes is the length of a root event in a filter: 64 hex digits, quotes, comma.
const rootBytes = 68

// writer makes filters. It is reused: its results are valid until the next reset.
type writer struct {
	secondLevel SecondLevel // of layer 1
	live        bool        // the filters are for a live subscription
	nested      bool        // of what tags a root event by E, only answers to something else are asked for
	filters     []strategy.Filter
	tags        []strategy.TagFilter
	values      []string
	authors     []strategy.ID
	hexes       strategy.Hexes
	count       int // values written, as often as they are in filters
	size        int // bytes of them
}

func (w *writer) reset(l SecondLevel, live bool) {
	w.secondLevel, w.live, w.nested = l, live, false
	// A filter points into tags and values. If these grow, older filters keep the old memory.
	w.filters, w.tags, w.values, w.authors = w.filters[:0], w.tags[:0], w.values[:0], w.authors[:0]
	w.hexes.Reset()
	w.count, w.size = 0, 0
}

// add appends the filters of content that chunk has returned.
func (w *writer) add(x *Index, c Content, which parts, since int64, until [3]int64) {
	if c.All {
		f := strategy.Filter{Since: since, Until: until[0]}
		if c.SecondLevel {
			f.Kinds = secondLevelKinds
		}
		w.filters = append(w.filters, f)
		w.size += 40
		return
	}
	if c.Announcements {
		if which&1 != 0 {
			w.filters = append(w.filters, strategy.Filter{Kinds: announcementKinds, Since: since, Until: until[0]})
			w.count += 2
			w.size += 40
		}
		if which&2 != 0 {
			f := strategy.Filter{Kinds: secondLevelKinds, Since: since, Until: until[1]}
			if w.live {
				f.Kinds = secondLevelKinds[:1]
			}
			if w.secondLevel == GitSecondLevel {
				at := len(w.tags)
				w.tags = append(w.tags, strategy.TagFilter{Name: "k", Values: commentKinds})
				f.Tags = w.tags[at : at+1 : at+1]
				w.count += len(commentKinds)
				w.size += 100
			}
			w.filters = append(w.filters, f)
			w.count += len(f.Kinds)
			w.size += 40
		}
		return
	}
	if !c.Items.Authors.Empty() {
		if which&1 != 0 {
			w.addAuthors(x, c.Items.Authors, since, until[0])
		}
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
		if w.nested && name == "E" {
			w.tags = append(w.tags, strategy.TagFilter{Name: "k", Values: answerKinds})
			w.count += len(answerKinds)
			w.size += 60
		}
		w.filters = append(w.filters, strategy.Filter{Tags: w.tags[at:len(w.tags):len(w.tags)], Since: since, Until: until[i]})
		w.count += len(values)
		w.size += size + 40
	}
}

// usualMessage is the size of a message if a relay states no limit.
const usualMessage = 64 << 10

// shape returns how much a message to the relay may hold, by the host's limits, the relay's own
// statements, and its earlier refusals.
func (p *Peer) shape() shape {
	limits := &p.driver.budget.limits
	message := usualMessage
	if p.Caps.MaxMessage > 0 {
		message = min(int(p.Caps.MaxMessage), 2*usualMessage)
	}
	if limits.Bytes > 0 {
		message = min(message, int(limits.Bytes)-500)
	}
	s := shape{values: min(p.driver.set.Values, int(limits.Values)-1), filters: int(limits.Filters)}
	if p.Caps.MaxFilters > 0 {
		s.filters = min(s.filters, int(p.Caps.MaxFilters))
	}
	if p.narrow >= threeFilters {
		s.filters = min(s.filters, 3)
	}
	if p.narrow >= oneFilter {
		s.filters = min(s.filters, 1)
		s.values = max(s.values>>(p.narrow-oneFilter), min(s.values, 10))
	}
	s.bytes = message - 300
	s.filterBytes = s.bytes
	if s.filters >= 3 {
		s.filterBytes = s.bytes / 3
	}
	s.values = max(0, min(s.values, s.filterBytes/rootBytes))
	s.chunks = 1
	limit := p.maxValues()
	if limit > 0 {
		s.values = min(s.values, max(1, limit/maxPart/3-1))
	}
	if s.values > 0 {
		s.chunks = max(1, min(s.filters/3, s.bytes/(3*rootBytes*s.values)))
		if limit > 0 {
			s.chunks = max(1, min(s.chunks, limit/maxPart/(3*(s.values+1))))
		}
	}
	return s
}

// maxPart bounds the values of one subscription to 1/maxPart of those that the relay takes in all. If one could
// take all, the least recent subscription could not give way to a more recent one.
const maxPart = 4

// possible reports whether anything can be asked for.
func (s shape) possible() bool { return s.values > 0 && s.filters > 0 }

// size is how much content there is.
type size struct{ announcements, repos, roots int }

func sizeOf(c Content) size {
	n := size{repos: c.Items.Repos.Len(), roots: c.Items.Roots.Len()}
	if c.Announcements {
		n.announcements = 1
	}
	return n
}

// add counts repositories and roots that are in other filters together.
func (n *size) add(o size) {
	n.repos += o.repos
	n.roots += o.roots
}

func (s shape) chunksFor(n size) int {
	values := max(s.values, 1)
	return (n.repos+values-1)/values + (n.roots+values-1)/values
}

// filtersFor is about how many filters content takes.
func (s shape) filtersFor(n size) int { return n.announcements + 3*s.chunksFor(n) }

// subsFor is about how many subscriptions content takes.
func (s shape) subsFor(n size, live bool) int {
	chunks := s.chunksFor(n)
	switch {
	case s.filters < 3:
		chunks *= 3
	case live:
		chunks = (chunks + s.chunks - 1) / s.chunks
	}
	return n.announcements + chunks
}

// maxSubs is how many subscriptions may be open: some that the relay allows are
// for fetches.
func (p *Peer) maxSubs() int {
	limit := int(p.driver.budget.limits.Subscriptions)
	if theirs := int(p.Caps.MaxSubscriptions); theirs > 0 {
		limit = min(limit, max(theirs-2, theirs/2))
	}
	return limit
}

// maxAsks is how many historics may run.
func (p *Peer) maxAsks() int {
	limit := int(p.driver.budget.limits.Historics)
	if theirs := int(p.Caps.MaxSubscriptions); theirs > 0 {
		limit = min(limit, max(1, theirs-p.maxSubs()))
	}
	return limit
}

// Prefixes of ids, by the content of the request.
const (
	liveID = "live-" // only what is new
	reqID  = "req-"  // what is stored, then what is new
	pastID = "past-" // a historic
	onceID = "once-" // what is stored, then it is closed
)

// id is the id of a subscription or historic.
func id(prefix string, n uint32) string {
	var digits [10]byte
	i := len(digits)
	for {
		i--
		digits[i] = '0' + byte(n%10)
		if n /= 10; n == 0 {
			return prefix + string(digits[i:])
		}
	}
}

// number takes an id apart.
func number(text string) (n uint32, ok bool) {
	i := len(text)
	for i > 0 && text[i-1] >= '0' && text[i-1] <= '9' {
		i--
	}
	digits := text[i:]
	if digits == "" || len(digits) > 9 {
		return 0, false
	}
	for _, c := range []byte(digits) {
		n = 10*n + uint32(c-'0')
	}
	return n, true
}

func deleteFunc[T any](list []T, del func(T) bool) []T {
	list = slices.DeleteFunc(list, del)
	if len(list) == 0 {
		return nil
	}
	return list
}
