// Command layered-v4 is the strategy before layered-v5: one subscription brings
// both what is stored and what is new. It never uses negentropy.
//
// It keeps what is wanted, what is pending and what is confirmed, and asks for the
// difference. A relay that was away for a short while gets the same filters with
// since; after a longer one, and about once a day, everything is asked for again.
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

// Phases of a relay.
const (
	steady      = iota
	consolidate // all is opened again when nothing is pending, or the time for that is over
)

type layered struct {
	layers.Driver

	max         int // filters, before all are opened again
	wait        int64
	daily, over int64
}

func (s *layered) Configure(cfg strategy.Config) error {
	set, err := layers.Common(cfg)
	if err != nil {
		return err
	}
	s.max = int(cfg.Int("consolidate_above_filters"))
	s.wait = cfg.Int("consolidate_wait_seconds") * strategy.Second
	if s.daily, s.over, err = layers.Hours(cfg, "daily_hours_from", "daily_hours_to"); err != nil {
		return err
	}
	set.Window = cfg.Int("batch_seconds") * strategy.Second
	set.Method = strategy.MethodREQ
	set.Within = cfg.Int("reconnect_within_minutes") * strategy.Minute
	s.Driver.Configure(s, set)
	return nil
}

// all asks for everything, old and new.
func all(purpose uint32) layers.Opening { return layers.Opening{Purpose: purpose, Track: true} }

// after asks for what is not older than since. Nothing waits for it: it is for
// what is confirmed.
func after(since int64, purpose uint32) layers.Opening {
	return layers.Opening{Since: since, Purpose: purpose}
}

// Fresh begins with nothing: a first connection, one after too long, the daily
// sync.
func (s *layered) Fresh(p *layers.Peer, purpose uint32) {
	s.After(p, layers.Daily, s.daily+s.Random(s.over))
	s.steady(p)
	p.Forget()
	p.Open(layers.Announcements, all(purpose))
	p.Open(layers.Of(p.Plan()), all(purpose))
}

// Resume reopens the confirmed subscriptions for missed and new events. Then it asks for content
// that became wanted during the absence.
func (s *layered) Resume(p *layers.Peer, since int64) {
	p.Reopen(after(since, strategy.PurposeReconnect), all(strategy.PurposeStartup))
}

func (s *layered) New(p *layers.Peer, items layers.Items) {
	if p.Phase == consolidate {
		return // all that is wanted is opened then
	}
	if !p.Crowded(items, s.max, false) {
		p.Open(layers.Of(items), all(strategy.PurposeStartup))
		return
	}
	p.Phase = consolidate
	s.After(p, layers.Deadline, s.wait)
	if p.Pending().Empty() {
		s.consolidate(p)
	}
}

// consolidate reopens the confirmed content in as few filters as possible. It asks again for
// pending content.
func (s *layered) consolidate(p *layers.Peer) {
	s.steady(p)
	p.Reopen(after(s.Since(), strategy.PurposeLive), all(strategy.PurposeStartup))
}

func (s *layered) steady(p *layers.Peer) {
	p.Phase = steady
	s.Stop(p, layers.Deadline)
}

func (s *layered) Settled(p *layers.Peer) {
	if p.Phase == consolidate {
		s.consolidate(p)
	}
}

func (s *layered) Timer(p *layers.Peer, kind layers.Kind) {
	switch {
	case kind == layers.Daily:
		s.Fresh(p, strategy.PurposeDaily)
	case kind == layers.Deadline && p.Phase == consolidate:
		s.consolidate(p)
	}
}
