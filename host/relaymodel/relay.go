// Package relaymodel simulates a foreign nostr relay as a state machine: text frames of
// clients in, text frames and ends of connections out. A [Profile] configures its behaviour
// as data. It sets limits, and whether the relay advertises them. It sets how the relay
// refuses and orders its answers. It also sets lost events, outages and lies. Tests, the
// devnet and simulations try sync against it.
//
// Profiles of relays that exist are embedded ([Builtin]); their texts and limits are
// those of the relays' sources.
//
// Invariants:
//
//  1. No I/O, clock, goroutine or lock. The time is an argument, in unix
//     milliseconds, and never goes back. One goroutine uses a [Relay] at a time.
//  2. The same profile, seed and calls return the same effects. A share of
//     events in a profile is drawn from the seed and the event's id. So an event
//     that is omitted once is omitted always.
//  3. Package wire parses the input of clients, which never ends the process.
//  4. A profile is read strictly: an unknown key, a wrong type or a value out of its
//     range is an error that names the line and the key.
//
// It is for tests and simulations: anybody who can connect to a relay of it can fill the
// memory.
package relaymodel

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"net/netip"
	"slices"

	"talon/host"
	"talon/host/wire"
	"talon/internal/heap"
	"talon/internal/simclock"
)

// Effect is one thing that a relay does on a connection: it sends a text frame, or
// ends the connection.
type Effect struct {
	Conn   uint64
	Frame  []byte // nil: the connection ends
	Code   int    // of the close frame; 0: the connection is dropped without one
	Reason string // of the close frame
}

// Stats counts the requests to a relay and its answers.
type Stats struct {
	Connections uint64 // accepted
	Rejected    uint64 // not accepted: away, or too many
	Requests    uint64 // REQs
	Filters     uint64 // of these
	Comparisons uint64 // NEG-OPENs
	Published   uint64 // EVENTs
	Refused     uint64 // messages that were refused
	Dropped     uint64 // connections that the relay ended
	SentEvents  uint64
	SentFrames  uint64
	SentBytes   uint64
	Received    uint64 // bytes of frames
}

// Relay is one relay. Its methods that take the time return what it does, in order.
type Relay struct {
	profile *Profile
	seed    uint64
	store   *Store
	clock   *simclock.Clock // unix milliseconds
	away    int             // status of an outage that [Relay.SetAway] began; -1: none
	outages []*Outage       // of the profile that have begun

	conns  []*conn // in the order of their ids
	opened uint64
	// subscribed is how many subscriptions were opened.
	subscribed uint64
	rounds     uint64 // of what is drawn without an event
	doors      map[netip.Addr]*bucket
	deleted    map[host.ID]host.PubKey
	erased     map[host.Address]int64
	expiries   heap.Heap[expiry] // of stored events
	stats      Stats
	out        []Effect
}

// conn is one connection of a client.
type conn struct {
	id        uint64
	heard     int64
	subs      []*subscription // in the order of their opening
	sessions  []*session
	answers   []*answering // that are being sent
	sending   bool         // a timer goes on with them
	challenge string
	asked     bool // the challenge was sent
	proven    bool

	messages, requests, events bucket
	busy                       int64 // messages are not handled before
	bytes, frames              int   // sent
	gone                       bool
}

// New returns a relay that starts now.
func New(p *Profile, seed uint64, now int64) *Relay {
	r := &Relay{
		profile: p, seed: seed, store: NewStore(), clock: simclock.New(now), away: -1,
		doors: map[netip.Addr]*bucket{}, deleted: map[host.ID]host.PubKey{}, erased: map[host.Address]int64{}, expiries: newExpiries(),
	}
	for i := range p.Outages {
		r.planOutage(&p.Outages[i], now+millis(p.Outages[i].AfterSeconds))
	}
	r.clock.RunUntil(now)
	return r
}

// Store returns the relay's events. Only the relay changes them.
func (r *Relay) Store() *Store { return r.store }

// Query returns the events that the relay finds by a filter. Its index may find more than the
// filter says.
func (r *Relay) Query(f *host.Filter) []*host.Event {
	return r.store.query(f, r.profile.Answer.AnyLetter)
}

// Stats returns what was counted so far.
func (r *Relay) Stats() Stats { return r.stats }

