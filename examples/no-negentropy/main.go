// Command no-negentropy is a strategy for relays without NIP-77, or with wrong answers to it: it
// asks by REQ alone. One subscription brings stored events, and stays open for new ones.
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

// all asks for stored and new events.
func all(purpose uint32) layers.Opening { return layers.Opening{Purpose: purpose, Track: true} }

// Fresh starts with a relay, and again once a day for late events.
func (s *plain) Fresh(p *layers.Peer, purpose uint32) {
	s.After(p, layers.Daily, strategy.Day)
	p.Forget()
	p.Open(layers.Announcements, all(purpose))
	p.Open(layers.Of(p.Plan()), all(purpose))
}

// Resume asks a relay for the events that were missed during an absence.
func (s *plain) Resume(p *layers.Peer, since int64) {
	p.Reopen(layers.Opening{Since: since, Purpose: strategy.PurposeReconnect}, all(strategy.PurposeStartup))
}

// New asks for newly wanted items. If that needs too many filters, it reopens everything with
// since, and asks again for the pending items.
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
