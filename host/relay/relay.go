// Package relay serves nostr clients over websockets. It implements NIPs 01, 11, 40, 42, 45, 50,
// 67, 70 and 77. It owns connections, subscriptions and negentropy sessions. It knows the store
// and the pipeline by small interfaces.
//
// A connection has one goroutine, which reads messages and handles them in order.
// Its answers go into a queue. While the queue is not empty, a second goroutine
// writes it, with as few system calls as it can.
//
// Invariants:
//
//  1. Messages of a connection are handled in order. EVENTs are submitted without
//     waiting for each other; any other message waits until those before it have
//     been answered.
//  2. [Relay.Publish] never waits for a client. A connection whose queue is full
//     is cut off.
//  3. Stored answers wait for room in the queue, and hold nothing of the store
//     while they wait.
//  4. A subscription gets every event that matches and is visible to its query or
//     published after it, once. Events that are published during the query are
//     held back, and compared with the query's sequence number. For filters that
//     ask for no stored events, they are also compared with its rows.
//  5. Nothing lives on under a subscription id after CLOSED has been sent for it.
//  6. An idle connection holds no buffer. [Limits] bound the memory of a connection.
//  7. Limits of [Config.Clients] take effect at the next message, read or write, and
//     close nothing that is open. A client over a limit waits or is refused alone.
//  8. The cost of publishing follows the number of matches: subscriptions are found
//     by key.
//  9. All reads of a client are on the account of its address, on loopback of its
//     connection ([host.Share]).
//
// The package never judges an event: ids, signatures and policy belong to the
// pipeline. It checks only the signatures of AUTH, which are for it. [Policy] decides
// who may connect and which queries are allowed. The relay asks it, and obeys.
package relay

import (
	"context"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"talon/host"
	"talon/host/contain"
)

// Relay serves nostr clients.
type Relay struct {
	cfg       Config
	deps      Deps
	info      []byte // NIP-11 without what a policy says, as JSON
	metrics   *metrics
	panics    *contain.Guard
	index     *index
	snapshots *snapshots

	pots       pots
	reassembly *reassembly
	linger     time.Duration // lingerTime

	mu      sync.Mutex // guards the fields below
	conns   map[*conn]struct{}
	slots   int // connections admitted, in the handshake or open
	byAddr  map[netip.Prefix]*network
	closing bool
	gone    chan struct{} // closed when the last connection of a closing relay has left

	watcher watcher
	slowest slowest

	publishedSeq atomic.Int64 // every event with a Seq up to this has gone through Publish

	publishing  sync.Mutex // guards the fields below
	stamp       uint64     // counts events
	batch       uint64     // counts calls of Publish
	pendingWake []*conn
}

// New returns a relay that serves once its handler is called. It needs Run for
// pings and time limits.
func New(cfg Config, deps Deps) (*Relay, error) {
	cfg.setDefaults()
	if err := cfg.Limits.check(); err != nil {
		return nil, err
	}
	if err := deps.check(); err != nil {
		return nil, err
	}
	info, err := cfg.document(nil)
	if err != nil {
		return nil, err
	}
	r := &Relay{
		cfg:     cfg,
		deps:    deps,
		info:    info,
		metrics: newMetrics(),
		panics:  contain.New(contain.Relay, cfg.Log),
		index:   newIndex(),
		conns:   make(map[*conn]struct{}),
		byAddr:  make(map[netip.Prefix]*network),
		gone:    make(chan struct{}),
		linger:  lingerTime,
	}
	r.pots = newPots(&r.cfg.Limits, r.cfg.Now)
	r.snapshots = newSnapshots(r)
	r.reassembly = newReassembly(cfg.Limits.PartialBytes)
	r.metrics.all = append(r.metrics.all, r.panics.Collector(), prometheus.NewGaugeFunc(
		prometheus.GaugeOpts{Name: metricPrefix + "partial_bytes", Help: "Bytes of long messages that are not complete, of all connections."},
		r.reassembly.bytes,
	))
	r.watcher.at = r.cfg.Now()
	return r, nil
}

// sweepEvery is how often silent connections are looked at, at most: a ping is late by that.
const sweepEvery = time.Second

// Run pings connections and enforces time limits until the context ends. Then it closes
// them: each has Limits.DrainTime to get the answers that are under way, and is closed
// with status 1001. The pipeline must still run at that time.
func (r *Relay) Run(ctx context.Context) error {
	tick := time.NewTicker(min(sweepEvery, r.cfg.Limits.PingInterval/4))
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			r.sweep(r.cfg.Now())
		case <-ctx.Done():
			r.shutdown()
			return nil
		}
	}
}

