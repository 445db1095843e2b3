package loop_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"talon/host"
	"talon/host/relaymodel"
	"talon/host/relaysync/health"
	"talon/host/relaysync/holdings"
	"talon/host/relaysync/known"
	"talon/host/relaysync/loop"
	"talon/host/relaysync/match"
	"talon/host/relaysync/relaysynctest"
	"talon/host/relaysync/retry"
	"talon/host/relaysync/session"
	"talon/host/wire"
	"talon/internal/simclock"
	"talon/sdk/abi"
	"talon/sdk/grasp"
)

// network is a loop, its sessions, and relays, in virtual time and one goroutine.
type network struct {
	t        testing.TB
	clock    *simclock.Clock // unix milliseconds
	turning  simclock.Alarm
	loop     *loop.Loop
	strategy strategy
	plan     *plan // the same; nil: it is another
	health   *health.Keeper
	barred   int // connections that ended because of what a relay sent
	known    *known.Set
	stored   map[host.ID]*host.Event
	lines    map[loop.ConnID]*line
	remotes  map[string]*remote
	records  map[string][]byte
	beliefs  map[string][]byte // what relays are believed to hold, as it is written
	refuses  func(*host.Event) bool
	quiet    bool // nothing is logged
	log      []string
}

// line is an attempt to connect, and the connection that results.
type line struct {
	n       *network
	dial    loop.Dial
	remote  *remote
	conn    uint64           // number of the connection at the relay; 0: there is none
	session *session.Session // nil until it is up
	held    *holdings.Set
	turning simclock.Alarm
	bytes   int64
	down    bool
}

// remote is a relay of the network. Nothing is due there at a time.
type remote struct {
	url     string
	latency int64
	profile *relaymodel.Profile // nil: that of a relay without limits
	events  []*host.Event       // that it has at the begin
	caps    abi.Capabilities    // that it tells of itself
	version string

	clock  *simclock.Clock
	relay  *relaymodel.Relay
	lines  map[uint64]*line
	before relaymodel.Stats // when the test last looked
	dials  int
	visits []int64 // when it took a connection
	firsts int     // of them, those that a test does not count
}

// begin has the relay begin.
func (r *remote) begin(c *simclock.Clock) {
	if r.profile == nil {
		r.profile = relaymodel.Default()
	}
	r.clock, r.relay, r.lines = c, relaymodel.New(r.profile, 0, c.Now()), map[uint64]*line{}
	r.add(r.events...)
}

// apply carries out what the relay does.
func (r *remote) apply(effects []relaymodel.Effect) {
	for _, e := range effects {
		if l := r.lines[e.Conn]; l != nil {
			r.clock.After(r.latency, func() { l.receive(e.Frame) })
		}
	}
}

// add has the relay take events.
func (r *remote) add(list ...*host.Event) {
	for _, e := range list {
		r.apply(r.relay.Add(e, r.clock.Now()))
	}
}

// setAway ends all connections, and has the relay take none; or take them again.
func (r *remote) setAway(away bool) {
	status := -1
	if away {
		status = 0
	}
	r.apply(r.relay.SetAway(status, r.clock.Now()))
}

// asked returns how many messages have asked for something since the test last looked, and
// how many bytes went back and forth.
func (r *remote) asked() (questions, bytes int) {
	st := r.relay.Stats()
	questions = int(st.Requests + st.Comparisons - r.before.Requests - r.before.Comparisons)
	return questions, int(st.Received + st.SentBytes - r.before.Received - r.before.SentBytes)
}

// lose has the relay lose its newest events.
func (r *remote) lose(count int) {
	for _, e := range r.relay.Store().Query(&host.Filter{Limit: count}) {
		r.relay.Store().Delete(e.ID)
	}
}

const epoch = relaysynctest.Epoch

var sessionLimits = session.Limits{
	Subscriptions: 70, Fetches: 4, Waiting: 100, InFlight: 512, EventBytes: 4 << 20, Violations: 100, Notices: 20, PageEvents: 50_000,
	Rounds: 5000, Need: 100_000, Push: 100, Page: 500, Chunk: 250, Chunks: 4, Requests: 20, Burst: 200,
	AnswerTime: 60_000, PageTime: 600_000, PingAfter: 30_000, PongTime: 20_000,
}

