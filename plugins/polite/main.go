// Command polite is the throttle that Talon uses unless the operator chooses
// another. It asks other people's git servers as often as a patient person would,
// and relays less often the longer they fail.
//
// Git data: the first search begins three minutes after a user's event, since a push
// is expected, and half a second after a synced one, so that a burst is one search.
// Rounds that leave something missing are followed by the next one after 20, 40, 80
// and then 120 seconds. A domain gets 5 requests at the same time and 30 in a
// minute, unless the setting "domains" says otherwise for it. One that cannot be
// reached rests as long as a repository does after as many rounds; one that answers
// 429 or 503 rests as long as it asks for.
//
// A domain that merely lacks what is looked for has not failed, and neither has one
// that refuses a repository: else anybody could stop the search at a domain by
// announcing wrong URLs of it.
//
// Clients of this server get lower limits while it is busy.
package main

import (
	_ "embed"

	"talon/sdk/throttle"
)

//go:embed manifest.json
var manifest string

var _ = throttle.Register(manifest, new(polite))

func main() {}

type polite struct {
	user, synced     int64 // to the first search
	first, max       int64 // between rounds
	limited, maxRest int64 // after 429: unless the server says, and at most
	expiry           int64
	domains          throttle.Domains
	relays           throttle.Relays
	easing           bool // clients get lower limits while this server is busy
	busy             float64
	limits           throttle.ClientLimits
}

func (p *polite) Configure(cfg throttle.Config) (err error) {
	p.user, p.synced = cfg.Int("first_user_ms"), cfg.Int("first_sync_ms")
	p.first, p.max = cfg.Int("backoff_s")*throttle.Second, cfg.Int("backoff_max_s")*throttle.Second
	p.limited, p.maxRest = cfg.Int("rate_limited_s")*throttle.Second, cfg.Int("retry_after_max_s")*throttle.Second
	p.expiry = cfg.Int("expiry_s") * throttle.Second
	p.domains, err = throttle.ParseDomains("domains", cfg.Strings("domains"), throttle.DomainLimits{
		AtOnce: uint32(cfg.Int("at_once")), PerMinute: int(cfg.Int("per_minute")),
	})
	p.relays = throttle.Relays{
		First: cfg.Int("relay_backoff_s") * throttle.Second, Max: cfg.Int("relay_backoff_max_s") * throttle.Second,
		Stable: cfg.Int("relay_stable_s") * throttle.Second, DeadAfter: cfg.Int("relay_dead_after_s") * throttle.Second,
		DeadEvery: cfg.Int("relay_dead_every_s") * throttle.Second, Limited: cfg.Int("relay_rate_limited_s") * throttle.Second,
		Barred: cfg.Int("relay_barred_s") * throttle.Second, EagerFrom: cfg.Int("relay_eager_after_s") * throttle.Second,
		AtOnce: uint32(cfg.Int("relay_attempts_at_once")),
	}
	p.easing = cfg.Bool("limit_clients")
	p.busy = cfg.Float("busy_from")
	p.limits = throttle.ClientLimits{
		Events: uint32(cfg.Int("busy_events_per_minute")), Queries: uint32(cfg.Int("busy_queries_per_minute")),
		BytesOut: cfg.Int("busy_bytes_out_per_second"),
	}
	return err
}

func (p *polite) Delay(in throttle.DelayInput) throttle.DelayAnswer {
	if in.Subject.Kind == throttle.Relay {
		return throttle.DelayAnswer{}
	}
	if in.Origin == throttle.FromClient {
		return throttle.DelayAnswer{Delay: p.user, Expiry: p.expiry}
	}
	return throttle.DelayAnswer{Delay: p.synced, Expiry: p.expiry}
}

func (p *polite) Admit(in throttle.AdmitInput) throttle.AdmitAnswer {
	if in.Subject.Kind == throttle.Relay {
		return p.relays.Admit(in)
	}
	return p.domains.Of(in.Subject.Name).Admit(in)
}

func (p *polite) After(in throttle.AfterInput) throttle.AfterAnswer {
	switch in.Subject.Kind {
	case throttle.Relay:
		return p.relays.After(in)
	case throttle.Repository:
		return throttle.AfterAnswer{Delay: throttle.Backoff(p.first, p.max, in.Attempts)}
	}
	asked := min(in.RetryAfter, p.maxRest)
	switch in.Outcome {
	case throttle.RateLimited:
		if asked == 0 {
			asked = p.limited
		}
		return throttle.AfterAnswer{Delay: asked, Health: throttle.Degraded, Reason: "it asks for less"}
	case throttle.Timeout, throttle.Unreachable, throttle.DNS, throttle.TLS:
		delay := max(asked, throttle.Backoff(p.first, p.max, in.Subject.Failures))
		if since := in.Subject.FailingSince; since != 0 && in.Now-since >= p.relays.DeadAfter {
			return throttle.AfterAnswer{Delay: delay, Health: throttle.Dead}
		}
		return throttle.AfterAnswer{Delay: delay, Health: throttle.Degraded}
	case throttle.Server:
		return throttle.AfterAnswer{Delay: asked, Health: throttle.Degraded}
	}
	return throttle.AfterAnswer{Health: throttle.Healthy}
}

func (p *polite) Pick(in throttle.PickInput) throttle.PickAnswer { return throttle.InTurn(in) }

func (p *polite) Tick(in throttle.TickInput) throttle.TickAnswer {
	if !p.easing {
		if in.Current == in.Most {
			return throttle.Keep()
		}
		return throttle.Limit(in.Most)
	}
	return throttle.Ease(in, p.busy, p.limits)
}
