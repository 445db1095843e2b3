// Command three-relays is a strategy that follows our repositories on at most three relays, which
// the operator names. It ignores other relays in announcements.
//
// Package layers does the bookkeeping of a strategy. The rest is a flow: the requests to a relay
// after it is connected, and after more is wanted from it.
package main

import (
	_ "embed"
	"slices"
	"strings"

	"talon/sdk/strategy"
	"talon/sdk/strategy/layers"
)

//go:embed manifest.json
var manifest string

var _ = strategy.Register(manifest, new(three))

func main() {}

type three struct{ layers.Driver }

const (
	maxRelays  = 3
	maxFilters = 70 // filters open on a relay, before all are opened again in fewer
)

func (s *three) Configure(cfg strategy.Config) error {
	relays := slices.Clone(cfg.Strings("relays"))
	if len(relays) > maxRelays {
		return strategy.WrongValue("relays", strings.Join(relays, " "), "at most three relays")
	}
	for i, url := range relays {
		if !strings.HasPrefix(url, "wss://") && !strings.HasPrefix(url, "ws://") {
			return strategy.WrongValue("relays", url, "a relay, such as wss://relay.example.com")
		}
		relays[i] = strings.TrimRight(url, "/") // as the host writes them
	}
	s.Driver.Configure(s, layers.Settings{
		Kinds: []uint32{30617, 1617, 1618, 1621}, Values: 100, Connections: maxRelays,
		Margin: 15 * strategy.Minute / strategy.Second, Within: 15 * strategy.Minute, Window: cfg.Int("batch_seconds") * strategy.Second,
		Check: strategy.Minute,
		Skip:  func(url string) bool { return !slices.Contains(relays, url) },
	})
	return nil
}

// Fresh starts with a relay, and again once a day. New events come live, stored ones by negentropy
// if the relay has it.
func (s *three) Fresh(p *layers.Peer, purpose uint32) {
	s.After(p, layers.Daily, strategy.Day)
	p.Forget()
	s.ask(p, layers.Announcements, purpose)
	s.ask(p, layers.Of(p.Plan()), purpose)
}

// Resume compares everything: with three relays, that is cheap.
func (s *three) Resume(p *layers.Peer, _ int64) { s.Fresh(p, strategy.PurposeReconnect) }

// New asks for newly wanted items, such as comments on an issue that just came.
func (s *three) New(p *layers.Peer, items layers.Items) {
	if p.Crowded(items, maxFilters, true) {
		s.Fresh(p, strategy.PurposeStartup)
		return
	}
	s.ask(p, layers.Of(items), strategy.PurposeStartup)
}

func (s *three) ask(p *layers.Peer, c layers.Content, purpose uint32) {
	p.Open(c, layers.Opening{Live: true})
	p.Fetch(c, layers.Fetching{Purpose: purpose, Track: true})
}

func (s *three) Settled(*layers.Peer) {}

func (s *three) Timer(p *layers.Peer, kind layers.Kind) {
	if kind == layers.Daily {
		s.Fresh(p, strategy.PurposeDaily)
	}
}
