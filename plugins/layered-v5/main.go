// Command layered-v5 is a strategy that keeps what is new apart from what is stored.
//
// Each relay that our repositories name has live subscriptions for new events, and backfills for
// stored ones. A backfill uses negentropy, or pages if the relay has no NIP-77. Events that
// arrive here add wanted content, which the strategy gathers for some seconds.
//
// A relay that was away for a short while is caught up with from where it was
// lost; after a longer one, and about once a day, everything is compared again.
// A relay without NIP-77 that was away for a short while is also asked for everything
// some hours after the last time: it may have got events with old dates.
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

	max         int // filters, before all are opened again
	daily, over int64
	check       int64  // from one fetch of everything to the next after an absence; 0: only the daily one
	method      uint32 // for what is stored
	catchup     uint32 // for what was missed
}

func (s *layered) Configure(cfg strategy.Config) error {
	set, err := layers.Common(cfg)
	if err != nil {
		return err
	}
	s.max = int(cfg.Int("consolidate_above_filters"))
	if s.daily, s.over, err = layers.Hours(cfg, "daily_hours_from", "daily_hours_to"); err != nil {
		return err
	}
	s.check = cfg.Int("check_minutes_pages") * strategy.Minute
	s.method, s.catchup = strategy.MethodAuto, strategy.MethodAuto
	if !cfg.Bool("negentropy") {
		s.method = strategy.MethodREQ
	}
	if !cfg.Bool("negentropy") || !cfg.Bool("negentropy_after_reconnect") {
		s.catchup = strategy.MethodREQ
	}
	set.Window = cfg.Int("batch_seconds") * strategy.Second
	set.Within = cfg.Int("reconnect_within_minutes") * strategy.Minute
	set.Method, set.Push = s.catchup, cfg.Bool("push")
	s.Driver.Configure(s, set)
	return nil
}

var live = layers.Opening{Live: true}

// Fresh begins with nothing: a first connection, one after too long, the daily
// sync.
func (s *layered) Fresh(p *layers.Peer, purpose uint32) {
	s.After(p, layers.Daily, s.daily+s.Random(s.over))
	s.Stop(p, layers.Delay)
	p.Forget()
	p.Checked, p.NextCheck = s.Now(), 0
	p.Open(layers.Announcements, live)
	p.Fetch(layers.Announcements, s.past(purpose))
	s.add(p, p.Plan(), purpose)
}

// past fetches all that is stored.
func (s *layered) past(purpose uint32) layers.Fetching {
	return layers.Fetching{Method: s.method, Purpose: purpose, Track: true}
}

// add asks for items, old and new.
func (s *layered) add(p *layers.Peer, items layers.Items, purpose uint32) {
	p.Open(layers.Of(items), live)
	p.Fetch(layers.Of(items), s.past(purpose))
}

// Resume fetches the missed events of confirmed content. Then it asks for content that became
// wanted during the absence. A fetch with since leaves out events with old dates. Another fetch
// follows when the time between two checks is over.
func (s *layered) Resume(p *layers.Peer, since int64) {
	if s.check > 0 && (p.Caps.Negentropy == strategy.SupportNo || s.catchup == strategy.MethodREQ) {
		wait := p.Checked + s.check - s.Now()
		if wait <= 0 {
			s.Fresh(p, strategy.PurposeReconnect)
			return
		}
		s.After(p, layers.Delay, wait)
		p.NextCheck = s.Now() + wait
	}
	s.again(p, layers.Fetching{Method: s.catchup, Since: since, Purpose: strategy.PurposeReconnect})
}

// again reopens everything. It fetches of what is confirmed what was missed, if
// that has a since; the rest from its beginning.
func (s *layered) again(p *layers.Peer, missed layers.Fetching) {
	p.Clear()
	p.Open(layers.Announcements, live)
	switch {
	case !p.Announced:
		p.Fetch(layers.Announcements, s.past(strategy.PurposeStartup))
	case missed.Since > 0:
		p.Fetch(layers.Announcements, missed)
	}
	p.Open(layers.Of(p.Confirmed), live)
	if missed.Since > 0 {
		p.Fetch(layers.Of(p.Confirmed), missed)
	}
	s.add(p, p.Plan(), strategy.PurposeStartup)
}

// New asks for items. If that needs too many filters, it reopens all confirmed content in as few
// filters as possible. This fetches nothing, since that content was live all the time. Pending
// content is asked for again.
func (s *layered) New(p *layers.Peer, items layers.Items) {
	if p.Crowded(items, s.max, true) {
		s.again(p, layers.Fetching{})
		return
	}
	s.add(p, items, strategy.PurposeStartup)
}

func (s *layered) Settled(*layers.Peer) {}

func (s *layered) Timer(p *layers.Peer, kind layers.Kind) {
	switch kind {
	case layers.Daily:
		s.Fresh(p, strategy.PurposeDaily)
	case layers.Delay:
		s.fetchAll(p)
	}
}

// fetchAll fetches everything, whatever its date. Subscriptions stay. All of it is pending
// until it is here: if the connection ends before, the next one begins with nothing.
func (s *layered) fetchAll(p *layers.Peer) {
	items := p.Confirmed
	p.Confirmed, p.Announced, p.Checked, p.NextCheck = layers.Items{}, false, s.Now(), 0
	p.Fetch(layers.Announcements, s.past(strategy.PurposeDaily))
	p.Fetch(layers.Of(items), s.past(strategy.PurposeDaily))
}