// Open accepts a connection from an address, or answers it with an HTTP status other
// than 101; 0 resets it.
func (r *Relay) Open(from netip.Addr, now int64) (id uint64, status int, effects []Effect) {
	r.clock.RunUntil(now)
	p := &r.profile.Connection
	if status = r.status(); status != 200 {
		r.stats.Rejected++
		return 0, status, r.flush()
	}
	if limit := r.profile.Limits.Connections; limit > 0 && len(r.conns) >= limit {
		r.stats.Rejected++
		return 0, 429, r.flush()
	}
	drop := p.DropAtOnce
	if rate := &r.profile.Rate.Connections; rate.PerMinute > 0 {
		if r.doors[from] == nil {
			r.doors[from] = &bucket{}
		}
		if !r.doors[from].allow(rate, r.clock.Now()) {
			if rate.By == "status" {
				r.stats.Rejected++
				return 0, max(rate.Code, 400), r.flush()
			}
			drop = true
		}
	}
	r.opened++
	r.stats.Connections++
	c := &conn{id: r.opened, heard: r.clock.Now()}
	c.challenge = hex.EncodeToString(binary.BigEndian.AppendUint64(nil, Mix(r.seed+c.id)))
	r.conns = append(r.conns, c)
	if drop {
		r.closeConn(c, p.DropCode, "")
		return c.id, 101, r.flush()
	}
	if p.DropSeconds > 0 {
		r.clock.After(millis(p.DropSeconds), func() { r.closeConn(c, p.DropCode, "") })
	}
	if p.IdleSeconds > 0 {
		r.clock.After(millis(p.IdleSeconds), func() { r.dropIdle(c) })
	}
	if r.profile.Auth.Challenge == "connect" {
		r.challenge(c)
	}
	return c.id, 101, r.flush()
}

// Receive handles a text frame of a client.
func (r *Relay) Receive(id uint64, frame []byte, now int64) []Effect {
	r.clock.RunUntil(now)
	c := r.conn(id)
	if c == nil {
		return r.flush()
	}
	c.heard = r.clock.Now()
	r.stats.Received += uint64(len(frame))
	at := max(c.busy, r.clock.Now()+int64(r.profile.Answer.DelayMS))
	if rate := &r.profile.Rate.Messages; rate.PerMinute > 0 && !c.messages.allow(rate, r.clock.Now()) {
		if rate.By != "delay" {
			r.refuse(c, "", rate.answer(), 0, 0)
			return r.flush()
		}
		at = max(at, r.clock.Now()+c.messages.wait(rate))
		c.busy = at
	}
	if at > r.clock.Now() {
		later := slices.Clone(frame)
		r.clock.At(at, func() {
			if !c.gone {
				r.handle(c, later)
			}
		})
		return r.flush()
	}
	r.handle(c, frame)
	return r.flush()
}

// Gone removes a connection that the client has ended, or that broke.
func (r *Relay) Gone(id uint64, now int64) []Effect {
	r.clock.RunUntil(now)
	if c := r.conn(id); c != nil {
		c.gone = true
		r.forget(c)
	}
	return r.flush()
}

// Add stores an event that does not come over a connection. A relay with a delay of
// events delays it.
func (r *Relay) Add(e *host.Event, now int64) []Effect {
	r.clock.RunUntil(now)
	if a := &r.profile.Arrival; a.Late > 0 && r.draw(drawLate, e.ID) < a.Late {
		r.clock.After(millis(a.LateS), func() { r.accept(e) })
	} else {
		r.accept(e)
	}
	return r.flush()
}

// Turn runs the timers that are due.
func (r *Relay) Turn(now int64) []Effect {
	r.clock.RunUntil(now)
	return r.flush()
}

// Next returns when something will be due, and false if nothing will.
func (r *Relay) Next() (at int64, ok bool) {
	at = r.clock.Next()
	return at, at < simclock.Never
}

// SetProfile changes the behaviour of a relay that runs. The outages of its first profile stay, as
// do connections with what is open on them.
func (r *Relay) SetProfile(p *Profile) { r.profile = p }

// SetAway begins an outage: connections end, and others are answered with an HTTP
// status, or reset if that is 0. With -1 it ends.
func (r *Relay) SetAway(status int, now int64) []Effect {
	r.clock.RunUntil(now)
	r.away = status
	if status >= 0 {
		r.disconnectAll()
	}
	return r.flush()
}

