// Package hunt looks for what breaks strategies in networks that it draws, and keeps what it
// finds.
//
// Equal seeds draw equal scenarios, on every machine.
package hunt

import (
	"fmt"
	"math/rand/v2"
	"time"

	"talon/cmd/internal/lab/scenario"
)

// drawing is the randomness of one scenario.
type drawing struct{ *rand.Rand }

func (r drawing) chance(p float64) bool { return r.Float64() < p }

// upTo returns a number from 0 to limit.
func (r drawing) upTo(limit int) int { return r.IntN(limit + 1) }

// one returns one of the values.
func one[T any](r drawing, values ...T) T { return values[r.IntN(len(values))] }

// Draw draws a scenario. Its relays have the profiles of real ones, with limits, rates, outages and
// lies; the strategy restarts, lines fail, events move and end. Each scenario has an honest relay.
func Draw(seed uint64) *scenario.Scenario {
	r := drawing{rand.New(rand.NewPCG(seed, 0x68756e74))}
	for {
		s := draw(r)
		s.Name, s.Description = fmt.Sprintf("hunt-%d", seed), "drawn by talon lab hunt"
		if again, err := scenario.Parse(s.Text()); err == nil {
			return again
		}
	}
}

const (
	hour = scenario.Duration(time.Hour)
	day  = 24 * hour
)

func draw(r drawing) *scenario.Scenario {
	s := scenario.Default()
	s.Duration = one(r, 6*hour, 12*hour, day, 2*day)
	s.Quiet = one(r, 2*hour, 3*hour, 4*hour)
	// The daily comparison finds events that come late or have an old date. Copies come up to 8 hours
	// late, and a day must be left after them.
	late := r.chance(0.3)
	if late {
		s.Duration, s.Quiet = 3*day+6*hour, 36*hour
	}
	s.Talon.Count = one(r, 1, 1, 1, 2, 3)
	if r.chance(0.3) {
		s.Talon.Held, s.Talon.HeldMedian = one(r, 0.2, 0.6), one(r, hour/60, hour/10)
	}
	if r.chance(0.3) {
		s.Talon.Refused = one(r, 0.05, 0.3)
	}
	drawRelays(r, s)
	drawEvents(r, s, late)
	drawFaults(r, s)
	drawLosses(r, s)
	return s
}

// drawLosses draws relays that refuse, drop or remove events, events with one copy, and limits that
// change.
func drawLosses(r drawing, s *scenario.Scenario) {
	if r.chance(0.2) {
		steady := s.Relays["steady"]
		switch r.upTo(2) {
		case 0:
			steady.Keeps = one(r, hour, day, 30*day)
		case 1:
			steady.Refuses = one(r, 0.05, 0.5)
		case 2:
			steady.Drops = one(r, 0.05, 0.5)
		}
		s.Relays["steady"] = steady
	}
	if r.chance(0.3) {
		s.Publishers.Copies = one(r, []int{1}, []int{40, 30, 20, 10}, []int{8, 1, 1})
		s.Repositories.Copies = s.Publishers.Copies
	}
	if r.chance(0.2) {
		var f scenario.Fault
		f.SetDefaults()
		f.What, f.Keys = "limits", one(r, "limits.subscriptions = 4", "limits.limit = 20", "rate.requests.per-minute = 20")
		f.At, f.For, f.Share = one(r, hour/6, hour, 3*hour), one(r, hour/2, 4*hour), 1
		s.Faults = append(s.Faults, f)
	}
}