var limits = loop.Limits{
	Limits:      session.Limits{Subscriptions: 70, Fetches: 4, Waiting: 2000},
	Connections: 100, Dials: 16, Relays: 10_000, Filters: 10, Values: 500, AllValues: 200_000,
	Timers: 2000, Actions: 5000, AnswerBytes: 8 << 20, Answers: 500, FailTime: 1000, SaveEvery: 20_000, Retry: retry.DefaultLimits,
}

var hash = match.NewHash(1, 2)

func newNetwork(t testing.TB, react func(v *abi.StepView) []abi.StepAction, remotes ...*remote) *network {
	p := &plan{react: react}
	n := &network{t: t, plan: p}
	n.begin(p, remotes)
	return n
}

// strategy is one of which each start of the loop makes another.
type strategy interface {
	loop.Strategy
	begin(init func() []byte)
}

func (n *network) begin(s strategy, remotes []*remote) {
	n.strategy, n.clock, n.known = s, simclock.New(epoch*1000), known.New(hash, 1000, 3600)
	n.stored, n.remotes, n.beliefs = map[host.ID]*host.Event{}, map[string]*remote{}, map[string][]byte{}
	var err error
	log := slog.New(slog.DiscardHandler)
	n.health, err = health.Open(n.t.Context(), relaysynctest.NoThrottle{}, new(relaysynctest.Memory), log)
	if err != nil {
		n.t.Fatal(err)
	}
	n.turning = n.clock.NewAlarm(func() {
		if n.loop != nil { // nil: it is stopped
			n.turn()
		}
	})
	for _, r := range remotes {
		r.begin(n.clock)
		n.remotes[r.url] = r
	}
	n.start()
}

// start begins, or begins again after a stop.
func (n *network) start() {
	n.lines = map[loop.ConnID]*line{}
	l, err := loop.New(loop.Config{Own: []string{"own.example.com"}, Limits: limits}, loop.Deps{
		Strategy: n.strategy, Facts: n, Health: n.health, Hosted: func(a *grasp.Announcement) (bool, error) {
			return a.ListsService(grasp.Service{Host: "own.example.com"}), nil
		},
	})
	if err != nil {
		n.t.Fatal(err)
	}
	n.loop = l
	n.strategy.begin(l.Init)
	l.Start(n.clock.Now(), n.records)
	n.turn()
}

func (n *network) stop() {
	for _, l := range n.lines {
		l.close()
	}
	for url, record := range n.loop.Stop(n.clock.Now()) {
		if n.records == nil {
			n.records = map[string][]byte{}
		}
		n.records[url] = record
	}
	n.loop = nil
}

func (n *network) Query(f host.Filter) ([][]byte, error)  { return nil, nil }
func (n *network) HeldBy(f host.Filter) ([][]byte, error) { return nil, nil }

// pass lets time go by.
func (n *network) pass(ms int64) { n.clock.RunUntil(n.clock.Now() + ms) }

// turn gives the loop its turn, and does what it wants done.
func (n *network) turn() {
	n.perform()
	next := n.loop.Turn(n.clock.Now())
	n.perform()
	n.turning.Set(next)
}

func (n *network) perform() {
	for effects := n.loop.Effects(); len(effects) > 0; effects = n.loop.Effects() {
		for _, e := range effects {
			n.effect(e)
		}
	}
}

func (n *network) effect(e loop.Effect) {
	if n.quiet {
	} else if tell, ok := e.(loop.Execute); ok {
		text, _ := json.Marshal(tell)
		n.log = append(n.log, fmt.Sprintf("%d %s", n.clock.Now(), text))
	} else {
		n.log = append(n.log, fmt.Sprintf("%d %+v", n.clock.Now(), e))
	}
	switch e := e.(type) {
	case loop.Dial:
		l := &line{n: n, dial: e, remote: n.remotes[e.Relay]}
		l.remote.dials++
		n.lines[e.Conn] = l
		n.clock.After(2*l.remote.latency, l.open)
	case loop.CloseConn:
		if l := n.lines[e.Conn]; l != nil {
			l.close()
		}
	case loop.Execute:
		if l := n.lines[e.Conn]; l != nil {
			l.session.Execute(n.clock.Now(), e.Command)
			l.serve()
		}
	case loop.Save:
		n.loop.Saved(n.clock.Now(), nil)
	}
}

