package relaysync

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"talon/host"
	"talon/host/netguard"
	"talon/host/relayclient"
	"talon/sdk/abi"
)

// env is what all connections have in common. It does not change, but for what has a
// lock of its own.
type env struct {
	cfg     *Config
	deps    *Deps
	known   *known
	metrics *metrics
	guard   *netguard.Guard
	reports chan report
	scans   chan struct{} // holds a token for each comparison that reads the store
	mark    atomic.Uint64 // of the retry set
	helpers sync.WaitGroup
}

func (v *env) now() int64 { return v.cfg.Now().Unix() }

// conn is one attempt to connect to a relay, and the connection that comes of it. Its
// goroutine (run) owns what is not said to be shared.
type conn struct {
	env    *env
	url    string
	source *host.Source
	ctx    context.Context
	cancel context.CancelFunc
	knows  bool // what the relay says of itself is known

	socket *relayclient.Socket
	out    *outbox
	caps   abi.Capabilities
	began  time.Time

	serial   int // wire ids given
	requests map[string]*request
	subs     map[string]*subscription // by the strategy's id; so historics
	hists    map[string]*historic
	negs     map[string]*historic // by wire id
	asked    map[host.ID]*chunk   // what chunks ask for
	pushes   map[host.ID]*historic
	queue    []*subscription // wait to be opened
	waiting  []*historic     // wait for their turn
	running  int             // historics

	batch    []arrived // events to be looked up and submitted
	flying   int       // events submitted and not answered
	flyBytes int

	auth    auth
	greeted int       // challenges that came
	seen    time.Time // when the relay was last heard
	pinged  bool      // since then
	tokens  float64   // requests that may begin
	strikes float64   // breaches of the rules
	ticked  time.Time // when these were last counted
	cool    time.Time // nothing new is asked before
	later   []func()  // what historics ask then
	notices float64
	bytes   int64 // received, as counted for metrics

	mu       sync.Mutex // guards the fields below, which others write
	commands []func()   // of the loop, and of our own helpers
	signal   chan struct{}
}

// newConn returns an attempt that has not begun.
func newConn(ctx context.Context, v *env, url string, caps abi.Capabilities, knows bool) *conn {
	c := &conn{
		env: v, url: url, caps: caps, knows: knows,
		source:   &host.Source{Origin: host.FromSync, Relay: url},
		requests: make(map[string]*request),
		subs:     make(map[string]*subscription),
		hists:    make(map[string]*historic),
		negs:     make(map[string]*historic),
		asked:    make(map[host.ID]*chunk),
		pushes:   make(map[host.ID]*historic),
		tokens:   float64(v.cfg.Limits.Burst),
		notices:  float64(v.cfg.Limits.Notices),
		signal:   make(chan struct{}, 1),
	}
	c.ctx, c.cancel = context.WithCancel(ctx)
	return c
}

// do hands a command to the connection's goroutine, from any other. It does not wait.
// How many commands can lie there is bounded by whoever makes them: a strategy's answer
// in a step, events in flight.
func (c *conn) do(f func()) {
	c.mu.Lock()
	c.commands = append(c.commands, f)
	c.mu.Unlock()
	select {
	case c.signal <- struct{}{}:
	default:
	}
}

func (c *conn) take() []func() {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := c.commands
	c.commands = nil
	return list
}

// run connects and serves until the connection ends, and reports how it did.
func (c *conn) run() {
	down := &downReport{}
	defer func() {
		if p := recover(); p != nil {
			c.env.metrics.panics.Inc()
			c.env.cfg.Log.Error("panic in sync", "relay", c.url, "err", fmt.Sprint(p), "stack", string(debug.Stack()))
			down.class, down.ending = abi.ClassError, Ending{Outcome: OutcomeProtocol, Reason: "the host failed"}
		}
		c.close()
		// The loop takes this one, whatever happens to the connection.
		c.env.reports <- report{conn: c, down: down}
	}()
	c.began = time.Now()
	err := c.connect()
	if err == nil {
		down.wasUp = true
		c.tell(report{up: &upReport{caps: c.caps, info: c.knows, took: time.Since(c.began)}})
		c.began = time.Now()
		err = c.serve()
	}
	down.class, down.ending = classify(err, down.wasUp)
	down.ending.Took = time.Since(c.began)
}

func (c *conn) close() {
	c.cancel()
	if c.socket != nil {
		_ = c.socket.Close()
	}
}

// errBreach ends a connection to a relay that broke the rules too often.
var errBreach = errors.New("the relay sends too much that nobody asked for, or that is wrong")

// errPong ends a connection to a relay that is silent.
var errPong = errors.New("the relay does not answer")

