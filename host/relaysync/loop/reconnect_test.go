package loop

import (
	"testing"

	"talon/host"
	"talon/host/relaysync/retry"
	rules "talon/sdk/grasp"
)

// quiet is a strategy that wants nothing, and a throttle that never objects. Nothing is
// stored.
type quiet struct{}

func (quiet) Call([]byte, int64) ([]byte, bool, error) { return nil, false, nil }

func (quiet) Query(host.Filter) ([][]byte, error)  { return nil, nil }
func (quiet) HeldBy(host.Filter) ([][]byte, error) { return nil, nil }

func (quiet) Allow(string, int64) int64              { return 0 }
func (quiet) Report(string, ConnResult, int64) State { return State{} }
func (quiet) Forget(string)                          {}
func (quiet) Recall(string, int64) State             { return State{} }
func (quiet) Reset(string)                           {}

// Connections after one that was lost are counted by how long the relay was away; not the
// first one, and not those after connections that we ended ourselves.
func TestReconnections(t *testing.T) {
	const url = "wss://relay.example.com"
	s, err := New(Config{Bootstrap: []string{url}, Limits: Limits{
		Connections: 1, Dials: 1, Relays: 1, Answers: 1, Actions: 1, AnswerBytes: 1, FailTime: 1, SaveEvery: 1 << 40, Retry: retry.DefaultLimits,
	}}, Deps{Strategy: quiet{}, Facts: quiet{}, Health: quiet{}, Ours: func(*rules.Announcement) (bool, error) { return false, nil }})
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
