package main

import (
	"strings"

	"talon/sdk/throttle"
)

// learning is how limits grow and shrink.
type learning struct {
	start, max    float64 // requests in flight
	rate, maxRate float64 // in a minute
	slow          float64 // this multiple of the usual time is slow
}

// domain is what is known of one.
type domain struct {
	name     string
	atOnce   float64
	rate     float64
	usual    float64 // milliseconds that an answer without much data takes
	worsened int64   // when its limits were lowered last

	newer, older *domain // used after it, and before
}

// calm is how long limits stay as they are after they were lowered: what was under
// way then says nothing about the new ones.
const calm = 10 * throttle.Second

// large is the size from which the time of an answer is that of its data.
const large = 256 << 10

func (l learning) initial() throttle.DomainLimits {
	return (&domain{atOnce: l.start, rate: l.rate}).limits()
}

func (d *domain) limits() throttle.DomainLimits {
	return throttle.DomainLimits{AtOnce: uint32(d.atOnce), PerMinute: int(d.rate)}
}

// answered lets more in after an answer that came as fast as usual, and less after a
// slow one.
func (l learning) answered(d *domain, now, took, bytes int64) {
	if bytes < large {
		t := float64(max(took, 1))
		slow := d.usual > 0 && t > d.usual*l.slow && t > 1000
		switch {
		case d.usual == 0 || t < d.usual:
			d.usual = t
		default:
			// The usual time follows slowly, so that a domain that has become slow for
			// good is not taken for overloaded for ever.
			d.usual += (t - d.usual) / 64
		}
		if slow {
			l.worse(d, now)
			return
		}
	}
	if now-d.worsened < calm {
		return
	}
	d.atOnce = min(d.atOnce+1/d.atOnce, l.max)
	d.rate = min(d.rate+1/2., l.maxRate)
}

// worse halves what is allowed, once for all that was under way together.
func (l learning) worse(d *domain, now int64) {
	if d.worsened != 0 && now-d.worsened < calm {
		return
	}
	d.worsened = now
	d.atOnce = max(d.atOnce/2, 1)
	d.rate = max(d.rate/2, 2)
}

// memory is what is known of domains, of a bounded number of them: whoever names one
// domain after the other makes it forget those that were used longest ago.
type memory struct {
	max            int
	list           map[string]*domain
	newest, oldest *domain // by when they were used
}

func (m *memory) find(name string) *domain { return m.list[name] }

// get returns a domain's record, a new one if there is none: in place of the one
// that was used longest ago if there are too many.
func (m *memory) get(name string, l learning) *domain {
	d := m.list[name]
	switch {
	case d != nil:
		m.unlink(d)
	case m.list == nil:
		m.list = make(map[string]*domain)
	case len(m.list) >= m.max:
		delete(m.list, m.oldest.name)
		m.unlink(m.oldest)
	}
	if d == nil {
		// The name of a request is valid only while it is answered.
		d = &domain{name: strings.Clone(name), atOnce: l.start, rate: l.rate}
		m.list[d.name] = d
	}
	m.push(d)
	return d
}

// push makes d the newest. REQUIRES: it is not linked.
func (m *memory) push(d *domain) {
	d.older, d.newer = m.newest, nil
	if m.newest != nil {
		m.newest.newer = d
	} else {
		m.oldest = d
	}
	m.newest = d
}

func (m *memory) unlink(d *domain) {
	if d.newer != nil {
		d.newer.older = d.older
	} else {
		m.newest = d.older
	}
	if d.older != nil {
		d.older.newer = d.newer
	} else {
		m.oldest = d.newer
	}
}
