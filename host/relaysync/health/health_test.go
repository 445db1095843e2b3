package health

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"

	"talon/host/relaysync/loop"
	"talon/host/relaysync/relaysynctest"
	"talon/host/throttle"
	"talon/sdk/abi"
	rules "talon/sdk/throttle"
)

const relay = "wss://relay.example.com"

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// script is a module that answers what a test says.
type script struct {
	admit abi.ThrottleAdmitAnswer
	after abi.AfterAnswer
	err   error
	asked abi.AfterRequestView
	seen  []byte
}

func (m *script) Ask(_ context.Context, q throttle.Function, request []byte, _ int64) ([]byte, error) {
	if m.err != nil {
		return nil, m.err
	}
	if q == throttle.Admit {
		return abi.AppendThrottleAdmitAnswer(nil, &m.admit), nil
	}
	m.seen = append(m.seen[:0], request...)
	if err := m.asked.Decode(m.seen); err != nil {
		return nil, err
	}
	return abi.AppendAfterAnswer(nil, &m.after), nil
}

func open(t *testing.T, m throttle.Module, d *relaysynctest.Memory) *Keeper {
	t.Helper()
	k, err := Open(t.Context(), m, d, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// Without a module, or with one that fails, waits double from 5 seconds to an hour, and
// a success forgets them.
func TestCareful(t *testing.T) {
	k := open(t, &script{err: errors.New("no plugin serves this world")}, new(relaysynctest.Memory))
	now := start
	for i, want := range []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second} {
		if wait := k.Allow(relay, now.UnixMilli()); wait != 0 {
			t.Fatalf("attempt %d waits %v", i, wait)
		}
		st := k.Report(relay, loop.ConnResult{Outcome: loop.OutcomeTimeout}, now.UnixMilli())
		if st.Wait != want.Milliseconds() || st.Failures != i+1 || st.Failing != now.Sub(start).Milliseconds() || st.Status != loop.StatusDegraded {
			t.Errorf("failure %d: %+v, want %v", i, st, want)
		}
		if wait := k.Allow(relay, now.UnixMilli()); wait != want.Milliseconds() {
			t.Errorf("after failure %d it waits %v, want %v", i, wait, want)
		}
		now = now.Add(want)
	}
	for range 40 {
		if st := k.Report(relay, loop.ConnResult{Outcome: loop.OutcomeDNS}, now.UnixMilli()); st.Wait > time.Hour.Milliseconds() {
			t.Fatalf("it waits %v", st.Wait)
		}
	}
	if st := k.Report(relay, loop.ConnResult{Outcome: loop.OutcomeOK, Productive: true}, now.UnixMilli()); st.Failures != 0 || st.Failing != 0 || st.Wait != 0 || st.Status != loop.StatusHealthy {
		t.Errorf("after a success: %+v", st)
	}
}

// The module gets what happened, and its answer holds, within a day.
func TestModule(t *testing.T) {
	m := &script{admit: abi.ThrottleAdmitAnswer{Start: true}, after: abi.AfterAnswer{Delay: (48 * time.Hour).Milliseconds(), Health: abi.HealthDead}}
	k := open(t, m, new(relaysynctest.Memory))
	k.Allow(relay, start.UnixMilli())
	k.Report(relay, loop.ConnResult{Outcome: loop.OutcomeOK}, start.UnixMilli())
	later := start.Add(time.Minute)
	st := k.Report(relay, loop.ConnResult{Outcome: loop.OutcomeDisconnected, Reason: "reset"}, later.UnixMilli())
	if st.Wait != maxWait || st.Status != loop.StatusDead {
		t.Errorf("%+v", st)
	}
	if v := &m.asked; v.Since != start.UnixMilli() || v.Subject.Failures != 1 || v.Subject.FailingSince != later.UnixMilli() ||
		v.Subject.Name != relay || v.Subject.Kind != abi.SubjectRelay || v.Outcome != abi.OutcomeDisconnected || v.Reason != "reset" {
		t.Errorf("the module is told %+v", v)
	}
	m.admit = abi.ThrottleAdmitAnswer{} // when another attempt has ended
	if wait := k.Allow(relay, later.UnixMilli()); wait != 1000 {
		t.Errorf("it waits %v", wait)
	}
	m.after = abi.AfterAnswer{Health: abi.HealthHealthy}
	if st := k.Report(relay, loop.ConnResult{Outcome: loop.OutcomeDisconnected}, later.UnixMilli()); st.Failures != 0 {
		t.Errorf("an end that is fine counts: %+v", st)
	}
}

// A relay that accepts connections and drops them is tried less and less often. One that
// brought something is not.
func TestAcceptsAndDrops(t *testing.T) {
	polite := rules.Relays{First: 5000, Max: 3600_000, Stable: 10_000, DeadAfter: 24 * 3600_000, DeadEvery: 24 * 3600_000}
	for _, productive := range []bool{false, true} {
		k := open(t, &ruled{polite}, new(relaysynctest.Memory))
		now, attempts := start.UnixMilli(), 0
		for end := now + 6*3600_000; now < end; attempts++ {
			if wait := k.Allow(relay, now); wait > 0 {
				t.Fatalf("it waits for %d", wait)
			}
			k.Report(relay, loop.ConnResult{Outcome: loop.OutcomeOK}, now)
			now += 30_000
			if productive {
				k.Report(relay, loop.ConnResult{Outcome: loop.OutcomeOK, Productive: true}, now)
			}
			st := k.Report(relay, loop.ConnResult{Outcome: loop.OutcomeDisconnected, Productive: productive}, now)
			now += max(st.Wait, 250)
		}
		if productive != (attempts > 100) {
			t.Errorf("productive %v: %d attempts in six hours", productive, attempts)
		}
	}
}

// ruled is a module that follows the rules of the bundled ones.
type ruled struct{ rules rules.Relays }

func (m *ruled) Ask(_ context.Context, q throttle.Function, request []byte, _ int64) ([]byte, error) {
	if q == throttle.Admit {
		return abi.AppendThrottleAdmitAnswer(nil, &abi.ThrottleAdmitAnswer{Start: true}), nil
	}
	var v abi.AfterRequestView
	if err := v.Decode(request); err != nil {
		return nil, err
	}
	a := m.rules.After(rules.AfterInput{AfterRequestView: &v})
	return abi.AppendAfterAnswer(nil, &a), nil
}

// An attempt that we gave up is not under way any more, and a connection that we left
// is none, so that its relay may be forgotten.
func TestLeft(t *testing.T) {
	m := &throttleAll{}
	k := open(t, m, new(relaysynctest.Memory))
	for range 3 {
		if wait := k.Allow(relay, start.UnixMilli()); wait != 0 {
			t.Fatalf("it waits %v", wait)
		}
		if m.asked.AllInFlight != 0 || m.asked.Subject.InFlight != 0 {
			t.Errorf("the module is told of %d attempts, %d to this relay", m.asked.AllInFlight, m.asked.Subject.InFlight)
		}
		k.Forget(relay, start.UnixMilli())
	}
	k.Allow(relay, start.UnixMilli())
	k.Report(relay, loop.ConnResult{Outcome: loop.OutcomeOK}, start.UnixMilli())
	k.Forget(relay, start.UnixMilli())
	k.Forget("wss://unknown.example.com", start.UnixMilli())
	if k.evict(); len(k.relays) != 0 {
		t.Error("a relay that was left is never forgotten")
	}
}

// throttleAll lets every attempt start, and remembers what it was asked.
type throttleAll struct{ asked abi.ThrottleAdmitRequestView }

func (m *throttleAll) Ask(_ context.Context, q throttle.Function, request []byte, _ int64) ([]byte, error) {
	if q == throttle.After {
		return abi.AppendAfterAnswer(nil, &abi.AfterAnswer{Health: abi.HealthHealthy}), nil
	}
	if err := m.asked.Decode(slices.Clone(request)); err != nil {
		return nil, err
	}
	return abi.AppendThrottleAdmitAnswer(nil, &abi.ThrottleAdmitAnswer{Start: true}), nil
}

// TestRestart checks that the knowledge survives a restart, also if the disk was full for a while.
func TestRestart(t *testing.T) {
	d := new(relaysynctest.Memory)
	_ = d.Save(t.Context(), map[string][]byte{"wss://odd": []byte("{")})
	d.Fail(nil, errors.New("no space left on device"))
	failing := &script{err: errors.New("none")}
	k := open(t, failing, d)
	for range 4 {
		k.Report(relay, loop.ConnResult{Outcome: loop.OutcomeUnreachable}, start.UnixMilli())
	}
	k.save(t.Context())
	d.Fail(nil, nil)
	k.save(t.Context())
	again := open(t, failing, d)
	if wait := again.Allow(relay, start.UnixMilli()); wait != 40_000 {
		t.Errorf("after a restart it waits %v", wait)
	}
	if st := again.Report(relay, loop.ConnResult{Outcome: loop.OutcomeUnreachable}, start.UnixMilli()); st.Failures != 5 {
		t.Errorf("after a restart: %+v", st)
	}
}

// TestRecallAndReset checks that the knowledge is there before the first request, also after a
// restart, until it is reset.
func TestRecallAndReset(t *testing.T) {
	d := new(relaysynctest.Memory)
	m := &script{err: throttle.ErrNoModule}
	k := open(t, m, d)
	now := start.UnixMilli()
	if st := k.Get("wss://a", now); st != (loop.State{}) {
		t.Errorf("before anything: %+v", st)
	}
	k.Allow("wss://a", now)
	want := k.Report("wss://a", loop.ConnResult{Outcome: loop.OutcomeTLS, Reason: "the certificate is wrong"}, now)
	if want.LastEnd != "the certificate is wrong" || want.Wait == 0 || want.Failures != 1 || k.Get("wss://a", now) != want {
		t.Errorf("%+v, not %+v", k.Get("wss://a", now), want)
	}
	k.save(t.Context())
	k = open(t, m, d)
	if got := k.Get("wss://a", now); got != want {
		t.Errorf("after a restart: %+v, want %+v", got, want)
	}
	k.Reset("wss://a")
	if st := k.Get("wss://a", now); st != (loop.State{}) || k.Allow("wss://a", now) != 0 {
		t.Errorf("after a reset: %+v", st)
	}
	k.Reset("wss://nobody")
}