// Status returns how a request over HTTP is answered now: 200, or the status of an
// outage; 0 is a reset connection.
func (r *Relay) Status(now int64) (int, []Effect) {
	r.clock.RunUntil(now)
	return r.status(), r.flush()
}

func (r *Relay) status() int {
	if r.away >= 0 {
		return r.away
	}
	if len(r.outages) > 0 {
		return r.outages[0].Status
	}
	return 200
}

// Up reports whether the relay was reachable at the time of the last call.
func (r *Relay) Up() bool { return r.status() == 200 }

// InfoDocument returns the NIP-11 document, nil if there is none.
func (r *Relay) InfoDocument() []byte {
	i := &r.profile.Info
	if !i.Served {
		return nil
	}
	doc := struct {
		Name       string         `json:"name,omitempty"`
		NIPs       []int          `json:"supported_nips,omitempty"`
		Software   string         `json:"software,omitempty"`
		Version    string         `json:"version,omitempty"`
		Limitation map[string]any `json:"limitation,omitempty"`
	}{i.Name, i.NIPs, i.Software, i.Version, i.Limitation}
	text, err := json.Marshal(doc)
	if err != nil {
		panic(err) // numbers, booleans and strings
	}
	return text
}

// Watched reports whether such an event matches an open subscription.
func (r *Relay) Watched(e *host.Event) bool {
	for _, c := range r.conns {
		for _, s := range c.subs {
			if s.matches(e) > 0 {
				return true
			}
		}
	}
	return false
}

// Opened counts the connections, and the subscriptions and filters that are open on them.
func (r *Relay) Opened() (connections, subscriptions, filters int) {
	for _, c := range r.conns {
		subscriptions += len(c.subs)
		for _, s := range c.subs {
			filters += len(s.filters)
		}
	}
	return len(r.conns), subscriptions, filters
}

func (r *Relay) conn(id uint64) *conn {
	i, ok := slices.BinarySearchFunc(r.conns, id, func(c *conn, id uint64) int { return int(int64(c.id) - int64(id)) })
	if !ok {
		return nil
	}
	return r.conns[i]
}

func (r *Relay) forget(c *conn) {
	r.conns = slices.DeleteFunc(r.conns, func(o *conn) bool { return o == c })
}

func millis(seconds float64) int64 { return int64(seconds * 1000) }

// planOutage has an outage begin at a time, and again where it repeats itself.
func (r *Relay) planOutage(o *Outage, at int64) {
	r.clock.At(at, func() {
		r.outages = append(r.outages, o)
		r.clock.At(at+millis(o.ForSeconds), func() {
			i := slices.Index(r.outages, o)
			r.outages = slices.Delete(r.outages, i, i+1)
		})
		if o.EverySeconds > 0 {
			r.planOutage(o, at+millis(o.EverySeconds))
		}
		r.disconnectAll()
	})
}

// dropIdle ends a connection whose client is silent, or looks again later.
func (r *Relay) dropIdle(c *conn) {
	if c.gone {
		return
	}
	if due := c.heard + millis(r.profile.Connection.IdleSeconds); due > r.clock.Now() {
		r.clock.At(due, func() { r.dropIdle(c) })
		return
	}
	r.closeConn(c, 0, "")
}

// disconnectAll ends all connections.
func (r *Relay) disconnectAll() {
	code := 0
	if r.profile.Connection.CloseOnLeave {
		code = 1001
	}
	for _, c := range slices.Clone(r.conns) {
		r.closeConn(c, code, "")
	}
}

// closeConn ends a connection.
func (r *Relay) closeConn(c *conn, code int, reason string) {
	if c.gone {
		return
	}
	c.gone = true
	r.forget(c)
	r.stats.Dropped++
	r.out = append(r.out, Effect{Conn: c.id, Code: code, Reason: reason})
}

// send sends a frame, after which the connection may be dropped.
func (r *Relay) send(c *conn, frame []byte) {
	if c.gone {
		return
	}
	r.out = append(r.out, Effect{Conn: c.id, Frame: frame})
	c.bytes += len(frame)
	c.frames++
	r.stats.SentFrames++
	r.stats.SentBytes += uint64(len(frame))
	p := &r.profile.Connection
	if p.DropBytes > 0 && c.bytes >= p.DropBytes || p.DropMessages > 0 && c.frames >= p.DropMessages {
		r.closeConn(c, p.DropCode, "")
	}
}

