package ingest

import (
	"errors"
	"testing"

	"talon/host"
	"talon/internal/testkit"
)

// TestRemove removes stored events: a copy that comes later is stored, not a duplicate.
func TestRemove(t *testing.T) {
	r := start(t, acceptAll, func(c *Config) { c.Workers = 1 })
	a, b := event(0), event(1)
	testkit.Seal(a)
	testkit.Seal(b)
	r.submit(t, &host.Source{}, a, b)
	if n, err := r.Remove(t.Context(), []host.ID{a.ID, {99}}); n != 1 || err != nil {
		t.Errorf("%d events were removed, %v; want 1", n, err)
	}
	answers := make(chan reply, 2)
	r.send(t, &host.Source{}, answers, a, b)
	for _, want := range []host.Code{host.Stored, host.Duplicate} {
		if got := testkit.Receive(t, "an answer", answers); got.verdict.Code != want {
			t.Errorf("a copy is %v %q, want %v", got.verdict.Code, got.verdict.Reason, want)
		}
	}
	r.stop()
	if _, err := r.Remove(t.Context(), nil); !errors.Is(err, ErrClosed) {
		t.Errorf("after the end: %v, want %v", err, ErrClosed)
	}
}
