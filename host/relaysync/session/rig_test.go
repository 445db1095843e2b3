package session

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"talon/host"
	"talon/host/relaymodel"
	"talon/host/relaysync/known"
	"talon/host/relaysync/match"
	"talon/host/relaysync/relaysynctest"
	"talon/host/wire"
	"talon/internal/testkit"
	"talon/sdk/abi"
)

var alice = testkit.NewSigner(1)

// epoch is the time of the tests' events, and of their beginning.
const epoch = relaysynctest.Epoch

var limits = Limits{
	Subscriptions: 70, Fetches: 4, Waiting: 100, InFlight: 512, EventBytes: 4 << 20, Violations: 100, Notices: 20, PageEvents: 50_000,
	Rounds: 5000, Need: 100_000, Push: 100, Page: 500, Chunk: 250, Chunks: 4, Requests: 20, Burst: 200,
	AnswerTime: 60_000, PageTime: 600_000, PingAfter: 30_000, PongTime: 20_000,
}

// rig is a session in virtual time, with a store of ids and a relay that a test plays.
type rig struct {
	*Session
	t       testing.TB
	now     int64
	next    int64
	stored  map[host.ID]*host.Event
	verdict func(e *host.Event) host.Verdict // nil: everything is stored
	hold    bool                             // the pipeline does not answer
	held    []ReceivedEvent
	sent    []string // what the relay was sent, and has not been looked at
	all     []string // what it was sent in all
	told    []Report
	log     []string
	ends    []EndReason
	remote  func(m *wire.Message, text string) // answers immediately
	mute    bool                               // the relay does not answer pings
	heard   int64
}

func newRig(t testing.TB, change func(cfg *Config)) *rig {
	g := &rig{t: t, now: epoch * 1000, stored: map[host.ID]*host.Event{}}
	hash := match.NewHash(1, 2)
	cfg := Config{
		Relay: "wss://relay.example", Limits: limits, Hash: hash, Known: known.New(hash, 1000, 3600), Verify: (*host.Event).CheckID,
		Sign: func(e *host.Event) error { *e = *alice.Event(e.Kind, e.CreatedAt, "", e.Tags...); return nil },
	}
	if change != nil {
		change(&cfg)
	}
	g.Session = New(cfg, g.now)
	g.turn()
	return g
}

// turn does what the session wants done, and gives it its turn.
func (g *rig) turn() {
	g.perform()
	g.next = g.Turn(g.now, false)
	g.perform()
}

// pass lets time go by, with a turn whenever the session wants one.
func (g *rig) pass(ms int64) {
	for end := g.now + ms; g.now < end; {
		g.now = max(g.now+1, min(end, g.next))
		g.turn()
	}
}

func (g *rig) perform() {
	for {
		effects := g.Effects()
		if len(effects) == 0 {
			return
		}
		for _, e := range slices.Clone(effects) {
			g.log = append(g.log, fmt.Sprintf("%d %T", g.now, e))
			g.effect(e)
		}
	}
}

func (g *rig) effect(e Effect) {
	switch e := e.(type) {
	case Send:
		text := string(e.Text)
		g.sent, g.all = append(g.sent, text), append(g.all, text)
		g.log = append(g.log, text)
		if g.remote == nil {
			return
		}
		m, err := wire.ParseMessage(e.Text, &wire.Limits{SubID: 64, Filters: 100, Values: 10_000})
		if err != nil {
			g.t.Fatalf("it sends %s: %v", text, err)
		}
		g.remote(&m, text)
	case Ping:
		if !g.mute {
			g.heard++
			g.Heard(g.now, g.heard)
		}
	case Submit:
		for _, a := range e.Events {
			if g.held = append(g.held, a); !g.hold {
				g.answer()
			}
		}
	case Build:
		local := NewLocalSet(&e)
		for _, x := range g.stored {
			if e.Filter.Matches(x) {
				local.Add(x.CreatedAt, x.ID)
			}
		}
		set, outside := local.Built()
		g.Built(g.now, e.Ticket, set, outside, nil)
	case Lookup:
		g.Missing(g.now, e.Ticket, slices.DeleteFunc(slices.Clone(e.IDs), func(id host.ID) bool { return g.stored[id] != nil }), true)
	case Read:
		var texts [][]byte
		for _, id := range e.IDs {
			texts = append(texts, g.stored[id].JSON)
		}
		g.ReadDone(g.now, e.Ticket, texts)
	case Notify:
		g.told = append(g.told, e.Report)
		g.log = append(g.log, fmt.Sprintf("%+v", e.Report))
	case Close:
		g.ends = append(g.ends, e.Reason)
	}
}

