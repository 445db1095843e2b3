package devnet

import (
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/nbd-wtf/go-nostr"

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

	backend  backend
	honest   bool // what it has can be had from it
	exchange *exchange
	server   *http.Server
}

// backend is what answers as a relay.
type backend interface {
	handler() http.Handler
	add(p *script) // gives it an event
	watched(p *script) bool
	fill(s *RelayStatus)
	close()
}

// newRelay makes a relay that serves on l: of khatru, or of a profile.
func newRelay(cfg *Config, l net.Listener, negentropy bool, other *Foreign) *Relay {
	address := l.Addr().String()
	r := &Relay{URL: "ws://" + address, exchange: newExchange(l, cfg.Latency, cfg.Drop)}
	if other == nil {
		r.Profile, r.Negentropy, r.honest = "khatru", negentropy, true
		r.backend = newKhatru(cfg, address, negentropy)
	} else {
		p := other.Profile
		r.Profile, r.Negentropy, r.honest = other.Name, p.Negentropy.Supported, p.Honest()
		r.backend = &modelRelay{server.New(p, cfg.Seed)}
	}
	r.server = &http.Server{Handler: r.backend.handler(), ReadHeaderTimeout: 10 * time.Second, ErrorLog: log.New(io.Discard, "", 0)}
	return r
}

// serve answers until close.
func (r *Relay) serve() error {
	if err := r.server.Serve(r.exchange); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func (r *Relay) close() error {
	err := errors.Join(r.server.Close(), r.exchange.close())
	r.exchange.cut(true) // the server has forgotten its websockets
	r.backend.close()
	return err
}

// modelRelay is a relay of a profile.
type modelRelay struct{ *server.Server }

func (m *modelRelay) handler() http.Handler { return m.Server }

func (m *modelRelay) close() { m.Close() }

func (m *modelRelay) add(p *script) { m.Add(p.parsed) }

func (m *modelRelay) watched(p *script) (yes bool) {
	m.Look(func(r *relaymodel.Relay) { yes = r.Watched(p.parsed) })
	return yes
}

func (m *modelRelay) fill(s *RelayStatus) {
	m.Look(func(r *relaymodel.Relay) {
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