func drawRelays(r drawing, s *scenario.Scenario) {
	add := func(name string, class scenario.Relays) { s.Relays[name] = class }
	var index scenario.Relays
	index.SetDefaults()
	index.Count, index.Bootstrap, index.Profile, index.Listed = 1, 1, "strfry", r.chance(0.5)
	add("index", index)
	var steady scenario.Relays
	steady.SetDefaults()
	steady.Count, steady.Profile = 2, one(r, "strfry", "khatru", "ngit-grasp")
	add("steady", steady)
	for i := range 1 + r.upTo(3) {
		var c scenario.Relays
		c.SetDefaults()
		c.Count = 1 + r.upTo(2)
		c.Profile = one(r, "strfry", "strfry", "khatru", "ngit-grasp", "ngit-relay", "nostr-rs-relay", "nostream", "limited", "notice-only", "lying", "dropping", "silent", "dead")
		if c.Profile == "limited" {
			// Its answers have room for the events of one second: no REQ brings more.
			c.Keys = "limits.limit = 50\nlimits.default-limit = 50\n"
		}
		c.LatencyMS = one(r, 5.0, 40, 40, 200, 600)
		c.Bandwidth = one(r, 0, 5_000_000, 50_000)
		if r.chance(0.2) {
			c.Rate = one(r, 30.0, 60, 300)
		}
		if r.chance(0.5) {
			c.OutageEvery, c.OutageMedian, c.OutageSigma = one(r, 2*hour, 6*hour, 12*hour), one(r, hour/120, hour/12, hour/2), one(r, 0.5, 1.5)
			c.OutageStatus = one(r, 0, 0, 502, 503)
			c.Flapping = one(r, 0, 0, 0, 5)
			c.HalfOpen = one(r, 0, 0, 0.3)
		}
		if r.chance(0.1) {
			c.Dying = 0.5
		}
		add(fmt.Sprintf("class-%d", i), c)
	}
}

func drawEvents(r drawing, s *scenario.Scenario, late bool) {
	p, e := &s.Repositories, &s.Publishers
	p.Count, p.Owners = 1+r.upTo(25), 1+r.upTo(8)
	p.RelaysMin = 1 + r.upTo(1)
	p.RelaysMax = p.RelaysMin + r.upTo(1)
	p.Talons = 1 + r.upTo(s.Talon.Count-1)
	p.Zipf = one(r, 0.0, 1, 2)
	p.Roots, p.Comments = one(r, 0, 20, 60, 150), one(r, 0.0, 1, 4)
	p.History = one(r, hour/6, day, 90*day)
	p.CopiesMax = 1 + r.upTo(2)
	if r.chance(0.3) {
		p.Foreign = 0.3
	}
	days := float64(s.Duration) / float64(day)
	rate := func(limit float64) float64 { return float64(int(one(r, 0, 0.3, 1) * limit / days)) }
	e.Roots, e.Comments, e.States = rate(40), rate(150), rate(30)
	e.CopiesMax = 1 + r.upTo(2)
	e.Edits, e.Moves, e.New, e.Deletions, e.Noise = rate(8), rate(6), rate(6), rate(15), rate(100)
	if r.chance(0.3) {
		e.Departures = rate(3)
	}
	if r.chance(0.3) {
		e.Direct = 0.3
	}
	if late {
		e.BackDated, e.Late, e.LateBy = one(r, 0, 0.2), one(r, 0, 0.2), one(r, hour, 8*hour)
	}
}

func drawFaults(r drawing, s *scenario.Scenario) {
	for range r.upTo(4) {
		var f scenario.Fault
		f.SetDefaults()
		f.What = one(r, "outage", "half-open", "partition", "reset", "slow", "restart", "crash", "swap", "disk", "skew")
		f.At = scenario.Duration(r.Float64()*float64(s.Duration-s.Quiet)) / scenario.Duration(time.Second) * scenario.Duration(time.Second)
		f.For = one(r, hour/360, hour/12, hour/2)
		if r.chance(0.3) {
			f.Every = one(r, hour, 5*hour)
		}
		f.Share = one(r, 0.3, 1)
		switch f.What {
		case "slow", "disk":
			f.Factor = one(r, 5.0, 50)
		case "skew":
			f.SkewS = one(r, -400, 400)
		}
		s.Faults = append(s.Faults, f)
	}
}