func (r *Relay) sweep(now time.Time) {
	for _, c := range r.all() {
		r.sweepConn(c, now)
	}
	r.contain(func() { r.snapshots.sweep(now) })
	r.contain(func() { r.forgetNetworks(now) })
}

func (r *Relay) sweepConn(c *conn, now time.Time) {
	defer c.failed()
	c.sweep(now)
}

// contain runs f and reports whether it panicked.
func (r *Relay) contain(f func()) (panicked bool) {
	return r.panics.Run(func() error {
		f()
		return nil
	}) != nil
}

func (r *Relay) all() []*conn {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := make([]*conn, 0, len(r.conns))
	for c := range r.conns {
		list = append(list, c)
	}
	return list
}

func (r *Relay) shutdown() {
	r.mu.Lock()
	r.closing = true
	if r.slots == 0 {
		close(r.gone)
	}
	r.mu.Unlock()
	for _, c := range r.all() {
		c.closeWith(errShutdown)
	}
	timer := time.NewTimer(2*r.cfg.Limits.DrainTime + 2*lingerTime)
	defer timer.Stop()
	select {
	case <-r.gone:
	case <-timer.C:
		// Each connection has its own limits on time; this is for the one that
		// waits for a store that does not come back.
		for _, c := range r.all() {
			_ = c.net.Close()
		}
	}
}

// refusal says why a connection was not admitted; it is a label.
type refusal uint8

const (
	tooMany           refusal = iota // in all
	tooManyPerAddr                   // from one address
	tooManyPerNetwork                // from one neighbourhood
	shuttingDown
	badHandshake
	byPolicy
	policyFailed
	byBan // of the operator
	refusals
	admitted = refusals
)

func (f refusal) String() string {
	return [refusals]string{"total", "address", "network", "shutdown", "handshake", "policy", "policy-error", "ban"}[f]
}

func (f refusal) text() string {
	return [refusals]string{
		"rate-limited: the relay has too many connections",
		"rate-limited: too many connections from your address",
		"rate-limited: too many connections from your network",
		"the relay is shutting down",
		"bad websocket handshake",
		"blocked: refused by policy",
		"error: the policy could not decide, try again later",
		"blocked: banned by the operator",
	}[f]
}

func (f refusal) status() int {
	if f == tooManyPerAddr || f == tooManyPerNetwork {
		return http.StatusTooManyRequests
	}
	return http.StatusServiceUnavailable
}

// admit takes a slot for the connection.
func (r *Relay) admit(c *conn) refusal {
	if refused := r.count(c); refused != admitted {
		return refused
	}
	if refused := r.takeParts(c); refused != admitted {
		r.release(c)
		return refused
	}
	return admitted
}

// count counts the connection, unless its address has too many.
func (r *Relay) count(c *conn) refusal {
	fromAddr := lower(r.cfg.Limits.ConnectionsPerAddr, r.cfg.Clients().Connections)
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.closing:
		return shuttingDown
	case r.fromAddr(c) >= fromAddr:
		return tooManyPerAddr
	}
	r.slots++
	c.share = new(host.Share)
	if c.slot.IsValid() {
		n := r.byAddr[c.slot]
		if n == nil {
			n = new(network)
			r.byAddr[c.slot] = n
		}
		n.conns++
		c.share = &n.share
	}
	return admitted
}

// release gives the slot back.
func (r *Relay) release(c *conn) {
	c.parts.release()
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.conns, c)
	r.slots--
	if c.slot.IsValid() {
		n := r.byAddr[c.slot]
		n.conns--
		n.lastClosed = r.cfg.Now()
	}
	if r.closing && r.slots == 0 {
		close(r.gone)
	}
}

// shareKept is how long the share of an address outlives its last connection: who comes
// back for each question does not get a fresh share.
const shareKept = time.Minute

// network is who is counted together (host.NetworkOf). Relay.mu guards its fields, but for
// the share, which is the store's.
type network struct {
	conns      int
	lastClosed time.Time // when the last of them was closed
	share      host.Share
}

// fromAddr counts the connections from the client's address. REQUIRES: r.mu.
func (r *Relay) fromAddr(c *conn) int {
	if n := r.byAddr[c.slot]; n != nil {
		return n.conns
	}
	return 0
}

// forgetNetworks forgets addresses without connections.
func (r *Relay) forgetNetworks(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for addr, n := range r.byAddr {
		if n.conns == 0 && now.Sub(n.lastClosed) > shareKept {
			delete(r.byAddr, addr)
		}
	}
}

// disconnected ends what serve began.
func (r *Relay) disconnected(c *conn) {
	if p := recover(); p != nil {
		_ = r.panics.Record(p)
		_ = c.net.Close()
	}
	r.metrics.open.Dec()
	r.release(c)
}
