package loop

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"talon/host"
	"talon/host/relaysync/match"
	"talon/host/relaysync/retry"
	"talon/host/relaysync/session"
	"talon/sdk/abi"
	"talon/sdk/grasp"
)

// scripted is a strategy that answers the next call with the actions that it has, and a
// throttle that has relays rest for a minute.
type scripted struct {
	quiet
	loop    *Loop // nil after the first call
	actions []abi.StepAction
	stored  []*host.Event
}

func (s *scripted) Call([]byte, int64) ([]byte, bool, error) {
	if s.loop != nil {
		s.loop.Init()
		s.loop = nil
		return nil, true, nil
	}
	var b []byte
	for i := range s.actions {
		b = abi.AppendAction(b, &s.actions[i])
	}
	s.actions = nil
	return b, false, nil
}

func (*scripted) Report(_ string, e ConnResult, _ int64) State {
	if e.Outcome == OutcomeRateLimited {
		return State{Wait: minute}
	}
	return State{}
}

func (s *scripted) Query(f host.Filter) (texts [][]byte, err error) {
	hash := match.NewHash(1, 2)
	for _, e := range s.stored {
		if d := hash.Digest(e); match.Any(hash.Matchers([]host.Filter{f}), &d) {
			texts = append(texts, e.JSON)
		}
	}
	return texts, nil
}

// opened is a loop with one relay that is connected.
type opened struct {
	*Loop
	t     *testing.T
	says  *scripted
	conn  ConnID
	now   int64
	value int // of the metric
}

const openedRelay = "wss://relay.example.com"

func openLoop(t *testing.T, stored ...*host.Event) *opened {
	says := &scripted{stored: stored}
	s, err := New(Config{Bootstrap: []string{openedRelay}, Limits: Limits{
		Limits: session.Limits{Subscriptions: 10, Waiting: 10}, Connections: 1, Dials: 1, Relays: 1, Answers: 100, Actions: 100, AnswerBytes: 1 << 16,
		Filters: 5, Values: 50, AllValues: 500, Timers: 1, FailTime: 1, SaveEvery: 1 << 40, Retry: retry.DefaultLimits,
	}}, Deps{Strategy: says, Facts: says, Health: says, Hosted: func(*grasp.Announcement) (bool, error) { return true, nil }})
	if err != nil {
		t.Fatal(err)
	}
	says.loop = s
	o := &opened{Loop: s, t: t, says: says, now: 1_700_000_000_000}
	s.Start(o.now, nil)
	o.connect()
	return o
}

func (o *opened) connect() {
	o.now += 1000
	o.Turn(o.now)
	o.look()
	o.Up(o.now, openedRelay, o.conn, Opened{})
}

// look reads the effects.
func (o *opened) look() {
	for _, e := range o.Effects() {
		switch e := e.(type) {
		case Dial:
			o.conn = e.Conn
		case MetricChange:
			if e.What == MeasuredComplete {
				o.value = e.Value
			}
		}
	}
}

// say has the strategy do something.
func (o *opened) say(actions ...abi.StepAction) {
	for i := range actions {
		actions[i].Relay = openedRelay
	}
	o.says.actions = actions
	o.step(&abi.TimerFired{ID: "t"})
}

func (o *opened) report(r session.Report) { o.Report(o.now, openedRelay, o.conn, r) }

// eose has all open subscriptions answered.
func (o *opened) eose() {
	r := o.relays[openedRelay]
	for _, id := range sortedKeys(r.subs) {
		o.report(&session.Eose{Serial: r.subs[id].serial, Input: abi.Eose{Relay: openedRelay, ID: id}})
	}
}

// want fails the test unless these are open, and status, counter and metric agree.
func (o *opened) want(when string, open ...string) {
	o.t.Helper()
	o.look()
	st := o.Status()[0]
	var got []string
	for _, reason := range st.Open {
		got = append(got, fmt.Sprintf("%v %d", reason.Why, reason.Count))
		if reason.Since == 0 || reason.Since > o.now {
			o.t.Errorf("%s: %v since %d", when, reason.Why, reason.Since)
		}
	}
	if !slices.Equal(got, open) {
		o.t.Errorf("%s: open are %q, want %q", when, got, open)
	}
	complete := st.Up && len(st.Open) == 0
	if complete != (st.CompleteSince != 0) || complete != (o.Stats().Complete == 1) || complete != (o.value == 1) {
		o.t.Errorf("%s: complete since %d, %d complete, metric %d", when, st.CompleteSince, o.Stats().Complete, o.value)
	}
}

var openedAuthor = strings.Repeat("a", 64)

func openedRepo(d string) (e *host.Event, address string) {
	e = &host.Event{Kind: grasp.KindAnnouncement, CreatedAt: 1_600_000_000, Tags: host.Tags{
		{"d", d}, {"clone", "https://git.example.com/" + d}, {"relays", openedRelay}}}
	for i := range e.PubKey {
		e.PubKey[i] = 0xaa
	}
	e.ID[0] = d[0]
	text, _ := json.Marshal(map[string]any{"id": e.ID.String(), "pubkey": openedAuthor, "kind": 30617, "created_at": e.CreatedAt,
		"tags": e.Tags, "content": "", "sig": strings.Repeat("0", 128)})
	e.JSON = text
	return e, "30617:" + openedAuthor + ":" + d
}

// asks is a subscription to what tags repositories.
func asks(id string, addresses ...string) abi.StepAction {
	return abi.StepAction{Do: abi.DoSubscribe, ID: id, Live: true, Filters: []abi.Filter{{Tags: []abi.TagFilter{{Name: "a", Values: addresses}}}}}
}

