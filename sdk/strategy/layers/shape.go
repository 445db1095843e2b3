package layers

import "slices"

// usualMessage is what a message may have if a relay does not say it.
const usualMessage = 64 << 10

// shape is how much a message to the relay may hold: by the host's limits, what
// the relay says of itself, and what it was too much for it before.
func (p *Peer) shape() shape {
	limits := &p.driver.turn.limits
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
	s.filterBytes = message - 300
	if s.filters >= 3 {
		s.filterBytes = (message - 300) / 3
	}
	s.values = max(0, min(s.values, s.filterBytes/rootBytes))
	s.chunks = 1
	if s.values > 0 {
		s.chunks = max(1, min(s.filters/3, (message-300)/(3*rootBytes*s.values)))
	}
	return s
}

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

// mostSubs is how many subscriptions may be open: some that the relay allows are
// for fetches.
func (p *Peer) mostSubs() int {
	most := int(p.driver.turn.limits.Subscriptions)
	if theirs := int(p.Caps.MaxSubscriptions); theirs > 0 {
		most = min(most, max(theirs-2, theirs/2))
	}
	return most
}

// mostAsks is how many historics may run.
func (p *Peer) mostAsks() int {
	most := int(p.driver.turn.limits.Historics)
	if theirs := int(p.Caps.MaxSubscriptions); theirs > 0 {
		most = min(most, max(1, theirs-p.mostSubs()))
	}
	return most
}

// Prefixes of ids, by what is behind them.
const (
	liveID = "live-" // only what is new
	reqID  = "req-"  // what is stored, then what is new
	pastID = "past-" // a historic
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
