package loop_test

import (
	"container/heap"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"talon/host"
	"talon/host/relaysync/holdings"
	"talon/host/relaysync/known"
	"talon/host/relaysync/loop"
	"talon/host/relaysync/match"
	"talon/host/relaysync/relaysynctest"
	"talon/host/relaysync/retry"
	"talon/host/relaysync/session"
	"talon/host/wire"
	"talon/sdk/abi"
	"talon/sdk/grasp"
)

// network is a loop, its sessions, and relays, in virtual time and one goroutine. Whatever
// takes time is an event in a queue.
type network struct {
	t       testing.TB
	now     int64
	queue   queue
	events  int // that were queued so far
	loop    *loop.Loop
	turnAt  int64
	plan    *plan
	many    *rounds // the strategy in place of plan; nil: plan
	health  *health
	known   *known.Set
	stored  map[host.ID]*host.Event
	lines   map[loop.ConnID]*line
	remotes map[string]*remote
	records map[string][]byte
	beliefs map[string][]byte // what relays are believed to hold, as it is written
	refuses func(*host.Event) bool
	quiet   bool // nothing is logged
	log     []string
}

// event is something that happens at a time.
type event struct {
	at     int64
	number int
	f      func()
}

type queue []event

func (q queue) Len() int { return len(q) }
func (q queue) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].number < q[j].number
}
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)   { *q = append(*q, x.(event)) }
func (q *queue) Pop() any {
	old := *q
	x := old[len(old)-1]
	*q = old[:len(old)-1]
	return x
}

// line is a connection of the simulated network.
type line struct {
	id      loop.ConnID
	remote  *remote
	session *session.Session
	negs    relaysynctest.Comparisons
	open    map[string][]host.Filter
	held    *holdings.Set
	turnAt  int64
	bytes   int64
	down    bool
}

// remote is a relay that a test plays.
type remote struct {
	url     string
	latency int64
	events  []*host.Event
	claims  []*host.Event // that it names in comparisons, and does not have
	caps    abi.Capabilities
	version string
	refuse  bool // it takes no connections
	most    int  // subscriptions; 0: any
	message int  // bytes of a message upon which it hangs up; 0: any

	asked, sent, received int // messages that ask for something, bytes that it got, bytes that it gave
	dials                 int
	visits                []int64 // when it took a connection
	firsts                int     // of them, those that a test does not count
}

const epoch = relaysynctest.Epoch

var sessionLimits = session.Limits{
	Subscriptions: 70, Fetches: 4, Waiting: 100, InFlight: 512, EventBytes: 4 << 20, Violations: 100, Notices: 20, PageEvents: 50_000,
	Rounds: 5000, Need: 100_000, Push: 100, Page: 500, Chunk: 250, Chunks: 4, Requests: 20, Burst: 200,
	AnswerTime: 60_000, PageTime: 600_000, PingAfter: 30_000, PongTime: 20_000,
}

var limits = loop.Limits{
	Limits:      session.Limits{Subscriptions: 70, Fetches: 4, Waiting: 2000},
	Connections: 100, Dials: 16, Relays: 2000, Filters: 10, Values: 500, AllValues: 200_000,
	Timers: 2000, Actions: 5000, AnswerBytes: 8 << 20, Answers: 500, FailTime: 1000, SaveEvery: 20_000, Retry: retry.DefaultLimits,
}

var hash = match.NewHash(1, 2)

func newNetwork(t testing.TB, react func(v *abi.StepView) []abi.StepAction, remotes ...*remote) *network {
	n := &network{t: t, plan: &plan{react: react}}
	n.begin(remotes)
	return n
}

// newNetworkOf returns a network with a strategy for many relays. It logs nothing.
func newNetworkOf(t testing.TB, s *rounds, remotes ...*remote) *network {
	n := &network{t: t, plan: &plan{}, many: s, quiet: true}
	n.begin(remotes)
	return n
}

func (n *network) begin(remotes []*remote) {
	n.now, n.health, n.known = epoch*1000, &health{}, known.New(hash, 1000, 3600)
	n.stored, n.remotes, n.beliefs = map[host.ID]*host.Event{}, map[string]*remote{}, map[string][]byte{}
	for _, r := range remotes {
		n.remotes[r.url] = r
	}
	n.start()
}

// start begins, or begins again after a stop.
func (n *network) start() {
	n.queue, n.lines = nil, map[loop.ConnID]*line{}
	limits := limits
	var strategy loop.Strategy = n.plan
	if n.many != nil {
		strategy = n.many
		limits.Relays = 10_000
	}
	l, err := loop.New(loop.Config{Own: []string{"own.example.com"}, Limits: limits}, loop.Deps{
		Strategy: strategy, Facts: n, Health: n.health, Hosted: func(a *grasp.Announcement) (bool, error) {
			return a.ListsService(grasp.Service{Host: "own.example.com"}), nil
		},
	})
	if err != nil {
		n.t.Fatal(err)
	}
	n.loop, n.plan.init, n.plan.fresh = l, l.Init, true
	if n.many != nil {
		n.many.init, n.many.fresh = l.Init, true
	}
	l.Start(n.now, n.records)
	n.turn()
}

