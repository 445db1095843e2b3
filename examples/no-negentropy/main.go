// Command no-negentropy is a strategy for relays that do not speak NIP-77, or in whose
// answers to it one does not trust: it asks by REQ alone. One subscription brings what
// is stored and stays open for what is new.
//
// Where a relay cuts an answer short, package layers fetches the rest page by page.
package main

import (
	_ "embed"

	"talon/sdk/strategy"
	"talon/sdk/strategy/layers"
)

//go:embed manifest.json
var manifest string

var _ = strategy.Register(manifest, new(plain))

func main() {}

type plain struct{ layers.Driver }

// maxFilters may be open on a relay, before all are opened again in fewer.
const maxFilters = 70

func (s *plain) Configure(cfg strategy.Config) error {
	s.Driver.Configure(s, layers.Settings{
		Kinds: []uint32{30617, 1617, 1618, 1621}, Values: 100, Connections: int(cfg.Int("max_relays")),
		Method: strategy.MethodREQ, Page: uint32(cfg.Int("page_events")),
		Margin: 15 * strategy.Minute / strategy.Second, Within: 15 * strategy.Minute, Window: cfg.Int("batch_seconds") * strategy.Second,
		Check: strategy.Minute,
	})
	return nil
}

// all asks for what is stored and what is new.
func all(purpose uint32) layers.Opening { return layers.Opening{Purpose: purpose, Track: true} }

// Fresh begins with a relay, and once a day again, for what is late.
func (s *plain) Fresh(p *layers.Peer, purpose uint32) {
	s.After(p, layers.Daily, strategy.Day)
	p.Forget()
	p.Open(layers.Announcements, all(purpose))
	p.Open(layers.Of(p.Plan()), all(purpose))
}

// Resume asks a relay that was away for a while for what was missed.
func (s *plain) Resume(p *layers.Peer, since int64) {
	p.Reopen(layers.Opening{Since: since, Purpose: strategy.PurposeReconnect}, all(strategy.PurposeStartup))
}

// New asks for what has become wanted. When there would be too many filters, all that
// is here is opened again from now on, and the rest is asked for again.
func (s *plain) New(p *layers.Peer, items layers.Items) {
	if p.Crowded(items, maxFilters, false) {
		p.Reopen(layers.Opening{Since: s.Since(), Purpose: strategy.PurposeLive}, all(strategy.PurposeStartup))
		return
	}
	p.Open(layers.Of(items), all(strategy.PurposeStartup))
}

func (s *plain) Settled(*layers.Peer) {}

func (s *plain) Timer(p *layers.Peer, kind layers.Kind) {
	if kind == layers.Daily {
		s.Fresh(p, strategy.PurposeDaily)
	}
}
