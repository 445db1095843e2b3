package session

import (
	"talon/host"
	"talon/sdk/abi"
)

// size is what is known of the longest message that the relay takes.
type size struct {
	fit  int // bytes of the longest that was answered
	over int // of the shortest that was refused; 0: none was
}

// leastMessage is what every relay takes.
const leastMessage = 1 << 10

func (z *size) fits(bytes int) { z.fit = max(z.fit, bytes) }

// largest returns the longest message that the relay has not answered.
func (s *Session) largest() (r *request, n *reconciliation, bytes int) {
	for _, o := range s.openRequests() {
		if o.filters != nil && o.bytes > bytes {
			r, bytes = o, o.bytes
		}
	}
	for _, h := range s.runningFetches() {
		if o := h.reconciliation; o != nil && o.wire != "" && o.rounds == 0 && o.bytes > bytes {
			r, n, bytes = nil, o, o.bytes
		}
	}
	return r, n, bytes
}

// tooLarge takes the news that a message was too large: the longest one that is not
// answered. Whoever sent it makes it smaller. most is how long the relay says that it may
// be; 0: it does not say.
func (s *Session) tooLarge(most int, reason string) {
	r, n, bytes := s.largest()
	if bytes <= max(s.size.fit, leastMessage) {
		return // it takes as much
	}
	s.learnSize(bytes, most)
	switch {
	case r != nil:
		s.fail(r, abi.ClassTooMuch, reason)
	case n != nil:
		n.tooLarge(s, reason)
	}
}

// learnSize halves the way between what the relay takes and what it does not.
func (s *Session) learnSize(over, most int) {
	z := &s.size
	if z.over == 0 || over < z.over {
		z.over = over
	}
	if most <= z.fit || most >= z.over {
		most = (z.fit + z.over) / 2
	}
	most = max(most, leastMessage)
	if known := int(s.caps.MaxMessage); known == 0 || most < known {
		s.caps.MaxMessage = uint32(most)
		s.learnt()
	}
}

// Sizes returns the bytes of the longest message that the relay has answered, and of the
// longest one that was sent lately and that it has not, if that is longer: if the relay
// hangs up, that may be why.
func (s *Session) Sizes(now int64) (answered, unanswered int) {
	r, n, bytes := s.largest()
	switch {
	case bytes <= s.size.fit:
	case r != nil && now-r.sent < lostTime, n != nil && now-n.heard < lostTime:
		unanswered = bytes
	}
	return s.size.fit, unanswered
}

// width is how many filters, and values in one of their lists, were answered at most.
type width struct{ filters, values int }

func widthOf(filters []host.Filter) width {
	w := width{filters: len(filters)}
	for i := range filters {
		f := &filters[i]
		w.values = max(w.values, len(f.IDs), len(f.Authors), len(f.Kinds))
		for k := range f.Tags {
			w.values = max(w.values, len(f.Tags[k].Values))
		}
	}
	return w
}

func (w *width) fits(filters []host.Filter) {
	o := widthOf(filters)
	w.filters, w.values = max(w.filters, o.filters), max(w.values, o.values)
}

// tooWide makes more of a refusal that does not say why: a request of more filters, or
// more values, than the relay has ever answered may be too much for it. So whoever made
// the request asks in smaller parts; at one filter of one value there is no smaller one.
func (s *Session) tooWide(r *request, class uint32) uint32 {
	w := widthOf(r.filters)
	if class == abi.ClassUnsupported && (w.filters > max(1, s.width.filters) || w.values > max(1, s.width.values)) {
		return abi.ClassTooMuch
	}
	return class
}

// learnt tells what the relay showed of itself.
func (s *Session) learnt() { s.tell(&Learnt{s.caps}) }
