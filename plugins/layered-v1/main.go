// Command layered-v1 is the first of the layered strategies. It follows each event that is
// accepted here immediately, with a subscription of its own. Some time after a connection it
// compares stored events, one batch of filters a minute.
//
// Relays are connected to one by one over some seconds, and never closed.
package main

import (
	_ "embed"

	"talon/sdk/strategy"
	"talon/sdk/strategy/layers"
)

//go:embed manifest.json
var manifest string

var _ = strategy.Register(manifest, new(layered))

func main() {}

type layered struct {
	layers.Driver

	max      int   // filters, before all are opened again
	startup  int64 // before what is stored is compared
	resume   int64 // likewise, after a connection was lost
	lookback int64 // seconds
	apart    int64 // between batches
	daily    int64
	stagger  int64 // between one relay's daily sync and the next one's
	begun    int64 // relays that have begun
}

func (s *layered) Configure(cfg strategy.Config) error {
	set, err := layers.Common(cfg)
	if err != nil {
		return err
	}
	s.max = int(cfg.Int("consolidate_above_filters"))
	s.startup = cfg.Int("startup_delay_seconds") * strategy.Second
	s.resume = cfg.Int("reconnect_delay_seconds") * strategy.Second
	s.lookback = cfg.Int("reconnect_lookback_days") * strategy.Day / strategy.Second
	s.apart = cfg.Int("batch_delay_seconds") * strategy.Second
	s.daily = cfg.Int("daily_hours") * strategy.Hour
	s.stagger = cfg.Int("daily_stagger_minutes") * strategy.Minute
	set.Jitter = cfg.Int("jitter_seconds") * strategy.Second
	set.Push = cfg.Bool("push")
	set.Keep = true
	s.Driver.Configure(s, set)
	return nil
}

// since opens what is new, and what is not older than some minutes.
func (s *layered) since(purpose uint32) layers.Opening {
	return layers.Opening{Since: s.Since(), Purpose: purpose}
}

// past compares all that is stored, some time later.
func (s *layered) past(purpose uint32, later int64) layers.Fetching {
	return layers.Fetching{Purpose: purpose, Track: true, Apart: s.apart, After: later}
}

// Fresh handles the first connection.
func (s *layered) Fresh(p *layers.Peer, purpose uint32) {
	s.After(p, layers.Daily, s.daily+s.begun*s.stagger%s.daily)
	s.begun++
	p.Forget()
	items := p.Plan()
	p.Open(layers.Announcements, s.since(strategy.PurposeLive))
	p.Open(layers.Of(items), s.since(strategy.PurposeLive))
	p.Fetch(layers.Announcements, s.past(purpose, s.startup))
	p.Fetch(layers.Of(items), s.past(purpose, 0))
}

// Resume compares the last days with a relay, or as much as was missed if that is
// more.
func (s *layered) Resume(p *layers.Peer, since int64) {
	p.Clear()
	since = max(1, min(since, s.Now()/1000-s.lookback))
	missed := layers.Fetching{Since: since, Purpose: strategy.PurposeReconnect, Apart: s.apart, After: s.resume}
	s.again(p, strategy.PurposeReconnect, missed)
}

// again reopens everything. It fetches of what is confirmed what may have been
// missed, the rest from its beginning. purpose is that of the subscriptions: PurposeLive if they were open
// until now.
func (s *layered) again(p *layers.Peer, purpose uint32, missed layers.Fetching) {
	items, confirmed := p.Plan(), p.Confirmed
	p.Open(layers.Announcements, s.since(purpose))
	p.Open(layers.Of(confirmed), s.since(purpose))
	p.Open(layers.Of(items), s.since(purpose))
	if !p.Announced {
		p.Fetch(layers.Announcements, s.past(strategy.PurposeStartup, missed.After))
	}
	if missed.Since > 0 {
		p.Fetch(layers.Content{Announcements: p.Announced, Items: confirmed}, missed)
	}
	p.Fetch(layers.Of(items), s.past(strategy.PurposeStartup, 0))
}

// New follows what has just been accepted here, from its beginning.
func (s *layered) New(p *layers.Peer, items layers.Items) {
	if p.Crowded(items, s.max, false) {
		p.Clear()
		s.again(p, strategy.PurposeLive, layers.Fetching{})
		return
	}
	p.Open(layers.Of(items), layers.Opening{Purpose: strategy.PurposeStartup, Track: true})
}

func (s *layered) Settled(*layers.Peer) {}

// Timer compares everything again, once a day.
func (s *layered) Timer(p *layers.Peer, kind layers.Kind) {
	if kind == layers.Daily {
		s.After(p, layers.Daily, s.daily)
		p.End()
		p.Fetch(layers.Content{Announcements: p.Announced, Items: p.Confirmed},
			layers.Fetching{Purpose: strategy.PurposeDaily, Apart: s.apart})
	}
}
