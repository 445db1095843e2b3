package world

import (
	"cmp"
	"maps"
	"slices"

	"talon/cmd/internal/lab/scenario"
)

// Fault is something that goes wrong. It hits relays or Talons.
type Fault struct {
	Number    uint32
	What      string // as in a scenario
	At, Until int64
	Relays    []int
	Talons    []int
	Status    int
	Factor    float64
	Skew      int64 // milliseconds
	Flaps     int   // it is so many short ones; 0: one
}

// Parts returns when a fault is on.
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

// OnRelays reports whether a fault is one of relays or lines.
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
		for _, relay := range w.Relays {
			if relay.Class == class {
				w.drawOutages(relay, &c, r)
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

func (w *World) drawOutages(relay *Relay, c *scenario.Relays, r stream) {
	if c.Dying > 0 && r.chance(c.Dying) {
		w.Faults = append(w.Faults, &Fault{What: "outage", At: int64(r.Float64() * float64(w.End)), Until: w.End, Relays: []int{relay.Number}})
	}
	if c.OutageEvery == 0 {
		return
	}
	mean := float64(c.OutageEvery.Milliseconds())
	for at := int64(r.exponential(mean)); at < w.End; at += int64(r.exponential(mean)) {
		f := &Fault{What: "outage", At: at, Relays: []int{relay.Number}, Status: c.OutageStatus, Flaps: c.Flapping}
		f.Until = at + max(1000, int64(r.logNormal(float64(c.OutageMedian.Milliseconds()), c.OutageSigma)))
		if r.chance(c.HalfOpen) {
			f.What = "half-open"
		}
		f.Until = min(f.Until, w.End)
		w.Faults = append(w.Faults, f)
		at = f.Until
	}
}

func (w *World) drawFault(s *scenario.Fault, r stream) {
	for at := s.At.Milliseconds(); at < w.End; at += s.Every.Milliseconds() {
		f := &Fault{
			What: s.What, At: at, Until: min(at+s.For.Milliseconds(), w.End), Status: s.Status, Factor: s.Factor, Skew: int64(s.SkewS) * 1000,
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
		} else {
			for i := range w.Talons {
				if r.chance(s.Share) {
					f.Talons = append(f.Talons, i)
				}
			}
		}
		if len(f.Relays)+len(f.Talons) > 0 {
			w.Faults = append(w.Faults, f)
		}
		if s.Every == 0 {
			return
		}
	}
}
