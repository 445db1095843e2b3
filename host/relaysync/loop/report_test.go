package loop

import (
	"fmt"
	"strings"
	"testing"

	"talon/host"
	"talon/host/relaysync/retry"
	"talon/host/relaysync/session"
	"talon/sdk/abi"
	"talon/sdk/grasp"
)

// quiet is a strategy that wants nothing, and a throttle that never objects. Nothing is
// stored.
type quiet struct{}

func (quiet) Call([]byte, int64) ([]byte, bool, error) { return nil, false, nil }

func (quiet) Query(host.Filter) ([][]byte, error)  { return nil, nil }
func (quiet) HeldBy(host.Filter) ([][]byte, error) { return nil, nil }

func (quiet) Allow(string, int64) int64              { return 0 }
func (quiet) Report(string, ConnResult, int64) State { return State{} }
func (quiet) Bootstrap(string)                       {}
func (quiet) Forget(string, int64)                   {}
func (quiet) Get(string, int64) State                { return State{} }
func (quiet) Reset(string)                           {}

// TestReconnections checks that connections after a lost one are counted, by the time of the absence.
// The first connection does not count, nor one after a connection that we ended ourselves.
func TestReconnections(t *testing.T) {
	const url = "wss://relay.example.com"
	s, err := New(Config{Bootstrap: []string{url}, Limits: Limits{
		Connections: 1, Dials: 1, Relays: 1, Answers: 1, Actions: 1, AnswerBytes: 1, FailTime: 1, SaveEvery: 1 << 40, Retry: retry.DefaultLimits,
	}}, Deps{Strategy: quiet{}, Facts: quiet{}, Health: quiet{}, Hosted: func(*grasp.Announcement) (bool, error) { return false, nil }})
	if err != nil {
		t.Fatal(err)
	}
	now := int64(1_700_000_000_000)
	s.Start(now, nil)
	dial := func() (conn ConnID) {
		t.Helper()
		now += minute
		s.Turn(now)
		for _, e := range s.Effects() {
			if d, ok := e.(Dial); ok {
				conn = d.Conn
			}
		}
		if conn == 0 {
			t.Fatal("the relay is not connected to")
		}
		return conn
	}
	want := func(what string, short, long uint64) {
		t.Helper()
		if got := s.Stats().Reconnections; got != [2]uint64{short, long} {
			t.Errorf("%s: %v, want %d after a short absence and %d after a long one", what, got, short, long)
		}
	}
	conn := dial()
	s.Up(now, url, conn, Opened{})
	want("the first connection", 0, 0)

	s.Down(now, url, conn, Ended{Result: ConnResult{Outcome: OutcomeDisconnected}})
	conn = dial()
	s.Up(now, url, conn, Opened{})
	want("a minute later", 1, 0)

	s.Down(now, url, conn, Ended{Result: ConnResult{Outcome: OutcomeDisconnected}})
	s.Down(now, url, dial(), Ended{Result: ConnResult{Outcome: OutcomeUnreachable}})
	now += shortAbsence
	conn = dial()
	s.Up(now, url, conn, Opened{})
	want("after a quarter of an hour and a failure", 1, 1)

	s.Down(now, url, conn, Ended{Restart: true})
	s.Up(now, url, dial(), Opened{})
	want("after one that we ended", 1, 1)
}

// An attempt to find a relay again is short, unless the relay is slow or was away for long.
func TestAttemptTime(t *testing.T) {
	for _, tt := range []struct{ failing, took, want int64 }{
		{0, 0, 0}, {5000, 0, 0}, {0, 50, 4000}, {9 * minute, 1300, 4000}, {9 * minute, 3000, 9000}, {10 * minute, 50, 0},
	} {
		if got := AttemptTime(tt.failing, tt.took); got != tt.want {
			t.Errorf("failing for %d ms, connected in %d ms before: %d, want %d", tt.failing, tt.took, got, tt.want)
		}
	}
	o := openLoop(t)
	o.Down(o.now, openedRelay, o.conn, Ended{Result: ConnResult{Outcome: OutcomeDisconnected}})
	o.now += 1000
	o.Turn(o.now)
	for _, e := range o.Effects() {
		if d, ok := e.(Dial); ok && d.Within != 4000 {
			t.Errorf("the attempt after a connection lasts %d ms", d.Within)
		}
	}
}

