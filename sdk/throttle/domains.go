package throttle

import (
	"slices"
	"strconv"
	"strings"
)

// DomainLimits are the limits of requests to one domain.
type DomainLimits struct {
	AtOnce    uint32 // in flight
	PerMinute int    // starts in any minute; 0: no limit
}

// Window is the period in which starts are counted. It is a little more than a minute, since
// requests do not all take the same time to arrive.
const Window = Minute + Second

// MaxPerMinute is the highest limit of starts that there can be: the host reports
// that many (abi.MaxAges).
const MaxPerMinute = 256

// Admit lets a request to the domain start as soon as the limits and the latest answer of After
// allow it.
func (l DomainLimits) Admit(in AdmitInput) AdmitAnswer {
	if left := in.Subject.NotBefore - in.Now; left > 0 {
		return Wait(left)
	}
	if in.Subject.InFlight >= l.AtOnce {
		return WaitForEnd()
	}
	if l.PerMinute > 0 {
		if wait := UntilFree(&in.Subject, l.PerMinute, Window); wait > 0 {
			return Wait(wait)
		}
	}
	return Start()
}

// Domains are the limits of all domains: the usual ones, and those of some.
type Domains struct {
	usual DomainLimits
	own   []ownLimits // by name
}

type ownLimits struct {
	name   string
	limits DomainLimits
}

// ParseDomains reads entries of the form domain=at once,per minute, such as
// git.example.com=10,60 or localhost:8080=2,0, where 0 a minute is no limit. An
// error names the key of the configuration.
func ParseDomains(key string, entries []string, usual DomainLimits) (Domains, error) {
	d := Domains{usual: usual}
	for _, entry := range entries {
		name, numbers, _ := strings.Cut(entry, "=")
		first, second, ok := strings.Cut(numbers, ",")
		atOnce, err := strconv.ParseUint(strings.TrimSpace(first), 10, 16)
		ok = ok && err == nil && atOnce > 0
		perMinute, err := strconv.ParseUint(strings.TrimSpace(second), 10, 16)
		ok = ok && err == nil && perMinute <= MaxPerMinute
		name = strings.ToLower(strings.TrimSuffix(strings.TrimSpace(name), "."))
		if !ok || name == "" || strings.ContainsAny(name, "/ @") {
			return Domains{}, WrongValue(key, entry, "domain=at once,per minute, such as git.example.com=10,60")
		}
		d.own = append(d.own, ownLimits{name, DomainLimits{uint32(atOnce), int(perMinute)}})
	}
	slices.SortFunc(d.own, func(a, b ownLimits) int { return strings.Compare(a.name, b.name) })
	for i := range d.own {
		if i > 0 && d.own[i].name == d.own[i-1].name {
			return Domains{}, WrongValue(key, d.own[i].name, "each domain once")
		}
	}
	return d, nil
}

// Of returns the limits of a domain.
func (d *Domains) Of(name string) DomainLimits {
	if i, ok := slices.BinarySearchFunc(d.own, name, func(o ownLimits, name string) int { return strings.Compare(o.name, name) }); ok {
		return d.own[i].limits
	}
	return d.usual
}

// InTurn picks the first that waits. The host sorts them by when they were last served, longest ago
// first, so all get their turn. A pick by LastTried instead would let newcomers overtake.
func InTurn(PickInput) PickAnswer { return Next(0) }

// Relays are the numbers by which relays that fail are tried again, lengths of time
// all but one.
type Relays struct {
	First, Max int64 // after a failure: doubles with each one in a row
	Stable     int64 // a connection that ended sooner counts as a failure
	DeadAfter  int64 // of failures only: the relay is dead
	DeadEvery  int64 // between attempts to reach a dead relay
	Limited    int64 // after "rate-limited", unless the relay names a longer time
	Barred     int64 // while its name, certificate or protocol stay wrong, at most
	EagerFrom  int64 // uptime from which a relay that is lost is tried more eagerly; 0: none is

	AtOnce uint32 // attempts to connect, to all relays together
}

// Admit lets one attempt to connect to a relay start at a time, not before After
// said.
func (r *Relays) Admit(in AdmitInput) AdmitAnswer {
	if left := in.Subject.NotBefore - in.Now; left > 0 {
		return Wait(left)
	}
	if in.Subject.InFlight > 0 || in.AllInFlight >= r.AtOnce {
		return WaitForEnd()
	}
	return Start()
}

// A name, certificate or protocol may be wrong for a moment: while a server is deployed, or
// moves. So a relay is barred after barFaults such failures within at least barAfter.
const (
	barFaults = 4
	barAfter  = 10 * Minute
)

// A relay that was fine for long is tried eagerly: it is found within First in the first
// minute of an outage, and then within First and a quarter of the outage.
const (
	eagerFirst = Minute
	eagerEnd   = 10 * Minute
)

