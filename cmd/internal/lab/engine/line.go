package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"net/netip"
	"os"
	"syscall"

	"talon/cmd/internal/lab/result"
	"talon/cmd/internal/lab/world"
	"talon/host"
	"talon/host/negentropy"
	"talon/host/relayclient"
	"talon/host/relaysync"
	"talon/host/relaysync/holdings"
	"talon/host/relaysync/loop"
	"talon/host/relaysync/session"
	"talon/internal/simclock"
)

// line is an attempt of a Talon to connect to a relay, and the connection that follows.
type line struct {
	t       *talon
	id      loop.ConnID
	r       *remote
	request loop.Dial
	begun   int64
	conn    uint64           // number of the connection at the relay
	session *session.Session // at the level of the wire
	model   *model           // at that of the model
	held    *holdings.Set    // what the relay is believed to hold
	up      bool
	upSince int64
	down    bool // the strategy gets no more inputs about it
	broken  bool // nothing arrives any more, in either direction
	turn    simclock.Alarm

	in, out        pipe
	received, sent int64
	open           map[string]*openSub
	apart          bool          // no two of these ask for a value, and all of them are old
	offered        []*host.Event // events that the first comparison offers the relay
	believed       bool          // a comparison offered less than all that is here
}

// pipe is what is on its way in one direction.
type pipe struct {
	frames []frame
	free   int64 // when what was sent last has arrived
	alarm  simclock.Alarm
}

type frame struct {
	at   int64
	text []byte // nil: the connection ends; empty: a pong
}

// dialTime is how long an attempt takes that is not answered.
var dialTime = relaysync.DefaultLimits.ConnectTime.Milliseconds()

// Costs of an attempt without its frames.
const (
	upgradeUp, upgradeDown = 250, 180 // bytes of the request for a websocket, and of its answer
	informUp, informDown   = 160, 220 // of one for the NIP-11 document, without that
	firstTrips             = 6        // ways until a first request has its answer: TCP, TLS, HTTP
)

func newLine(t *talon, r *remote, d loop.Dial) *line {
	l := &line{t: t, id: d.Conn, r: r, request: d, begun: t.e.Now(), open: map[string]*openSub{}}
	l.turn = t.e.NewAlarm(func() {
		if !l.down {
			l.serve()
			t.turn()
		}
	})
	l.in.alarm = t.e.NewAlarm(l.read)
	l.out.alarm = t.e.NewAlarm(l.write)
	return l
}

// dial begins an attempt.
func (l *line) dial() {
	e, r := l.t.e, l.r
	e.watch.attempt(l)
	if r.dumb > 0 {
		e.After(dialTime, func() { l.fail(context.DeadlineExceeded) })
		return
	}
	trips := int64(firstTrips)
	if l.request.Inform {
		trips *= 2
	}
	e.After((trips-1)*r.latency(), l.deliver)
}

// deliver is when the request for a websocket reaches the relay.
func (l *line) deliver() {
	e, r := l.t.e, l.r
	if l.down {
		return
	}
	if r.dumb > 0 {
		e.At(max(e.Now(), l.begun+dialTime), func() { l.fail(os.ErrDeadlineExceeded) })
		return
	}
	// All Talons have addresses of their own.
	from := netip.AddrFrom4([4]byte{192, 0, 2, byte(l.t.Number)})
	conn, status, effects := r.relay.Open(from, e.unix())
	switch status {
	case 0:
		r.effects(effects)
		e.After(r.latency(), func() { l.fail(syscall.ECONNREFUSED) })
	case 101:
		l.conn = conn
		r.lines[conn] = l
		l.in.free = e.Now() + r.latency()
		e.At(l.in.free, l.opened)
		r.effects(effects)
	default:
		r.effects(effects)
		e.After(r.latency(), func() { l.fail(&relayclient.StatusError{Status: status}) })
	}
}