// strike counts a breach of the rules.
func (c *conn) strike(why drop, weight float64) error {
	c.env.metrics.dropped.WithLabelValues(dropNames[why]).Inc()
	if c.strikes += weight; c.strikes > float64(c.env.cfg.Limits.Strikes) {
		return errBreach
	}
	return nil
}

// serve reads and acts until the connection ends.
func (c *conn) serve() error {
	l := &c.env.cfg.Limits
	c.out = newOutbox(c.socket, l.QueueBytes)
	var helpers sync.WaitGroup
	defer func() {
		helpers.Wait()
		c.count(time.Now())
	}()
	defer c.close()
	frames := make(chan []byte, 2)
	broken := make(chan error, 2)
	helpers.Go(func() { broken <- c.read(frames) })
	helpers.Go(func() {
		if err := c.out.run(c.ctx); err != nil {
			broken <- err
		}
	})
	tick := time.NewTicker(tickTime)
	defer tick.Stop()
	c.ticked = time.Now()
	c.seen = c.ticked
	for {
		in := frames
		if c.flying >= l.InFlight || c.flyBytes >= l.EventBytes {
			in = nil // the relay waits for the pipeline
		}
		var err error
		select {
		case <-c.ctx.Done():
			return c.ctx.Err()
		case err = <-broken:
			if err == nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				err = errLost
			}
			return err
		case text := <-in:
			if err = c.handle(text); err == nil && len(frames) == 0 {
				err = c.flush()
			}
		case <-c.signal:
			for _, f := range c.take() {
				f()
			}
		case now := <-tick.C:
			err = c.tick(now, len(frames) > 0 || in == nil)
		}
		if err == nil {
			c.begin()
			err = c.out.failed()
		}
		if err != nil {
			return err
		}
	}
}

var errLost = errors.New("the relay closed the connection")

// read hands on what the relay sends. It waits for the connection's goroutine.
func (c *conn) read(frames chan<- []byte) error {
	for {
		text, err := c.socket.Read()
		if err != nil {
			return err
		}
		select {
		case frames <- text:
		case <-c.ctx.Done():
			return c.ctx.Err()
		}
	}
}

// tickTime is how often a connection looks at the clock.
const tickTime = 250 * time.Millisecond

// tick lets time pass. A connection that is busy does not count as silent.
func (c *conn) tick(now time.Time, busy bool) error {
	l := &c.env.cfg.Limits
	passed := now.Sub(c.ticked).Seconds()
	c.ticked = now
	c.tokens = min(float64(l.Burst), c.tokens+passed*l.Requests)
	c.strikes = max(0, c.strikes-passed)
	c.notices = min(float64(l.Notices), c.notices+passed*float64(l.Notices)/60)
	c.count(now)
	switch silence := now.Sub(c.seen); {
	case busy:
		c.seen = now
	case silence > l.PingAfter+l.PongTime:
		return errPong
	case silence > l.PingAfter && !c.pinged:
		c.pinged = true
		c.out.ping()
	}
	if !busy {
		c.timeOut(now)
	}
	return c.flush()
}

// count counts what was received since it was counted last.
func (c *conn) count(now time.Time) {
	if n := c.socket.Received(); n != c.bytes {
		c.env.metrics.received.Add(float64(n - c.bytes))
		c.bytes = n
		c.seen, c.pinged = now, false
	}
}

// timeOut ends what the relay does not answer.
func (c *conn) timeOut(now time.Time) {
	l := &c.env.cfg.Limits
	c.auth.timeOut(c, now)
	for _, r := range c.requests {
		if r.ended || c.auth.waits(r.id) {
			continue
		}
		switch {
		case r.live && now.Sub(r.sent) > l.AnswerTime:
			r.text, r.ended = nil, true // nothing stored was asked for
			c.settle(r)
		case now.Sub(r.heard) > l.AnswerTime:
			c.drop(r)
			r.owner.closed(c, r, abi.ClassError, "no answer in time")
		case now.Sub(r.sent) > l.PageTime:
			c.drop(r)
			r.owner.closed(c, r, abi.ClassTooMuch, "the answer has no end")
		}
	}
	for _, h := range c.negs {
		most := l.AnswerTime
		if h.repeats == 0 && (h.rounds == 0 || c.caps.Negentropy == abi.SupportYes) {
			most /= 4 // many relays pass over what they do not know, and some lose a message
		}
		if !c.auth.waits(h.wire) && now.Sub(h.heard) > most {
			h.unanswered(c)
		}
	}
	for _, h := range c.hists {
		if h.pushing > 0 && now.Sub(h.heard) > l.AnswerTime {
			h.endPush(c)
		}
	}
}

// wireID makes a short id: relays bound their length.
func (c *conn) wireID(kind byte) string {
	c.serial++
	return fmt.Sprintf("%c%d", kind, c.serial)
}
