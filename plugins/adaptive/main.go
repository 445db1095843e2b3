// Command adaptive is a throttle that learns how many requests each domain can take. It starts
// with a low limit. The limit rises by one request after each row of answers at the domain's
// usual speed. It falls to half when the domain answers 429 or 503, fails, or becomes slow
// (additive increase, multiplicative decrease). The throttle always obeys Retry-After.
//
// Rounds for a repository, relays and clients are treated as by polite.
//
// The memory of the instance holds the learned limits, so a swap or a restart starts with low
// limits again. The host keeps the Retry-After of each domain, which a restart does not lose.
package main

import (
	_ "embed"
	"strings"

	"talon/sdk/throttle"
)

//go:embed manifest.json
var manifest string

var _ = throttle.Register(manifest, new(adaptive))

func main() {}

type adaptive struct {
	user, synced int64
	first, max   int64
	maxRest      int64
	expiry       int64
	learning     learning
	known        memory
	relays       throttle.Relays
	easing       bool // clients get lower limits while this server is busy
	busy         float64
	limits       throttle.ClientLimits
}

func (a *adaptive) Configure(cfg throttle.Config) error {
	a.user, a.synced = cfg.Int("first_user_ms"), cfg.Int("first_sync_ms")
	a.first, a.max = cfg.Int("backoff_s")*throttle.Second, cfg.Int("backoff_max_s")*throttle.Second
	a.maxRest, a.expiry = cfg.Int("retry_after_max_s")*throttle.Second, cfg.Int("expiry_s")*throttle.Second
	a.learning = learning{
		start: float64(cfg.Int("at_once_start")), max: float64(cfg.Int("at_once_max")),
		rate: float64(cfg.Int("per_minute_start")), maxRate: float64(cfg.Int("per_minute_max")),
		slow: cfg.Float("slow_factor"),
	}
	a.known = memory{max: int(cfg.Int("domains_max"))}
	a.relays = throttle.Relays{
		First: 5 * throttle.Second, Max: throttle.Hour, Stable: 10 * throttle.Second, DeadAfter: throttle.Day, DeadEvery: throttle.Day,
		Limited: 65 * throttle.Second, Barred: 12 * throttle.Hour, EagerFrom: throttle.Hour, AtOnce: uint32(cfg.Int("relay_attempts_at_once")),
	}
	a.easing = cfg.Bool("limit_clients")
	a.busy = cfg.Float("busy_from")
	a.limits = throttle.ClientLimits{Events: 600, Queries: 600, BytesOut: 8 << 20}
	switch {
	case a.learning.start > a.learning.max:
		return throttle.WrongValue("at_once_start", "more than at_once_max", "at most at_once_max")
	case a.learning.rate > a.learning.maxRate:
		return throttle.WrongValue("per_minute_start", "more than per_minute_max", "at most per_minute_max")
	}
	return nil
}

func (a *adaptive) Delay(in throttle.DelayInput) throttle.DelayAnswer {
	switch {
	case in.Subject.Kind == throttle.Relay:
		return throttle.DelayAnswer{}
	case in.Origin == throttle.FromClient:
		return throttle.DelayAnswer{Delay: a.user, Expiry: a.expiry}
	}
	return throttle.DelayAnswer{Delay: a.synced, Expiry: a.expiry}
}

func (a *adaptive) Admit(in throttle.AdmitInput) throttle.AdmitAnswer {
	if in.Subject.Kind == throttle.Relay {
		return a.relays.Admit(in)
	}
	limits := a.learning.initial()
	if d := a.known.find(in.Subject.Name); d != nil {
		limits = d.limits()
	}
	return limits.Admit(in)
}

func (a *adaptive) After(in throttle.AfterInput) throttle.AfterAnswer {
	switch in.Subject.Kind {
	case throttle.Relay:
		return a.relays.After(in)
	case throttle.Repository:
		return throttle.AfterAnswer{Delay: throttle.Backoff(a.first, a.max, in.Attempts)}
	}
	d := a.known.get(in.Subject.Name, a.learning)
	asked := min(in.RetryAfter, a.maxRest)
	switch in.Outcome {
	case throttle.RateLimited:
		a.learning.worse(d, in.Now)
		if asked == 0 {
			asked = throttle.Backoff(a.first, a.maxRest, in.Subject.Failures)
		}
		return throttle.AfterAnswer{Delay: asked, Health: throttle.Degraded, Reason: "it asks for less"}
	case throttle.Timeout, throttle.Unreachable, throttle.DNS, throttle.TLS:
		a.learning.worse(d, in.Now)
		delay := max(asked, throttle.Backoff(a.first, a.max, in.Subject.Failures))
		return throttle.AfterAnswer{Delay: delay, Health: throttle.Degraded}
	case throttle.Server:
		// 503 asks for less; other errors may be about one repository.
		if in.Status == 503 || asked > 0 {
			a.learning.worse(d, in.Now)
		}
		return throttle.AfterAnswer{Delay: asked, Health: throttle.Degraded}
	case throttle.OK, throttle.Partial, throttle.NotFound:
		a.learning.answered(d, in.Now, in.Took, in.Bytes)
	}
	return throttle.AfterAnswer{Health: throttle.Healthy}
}

func (a *adaptive) Pick(in throttle.PickInput) throttle.PickAnswer {
	return throttle.InTurn(in)
}

func (a *adaptive) Tick(in throttle.TickInput) throttle.TickAnswer {
	if !a.easing {
		if in.Current == in.Most {
			return throttle.Keep()
		}
		return throttle.Limit(in.Most)
	}
	return throttle.Ease(in, a.busy, a.limits)
}

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

// memory holds the records of a bounded number of domains. When it is full, a new domain replaces
// the one that was used longest ago.
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
