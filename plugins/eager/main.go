// Command eager is a throttle for servers and relays of one's own: it searches
// immediately, asks often, and has many requests in flight. Do not use it on other
// people's servers; the operator's clamps hold in any case.
package main

import (
	_ "embed"

	"talon/sdk/throttle"
)

//go:embed manifest.json
var manifest string

var _ = throttle.Register(manifest, new(eager))

func main() {}

type eager struct {
	user, synced int64
	first, max   int64
	domains      throttle.Domains
	relays       throttle.Relays
}

func (e *eager) Configure(cfg throttle.Config) (err error) {
	e.user, e.synced = cfg.Int("first_user_ms"), cfg.Int("first_sync_ms")
	e.first, e.max = cfg.Int("backoff_ms"), cfg.Int("backoff_max_ms")
	e.domains, err = throttle.ParseDomains("domains", cfg.Strings("domains"), throttle.DomainLimits{
		AtOnce: uint32(cfg.Int("at_once")), PerMinute: int(cfg.Int("per_minute")),
	})
	e.relays = throttle.Relays{
		First: cfg.Int("relay_backoff_ms"), Max: cfg.Int("relay_backoff_max_ms"), Stable: throttle.Second,
		DeadAfter: throttle.Day, DeadEvery: cfg.Int("relay_backoff_max_ms"), Limited: cfg.Int("relay_backoff_max_ms"),
		Barred: cfg.Int("relay_backoff_max_ms"), EagerFrom: throttle.Hour, AtOnce: uint32(cfg.Int("relay_attempts_at_once")),
	}
	return err
}

func (e *eager) Delay(in throttle.DelayInput) throttle.DelayAnswer {
	switch {
	case in.Subject.Kind == throttle.Relay:
		return throttle.DelayAnswer{}
	case in.Origin == throttle.FromClient:
		return throttle.DelayAnswer{Delay: e.user}
	}
	return throttle.DelayAnswer{Delay: e.synced}
}

func (e *eager) Admit(in throttle.AdmitInput) throttle.AdmitAnswer {
	if in.Subject.Kind == throttle.Relay {
		return e.relays.Admit(in)
	}
	return e.domains.Of(in.Subject.Name).Admit(in)
}

// After lets a domain rest only when it cannot be reached or asks for that.
func (e *eager) After(in throttle.AfterInput) throttle.AfterAnswer {
	switch in.Subject.Kind {
	case throttle.Relay:
		return e.relays.After(in)
	case throttle.Repository:
		return throttle.AfterAnswer{Delay: throttle.Backoff(e.first, e.max, in.Attempts)}
	}
	switch in.Outcome {
	case throttle.RateLimited, throttle.Timeout, throttle.Unreachable, throttle.DNS, throttle.TLS:
		delay := throttle.Backoff(e.first, e.max, in.Subject.Failures)
		return throttle.AfterAnswer{Delay: max(delay, min(in.RetryAfter, throttle.Hour)), Health: throttle.Degraded}
	case throttle.Server:
		return throttle.AfterAnswer{Delay: min(in.RetryAfter, throttle.Hour), Health: throttle.Degraded}
	}
	return throttle.AfterAnswer{Health: throttle.Healthy}
}

func (e *eager) Pick(in throttle.PickInput) throttle.PickAnswer { return throttle.InTurn(in) }

// Tick leaves the limits of clients as the operator sets them.
func (e *eager) Tick(in throttle.TickInput) throttle.TickAnswer {
	if in.Current == in.Most {
		return throttle.Keep()
	}
	return throttle.Limit(in.Most)
}