// answer has the pipeline answer what it holds.
func (g *rig) answer() {
	list := g.held
	g.held = nil
	for _, a := range list {
		v := host.Verdict{Code: host.Stored}
		switch {
		case g.stored[a.Event.ID] != nil:
			g.Answered(g.now, Answer{Ticket: a.Ticket, Outcome: Here})
			continue
		case g.verdict == nil && a.Event.CheckID() != nil:
			v = host.Verdict{Code: host.Rejected, Reason: "invalid: forged"}
		case g.verdict != nil:
			v = g.verdict(a.Event)
		}
		generation := g.cfg.Known.MarkInFlight(a.Event.ID, g.relay)
		if v.Code == host.Stored {
			g.stored[a.Event.ID] = a.Event
		}
		g.cfg.Known.Decided(a.Event.ID, v, nil)
		g.Answered(g.now, Answer{Ticket: a.Ticket, Verdict: v, Generation: generation})
	}
}

// say has the relay send a message.
func (g *rig) say(format string, args ...any) {
	g.Receive(g.now, fmt.Appendf(nil, format, args...))
	g.turn()
}

func (g *rig) event(sub string, e *host.Event) { g.say(`["EVENT","%s",%s]`, sub, e.JSON) }

// do gives it a command.
func (g *rig) do(c Command) {
	g.Session.Execute(g.now, c)
	g.turn()
}

// take returns the messages that were sent since the last call, by the beginning of each.
func (g *rig) take() (heads []string) {
	for _, text := range g.sent {
		parts := strings.SplitN(text, ",", 3)
		heads = append(heads, strings.Trim(strings.Join(parts[:2], " "), `[]`))
	}
	g.sent = nil
	return heads
}

// reports returns the reports since the last call, in short.
func (g *rig) reports() (list []string) {
	for _, r := range g.told {
		switch r := r.(type) {
		case *Eose:
			list = append(list, fmt.Sprintf("eose %s events=%d new=%d", r.Input.ID, r.Input.Events, r.Input.New))
		case *Closed:
			list = append(list, fmt.Sprintf("closed %s class=%d", r.Input.ID, r.Input.Class))
		case *Done:
			in := r.Input
			list = append(list, fmt.Sprintf("done %s method=%d complete=%v class=%d have=%d need=%d new=%d", in.ID, in.Method, in.Complete, in.Class, in.Have, in.Need, in.New))
		case *Notice:
			list = append(list, "notice")
		case *Limited:
			list = append(list, "limited")
		case *Learnt:
			c := r.Capabilities
			text := fmt.Sprintf("learnt neg=%d subs=%d message=%d", c.Negentropy, c.MaxSubscriptions, c.MaxMessage)
			if r.Pace > 0 {
				text += fmt.Sprintf(" pace=%d", r.Pace)
			}
			list = append(list, text)
		case *Delayed:
			list = append(list, fmt.Sprintf("delayed %d", r.Subscriptions))
		case *Refused:
			list = append(list, "refused")
		}
	}
	g.told = nil
	return list
}

// want compares lists.
func (g *rig) want(what string, got []string, want ...string) {
	g.t.Helper()
	if !slices.Equal(got, want) {
		g.t.Errorf("%s: %q, want %q", what, got, want)
	}
}

func kinds(list ...host.Kind) host.Filter { return host.Filter{Kinds: list, Limit: -1} }

func live(id string, f ...host.Filter) *Subscribe {
	return &Subscribe{ID: id, Live: true, Filters: f, Purpose: abi.PurposeLive}
}

// notes are n events of kind 1, the newest first.
func notes(n int) []*host.Event { return relaysynctest.Notes(n) }

// serve has a relay with events answer, whose profile a test may change.
func (g *rig) serve(events []*host.Event, change func(p *relaymodel.Profile)) {
	p := relaymodel.Default()
	change(p)
	relay := relaymodel.New(p, 0, g.now)
	for _, e := range events {
		relay.Add(e, g.now)
	}
	conn, _, _ := relay.Open(netip.Addr{}, g.now)
	g.remote = func(_ *wire.Message, text string) {
		for _, e := range relay.Receive(conn, []byte(text), g.now) {
			g.Receive(g.now, e.Frame)
		}
	}
}

// limitOf is how many events a relay gives in one answer.
func limitOf(limit int) func(p *relaymodel.Profile) {
	return func(p *relaymodel.Profile) { p.Limits.Limit = limit }
}
