package throttle

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"talon/sdk/abi"
)

// script is a module that answers what a test says.
type script struct {
	answer []byte
	err    error
}

func (m *script) Ask(context.Context, Function, []byte, int64) ([]byte, error) {
	return m.answer, m.err
}

// TestFailures: a module comes and goes, traps, and answers with garbage. Each question has
// an answer, and the log says what has changed, of failures one in a minute.
func TestFailures(t *testing.T) {
	var log bytes.Buffer
	failed := 0
	text := slog.NewTextHandler(&log, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key != slog.MessageKey && a.Key != slog.LevelKey {
			return slog.Attr{}
		}
		return a
	}})
	m := new(script)
	c := New(t.Context(), m, "relays", slog.New(text), func(Function) { failed++ })
	good := abi.AppendDelayAnswer(nil, &abi.DelayAnswer{Delay: 7})
	const gone, back = `level=WARN msg="no plugin says how hard to press on relays: being careful"`, `level=INFO msg="a plugin says how hard to press on relays"`
	const silent = `level=WARN msg="the throttle does not answer about relays: being careful"`
	second := int64(1000)
	for i, step := range []struct {
		after  int64 // seconds
		answer []byte
		err    error
		want   int64
		fails  int
		log    []string
	}{
		{after: 0, answer: good, want: 7},
		{after: 1, err: fmt.Errorf("ask: %w", ErrNoModule), want: 180, log: []string{gone}},
		{after: 3600, err: ErrNoModule, want: 180},
		{after: 1, answer: good, want: 7, log: []string{back}},
		{after: 1, answer: []byte{0xff, 0xff}, want: 180, fails: 1, log: []string{silent}},
		{after: 59, err: errors.New("trap"), want: 180, fails: 1},
		{after: 1, err: errors.New("trap"), want: 180, fails: 1, log: []string{silent}},
		{after: -1000, err: errors.New("trap"), want: 180, fails: 1, log: []string{silent}}, // a clock that was wrong
		{after: 1, answer: good, want: 7},
		{after: 1, err: ErrNoModule, want: 180, log: []string{gone}},
	} {
		second += step.after
		m.answer, m.err, failed = step.answer, step.err, 0
		log.Reset()
		got := c.Delay(&abi.DelayRequest{Now: second * 1000}, func() abi.DelayAnswer { return abi.DelayAnswer{Delay: 180} })
		lines := slices.Collect(strings.Lines(log.String()))
		for i := range lines {
			lines[i] = strings.TrimSpace(lines[i])
		}
		if got.Delay != step.want || failed != step.fails || !slices.Equal(lines, step.log) {
			t.Errorf("step %d: a delay of %d, %d failures, the log says %q; want %+v", i, got.Delay, failed, lines, step)
		}
	}
	none := New(t.Context(), nil, "relays", slog.New(text), nil)
	if got := none.Admit(new(abi.ThrottleAdmitRequest), func() (a abi.ThrottleAdmitAnswer) { a.Wait = 5; return a }); got.Wait != 5 {
		t.Errorf("without a module: %+v", got)
	}
}

// memory is a disk in memory.
type memory map[string][]byte

func (d memory) Load(context.Context) (map[string][]byte, error) { return d, nil }

func (d memory) Save(_ context.Context, records map[string][]byte) error {
	for name, text := range records {
		if d[name] = text; text == nil {
			delete(d, name)
		}
	}
	return nil
}

func TestRecords(t *testing.T) {
	type record struct{ N int }
	d := memory{"a": []byte(`{"N":1}`), "b": []byte(`{`), "c": []byte(`{"N":3}`)}
	got, damaged, err := Load[record](t.Context(), d, slog.New(slog.DiscardHandler))
	if err != nil || len(got) != 2 || got["a"].N != 1 || !slices.Equal(damaged, []string{"b"}) {
		t.Errorf("%v, damaged %q, %v", got, damaged, err)
	}
	if err := Save(t.Context(), d, map[string]*record{"a": nil, "b": {N: 2}}); err != nil || len(d) != 2 || string(d["b"]) != `{"N":2}` {
		t.Errorf("%q, %v", d, err)
	}
}

func TestOutcome(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want uint32
	}{
		{&net.DNSError{IsNotFound: true}, abi.OutcomeDNS},
		{&net.DNSError{IsTemporary: true}, abi.OutcomeUnreachable}, // our resolver's fault
		{&net.DNSError{IsTimeout: true}, abi.OutcomeUnreachable},
		{&url.Error{Op: "Get", Err: x509.HostnameError{}}, abi.OutcomeTLS},
		{tls.AlertError(40), abi.OutcomeTLS},
		{fmt.Errorf("dial: %w", os.ErrDeadlineExceeded), abi.OutcomeTimeout},
		{&net.OpError{Op: "dial", Err: syscall.ETIMEDOUT}, abi.OutcomeTimeout},
		{context.DeadlineExceeded, abi.OutcomeTimeout},
		{&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, abi.OutcomeUnspecified},
	} {
		if got := Outcome(tt.err); got != tt.want {
			t.Errorf("%T %v: %d, want %d", tt.err, tt.err, got, tt.want)
		}
	}
}
