// Command layered-v2 is the second of the layered strategies, simple by intent:
// one subscription brings both what is stored and what is new, and every
// reconnection asks for the same with since, however long it took.
//
// When too many filters are open, the new ones are opened first, for all that is
// stored, and then everything again for what is new. About once a day everything
// is asked for again.
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
	steady  = iota
	catchup // when all that is stored is here, everything is opened again with since
)

type layered struct {
	layers.Driver

	max   int // filters, before all are opened again
	wait  int64
	daily int64
}

func (s *layered) Configure(cfg strategy.Config) error {
	set, err := layers.Common(cfg)
	if err != nil {
		return err
	}
	s.max = int(cfg.Int("consolidate_above_filters"))
	s.wait = cfg.Int("consolidate_wait_seconds") * strategy.Second
	s.daily = cfg.Int("daily_hours") * strategy.Hour
	set.Window = cfg.Int("batch_seconds") * strategy.Second
	set.AtOnce = true
	set.Method = strategy.MethodREQ
	s.Driver.Configure(s, set)
	return nil
}

// all asks for everything, old and new.
func all(purpose uint32) layers.Opening { return layers.Opening{Purpose: purpose, Track: true} }

// Fresh handles the first connection.
func (s *layered) Fresh(p *layers.Peer, purpose uint32) {
	s.After(p, layers.Daily, s.daily)
	p.Forget()
	p.Open(layers.Announcements, all(purpose))
	p.Open(layers.Of(p.Plan()), all(purpose))
	if purpose == strategy.PurposeDaily {
		p.Phase = catchup
	}
}

// Resume asks for what was missed. Only what was here in full gets a since.
func (s *layered) Resume(p *layers.Peer, since int64) {
	p.Reopen(layers.Opening{Since: since, Purpose: strategy.PurposeReconnect}, all(strategy.PurposeStartup))
}

func (s *layered) New(p *layers.Peer, items layers.Items) {
	if p.Phase == steady && p.Crowded(items, s.max, false) {
		p.Phase = catchup
		s.After(p, layers.Deadline, s.wait)
	}
	p.Open(layers.Of(items), all(strategy.PurposeStartup))
}

// Settled ends a consolidation, or the daily sync: all that is stored is here.
func (s *layered) Settled(p *layers.Peer) {
	if p.Phase == catchup {
		s.reopen(p)
	}
}

// reopen opens everything with since.
func (s *layered) reopen(p *layers.Peer) {
	p.Phase = steady
	s.Stop(p, layers.Deadline)
	p.Reopen(layers.Opening{Since: s.Since(), Purpose: strategy.PurposeLive}, all(strategy.PurposeStartup))
}

func (s *layered) Timer(p *layers.Peer, kind layers.Kind) {
	switch {
	case kind == layers.Daily:
		s.Fresh(p, strategy.PurposeDaily)
	case kind == layers.Deadline && p.Phase == catchup:
		s.reopen(p)
	}
}