// The log warns once for each relay that pages replace a comparison, also over several connections.
// It does not warn where a strategy asks for pages.
func TestWithoutNegentropy(t *testing.T) {
	o := openLoop(t)
	warnings := func() (n int) {
		for _, e := range o.Effects() {
			if l, ok := e.(Log); ok && l.Level == session.Warn && strings.Contains(l.Message, "does not compare (NIP-77)") {
				n++
			}
		}
		return n
	}
	fetch := func(method, answered uint32) {
		o.say(abi.StepAction{Do: abi.DoHistoric, ID: "h", Filters: []abi.Filter{{Kinds: []uint32{1}}}, Method: method})
		serial := o.relays[openedRelay].hists["h"].serial
		o.report(&session.Done{Serial: serial, Input: abi.HistoricDone{Relay: openedRelay, ID: "h", Complete: true, Method: answered}})
	}
	want := func(when string, n int) {
		t.Helper()
		if got := warnings(); got != n {
			t.Errorf("%s: %d warnings, want %d", when, got, n)
		}
	}
	fetch(abi.MethodREQ, abi.MethodREQ)
	want("the strategy asks for pages", 0)
	fetch(abi.MethodAuto, abi.MethodNegentropy)
	want("the relay compares", 0)
	fetch(abi.MethodAuto, abi.MethodREQ)
	fetch(abi.MethodAuto, abi.MethodREQ)
	want("the relay does not compare", 1)
	o.Down(o.now, openedRelay, o.conn, Ended{Result: ConnResult{Outcome: OutcomeDisconnected}})
	o.connect()
	fetch(abi.MethodAuto, abi.MethodREQ)
	want("after a reconnection", 0)
}

// A relay that lacks much is one line an hour, with what was found since the last one.
func TestMissingAtRelays(t *testing.T) {
	m, s := newMissing(), new(Loop)
	add := func(relay string, count uint32, repos ...string) func() {
		return func() { m.add(relay, count, &session.MissingAtRelay{Repositories: repos}) }
	}
	for i, step := range []struct {
		after int64
		do    func()
		want  string
	}{
		{0, add("wss://a", 2, "repo"), "[relay wss://a count 2 repo repo]"},
		{0, add("wss://a", 3, "repo"), ""},
		{0, add("wss://b", 1, "one", "two"), "[relay wss://b count 1 repos 2]"},
		{missingEvery - 1, add("wss://a", 4), ""},
		{1, func() {}, "[relay wss://a count 7 comparisons 2]"},
		{0, add("wss://b", 1), "[relay wss://b count 1]"},
		{missingEvery, func() {}, ""},
	} {
		s.clock += step.after
		step.do()
		m.log(s)
		got := ""
		for _, e := range s.Effects() {
			attrs := e.(Log).Attrs
			got += fmt.Sprint(append(attrs[:4:4], attrs[6:]...)) // all but the event
		}
		if strings.TrimSpace(got) != step.want {
			t.Errorf("step %d: %q, want %q", i, got, step.want)
		}
	}
	if len(m.relays) != 0 {
		t.Errorf("%d relays are kept that lack nothing", len(m.relays))
	}
}

// A relay may lower its limits again and again. Each connection knows how many sessions began again for
// that, and the log has one line for each step that matters.
func TestRestartsOfARelay(t *testing.T) {
	o := openLoop(t)
	var lines []string
	next := func(after int64) (restarts int) {
		o.Down(o.now, openedRelay, o.conn, Ended{Restart: true})
		restarts = -1
		o.now += after
		o.Turn(o.now)
		var up Opened
		for _, e := range o.Effects() {
			switch e := e.(type) {
			case Dial:
				o.conn, restarts, up.Capabilities = e.Conn, e.Restarts, e.Capabilities
			case Log:
				if e.Level == session.Info && strings.Contains(e.Message, "subscriptions") {
					lines = append(lines, fmt.Sprint(e.Attrs[len(e.Attrs)-1]))
				}
			}
		}
		o.Up(o.now, openedRelay, o.conn, up)
		return restarts
	}
	for i := range 40 {
		o.Report(o.now, openedRelay, o.conn, &session.Learnt{Capabilities: abi.Capabilities{MaxSubscriptions: uint32(100 - i)}})
		if got := next(minute); got != i+1 {
			t.Errorf("connection %d knows %d restarts", i+2, got)
		}
	}
	if len(lines) > 2 {
		t.Errorf("the log has lines for %v", lines)
	}
	if got := next(restartsFor + minute); got != 0 {
		t.Errorf("%d restarts are remembered after hours", got)
	}
}
