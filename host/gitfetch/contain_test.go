package gitfetch

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"talon/host/contain"
	"talon/host/throttle"
	"talon/internal/testkit"
)

// trapped is a forge that panics some times when it is asked what is missing.
type trapped struct {
	*forge
	panics atomic.Int64
}

func (f *trapped) Wanted(ctx context.Context, identifier string) ([]Want, error) {
	if f.panics.Add(-1) >= 0 {
		panic("planted")
	}
	return f.forge.Wanted(ctx, identifier)
}

// A piece of work that panics is one that failed: the search goes on.
func TestPanicInWork(t *testing.T) {
	f := &trapped{forge: newForge(t)}
	dir, id := work(t, "one")
	f.hold(alice, "x", []string{id}, newRemote(t).add(t, "x", dir))
	f.panics.Store(3)
	guard := contain.New(contain.Hunt, slog.New(slog.DiscardHandler))
	h := hunt(t, f.forge, inAHurry(), func(c *Config) { c.Repos, c.Panics = f, guard })
	f.panics.Store(3) // the start has asked nothing
	complete(t, f.forge, h)
	if n := testutil.ToFloat64(guard.Collector()); n != 3 {
		t.Errorf("%v panics are counted, want 3", n)
	}
}

// breaking is a module that panics.
type breaking struct{}

func (breaking) Ask(context.Context, throttle.Function, []byte, int64) ([]byte, error) {
	panic("planted")
}

// A panic in the queue ends the hunter, which then holds no lock: another one takes its place.
func TestPanicInQueue(t *testing.T) {
	f := newForge(t)
	_, id := work(t, "one")
	f.hold(alice, "x", []string{id}, "http://127.0.0.1:1/x.git")
	h := newHunter(t, f, breaking{}, nil)
	ended := make(chan error, 1)
	go func() { ended <- h.Run(t.Context()) }()
	h.Held(synced("x"))
	if err := testkit.Receive(t, "the end of Run", ended); !contain.Panicked(err) {
		t.Errorf("Run returns %v", err)
	}
	h.Search("x") // takes the lock
}