func (n *network) stop() {
	for _, l := range n.lines {
		n.keep(l)
	}
	for url, record := range n.loop.Stop(n.now) {
		if n.records == nil {
			n.records = map[string][]byte{}
		}
		n.records[url] = record
	}
}

func (n *network) Query(f host.Filter) ([][]byte, error)  { return nil, nil }
func (n *network) HeldBy(f host.Filter) ([][]byte, error) { return nil, nil }

// after has something happen later.
func (n *network) after(ms int64, f func()) {
	n.events++
	heap.Push(&n.queue, event{n.now + ms, n.events, f})
}

// pass lets time go by.
func (n *network) pass(ms int64) {
	end := n.now + ms
	for len(n.queue) > 0 && n.queue[0].at <= end {
		e := heap.Pop(&n.queue).(event)
		n.now = e.at
		e.f()
	}
	n.now = end
}

// turn gives the loop its turn, and does what it wants done.
func (n *network) turn() {
	n.perform()
	next := n.loop.Turn(n.now)
	n.perform()
	if n.turnAt <= n.now || next < n.turnAt {
		n.turnAt = next
		n.after(next-n.now, func() {
			if n.turnAt == n.now {
				n.turn()
			}
		})
	}
}

func (n *network) perform() {
	for effects := n.loop.Effects(); len(effects) > 0; effects = n.loop.Effects() {
		for _, e := range effects {
			n.effect(e)
		}
	}
}

// keep writes what the relay of a connection is believed to hold.
func (n *network) keep(l *line) {
	if l.held.TakeChanged() {
		n.beliefs[l.remote.url] = l.held.Encode()
	}
}

func (n *network) effect(e loop.Effect) {
	if n.quiet {
	} else if tell, ok := e.(loop.Execute); ok {
		text, _ := json.Marshal(tell)
		n.log = append(n.log, fmt.Sprintf("%d %s", n.now, text))
	} else {
		n.log = append(n.log, fmt.Sprintf("%d %+v", n.now, e))
	}
	switch e := e.(type) {
	case loop.Dial:
		n.dial(e)
	case loop.CloseConn:
		if l := n.lines[e.Conn]; l != nil {
			l.down = true
			n.keep(l)
			delete(n.lines, e.Conn)
		}
	case loop.Execute:
		if l := n.lines[e.Conn]; l != nil {
			l.session.Execute(n.now, e.Command)
			n.serve(l)
		}
	case loop.Save:
		n.loop.Saved(n.now, nil)
	}
}