func (r *Relay) flush() []Effect {
	out := r.out
	r.out = nil
	return out
}

// handle does what a message asks for.
func (r *Relay) handle(c *conn, frame []byte) {
	p := r.profile
	if limit := p.Limits.MessageBytes; limit > 0 && len(frame) > limit {
		r.refuse(c, "", p.Refuse.Size, len(frame), limit)
		return
	}
	m, err := wire.ParseMessage(frame, &wire.Limits{SubID: 1 << 30, Filters: 1 << 30, Values: 1 << 30})
	neg := m.Verb == wire.NegOpen || m.Verb == wire.NegMsg || m.Verb == wire.NegClose
	switch {
	case neg && !p.Negentropy.Supported:
		r.refuse(c, "", p.Refuse.Message, 0, 0)
	case err != nil:
		r.unreadable(c, &m)
	case m.Verb == wire.Event:
		r.publish(c, m.Event)
	case m.Verb == wire.Req:
		r.request(c, &m, frame)
	case m.Verb == wire.Count:
		r.count(c, &m)
	case m.Verb == wire.Close:
		r.unsubscribe(c, m.SubID)
	case m.Verb == wire.Auth:
		r.authenticate(c, m.Event)
	case neg:
		r.compare(c, &m)
	}
}

// unreadable answers a message that was understood in part, or not at all.
func (r *Relay) unreadable(c *conn, m *wire.Message) {
	p := r.profile
	switch {
	case m.Verb == wire.Event && p.Event.Silent:
	case m.Verb == wire.Event && m.EventID != "":
		r.ok(c, m.EventID, false, "invalid: the event cannot be read")
	case (m.Verb == wire.Req || m.Verb == wire.Count) && m.SubID != "":
		r.refuse(c, m.SubID, p.Refuse.Filter, 0, 0)
	case (m.Verb == wire.NegOpen || m.Verb == wire.NegMsg) && m.SubID != "":
		if p.Negentropy.Wrong != "" {
			r.send(c, wire.AppendNegErr(nil, m.SubID, p.Negentropy.Wrong))
		}
	default:
		r.refuse(c, "", p.Refuse.Message, 0, 0)
	}
}

// challenge sends the connection's challenge, once.
func (r *Relay) challenge(c *conn) {
	if c.asked || r.profile.Auth.Challenge == "never" {
		return
	}
	c.asked = true
	r.send(c, wire.AppendAuth(nil, c.challenge))
}

// authenticate answers a proof: an event of kind 22242 with the connection's
// challenge. Its signature is not verified.
func (r *Relay) authenticate(c *conn, e *host.Event) {
	p := &r.profile.Auth
	valid := e.Kind == host.KindAuth && e.CheckID() == nil && slices.ContainsFunc(e.Tags, func(t host.Tag) bool {
		return len(t) > 1 && t[0] == "challenge" && t[1] == c.challenge
	})
	if !valid || p.Proof == "refused" {
		r.ok(c, e.ID.String(), false, p.ProofText)
		return
	}
	c.proven = true
	r.ok(c, e.ID.String(), true, "")
}

// needsProof reports whether a client must prove itself before it asks so.
func (r *Relay) needsProof(c *conn, filters []host.Filter) bool {
	p := &r.profile.Auth
	if !p.Read || c.proven {
		return false
	}
	if p.LiveFree && !slices.ContainsFunc(filters, func(f host.Filter) bool { return f.Limit != 0 }) {
		return false
	}
	if p.Kinds == nil {
		return true
	}
	return !slices.ContainsFunc(filters, func(f host.Filter) bool {
		return f.Kinds == nil || slices.ContainsFunc(f.Kinds, func(k host.Kind) bool { return !slices.Contains(p.Kinds, int(k)) })
	})
}

// withholds reports whether some kinds are kept from a client.
func (r *Relay) withholds(c *conn) bool {
	return r.profile.Auth.Read && r.profile.Auth.Kinds != nil && !c.proven
}

func (r *Relay) isWithheld(e *host.Event) bool {
	return slices.Contains(r.profile.Auth.Kinds, int(e.Kind))
}
