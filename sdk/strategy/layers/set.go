package layers

import (
	"iter"
	"math/bits"
	"slices"
)

// Set is a set of small numbers, kept as spans: numbers are given out in order,
// so that the roots of a repository mostly follow each other, and a set of
// thousands is a few dozen spans.
//
// A copied Set shares memory with the copy. Clone it before you change it.
type Set struct{ spans []span }

type span struct{ from, to uint32 } // to is not in it

// SetOf returns the set of these numbers.
func SetOf(numbers ...uint32) Set {
	var s Set
	for _, n := range numbers {
		s.Add(n)
	}
	return s
}

// Empty reports whether nothing is in the set.
func (s Set) Empty() bool { return len(s.spans) == 0 }

// Len returns how many numbers are in the set.
func (s Set) Len() int {
	n := 0
	for _, p := range s.spans {
		n += int(p.to - p.from)
	}
	return n
}

// Has reports whether n is in the set.
func (s Set) Has(n uint32) bool {
	i := s.after(n)
	return i > 0 && n < s.spans[i-1].to
}

// after is the index of the first span that begins after n.
func (s Set) after(n uint32) int {
	low, high := 0, len(s.spans)
	for low < high {
		if mid := (low + high) / 2; s.spans[mid].from <= n {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low
}

// Add puts n into the set.
func (s *Set) Add(n uint32) {
	i := s.after(n)
	if i > 0 && n < s.spans[i-1].to {
		return
	}
	left := i > 0 && s.spans[i-1].to == n
	right := i < len(s.spans) && s.spans[i].from == n+1
	switch {
	case left && right:
		s.spans[i-1].to = s.spans[i].to
		s.spans = slices.Delete(s.spans, i, i+1)
	case left:
		s.spans[i-1].to++
	case right:
		s.spans[i].from--
	default:
		s.spans = slices.Insert(s.spans, i, span{n, n + 1})
	}
}

// AddSet puts all of o into the set. It does not change memory that a copy shares.
func (s *Set) AddSet(o Set) {
	switch {
	case o.Empty():
		return
	case s.Empty():
		*s = o.Clone()
		return
	}
	out := make([]span, 0, len(s.spans)+len(o.spans))
	a, b := s.spans, o.spans
	for len(a) > 0 || len(b) > 0 {
		var next span
		if len(b) == 0 || len(a) > 0 && a[0].from <= b[0].from {
			next, a = a[0], a[1:]
		} else {
			next, b = b[0], b[1:]
		}
		if n := len(out); n > 0 && next.from <= out[n-1].to {
			out[n-1].to = max(out[n-1].to, next.to)
		} else {
			out = append(out, next)
		}
	}
	s.spans = fit(out)
}

// Remove takes all of o out of the set. It does not change memory that a copy shares.
func (s *Set) Remove(o Set) {
	if !s.meets(o) {
		return
	}
	out := make([]span, 0, len(s.spans)+1)
	i := 0
	for _, p := range s.spans {
		for i < len(o.spans) && o.spans[i].to <= p.from {
			i++
		}
		for j := i; j < len(o.spans) && o.spans[j].from < p.to && p.from < p.to; j++ {
			if o.spans[j].from > p.from {
				out = append(out, span{p.from, o.spans[j].from})
			}
			p.from = max(p.from, o.spans[j].to)
		}
		if p.from < p.to {
			out = append(out, p)
		}
	}
	s.spans = fit(out)
}

// meets reports whether a number is in both sets.
func (s Set) meets(o Set) bool {
	a, b := s.spans, o.spans
	for len(a) > 0 && len(b) > 0 {
		switch {
		case a[0].to <= b[0].from:
			a = a[1:]
		case b[0].to <= a[0].from:
			b = b[1:]
		default:
			return true
		}
	}
	return false
}

// Take removes the n lowest numbers and returns them. It changes memory that a copy shares, as Add
// does.
func (s *Set) Take(n int) Set {
	i := 0
	for i < len(s.spans) && int(s.spans[i].to-s.spans[i].from) <= n {
		n -= int(s.spans[i].to - s.spans[i].from)
		i++
	}
	rest := s.spans[i:]
	if n == 0 || len(rest) == 0 {
		taken := Set{slices.Clone(s.spans[:i])}
		s.spans = rest
		return taken
	}
	taken := Set{append(make([]span, 0, i+1), s.spans[:i]...)}
	taken.spans = append(taken.spans, span{rest[0].from, rest[0].from + uint32(n)})
	rest[0].from += uint32(n)
	s.spans = rest
	return taken
}

// All returns the numbers in order.
func (s Set) All() iter.Seq[uint32] {
	return func(yield func(uint32) bool) {
		for _, p := range s.spans {
			for n := p.from; n < p.to; n++ {
				if !yield(n) {
					return
				}
			}
		}
	}
}

// Clone returns a copy that shares nothing.
func (s Set) Clone() Set { return Set{slices.Clone(s.spans)} }

// fit returns spans without much room behind them: most sets are kept for long.
func fit(spans []span) []span {
	switch {
	case len(spans) == 0:
		return nil
	case cap(spans)-len(spans) <= 1+len(spans)/8:
		return spans
	}
	return append(make([]span, 0, len(spans)), spans...)
}

// spansOf returns the set of the bits in words low to high, and sets them to zero.
func spansOf(words []uint64, low, high int) Set {
	count := 0
	carry := uint64(0)
	for i := low; i <= high && i < len(words); i++ {
		w := words[i]
		count += bits.OnesCount64(w &^ (w<<1 | carry)) // bits where a span begins
		carry = w >> 63
	}
	if count == 0 {
		return Set{}
	}
	spans := make([]span, 0, count)
	open := false
	for i := low; i <= high && i < len(words); i++ {
		w := words[i]
		words[i] = 0
		if open && w == ^uint64(0) {
			continue
		}
		for at := 0; at < 64; {
			rest := w >> at
			if open {
				run := bits.TrailingZeros64(^rest)
				if at += run; at < 64 {
					spans[len(spans)-1].to = uint32(64*i + at)
					open = false
				}
				continue
			}
			if rest == 0 {
				break
			}
			at += bits.TrailingZeros64(rest)
			spans = append(spans, span{from: uint32(64*i + at)})
			open = true
		}
	}
	if open {
		spans[len(spans)-1].to = uint32(64 * (high + 1))
	}
	return Set{spans}
}

// Items are repositories and root events, by their numbers in an [Index]: the content of layers 2
// and 3. Authors have numbers of their own: those who said something about these root events, and
// whose deletions are wanted.
type Items struct{ Repos, Roots, Authors Set }

// Empty reports whether there are none.
func (i Items) Empty() bool { return i.Repos.Empty() && i.Roots.Empty() && i.Authors.Empty() }

// Len returns how many there are.
func (i Items) Len() int { return i.Repos.Len() + i.Roots.Len() + i.Authors.Len() }

// inLayers returns how many repositories and root events there are.
func (i Items) inLayers() int { return i.Repos.Len() + i.Roots.Len() }

// onlyAuthors reports whether there are authors, and nothing else.
func (i Items) onlyAuthors() bool { return i.inLayers() == 0 && !i.Authors.Empty() }

// AddItems puts all of o into i.
func (i *Items) AddItems(o Items) {
	i.Repos.AddSet(o.Repos)
	i.Roots.AddSet(o.Roots)
	i.Authors.AddSet(o.Authors)
}

// RemoveItems takes all of o out of i.
func (i *Items) RemoveItems(o Items) {
	i.Repos.Remove(o.Repos)
	i.Roots.Remove(o.Roots)
	i.Authors.Remove(o.Authors)
}

// common returns the items that are in both. It may share memory with i.
func (i Items) common(o Items) Items {
	rest := i
	rest.RemoveItems(o)
	i.RemoveItems(rest)
	return i
}

// Clone returns a copy that shares nothing.
func (i Items) Clone() Items { return Items{i.Repos.Clone(), i.Roots.Clone(), i.Authors.Clone()} }

// Plan returns the three-way diff: content that is wanted, and neither pending nor confirmed. No
// other place decides about asking again.
func Plan(wanted, pending, confirmed Items) Items {
	wanted.RemoveItems(pending)
	wanted.RemoveItems(confirmed)
	return wanted
}
