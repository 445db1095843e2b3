package relaysync

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"talon/host"
	"talon/host/negentropy"
	"talon/host/relaysync/holdings"
	"talon/host/relaysync/loop"
	"talon/host/relaysync/session"
	"talon/sdk/abi"
)

// line is an attempt to connect to a relay, and the resulting connection. It runs the I/O
// of a session, which must stay pure. Its goroutine (run) owns the session; one more reads
// frames, one writes.
type line struct {
	sync    *Sync
	id      loop.ConnID
	relay   string
	source  *host.Source
	request loop.Dial
	ctx     context.Context
	cancel  context.CancelFunc

	conn     Conn
	out      *outbox
	session  *session.Session
	holdings *holdings.Set // what the relay is believed to hold; nil: that is not kept
	kept     int64         // when that was last put to be written
	stats    session.Stats // as counted for metrics
	received atomic.Int64

	mu     sync.Mutex // guards the fields below, which others write
	inputs []any      // session.Command, session.Answer or built
	signal chan struct{}
}

// built is the answer to a session.Build.
type built struct {
	ticket  uint64
	set     *negentropy.Set
	outside session.Outside
	err     error
}

func newLine(ctx context.Context, v *Sync, d loop.Dial) *line {
	l := &line{
		sync: v, id: d.Conn, relay: d.Relay, request: d,
		source: &host.Source{Origin: host.FromSync, Relay: d.Relay},
		signal: make(chan struct{}, 1),
	}
	l.ctx, l.cancel = context.WithCancel(ctx)
	return l
}

// put hands an input to the session, from any goroutine. It does not wait. The senders
// bound the number of inputs: the answer of a strategy in a step, and the events in flight.
func (l *line) put(input any) {
	l.mu.Lock()
	l.inputs = append(l.inputs, input)
	l.mu.Unlock()
	select {
	case l.signal <- struct{}{}:
	default:
	}
}

func (l *line) takePending() []any {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := l.inputs
	l.inputs = nil
	return list
}

// Errors that end a connection.
var (
	ErrLost       = errors.New("the relay closed the connection")
	errViolations = errors.New("the relay sends too much that nobody asked for, or that is wrong")
	errSilent     = errors.New("the relay does not answer")
	errRestart    = errors.New("the relay takes less than it was asked for")
)

// run connects and serves until the connection ends, and reports how it did.
func (l *line) run() {
	var ended loop.Ended
	defer func() {
		if p := recover(); p != nil {
			_ = l.sync.cfg.Panics.Record(p)
			ended = loop.Ended{Class: abi.ClassError, Result: loop.ConnResult{Outcome: loop.OutcomeProtocol, Reason: "the host failed"}}
		}
		l.close()
		ended.Received = l.received.Load()
		// The loop takes this one, whatever happens to the connection.
		l.sync.messages <- message{line: l, ended: &ended}
	}()
	begun := time.Now()
	conn, opened, err := l.dial()
	l.conn = conn
	if err != nil {
		l.conn = nil
		ended = Classify(err, false)
		ended.Result.Duration = time.Since(begun).Milliseconds()
		return
	}
	l.report(message{opened: &opened})
	begun = time.Now()
	err = l.serve(opened)
	v := l.sync
	ended = Classify(err, true)
	ended.Result.Duration = time.Since(begun).Milliseconds()
	ended.Answered, ended.Unanswered = l.session.Sizes(v.now())
}

func (l *line) close() {
	l.cancel()
	if l.conn != nil {
		_ = l.conn.Close()
	}
}

// Bounds of how long a session is left alone: the clock may jump.
const (
	minSleep = time.Millisecond
	maxSleep = time.Second
)

// gatherTime is how long messages that follow one another are taken before the session
// has its turn.
const gatherTime = 100 // ms