// opened is when the Talon has the connection.
func (l *line) opened() {
	e, t := l.t.e, l.t
	if l.down {
		return
	}
	o := loop.Opened{Capabilities: l.request.Capabilities}
	if l.request.Inform {
		doc := l.r.relay.InfoDocument()
		l.count(informUp, int64(informDown+len(doc)))
		if info := new(relaysync.Information); doc != nil && json.Unmarshal(doc, info) == nil {
			o = info.Opened(&l.request)
		}
	}
	l.count(upgradeUp, upgradeDown)
	o.Duration = e.Now() - l.begun
	l.up, l.upSince = true, e.Now()
	l.held = holdings.Decode(t.holdings[l.r.URL], t.limits.Holdings)
	if e.cfg.Level == result.Model {
		l.model = newModel(l, &o.Capabilities)
	} else {
		l.session = session.New(session.Config{
			Relay: l.r.URL, Capabilities: o.Capabilities, Limits: t.limits.Session(), Known: t.known, Holdings: l.held, Hash: t.hash, Verify: world.Verify, Sign: t.sign,
		}, t.now())
	}
	e.watch.connected(l)
	t.loop.Up(t.now(), l.r.URL, l.id, o)
	l.serve()
	t.turn()
}

// fail is when the Talon learns that there is no connection, or none any more.
func (l *line) fail(err error) {
	if l.down {
		return
	}
	wasUp := l.up
	ended := relaysync.Classify(err, wasUp)
	ended.Result.Duration = l.t.e.Now() - l.begun
	if wasUp {
		ended.Result.Duration = l.t.e.Now() - l.upSince
		if l.session != nil {
			ended.Answered, ended.Unanswered = l.session.Sizes(l.t.now())
		}
	}
	ended.Received = l.received
	l.disconnect()
	l.t.loop.Down(l.t.now(), l.r.URL, l.id, ended)
	l.t.turn()
}

// disconnect ends the line for the Talon. The relay learns of it when that reaches it.
func (l *line) disconnect() {
	if l.down {
		return
	}
	l.down = true
	e := l.t.e
	if l.up {
		e.watch.disconnected(l)
	}
	if l.held != nil && l.held.TakeChanged() {
		l.t.holdings[l.r.URL] = l.held.Encode()
	}
	delete(l.t.lines, l.id)
	if l.conn != 0 && l.r.lines[l.conn] == l {
		e.After(l.r.latency(), func() {
			delete(l.r.lines, l.conn)
			l.r.effects(l.r.relay.Gone(l.conn, e.unix()))
		})
	}
}

// frameBytes is the length of a frame with its header.
func frameBytes(text []byte, masked bool) int64 {
	n := int64(len(text)) + 2
	switch {
	case len(text) > 65535:
		n += 8
	case len(text) > 125:
		n += 2
	}
	if masked {
		n += 4
	}
	return n
}

// fromRelay has something that a relay sends arrive; nil is the end of the connection.
func (l *line) fromRelay(text []byte) {
	if l.broken {
		return
	}
	l.send(&l.in, text)
}

func (l *line) send(p *pipe, text []byte) {
	e := l.t.e
	if b := int64(l.r.Bandwidth); b > 0 {
		// The line is busy with it for a while; then it is on its way.
		p.free = max(p.free, e.Now()+l.r.latency()) + int64(len(text))*1000/b
	} else {
		p.free = max(p.free, e.Now()+l.r.latency())
	}
	p.frames = append(p.frames, frame{p.free, text})
	p.alarm.Set(p.frames[0].at)
}

// due takes what has arrived.
func (p *pipe) due(now int64) (text []byte, ok bool) {
	if len(p.frames) == 0 || p.frames[0].at > now {
		return nil, false
	}
	text = p.frames[0].text
	p.frames[0] = frame{}
	p.frames = p.frames[1:]
	return text, true
}

func (p *pipe) again() {
	if len(p.frames) > 0 {
		p.alarm.Set(p.frames[0].at)
	}
}

// read gives the session what has come.
func (l *line) read() {
	if l.down || l.broken || !l.up {
		return
	}
	now := l.t.now()
	for l.model != nil || !l.session.Full() {
		text, ok := l.in.due(l.t.e.Now())
		if !ok {
			break
		}
		if text == nil {
			l.serve()
			l.fail(relaysync.ErrLost)
			return
		}
		if l.model != nil {
			continue // what it costs is counted where it is asked for
		}
		l.count(0, frameBytes(text, false))
		l.session.Heard(now, l.received)
		if len(text) > 0 {
			l.t.e.watch.frame(l, text, false)
			l.session.Receive(now, text)
		}
	}
	l.serve()
	l.t.turn()
}

