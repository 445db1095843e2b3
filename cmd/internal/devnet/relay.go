package devnet

import (
	"fmt"
	"net"
	"net/http"
	"strings"

	"github.com/nbd-wtf/go-nostr"

	"talon/cmd/internal/lab/scenario"
	"talon/cmd/internal/lab/world"
	"talon/host"
	"talon/host/relaymodel"
	"talon/host/relaymodel/server"
	"talon/host/wire"
)

// Relay is one relay of the network.
type Relay struct {
	URL        string
	Profile    string // khatru where it is a relay of khatru's
	Negentropy bool

	site
	backend backend
	honest  bool // what it has can be had from it
}

// backend is what answers as a relay.
type backend interface {
	handler() http.Handler
	add(p *post) // gives it an event
	watched(p *post) bool
	fill(s *RelayStatus)
	close()
}

// newRelay makes a relay of a world that serves on l: of khatru, or of its profile.
func newRelay(cfg *Config, l net.Listener, s *scenario.Scenario, of *world.Relay) *Relay {
	address := l.Addr().String()
	r := &Relay{URL: "ws://" + address, Profile: profileName(s, of.Class), Negentropy: of.Profile.Negentropy.Supported, honest: of.Honest}
	if isKhatru(s, of.Class) {
		r.Profile = "khatru"
		r.backend = newKhatru(cfg, address, r.Negentropy)
	} else {
		r.backend = &modelRelay{server.New(of.Profile, of.Seed)}
	}
	r.site = newSite(newExchange(l, lateness(of.Latency), cfg.Drop), r.backend.handler())
	return r
}

func (r *Relay) close() error {
	err := r.site.close()
	r.exchange.cut(true) // the server has forgotten its websockets
	r.backend.close()
	return err
}

// modelRelay is a relay of a profile.
type modelRelay struct{ *server.Server }

func (m *modelRelay) handler() http.Handler { return m.Server }

func (m *modelRelay) close() { m.Close() }

func (m *modelRelay) add(p *post) { m.Add(p.parsed) }

func (m *modelRelay) watched(p *post) (yes bool) {
	m.View(func(r *relaymodel.Relay) { yes = r.Watched(p.parsed) })
	return yes
}

func (m *modelRelay) fill(s *RelayStatus) {
	m.View(func(r *relaymodel.Relay) {
		counted := r.Stats()
		s.Events = r.Store().Len()
		s.Requests, s.Comparisons, s.Refused = int64(counted.Filters), int64(counted.Comparisons), int64(counted.Refused)
		_, s.Subscriptions, s.Filters = r.Opened()
		s.Up = s.Up && r.Up()
	})
}

// parse returns an event as the host has it.
func parse(e *nostr.Event) (*host.Event, error) {
	parsed, err := wire.ParseEvent([]byte(e.String()))
	if err != nil {
		return nil, fmt.Errorf("publish an event: %w", err)
	}
	return parsed, nil
}

// newer reports whether a stands before b: it is younger or, of the same second, its
// id is the lower one (NIP-01).
func newer(a, b *nostr.Event) bool {
	if a.CreatedAt != b.CreatedAt {
		return a.CreatedAt > b.CreatedAt
	}
	return strings.Compare(a.ID, b.ID) < 0
}