// serve reads and acts until the connection ends.
func (l *line) serve(opened loop.Opened) error {
	v := l.sync
	held, err := v.beliefs.get(l.ctx, l.relay)
	if err != nil && l.ctx.Err() == nil {
		v.cfg.Log.Error("read what a relay is believed to hold", "relay", l.relay, "err", err)
	}
	l.holdings, l.kept = held, v.now()
	defer l.keepHoldings()
	l.session = session.New(v.sessionConfig(&l.request, opened, held), v.now())
	l.out = newOutbox(l.conn, v.cfg.Limits.QueueBytes)
	var helpers sync.WaitGroup
	defer func() {
		helpers.Wait()
		l.count(v.now())
	}()
	defer l.close()
	frames := make(chan []byte, 2)
	broken := make(chan error, 2)
	helpers.Go(func() { broken <- v.cfg.Panics.Run(func() error { return l.read(frames) }) })
	helpers.Go(func() {
		if err := v.cfg.Panics.Run(func() error { return l.out.run(l.ctx) }); err != nil {
			broken <- err
		}
	})
	timer := time.NewTimer(maxSleep)
	defer timer.Stop()
	turned := v.now()
	for {
		in := frames
		if l.session.Full() {
			in = nil // the relay waits for the pipeline
		}
		gather := false
		select {
		case <-l.ctx.Done():
			return l.ctx.Err()
		case err := <-broken:
			if err == nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				err = ErrLost
			}
			return err
		case text := <-in:
			now := v.now()
			l.session.Receive(now, text)
			gather = len(frames) > 0 && now-turned < gatherTime
		case <-l.signal:
			l.input(v.now())
		case <-timer.C:
		}
		if err := l.perform(); err != nil {
			return err
		}
		if gather {
			continue
		}
		turned = v.now()
		l.count(turned)
		l.session.Unsent(l.out.waiting())
		next := l.session.Turn(turned, len(frames) > 0)
		if err := l.perform(); err != nil {
			return err
		}
		if err := l.out.failed(); err != nil {
			return err
		}
		timer.Reset(sleepUntil(next, turned))
	}
}

func sleepUntil(next, now int64) time.Duration {
	rest := min(next, now+maxSleep.Milliseconds()) - now
	return max(minSleep, time.Duration(rest)*time.Millisecond)
}

// input gives the session what others have for it.
func (l *line) input(now int64) {
	for _, in := range l.takePending() {
		switch in := in.(type) {
		case session.Command:
			l.session.Execute(now, in)
		case session.Answer:
			l.session.Answered(now, in)
		case built:
			l.session.Built(now, in.ticket, in.set, in.outside, in.err)
		}
	}
}

// perform does what the session wants done. It waits for the pipeline and the loop.
func (l *line) perform() error {
	for {
		effects := l.session.Effects()
		if len(effects) == 0 {
			return nil
		}
		for _, e := range effects {
			if err := l.effect(e); err != nil {
				return err
			}
		}
	}
}

func (l *line) effect(e session.Effect) error {
	v := l.sync
	switch e := e.(type) {
	case session.Send:
		l.out.push(e.Text)
	case session.Ping:
		l.out.ping()
	case session.Submit:
		return l.submit(e.Events)
	case session.Build:
		v.helpers.Go(func() {
			var b built
			err := v.cfg.Panics.Run(func() (err error) {
				b.set, b.outside, err = v.localSet(l.ctx, &e)
				return err
			})
			b.ticket, b.err = e.Ticket, err
			l.put(b)
		})
	case session.Lookup:
		missing, err := v.deps.Local.Missing(l.ctx, e.IDs)
		l.session.Missing(v.now(), e.Ticket, missing, err == nil)
	case session.Read:
		var texts [][]byte
		for _, id := range e.IDs {
			if text, err := v.deps.Facts.Get(l.ctx, id); err == nil && text != nil {
				texts = append(texts, text)
			} // else held, refused, or gone
		}
		l.session.ReadDone(v.now(), e.Ticket, texts)
	case session.Notify:
		l.report(message{report: e.Report})
	case session.Log:
		v.cfg.Log.Log(l.ctx, slog.Level(e.Level), e.Message, e.Attrs...)
	case session.Close:
		return EndError(e.Reason)
	}
	return nil
}