// open has the request for a connection reach the relay.
func (l *line) open() {
	if l.down {
		return
	}
	r := l.remote
	conn, _, effects := r.relay.Open(netip.Addr{}, l.n.clock.Now())
	if conn == 0 {
		l.n.clock.After(r.latency, func() {
			l.end(loop.Ended{Class: abi.ClassUnreachable, Result: loop.ConnResult{Outcome: loop.OutcomeUnreachable}})
		})
		return
	}
	l.conn, r.lines[conn] = conn, l
	l.n.clock.After(r.latency, l.opened)
	r.apply(effects)
}

// opened is when we have the connection.
func (l *line) opened() {
	n, r, d := l.n, l.remote, l.dial
	if l.down {
		return
	}
	o := loop.Opened{Capabilities: d.Capabilities}
	if d.Inform {
		neg := o.Capabilities.Negentropy
		o.Capabilities, o.Informed, o.Version = r.caps, true, r.version
		if o.Capabilities.Negentropy == abi.SupportUnknown {
			o.Capabilities.Negentropy = neg
		}
		o.Capabilities = d.Merge(o.Capabilities, o.Version)
	}
	now := n.clock.Now()
	r.visits = append(r.visits, now)
	l.held = holdings.Decode(n.beliefs[r.url], 500_000)
	l.session = session.New(session.Config{
		Relay: r.url, Restarts: d.Restarts, Capabilities: o.Capabilities, Limits: sessionLimits, Known: n.known, Holdings: l.held, Hash: hash, Verify: func(*host.Event) error { return nil },
	}, now)
	l.turning = n.clock.NewAlarm(l.next)
	n.loop.Up(now, r.url, d.Conn, o)
	l.next()
}

// next gives the session its turn, and then the loop.
func (l *line) next() {
	if !l.down {
		l.serve()
		l.n.turn()
	}
}

// serve gives the session its turn, and does what it wants done.
func (l *line) serve() {
	l.perform()
	if l.down {
		return
	}
	next := l.session.Turn(l.n.clock.Now(), false)
	l.perform()
	l.turning.Set(next)
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
	n, now := l.n, l.n.clock.Now()
	switch e := e.(type) {
	case session.Send:
		if !n.quiet {
			n.log = append(n.log, fmt.Sprintf("%d %s < %.80s", now, l.remote.url, e.Text))
		}
		if _, err := wire.ParseMessage(e.Text, &wire.Limits{SubID: 64, Filters: 100, Values: 10_000}); err != nil {
			n.t.Fatalf("it sends %.200s: %v", e.Text, err)
		}
		n.clock.After(l.remote.latency, func() { l.remote.apply(l.remote.relay.Receive(l.conn, e.Text, n.clock.Now())) })
	case session.Ping:
		n.clock.After(2*l.remote.latency, func() { l.receive([]byte{}) })
	case session.Submit:
		for _, a := range e.Events {
			n.clock.After(1, func() { l.decide(a) })
		}
	case session.Build:
		local := session.NewLocalSet(&e)
		for _, x := range n.stored {
			if e.Filter.Matches(x) {
				local.Add(x.CreatedAt, x.ID)
			}
		}
		n.known.EachRefused(e.Matcher, now/1000, local.AddRefused)
		set, outside := local.Built()
		l.session.Built(now, e.Ticket, set, outside, nil)
	case session.Lookup:
		l.session.Missing(now, e.Ticket, slices.DeleteFunc(slices.Clone(e.IDs), func(id host.ID) bool { return n.stored[id] != nil }), true)
	case session.Notify:
		n.loop.Report(now, l.remote.url, l.dial.Conn, e.Report)
	case session.Close:
		ended := lost
		ended.Restart = e.Reason == session.EndRestart
		if e.Reason == session.EndViolations {
			ended.Result.Outcome = loop.OutcomeProtocol
			n.barred++
		}
		n.clock.After(0, func() { l.end(ended) })
	}
}

// decide stores an event of a relay, or refuses it.
func (l *line) decide(a session.ReceivedEvent) {
	n := l.n
	v := host.Verdict{Code: host.Stored}
	switch {
	case n.stored[a.Event.ID] != nil:
		v.Code = host.Duplicate
	case n.refuses != nil && n.refuses(a.Event):
		v.Code = host.Rejected
	default:
		n.stored[a.Event.ID] = a.Event
	}
	n.known.Decided(a.Event.ID, v, nil)
	if !l.down {
		l.session.Answered(n.clock.Now(), session.Answer{Ticket: a.Ticket, Verdict: v, Position: n.loop.Position()})
		l.next()
	}
}

