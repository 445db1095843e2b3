package devnet

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"talon/cmd/internal/lab/scenario"
)

// epoch is when the world of options begins, in unix seconds: its history is before.
const epoch = 1_760_000_000

// scenario returns the scenario that the options are a short form of.
func (c *Config) scenario() (*scenario.Scenario, error) {
	s := scenario.Default()
	s.Name, s.Start, s.Quiet = "devnet", epoch, 0
	s.Talon.Count = 1
	bootstrap := c.Bootstrap
	add := func(name string, n int, r scenario.Relays) {
		r.Count, r.Bootstrap = n, min(n, bootstrap)
		r.LatencyMS, r.Spread, r.Jitter = float64(c.Latency)/1e6, 0, 0
		bootstrap -= r.Bootstrap
		s.Relays[className(len(s.Relays), name)] = r
	}
	class := func(profile, keys string) (r scenario.Relays) {
		r.SetDefaults()
		r.Profile, r.Keys = profile, keys
		return r
	}
	comparing := int(float64(c.Relays)*c.Negentropy + 0.5)
	for _, half := range []struct {
		n    int
		keys string
	}{{comparing, "negentropy.supported = true"}, {c.Relays - comparing, "negentropy.supported = false"}} {
		if half.n > 0 {
			r := class("khatru", half.keys)
			r.Program = "khatru"
			add("khatru", half.n, r)
		}
	}
	for _, f := range c.Foreign {
		if f.Keys != "" {
			add(f.Name, f.Count, class("default", f.Keys))
		} else {
			add(f.Name, f.Count, class(f.Name, ""))
		}
	}
	if c.GitServers > 0 {
		var g scenario.Git
		g.SetDefaults()
		g.Count, g.LatencyMS, g.Spread = c.GitServers, float64(c.Latency)/1e6, 0
		s.Git["git"] = g
	}
	r := &s.Repositories
	r.Count, r.Owners, r.Zipf = c.Repos, max(8, c.Repos/4), 0
	r.Elsewhere = int(float64(c.Repos)*c.Noise + 0.5)
	r.RelaysMin, r.RelaysMax, r.GitMin, r.GitMax = c.RelaysPer, c.RelaysPer, c.ClonesPer, c.ClonesPer
	r.Roots, r.Comments = (r.Count+r.Elsewhere)*c.Roots, float64(c.Comments)
	r.Bytes, r.Sigma, r.CopiesMin, r.CopiesMax = 170, 0.3, 1, c.RelaysPer
	r.Keepers, r.MoreRefs, r.Statuses = 0.25, 2, 1.0/3
	if c.Roots > 0 {
		r.Pulls = 1 / float64(c.Roots)
	}
	// So short that several events are of the same second.
	r.History = scenario.Duration(time.Minute + time.Duration(r.Roots)*time.Second)
	p := &s.Publishers
	p.Roots, p.Comments, p.States = 0, 0, 0
	p.CopiesMin, p.CopiesMax, p.SpreadS, p.PushAfter, p.Mirrored = 1, c.RelaysPer, 0, 0, 1
	return s.With()
}

// className makes the name of a class of relays from that of a profile. Classes are drawn in the order of
// their names: the number keeps that of the options.
func className(number int, profile string) string {
	clean := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' {
			return r
		}
		return '-'
	}, strings.ToLower(profile))
	return fmt.Sprintf("n%04d-%s", number, clean)
}

// checkPlayable refuses what a lab simulates and nothing here does.
func checkPlayable(s *scenario.Scenario) error {
	for key, there := range map[string]bool{
		"talon.count":                   s.Talon.Count > 1,
		"talon.held":                    s.Talon.Held > 0,
		"talon.refused":                 s.Talon.Refused > 0,
		"publishers.direct":             s.Publishers.Direct > 0,
		"publishers.departures-per-day": s.Publishers.Departures > 0,
		"publishers.unpushed":           s.Publishers.Unpushed > 0,
	} {
		if there {
			return fmt.Errorf("the scenario has %s, which a devnet cannot play", key)
		}
	}
	var plain scenario.Git
	plain.SetDefaults()
	for name, g := range s.Git {
		g.Count, g.Weight, g.LatencyMS, g.Spread = plain.Count, plain.Weight, plain.LatencyMS, plain.Spread
		g.OutageEvery, g.OutageMedian, g.OutageSigma, g.Dying = plain.OutageEvery, plain.OutageMedian, plain.OutageSigma, plain.Dying
		if g != plain {
			return fmt.Errorf("the scenario has git servers of class %s that are slow, limited or lying, which a devnet cannot play: want only count, weight, latency and outages", name)
		}
	}
	bootstrap := false
	for name, r := range s.Relays {
		switch p := s.Profile(name); {
		case r.HalfOpen > 0:
			return fmt.Errorf("the scenario has relays.%s.half-open, which a devnet cannot play", name)
		case r.Bootstrap > 0 && !p.Honest():
			return fmt.Errorf("the bootstrap relays of class %s lie or are dead: what they have cannot be had from them", name)
		}
		bootstrap = bootstrap || r.Bootstrap > 0
	}
	if !bootstrap {
		return errors.New("the scenario has no bootstrap relay")
	}
	for i, f := range s.Faults {
		if f.What != "outage" && f.What != "partition" {
			return fmt.Errorf("fault[%d] of the scenario is %q, which a devnet cannot play: want outage or partition", i+1, f.What)
		}
	}
	return nil
}

// isKhatru reports whether a class of relays is of the real program.
func isKhatru(s *scenario.Scenario, class string) bool { return s.Relays[class].Program == "khatru" }

// profileName is the name of the profile of a class.
func profileName(s *scenario.Scenario, class string) string {
	if name := s.Relays[class].Profile; name != "default" {
		return name
	}
	if number, name, ok := strings.Cut(class, "-"); ok && len(number) == 5 && number[0] == 'n' {
		return name
	}
	return class
}