// A relay is complete when nothing is open there: each reason by itself, as the status and the
// metrics have it.
func TestComplete(t *testing.T) {
	one, a := openedRepo("one")
	two, b := openedRepo("two")
	o := openLoop(t, one, two)
	o.want("connected", "nothing asked 1", "repositories 2")
	o.say(asks("a", a), abi.StepAction{Do: abi.DoHistoric, ID: "h", Filters: []abi.Filter{{Kinds: []uint32{1}}}})
	o.want("asked", "stored events 2", "repositories 2")
	o.eose()
	o.want("one is open", "stored events 1", "repositories 1")
	o.say(abi.StepAction{Do: abi.DoUnsubscribe, ID: "h"}, asks("b", b))
	o.eose()
	o.want("both are open")

	for _, step := range []struct {
		progress abi.StepAction
		open     string
	}{
		{abi.StepAction{Past: true}, "comparison 1"}, {abi.StepAction{OldDates: true}, "old dates 1"}, {abi.StepAction{Closed: true}, "closed subscriptions 1"},
	} {
		step.progress.Do = abi.DoProgress
		o.say(step.progress)
		o.want("reported", step.open)
		o.say(abi.StepAction{Do: abi.DoProgress, NextCheck: o.now + minute})
		o.want("reported that nothing is")
	}
	if next := o.Status()[0].NextCheck; next != o.now+minute {
		t.Errorf("the next check is at %d", next)
	}

	o.report(&session.Limited{Reason: "slow down"})
	o.want("rests", "rest 1")
	o.now += minute - 1
	o.Turn(o.now)
	o.want("still rests", "rest 1")
	if next := o.nextTurn(); next != o.now+1 {
		t.Errorf("the next turn is in %d ms, want it when the rest ends", next-o.now)
	}
	o.now++
	o.Turn(o.now)
	o.want("has rested")

	o.say(abi.StepAction{Do: abi.DoUncovered, Roots: 3})
	o.want("no room", "root events 3")
	o.say(abi.StepAction{Do: abi.DoUncovered})
	o.want("room again")

	r := o.relays[openedRelay]
	o.report(&session.Closed{Serial: r.subs["b"].serial, Input: abi.Closed{Relay: openedRelay, ID: "b"}})
	o.want("closed", "repositories 1")
	o.say(asks("b", b, a))
	o.eose()
	o.say(asks("a", "30617:other:x")) // in place of the one to the first repository
	o.eose()
	o.want("the other asks for both")
	narrow := asks("b", a, b)
	narrow.Filters[0].Kinds = []uint32{7}
	o.say(narrow)
	o.eose()
	o.want("only reactions are asked for", "repositories 2")
	o.say(abi.StepAction{Do: abi.DoSubscribe, ID: "b", Filters: []abi.Filter{{Kinds: []uint32{1617, 1618, 1619, 1621}}}})
	o.eose()
	o.want("everything is asked for")

	// A third repository appears, and goes.
	three, _ := openedRepo("xthree")
	o.say(asks("b", a, b))
	o.eose()
	o.says.stored = append(o.says.stored, three)
	o.Changed(o.now, []Change{{Event: three, Kind: Stored}})
	o.want("a new repository", "repositories 1")
	o.says.stored = o.says.stored[:2]
	o.Changed(o.now, []Change{{Event: three, Kind: Removed}})
	o.want("it is gone")

	o.Down(o.now, openedRelay, o.conn, Ended{Result: ConnResult{Outcome: OutcomeDisconnected}})
	o.want("lost")
	if o.Stats().Complete != 0 {
		t.Error("a relay that is lost is complete")
	}
}

// Without a report of the strategy, a fetch that was cut short leaves the relay incomplete.
func TestPartial(t *testing.T) {
	o := openLoop(t)
	o.say(asks("a", "30617:other:x"), abi.StepAction{Do: abi.DoHistoric, ID: "h", Filters: []abi.Filter{{Kinds: []uint32{1}}}})
	o.eose()
	o.report(&session.Done{Serial: o.relays[openedRelay].hists["h"].serial, Input: abi.HistoricDone{Relay: openedRelay, ID: "h"}})
	o.want("cut short", "cut short 1")
	o.say(abi.StepAction{Do: abi.DoProgress})
	o.want("the strategy reports that all is here")
}

// The strategy says whether an absence was too long to continue.
func TestReconnectionsOfAStrategy(t *testing.T) {
	o := openLoop(t)
	for i, step := range []struct {
		progress    *abi.StepAction
		short, long uint64
	}{
		{&abi.StepAction{Do: abi.DoProgress}, 0, 0}, // the first connection
		{&abi.StepAction{Do: abi.DoProgress, Anew: true}, 0, 1},
		{&abi.StepAction{Do: abi.DoProgress}, 1, 1},
		{nil, 1, 1},
		{&abi.StepAction{Do: abi.DoProgress}, 3, 1}, // the one before ended without a report
	} {
		if step.progress != nil {
			o.say(*step.progress)
			o.say(*step.progress)
		}
		if got := o.Stats().Reconnections; got != [2]uint64{step.short, step.long} {
			t.Errorf("connection %d: %v, want %d and %d", i, got, step.short, step.long)
		}
		o.Down(o.now, openedRelay, o.conn, Ended{Result: ConnResult{Outcome: OutcomeDisconnected}})
		o.connect()
	}
}