// EndError is the error with which a session's connection ends.
func EndError(why session.EndReason) error {
	switch why {
	case session.EndViolations:
		return errViolations
	case session.EndRestart:
		return errRestart
	}
	return errSilent
}

// read hands on what the relay sends. It waits for the session.
func (l *line) read(frames chan<- []byte) error {
	for {
		text, err := l.conn.Read()
		if err != nil {
			return err
		}
		select {
		case frames <- text:
		case <-l.ctx.Done():
			return l.ctx.Err()
		}
	}
}

// count counts what happened since it was counted last.
func (l *line) count(now int64) {
	received := l.conn.Received()
	l.session.Heard(now, received)
	l.received.Store(received)
	m, st := l.sync.metrics, l.session.Stats()
	m.received.Add(float64(received - l.stats.Bytes))
	for why, n := range st.Dropped {
		if d := n - l.stats.Dropped[why]; d > 0 {
			m.dropped.WithLabelValues(session.IgnoreReason(why).String()).Add(float64(d))
		}
	}
	l.stats = st
	l.stats.Bytes = received
	if now-l.kept > holdingsEvery {
		l.kept = now
		l.keepHoldings()
	}
}

// holdingsEvery is how often what a relay is believed to hold is written while it is
// connected. After a crash, what is newer costs bytes.
const holdingsEvery = 5 * 60_000 // ms

func (l *line) keepHoldings() {
	if l.holdings != nil && l.holdings.TakeChanged() {
		l.sync.beliefs.put(l.relay, l.holdings.Encode())
	}
}

// message is what a line tells the loop. One of the pointers is set.
type message struct {
	line   *line
	opened *loop.Opened
	report session.Report
	ended  *loop.Ended
}

// report sends a message. It waits for the loop, and gives up when the connection ends.
func (l *line) report(m message) {
	m.line = l
	select {
	case l.sync.messages <- m:
	case <-l.ctx.Done():
	}
}

// outbox is the queue of messages to a relay. Putting something in never waits: a relay
// that takes nothing loses its connection.
type outbox struct {
	socket   Conn
	maxBytes int

	mu     sync.Mutex // guards the fields below
	items  [][]byte   // nil: a ping
	bytes  int
	err    error // why nothing more is taken
	signal chan struct{}
}

func newOutbox(s Conn, limit int) *outbox {
	return &outbox{socket: s, maxBytes: limit, signal: make(chan struct{}, 1)}
}

var errSlow = errors.New("the relay does not take what it is sent")

// perItem is the cost of an item in addition to its text.
const perItem = 64

func (o *outbox) push(text []byte) {
	o.mu.Lock()
	if o.bytes+len(text)+perItem > o.maxBytes {
		o.err = errSlow
	}
	if o.err == nil {
		o.items = append(o.items, text)
		o.bytes += len(text) + perItem
	}
	o.mu.Unlock()
	select {
	case o.signal <- struct{}{}:
	default:
	}
}

func (o *outbox) ping() { o.push(nil) }

// waiting returns how many bytes wait to be sent.
func (o *outbox) waiting() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.bytes
}

// failed returns why nothing more is taken, nil if all is well.
func (o *outbox) failed() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

// run sends until the context ends or the network fails.
func (o *outbox) run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-o.signal:
		}
		for {
			o.mu.Lock()
			items := o.items
			o.items = nil
			o.mu.Unlock()
			if len(items) == 0 {
				break
			}
			for _, text := range items {
				var err error
				if text == nil {
					err = o.socket.Ping()
				} else {
					err = o.socket.Write(text)
				}
				if err != nil {
					return err
				}
				o.mu.Lock()
				o.bytes -= len(text) + perItem
				o.mu.Unlock()
			}
		}
	}
}