// receive gives the session what the relay has sent: a message, a pong if that is empty, the end
// of the connection if it is nil.
func (l *line) receive(text []byte) {
	switch {
	case l.down:
		return
	case text == nil:
		l.end(lost)
		return
	}
	l.bytes += int64(len(text)) + 2
	l.session.Heard(l.n.clock.Now(), l.bytes)
	if len(text) > 0 {
		l.session.Receive(l.n.clock.Now(), text)
	}
	l.next()
}

// lost is how a connection ends that the relay has ended.
var lost = loop.Ended{Class: abi.ClassLost, Result: loop.ConnResult{Outcome: loop.OutcomeDisconnected}}

// end tells the loop that there is no connection, or none any more.
func (l *line) end(e loop.Ended) {
	if l.down {
		return
	}
	n := l.n
	l.close()
	if l.session != nil {
		e.Answered, e.Unanswered = l.session.Sizes(n.clock.Now())
	}
	n.loop.Down(n.clock.Now(), l.remote.url, l.dial.Conn, e)
	n.turn()
}

// close ends the connection, and writes what its relay is believed to hold.
func (l *line) close() {
	if l.conn != 0 {
		delete(l.remote.lines, l.conn)
		l.remote.apply(l.remote.relay.Gone(l.conn, l.n.clock.Now()))
	}
	if l.held != nil && l.held.TakeChanged() {
		l.n.beliefs[l.remote.url] = l.held.Encode()
	}
	l.down = true
	delete(l.n.lines, l.dial.Conn)
}

// plan is a strategy that does what a test says.
type plan struct {
	react func(v *abi.StepView) []abi.StepAction
	init  func() []byte
	fresh bool
	told  []string
	done  []abi.HistoricDone
}

func (p *plan) begin(init func() []byte) { p.init, p.fresh = init, true }

func (p *plan) Call(request []byte, _ int64) ([]byte, bool, error) {
	fresh := p.fresh
	if p.fresh = false; fresh {
		request = p.init()
	}
	if request == nil {
		return nil, fresh, nil
	}
	var v abi.StepView
	if err := v.Decode(request); err != nil {
		return nil, fresh, err
	}
	switch v.Kind {
	case abi.InputRelayConnected:
		c := v.RelayConnected()
		p.told = append(p.told, fmt.Sprintf("connected subs=%d message=%d", c.Capabilities.MaxSubscriptions, c.Capabilities.MaxMessage))
	case abi.InputRelayDisconnected:
		p.told = append(p.told, fmt.Sprintf("disconnected class=%d", v.RelayDisconnected().Class))
	case abi.InputHistoricDone:
		p.told = append(p.told, fmt.Sprintf("done %s complete=%v", v.HistoricDone().ID, v.HistoricDone().Complete))
		p.done = append(p.done, v.HistoricDone())
	case abi.InputClosed:
		p.told = append(p.told, fmt.Sprintf("closed %s class=%d", v.Closed().ID, v.Closed().Class))
	case abi.InputEose:
		p.told = append(p.told, "eose "+string(v.Eose().ID))
	case abi.InputTimerFired:
		p.told = append(p.told, "timer "+string(v.TimerFired().ID))
	}
	var answer []byte
	for _, a := range p.react(&v) {
		answer = abi.AppendAction(answer, &a)
	}
	return answer, fresh, nil
}

// count returns how many inputs of the strategy begin so.
func (p *plan) count(prefix string) (n int) {
	for _, s := range p.told {
		if strings.HasPrefix(s, prefix) {
			n++
		}
	}
	return n
}

// notes are n events of kind 1, the newest first.
func notes(n int) []*host.Event { return relaysynctest.Notes(n) }

func connectTo(url string) abi.StepAction { return abi.StepAction{Do: abi.DoConnect, Relay: url} }

func fetch(url, id string, kinds ...uint32) abi.StepAction {
	return abi.StepAction{Do: abi.DoHistoric, Relay: url, ID: id, Purpose: abi.PurposeStartup, Filters: []abi.Filter{{Kinds: kinds}}}
}

func live(url, id string, kinds ...uint32) abi.StepAction {
	return abi.StepAction{Do: abi.DoSubscribe, Relay: url, ID: id, Live: true, Filters: []abi.Filter{{Kinds: kinds}}}
}
