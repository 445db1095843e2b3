package guest

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"talon/host"
	"talon/host/plugin/wasmtest"
	"talon/sdk/abi"
)

// echo answers with the request.
var echo = wasmtest.Body(wasmtest.I64Const(abi.Pack(bufferAddr, 0)), wasmtest.LocalGet(0), []byte{0xad /* i64.extend_i32_u */, 0x84 /* i64.or */})

// TestSameAnswerAgain checks that an answer that is the one before again means the same, and
// is counted where it belongs: for its function, its source and its rule.
func TestSameAnswerAgain(t *testing.T) {
	metrics := NewMetrics()
	m := mustLoad(t, guest{admit: echo}.assemble(), func(o *Options) { o.Metrics, o.Instances = metrics, 1 })
	accept := abi.AppendVerdict(nil, abi.ActionAccept, "a", "", "")
	first := abi.AppendVerdict(nil, abi.ActionReject, "b", "blocked", "x")
	second := abi.AppendVerdict(nil, abi.ActionReject, "b", "blocked", "y")
	long := abi.AppendVerdict(nil, abi.ActionReject, "b", "blocked", string(make([]byte, maxLastVerdict)))
	for i, ask := range []struct {
		answer       []byte
		source, want string
	}{
		{accept, "client", "accept a "},
		{accept, "client", "accept a "},
		{accept, "sync", "accept a "},
		{first, "client", "reject b blocked: x"},
		{second, "client", "reject b blocked: y"},
		{second, "client", "reject b blocked: y"},
		{first, "client", "reject b blocked: x"},
		{long, "client", "reject b blocked: blocked:"},
		{long, "client", "reject b blocked: blocked:"},
		{nil, "client", "pass  "},
		{nil, "client", "pass  "},
		{accept, "client", "accept a "},
	} {
		r, _, err := m.Rule(t.Context(), Admit, ask.answer, nil, now, ask.source)
		if got := fmt.Sprintf("%s %s %s", r.Action, r.Rule, r.Reason); err != nil || got != ask.want {
			t.Errorf("answer %d: %q, %v; want %q", i, got, err, ask.want)
		}
	}
	if _, _, err := m.Rule(t.Context(), Admit, []byte{1}, nil, now, "client"); AsFailure(err) == nil || AsFailure(err).Cause != CauseGarbage {
		t.Errorf("garbage after an answer: %v", err)
	}
	for _, count := range []struct {
		action       host.Action
		rule, source string
		want         float64
	}{{host.Accept, "a", "client", 3}, {host.Accept, "a", "sync", 1}, {host.Reject, "b", "client", 6}, {host.Pass, "", "client", 2}} {
		if n := testutil.ToFloat64(metrics.verdicts.WithLabelValues("guest", count.action.String(), count.rule, count.source)); n != count.want {
			t.Errorf("%s %s from a %s: %v, want %v", count.action, count.rule, count.source, n, count.want)
		}
	}
}

// TestClockBetweenModules checks that who is asked right after another begins when that
// one has ended, unless an instance has to be made.
func TestClockBetweenModules(t *testing.T) {
	reads := 0
	m := mustLoad(t, guest{admit: echo}.assemble(), func(o *Options) {
		o.Clock = func() time.Time {
			reads++
			return time.Unix(now, 0).Add(time.Duration(reads) * time.Millisecond)
		}
	})
	q := Question{Function: Admit, Request: abi.AppendVerdict(nil, abi.ActionAccept, "a", "", ""), Now: now, Source: "client"}
	ask := func(want int) (begun, ended time.Duration) {
		t.Helper()
		reads = 0
		inst := m.pool.tryGet()
		if inst != nil {
			m.pool.put(inst)
		}
		var r host.Ruling
		if _, err := m.Ask(t.Context(), &q, &r); err != nil || r.Rule != "a" {
			t.Fatalf("%+v, %v", r, err)
		}
		if reads != want {
			t.Errorf("the clock is read %d times, want %d", reads, want)
		}
		if inst == nil {
			return 0, q.Ended
		}
		return inst.call.begun, inst.call.ended
	}
	ask(2)
	before := q.Ended
	if begun, ended := ask(1); begun != before || q.Ended != ended || ended == before {
		t.Errorf("it began at %v and ended at %v, which is given as %v; the one before ended at %v", begun, ended, q.Ended, before)
	}
	q.Ended = 0
	ask(2)
	m.discard(m.pool.tryGet())
	m.pool.giveUp()
	ask(3) // a new instance notes when it was made
}
