package world

import (
	"cmp"
	"maps"
	"slices"

	"talon/cmd/internal/lab/scenario"
)

// Fault is something that goes wrong. It hits relays, Talons or git servers.
type Fault struct {
	Number    uint32
	What      string // as in a scenario
	At, Until int64
	Relays    []int
	Talons    []int
	Git       []int
	Status    int
	Factor    float64
	Skew      int64  // milliseconds
	Flaps     int    // number of short faults that it is made of; 0: one
	Keys      string // of limits: TOML over a profile
}

// Parts returns the times during which a fault is active.
func (f *Fault) Parts() []Away {
	if f.Flaps <= 1 {
		return []Away{{f.At, f.Until}}
	}
	step := max(2, (f.Until-f.At)/int64(f.Flaps))
	parts := make([]Away, f.Flaps)
	for i := range parts {
		from := f.At + int64(i)*step
		parts[i] = Away{from, from + step/2}
	}
	return parts
}

// unreachable reports whether relays that a fault hits cannot be reached.
func (f *Fault) unreachable() bool {
	return f.What == "outage" || f.What == "half-open" || f.What == "partition"
}

// OnRelays reports whether a fault affects relays or connections.
func OnRelays(what string) bool {
	switch what {
	case "restart", "crash", "swap", "disk", "skew":
		return false
	}
	return true
}

// drawFaults draws the outages of each relay, and whom the faults of the scenario hit.
func (w *World) drawFaults() {
	for _, class := range slices.Sorted(maps.Keys(w.Scenario.Relays)) {
		c := w.Scenario.Relays[class]
		r := newStream(w.Seed, "outages "+class)
		measured, err := c.MeasuredOutages()
		if err != nil {
			panic(err) // the scenario is checked
		}
		n := 0 // relays of the class so far
		for _, relay := range w.Relays {
			if relay.Class == class {
				if len(measured) > 0 {
					w.addOutages(relay, measured[n%len(measured)])
				}
				n++
				w.drawOutages(outages{c.OutageEvery, c.OutageMedian, c.OutageSigma, c.OutageStatus, c.Flapping, c.HalfOpen, c.Dying}, r, func(f *Fault) { f.Relays = []int{relay.Number} })
			}
		}
	}
	for _, class := range slices.Sorted(maps.Keys(w.Scenario.Git)) {
		c := w.Scenario.Git[class]
		r := newStream(w.Seed, "git outages "+class)
		for _, g := range w.Git {
			if g.Class == class {
				w.drawOutages(outages{c.OutageEvery, c.OutageMedian, c.OutageSigma, c.OutageStatus, 0, c.HalfOpen, c.Dying}, r, func(f *Fault) { f.Git = []int{g.Number} })
			}
		}
	}
	r := newStream(w.Seed, "faults")
	for i := range w.Scenario.Faults {
		w.drawFault(&w.Scenario.Faults[i], r)
	}
	slices.SortStableFunc(w.Faults, func(a, b *Fault) int { return cmp.Compare(a.At, b.At) })
	for i, f := range w.Faults {
		f.Number = uint32(i)
		if !f.unreachable() {
			continue
		}
		for _, relay := range f.Relays {
			w.Relays[relay].Away = append(w.Relays[relay].Away, f.Parts()...)
		}
		for _, g := range f.Git {
			w.Git[g].Away = append(w.Git[g].Away, f.Parts()...)
		}
	}
	for _, g := range w.Git {
		g.Away = union(g.Away)
	}
	for _, relay := range w.Relays {
		for _, o := range relay.Profile.Outages {
			for at := int64(o.AfterSeconds * 1000); at < w.End; at += int64(o.EverySeconds * 1000) {
				relay.Away = append(relay.Away, Away{at, at + int64(o.ForSeconds*1000)})
				if o.EverySeconds == 0 {
					break
				}
			}
		}
		relay.Away = union(relay.Away)
	}
}

// union returns times that do not overlap, in order.
func union(list []Away) (out []Away) {
	slices.SortFunc(list, func(a, b Away) int { return cmp.Compare(a.From, b.From) })
	for _, a := range list {
		if n := len(out); n > 0 && a.From <= out[n-1].To {
			out[n-1].To = max(out[n-1].To, a.To)
		} else {
			out = append(out, a)
		}
	}
	return out
}

// outages is how often a relay or a git server is away.
type outages struct {
	every, median scenario.Duration
	sigma         float64
	status, flaps int
	halfOpen      float64
	dying         float64
}

// addOutages adds measured outages.
func (w *World) addOutages(relay *Relay, list []scenario.Span) {
	for _, s := range list {
		if at := s.From.Milliseconds(); at < w.End {
			w.Faults = append(w.Faults, &Fault{What: "outage", At: at, Until: min(w.End, s.Until.Milliseconds()), Status: s.Status, Relays: []int{relay.Number}})
		}
	}
}

// drawOutages draws those of one, which hits names.
func (w *World) drawOutages(o outages, r stream, hits func(*Fault)) {
	add := func(f *Fault) {
		hits(f)
		w.Faults = append(w.Faults, f)
	}
	if o.dying > 0 && r.chance(o.dying) {
		add(&Fault{What: "outage", At: int64(r.Float64() * float64(w.End)), Until: w.End})
	}
	if o.every == 0 {
		return
	}
	mean := float64(o.every.Milliseconds())
	for at := int64(r.exponential(mean)); at < w.End; at += int64(r.exponential(mean)) {
		f := &Fault{What: "outage", At: at, Status: o.status, Flaps: o.flaps}
		f.Until = at + max(1000, int64(r.logNormal(float64(o.median.Milliseconds()), o.sigma)))
		if r.chance(o.halfOpen) {
			f.What = "half-open"
		}
		f.Until = min(f.Until, w.End)
		add(f)
		at = f.Until
	}
}

func (w *World) drawFault(s *scenario.Fault, r stream) {
	for at := s.At.Milliseconds(); at < w.End; at += s.Every.Milliseconds() {
		f := &Fault{
			What: s.What, At: at, Until: min(at+s.For.Milliseconds(), w.End), Status: s.Status, Factor: s.Factor, Skew: int64(s.SkewS) * 1000, Keys: s.Keys,
		}
		if s.What == "reset" || s.What == "swap" {
			f.Until = at
		}
		if OnRelays(s.What) {
			for _, relay := range w.Relays {
				if (s.Class == "" || relay.Class == s.Class) && r.chance(s.Share) {
					f.Relays = append(f.Relays, relay.Number)
				}
			}
			for _, g := range w.Git {
				if s.Class == g.Class && r.chance(s.Share) {
					f.Git = append(f.Git, g.Number)
				}
			}
		} else {
			for i := range w.Talons {
				if r.chance(s.Share) {
					f.Talons = append(f.Talons, i)
				}
			}
		}
		if len(f.Relays)+len(f.Talons)+len(f.Git) > 0 {
			w.Faults = append(w.Faults, f)
		}
		if s.Every == 0 {
			return
		}
	}
}