func (n *network) dial(d loop.Dial) {
	r := n.remotes[d.Relay]
	r.dials++
	n.after(3*r.latency, func() {
		if r.refuse {
			n.loop.Down(n.now, r.url, d.Conn, loop.Ended{Class: abi.ClassUnreachable, Result: loop.ConnResult{Outcome: loop.OutcomeUnreachable}})
			n.turn()
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
		l := &line{id: d.Conn, remote: r, negs: relaysynctest.Comparisons{}, open: map[string][]host.Filter{}, held: holdings.Decode(n.beliefs[r.url], 500_000)}
		r.visits = append(r.visits, n.now)
		l.session = session.New(session.Config{
			Relay: r.url, Capabilities: o.Capabilities, Limits: sessionLimits, Known: n.known, Holdings: l.held, Hash: hash, Verify: func(*host.Event) error { return nil },
		}, n.now)
		n.lines[d.Conn] = l
		n.loop.Up(n.now, r.url, d.Conn, o)
		n.serve(l)
		n.turn()
	})
}

// serve gives a session its turn, and does what it wants done.
func (n *network) serve(l *line) {
	n.performSession(l)
	next := l.session.Turn(n.now, false)
	n.performSession(l)
	if l.down || l.turnAt > n.now && next >= l.turnAt {
		return
	}
	l.turnAt = next
	n.after(next-n.now, func() {
		if l.turnAt == n.now && !l.down {
			n.serve(l)
			n.turn()
		}
	})
}

func (n *network) performSession(l *line) {
	for !l.down {
		effects := l.session.Effects()
		if len(effects) == 0 {
			return
		}
		for _, e := range effects {
			if !l.down {
				n.sessionEffect(l, e)
			}
		}
	}
}

func (n *network) sessionEffect(l *line, e session.Effect) {
	switch e := e.(type) {
	case session.Send:
		if !n.quiet {
			n.log = append(n.log, fmt.Sprintf("%d %s < %.80s", n.now, l.remote.url, e.Text))
		}
		l.remote.sent += len(e.Text)
		n.after(l.remote.latency, func() { n.receive(l, e.Text) })
	case session.Ping:
		n.say(l, "")
	case session.Submit:
		for _, a := range e.Events {
			n.after(1, func() {
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
				l.session.Answered(n.now, session.Answer{Ticket: a.Ticket, Verdict: v, Position: n.loop.Position()})
				n.serve(l)
				n.turn()
			})
		}
	case session.Build:
		local := session.LocalSet{Within: e.Within}
		for _, x := range n.stored {
			if e.Filter.Matches(x) {
				local.Add(x.CreatedAt, x.ID)
			}
		}
		n.known.EachRefused(e.Matcher, n.now/1000, local.AddRefused)
		set, outside := local.Built()
		l.session.Built(n.now, e.Ticket, set, outside, nil)
	case session.Lookup:
		l.session.Missing(n.now, e.Ticket, slices.DeleteFunc(slices.Clone(e.IDs), func(id host.ID) bool { return n.stored[id] != nil }), true)
	case session.Notify:
		n.loop.Report(n.now, l.remote.url, l.id, e.Report)
	case session.Close:
		n.end(l, loop.Ended{
			Class: abi.ClassLost, Restart: e.Reason == session.EndRestart, Result: loop.ConnResult{Outcome: map[bool]loop.Outcome{true: loop.OutcomeProtocol, false: loop.OutcomeDisconnected}[e.Reason == session.EndViolations]},
		})
	}
}

// end tells the loop that a connection has ended.
func (n *network) end(l *line, e loop.Ended) {
	if l.down {
		return
	}
	l.down = true
	n.keep(l)
	delete(n.lines, l.id)
	e.Answered, e.Unanswered = l.session.Sizes(n.now)
	n.after(0, func() {
		n.loop.Down(n.now, l.remote.url, l.id, e)
		n.turn()
	})
}

// cut ends the connections of a relay.
func (n *network) cut(r *remote) {
	for _, l := range n.lines {
		if l.remote == r {
			n.end(l, loop.Ended{Class: abi.ClassLost, Result: loop.ConnResult{Outcome: loop.OutcomeDisconnected}})
		}
	}
}

// say has a relay send a message; an empty one is a pong.
func (n *network) say(l *line, format string, args ...any) {
	text := fmt.Appendf(nil, format, args...)
	n.after(l.remote.latency, func() {
		if l.down {
			return
		}
		l.bytes += int64(len(text)) + 2
		l.remote.received += len(text)
		l.session.Heard(n.now, l.bytes)
		if len(text) > 0 {
			l.session.Receive(n.now, text)
		}
		n.serve(l)
		n.turn()
	})
}

// receive is what a relay does with a message.
func (n *network) receive(l *line, text []byte) {
	r := l.remote
	if l.down {
		return
	}
	if r.message > 0 && len(text) > r.message {
		n.end(l, loop.Ended{Class: abi.ClassLost, Result: loop.ConnResult{Outcome: loop.OutcomeDisconnected}})
		return
	}
	m, err := wire.ParseMessage(text, &wire.Limits{SubID: 64, Filters: 100, Values: 10_000})
	if err != nil {
		n.t.Fatalf("it sends %.200s: %v", text, err)
	}
	switch m.Verb {
	case wire.Req, wire.NegOpen:
		r.asked++
	}
	switch m.Verb {
	case wire.Req:
		if r.most > 0 && len(l.open) >= r.most {
			n.say(l, `["NOTICE","ERROR: too many concurrent REQs"]`)
			return
		}
		l.open[m.SubID] = m.Filters
		for i := range m.Filters {
			left := m.Filters[i].Limit
			for _, e := range r.events {
				if left != 0 && m.Filters[i].Matches(e) {
					left--
					n.say(l, `["EVENT","%s",%s]`, m.SubID, e.JSON)
				}
			}
		}
		n.say(l, `["EOSE","%s"]`, m.SubID)
	case wire.Close:
		delete(l.open, m.SubID)
	case wire.NegOpen, wire.NegMsg:
		var has []*host.Event
		if m.Verb == wire.NegOpen {
			has = relaysynctest.Matching(slices.Concat(r.events, r.claims), &m.Filters[0])
		}
		reply, err := l.negs.Answer(&m, has)
		if err != nil {
			n.t.Fatal(err)
		}
		n.say(l, "%s", reply)
	}
}

// plan is a strategy that does what a test says.
type plan struct {
	react func(v *abi.StepView) []abi.StepAction
	init  func() []byte
	fresh bool
	told  []string
	done  []abi.HistoricDone
}

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

// health is a throttle that doubles the wait from five seconds, and bars for bad protocol.
type health struct {
	failures map[string]int
	barred   int
}

func (h *health) Allow(string, int64) int64 { return 0 }
func (h *health) Forget(string)             {}
func (h *health) Reset(relay string)        { delete(h.failures, relay) }

func (h *health) Get(string, int64) loop.State { return loop.State{} }

func (h *health) Report(relay string, r loop.ConnResult, _ int64) loop.State {
	if h.failures == nil {
		h.failures = map[string]int{}
	}
	switch r.Outcome {
	case loop.OutcomeOK:
		if r.Productive {
			h.failures[relay] = 0
		}
		return loop.State{Status: loop.StatusHealthy, Failures: h.failures[relay]}
	case loop.OutcomeProtocol:
		h.barred++
		return loop.State{Status: loop.StatusDead, Wait: 12 * 3600_000}
	}
	h.failures[relay]++
	n := h.failures[relay]
	return loop.State{Status: loop.StatusDegraded, Failures: n, Wait: min(3600_000, int64(5000)<<min(n-1, 20))}
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
