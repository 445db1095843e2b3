package relaysync

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"talon/host"
	"talon/host/contain"
	"talon/host/relaysync/relaysynctest"
	"talon/host/schnorr"
	"talon/internal/testkit"
	"talon/sdk/abi"
	"talon/sdk/grasp"
)

// trapped panics when it looks up a certain event.
type trapped struct {
	Local
	id host.ID
}

func (l trapped) Missing(ctx context.Context, ids []host.ID) ([]host.ID, error) {
	if slices.Contains(ids, l.id) {
		panic("planted")
	}
	return l.Local.Missing(ctx, ids)
}

// A relay whose event makes the host panic loses its connection, and nothing else ends.
func TestPanicInConnection(t *testing.T) {
	bad := newRemote(t, nil)
	trap := signed(t, alice, 1, epoch+1, "trap")
	guard := contain.New(contain.Sync, slog.New(slog.DiscardHandler))
	w := start(t, onConnect(bad.url, live(bad.url, "bad", kinds(1))), func(cfg *Config, deps *Deps) {
		cfg.Panics = guard
		deps.Local = trapped{deps.Local, trap.ID}
	})
	w.plan.wait(t, 1, "eose bad")
	bad.add(trap)
	testkit.Eventually(t, "the panic", func() bool { return testutil.ToFloat64(guard.Collector()) == 1 })
	w.put(signed(t, alice, 1, epoch+2, "from a client")) // the loop goes on
	if w.store.Has(trap.ID) {
		t.Error("the event is stored")
	}
}

// A panic in the loop ends Run with an error, after all that it had begun.
func TestPanicInLoop(t *testing.T) {
	store := relaysynctest.NewStore(0, schnorr.Verify)
	t.Cleanup(store.Close)
	plan := newPlan(func(*abi.StepView) []abi.StepAction { return nil })
	s, err := New(Config{Limits: patient, Now: time.Now, Log: slog.New(slog.DiscardHandler), Own: []string{"own.example.com"}}, Deps{
		Strategy: plan, Ingest: store, Facts: store, Local: store, Health: &calm{}, Verify: schnorr.Verify,
		Hosted: func(*grasp.Announcement) (bool, error) { return false, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	plan.init = s.Init
	ended := make(chan error, 1)
	go func() { ended <- s.Run(t.Context()) }()
	plan.wait(t, 1, "init")
	s.queries <- func() { panic("planted") }
	if err := testkit.Receive(t, "the end of Run", ended); !contain.Panicked(err) {
		t.Errorf("Run returns %v", err)
	}
}

// A helper that panics ends Run too: the loop would wait for it for ever.
func TestPanicInHelper(t *testing.T) {
	store := relaysynctest.NewStore(0, schnorr.Verify)
	t.Cleanup(store.Close)
	plan := newPlan(func(*abi.StepView) []abi.StepAction { return nil })
	s, err := New(Config{Limits: patient, Now: time.Now, Log: slog.New(slog.DiscardHandler), Own: []string{"own.example.com"}}, Deps{
		Strategy: plan, Ingest: store, Facts: store, Local: store, Health: &calm{}, Verify: schnorr.Verify,
		Hosted: func(*grasp.Announcement) (bool, error) { return false, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	plan.init = s.Init
	ended := make(chan error, 1)
	go func() { ended <- s.Run(t.Context()) }()
	plan.wait(t, 1, "init")
	s.help(func() { panic("planted") })
	if err := testkit.Receive(t, "the end of Run", ended); !contain.Panicked(err) {
		t.Errorf("Run returns %v", err)
	}
}
