// Command slow-domain is a throttle that is gentle to one slow git server: one request
// at once, with a pause after each, and patience when it does not answer. Everybody
// else is dealt with as the bundled throttle "polite" does, as it comes.
package main

import (
	_ "embed"
	"strings"

	"talon/sdk/throttle"
)

//go:embed manifest.json
var manifest string

var _ = throttle.Register(manifest, new(slow))

func main() {}

type slow struct {
	domain string
	pause  int64 // milliseconds after each request to it
}

func (s *slow) Configure(cfg throttle.Config) error {
	s.domain = strings.ToLower(strings.TrimSuffix(cfg.String("domain"), "."))
	if strings.ContainsAny(s.domain, "/ @") {
		return throttle.WrongValue("domain", s.domain, "a domain without a path, such as git.example.com")
	}
	s.pause = cfg.Int("pause_s") * throttle.Second
	return nil
}

// These are the numbers of polite.
var (
	others = throttle.DomainLimits{AtOnce: 5, PerMinute: 30}
	relays = throttle.Relays{
		First: 5 * throttle.Second, Max: throttle.Hour, Stable: 10 * throttle.Second, DeadAfter: throttle.Day, DeadEvery: throttle.Day,
		Limited: 65 * throttle.Second, Barred: throttle.Day / 2, AtOnce: 10,
	}
)

const (
	first    = 20 * throttle.Second // to the second round, or attempt
	maxDelay = 2 * throttle.Minute
	limited  = 65 * throttle.Second // after 429, unless the server says
)

func (s *slow) isSlow(subject *throttle.Subject) bool {
	return subject.Kind == throttle.Domain && subject.Name == s.domain
}

func (s *slow) Delay(in throttle.DelayInput) throttle.DelayAnswer {
	switch {
	case in.Subject.Kind == throttle.Relay:
		return throttle.DelayAnswer{}
	case in.Origin == throttle.FromClient: // a push is expected
		return throttle.DelayAnswer{Delay: 3 * throttle.Minute, Expiry: throttle.Hour / 2}
	}
	return throttle.DelayAnswer{Delay: throttle.Second / 2, Expiry: throttle.Hour / 2}
}

func (s *slow) Admit(in throttle.AdmitInput) throttle.AdmitAnswer {
	switch {
	case s.isSlow(&in.Subject):
		return throttle.DomainLimits{AtOnce: 1}.Admit(in)
	case in.Subject.Kind == throttle.Relay:
		return relays.Admit(in)
	}
	return others.Admit(in)
}

func (s *slow) After(in throttle.AfterInput) throttle.AfterAnswer {
	switch in.Subject.Kind {
	case throttle.Relay:
		return relays.After(in)
	case throttle.Repository:
		return throttle.AfterAnswer{Delay: throttle.Backoff(first, maxDelay, in.Attempts)}
	}
	answer := usual(in)
	if s.isSlow(&in.Subject) {
		answer.Delay = max(answer.Delay, s.pause)
		if in.Outcome == throttle.Timeout {
			answer.Health = throttle.Degraded // slow is not dead, however long it lasts
		}
	}
	return answer
}

// usual lets a domain rest when it asks for that, or cannot be reached.
func usual(in throttle.AfterInput) throttle.AfterAnswer {
	asked := min(in.RetryAfter, throttle.Hour)
	switch in.Outcome {
	case throttle.RateLimited:
		if asked == 0 {
			asked = limited
		}
		return throttle.AfterAnswer{Delay: asked, Health: throttle.Degraded}
	case throttle.Timeout, throttle.Unreachable, throttle.DNS, throttle.TLS:
		delay := max(asked, throttle.Backoff(first, maxDelay, in.Subject.Failures))
		if since := in.Subject.FailingSince; since != 0 && in.Now-since >= throttle.Day {
			return throttle.AfterAnswer{Delay: delay, Health: throttle.Dead}
		}
		return throttle.AfterAnswer{Delay: delay, Health: throttle.Degraded}
	case throttle.Server:
		return throttle.AfterAnswer{Delay: asked, Health: throttle.Degraded}
	}
	return throttle.AfterAnswer{Health: throttle.Healthy}
}

func (s *slow) Pick(in throttle.PickInput) throttle.PickAnswer { return throttle.InTurn(in) }

// Tick leaves the operator's limits unchanged.
func (s *slow) Tick(in throttle.TickInput) throttle.TickAnswer {
	if in.Current == in.Most {
		return throttle.Keep()
	}
	return throttle.Limit(in.Most)
}