// After says when to connect again: immediately to a relay that was fine, and less
// often the longer it fails.
func (r *Relays) After(in AfterInput) AfterAnswer {
	switch in.Outcome {
	case OK:
		return AfterAnswer{Health: Healthy}
	case Disconnected:
		if in.Since == 0 || in.Now-in.Since >= r.Stable {
			return AfterAnswer{Health: Healthy}
		}
	case RateLimited:
		return AfterAnswer{Delay: min(max(r.Limited, in.RetryAfter), Day), Health: Degraded, Reason: "it asks for less"}
	}
	s := &in.Subject
	if s.FailingSince != 0 && in.Now-s.FailingSince >= r.DeadAfter {
		return AfterAnswer{Delay: r.DeadEvery, Health: Dead, Reason: "it has failed for long"}
	}
	delay := max(r.backoff(&in), min(in.RetryAfter, Day))
	if faulty := in.Now - s.FaultySince; r.isFault(&in) && !s.Bootstrap && s.Faults >= barFaults && faulty >= barAfter {
		// As long as it has been wrong: the time doubles.
		return AfterAnswer{Delay: max(delay, min(faulty, r.Barred)), Health: Barred, Reason: "its name, certificate or protocol stays wrong"}
	}
	return AfterAnswer{Delay: delay, Health: Degraded}
}

// isFault reports whether the relay's name, certificate or protocol was wrong.
func (r *Relays) isFault(in *AfterInput) bool {
	return in.Outcome == DNS || in.Outcome == TLS || in.Outcome == Protocol
}

// backoff is how long to wait after a failure. One that ended a connection because the relay
// broke the rules counts as often as it happened, however well the relay worked in between.
func (r *Relays) backoff(in *AfterInput) int64 {
	s := &in.Subject
	failing := max(in.Now-s.FailingSince, 0)
	switch {
	case in.Outcome == Protocol && in.Since != 0:
		return Backoff(r.First, r.Max, max(s.Failures, s.Faults))
	case r.EagerFrom == 0 || s.Uptime < r.EagerFrom || s.FailingSince == 0:
		return Backoff(r.First, r.Max, s.Failures)
	case failing < eagerFirst:
		return r.First
	case failing < eagerEnd:
		return min(r.First+failing/4, r.Max)
	}
	return max(r.First, min(failing, r.Max)) // as if the waits had doubled from the first on
}

// Load returns the load of this server, from 0 to 1: of its processors, its memory, or its queue of
// events, whichever is closest to its limit.
func Load(t *Telemetry) float64 {
	load := t.CPU
	if t.QueueLimit > 0 {
		load = max(load, float64(t.Queue)/float64(t.QueueLimit))
	}
	if t.MemoryLimit > 0 {
		load = max(load, float64(t.Memory)/float64(t.MemoryLimit))
	}
	if !(load > 0) { // NaN as well
		return 0
	}
	return min(load, 1)
}

// Ease lowers the limits of clients while this server is busy. Up to the load from, the limits are
// the operator's most. Above it they fall, and reach the operator's least at full load. A limit
// that most leaves unset starts at the value of busy, and has no value again when the load is low.
// A limit that is 0 in both busy and most stays off.
func Ease(in TickInput, from float64, busy ClientLimits) TickAnswer {
	load := Load(&in.Telemetry)
	share := 0.0
	if load > from {
		share = (load - from) / (1 - from)
	}
	// In steps, so that clients see few changes.
	const steps = 10
	part := int64(share * steps)
	if share > 0 && part == 0 {
		part = 1
	}
	limit := func(maximum, low, busy int64) int64 {
		top := maximum
		if top == 0 {
			if part == 0 {
				return 0
			}
			top = busy
		}
		if top == 0 {
			return 0
		}
		if low == 0 {
			low = max(top/20, 1)
		}
		low = min(low, top)
		return top - int64(float64(top-low)*float64(part)/steps)
	}
	small := func(maximum, low, busy uint32) uint32 { return uint32(limit(int64(maximum), int64(low), int64(busy))) }
	maximum, low, current := &in.Most, &in.Least, in.Current
	limits := current
	limits.Subscriptions = small(maximum.Subscriptions, low.Subscriptions, busy.Subscriptions)
	limits.Events = small(maximum.Events, low.Events, busy.Events)
	limits.Queries = small(maximum.Queries, low.Queries, busy.Queries)
	limits.BytesIn = limit(maximum.BytesIn, low.BytesIn, busy.BytesIn)
	limits.BytesOut = limit(maximum.BytesOut, low.BytesOut, busy.BytesOut)
	if limits == current {
		return Keep()
	}
	return Limit(limits)
}
