package plugin

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"talon/host"
)

// hangingFacts hang for the first reads, until their caller ends, and then answer.
type hangingFacts struct {
	host.Facts
	hangs int
	reads int
}

func (f *hangingFacts) Get(ctx context.Context, _ host.ID) ([]byte, error) {
	if f.reads++; f.reads > f.hangs {
		return nil, nil
	}
	<-ctx.Done()
	return nil, ctx.Err()
}

// readingWorld is a relay whose only policy reads before it accepts, and what it logs.
func readingWorld(t *testing.T) (*world, *bytes.Buffer) {
	w, log := newWorld(t), new(bytes.Buffer)
	w.o.Log = slog.New(slog.NewTextHandler(log, nil))
	p := accepting("1")
	p.reads = true
	w.drop("reader.wasm", p.wasm(t))
	w.drop("reader.toml", []byte("[budgets]\ntime = \"20ms\""))
	w.mustOpen()
	return w, log
}

// TestDecisionIsMadeOnceMore has reads that hang: once for a decision, twice, and always. One
// that hangs says nothing of who asked.
func TestDecisionIsMadeOnceMore(t *testing.T) {
	w, _ := readingWorld(t)
	for _, test := range []struct {
		hangs, reads int
		action       host.Action
	}{
		{0, 1, host.Accept},
		{1, 2, host.Accept},
		{2, 2, host.Reject},
		{1 << 30, 2, host.Reject},
		{1, 2, host.Accept},
	} {
		facts := &hangingFacts{hangs: test.hangs}
		r, err := w.Admit(t.Context(), from(client(1), 1, 1), host.NewFactReader(facts, nil, nil), now)
		if err != nil || r.Action != test.action || facts.reads != test.reads {
			t.Errorf("after %d reads that hang: %+v, %v, after %d reads; want %v after %d", test.hangs, r, err, facts.reads, test.action, test.reads)
		}
		if r.Action == host.Reject && (!strings.HasPrefix(r.Reason, "error: ") || !strings.Contains(r.Reason, "reader") || !strings.Contains(r.Reason, "try again")) {
			t.Errorf("it is refused with %q", r.Reason)
		}
	}
	if st := w.of("reader"); st.Failures != 2 || st.Refused != 0 || st.BreakerOpen {
		t.Errorf("%d failures, %d are refused, resting %v; want 2 failures that count against nobody", st.Failures, st.Refused, st.BreakerOpen)
	}
}

// TestBusyMachineIsNotBlamed has 67 decisions of many clients that time out, two times each.
// All are asked again, and the log has one line.
func TestBusyMachineIsNotBlamed(t *testing.T) {
	w, log := readingWorld(t)
	wave := func(n int) {
		var all sync.WaitGroup
		var refused atomic.Int64
		for i := range n {
			all.Go(func() {
				r, err := w.Admit(t.Context(), from(client(byte(i%8)), uint32(i%8), 1), host.NewFactReader(&hangingFacts{hangs: 2}, nil, nil), now)
				if err == nil && r.Action == host.Reject && strings.Contains(r.Reason, "try again") {
					refused.Add(1)
				}
			})
		}
		all.Wait()
		if refused.Load() != int64(n) {
			t.Errorf("%d of %d were refused as by a busy machine", refused.Load(), n)
		}
	}
	wave(67)
	if lines := strings.Count(log.String(), "level=WARN") + strings.Count(log.String(), "level=ERROR"); lines != 1 || !strings.Contains(log.String(), "module=reader decisions=1\n") {
		t.Errorf("%d lines, want one:\n%s", lines, log)
	}
	for i := range byte(8) {
		if r, err := w.Admit(t.Context(), from(client(i), uint32(i), 1), host.NewFactReader(&hangingFacts{}, nil, nil), now); err != nil || r.Action != host.Accept {
			t.Errorf("when it is over: %+v, %v", r, err)
		}
	}
	w.later(time.Minute + time.Second)
	wave(3)
	if lines := strings.Count(log.String(), "level=WARN"); lines != 2 || !strings.Contains(log.String(), "decisions=67\n") {
		t.Errorf("%d lines after another wave, want two:\n%s", lines, log)
	}
}