// write gives the relay what has come.
func (l *line) write() {
	for !l.broken && l.r.lines[l.conn] == l {
		text, ok := l.out.due(l.t.e.Now())
		if !ok {
			break
		}
		if len(text) == 0 {
			l.fromRelay([]byte{}) // a pong
			continue
		}
		l.r.effects(l.r.relay.Receive(l.conn, text, l.t.e.unix()))
	}
	if l.broken || l.r.lines[l.conn] != l {
		l.out.frames = nil // nobody is there
	}
	l.out.again()
}

// count counts bytes.
func (l *line) count(up, down int64) {
	l.sent += up
	l.received += down
	l.t.e.watch.bytes(l, up, down)
}

// do gives the session a command.
func (l *line) do(c session.Command) {
	if !l.up || l.down {
		return
	}
	l.t.e.watch.command(l, c)
	if l.model != nil {
		l.model.do(c)
		return
	}
	l.session.Execute(l.t.now(), c)
	l.serve()
}

// answered gives the session what became of an event.
func (l *line) answered(a session.Answer) {
	switch {
	case l.down:
	case l.model != nil:
		l.model.answered(a)
	default:
		l.session.Answered(l.t.now(), a)
	}
}

// serve gives the session its turn, and does what it wants done.
func (l *line) serve() {
	if l.down || l.model != nil {
		return
	}
	l.perform()
	if l.down {
		return
	}
	busy := !l.broken && len(l.in.frames) > 0 && l.in.frames[0].at <= l.t.e.Now()
	next := l.session.Turn(l.t.now(), busy)
	l.perform()
	if l.down {
		return
	}
	l.turn.Set(l.t.sinceBegin(next))
	if !l.session.Full() {
		l.in.again()
	}
}

func (l *line) perform() {
	for !l.down {
		effects := l.session.Effects()
		if len(effects) == 0 {
			return
		}
		for _, e := range effects {
			if !l.down {
				l.effect(e)
			}
		}
	}
}

func (l *line) effect(e session.Effect) {
	t := l.t
	t.e.watch.check.effect(l, e)
	if t.e.cfg.plant != nil {
		e = t.e.cfg.plant(e)
	}
	switch e := e.(type) {
	case session.Send:
		l.count(frameBytes(e.Text, true), 0)
		t.e.watch.frame(l, e.Text, true)
		if !l.broken {
			l.send(&l.out, bytes.Clone(e.Text))
		}
	case session.Ping:
		l.count(6, 0)
		if !l.broken {
			l.send(&l.out, []byte{})
		}
	case session.Submit:
		t.submit(l, e.Events)
	case session.Build:
		t.e.After(1, func() {
			if !l.down {
				set, outside := t.localSet(e)
				l.session.Built(t.now(), e.Ticket, set, outside, nil)
				l.serve()
				t.turn()
			}
		})
	case session.Lookup:
		l.session.Missing(t.now(), e.Ticket, t.missing(e.IDs), true)
	case session.Read:
		var texts [][]byte
		for _, id := range e.IDs {
			if x := t.store().Get(id); x != nil {
				texts = append(texts, x.JSON)
			}
		}
		l.session.ReadDone(t.now(), e.Ticket, texts)
	case session.Notify:
		t.e.watch.report(l, e.Report)
		t.loop.Report(t.now(), l.r.URL, l.id, e.Report)
	case session.Close:
		t.e.At(t.e.Now(), func() { l.fail(relaysync.EndError(e.Reason)) })
	}
}

// localSet is what is here of a filter's events.
func (t *talon) localSet(b session.Build) (*negentropy.Set, session.Outside) {
	set := session.NewLocalSet(&b)
	for _, e := range t.store().Query(&b.Filter) {
		set.Add(e.CreatedAt, e.ID)
	}
	for _, h := range t.heldBy(&b.Filter) {
		set.Add(h.CreatedAt, h.ID)
	}
	t.known.EachRefused(b.Matcher, t.now()/1000, set.AddRefused)
	return set.Built()
}
