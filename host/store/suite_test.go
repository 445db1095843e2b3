package store

import (
	"context"
	"testing"

	"talon/host"
	"talon/host/store/semantics"
	"talon/host/store/storetest"
	"talon/internal/race"
	"talon/internal/testkit"
)

func TestSuite(t *testing.T) { storetest.Run(t, engine{}) }

// engine is SQLite as the suite of all engines opens it.
type engine struct{}

func (engine) Rounds() int {
	if testing.Short() || race.Detector {
		return testkit.Sized(2, 4)
	}
	return testkit.Sized(4, 12)
}

func (engine) New(t testing.TB) string { return t.TempDir() }

func (engine) Open(ctx context.Context, name string, o storetest.Options) (storetest.Store, error) {
	opts := Options{Readers: 2, Held: o.Held}
	if o.Small {
		opts.tune = &tuning{probes: [2]int{2, 4}, collectFull: 1, wholeKey: 2, wholeKeyFull: 1, minChunk: 1, maxChunk: 3, fullChunk: 2, mergeFrom: 5, usageFrom: 7}
	}
	return suite(Open(ctx, name, opts))
}

func (engine) ReadOnly(ctx context.Context, name string) (storetest.Store, error) {
	return suite(OpenReadOnly(ctx, name, Options{Readers: 1}))
}

func suite(s *Store, err error) (storetest.Store, error) {
	if err != nil {
		return nil, err
	}
	return tested{s}, nil
}

// tested is a store as the suite sees it.
type tested struct{ *Store }

func (s tested) Begin() (storetest.Tx, error) { return s.Store.Begin() }

func (s tested) Total() semantics.Total { return s.Stats().Total }

// Helpers for the tests of this package alone.

var (
	fake        = storetest.Event
	texts       = storetest.Texts
	awaitingGit = host.HoldOptions{Reason: host.ReasonHeld}
)

func ptr[T any](v T) *T { return &v }

func put(t testing.TB, s *Store, now int64, events ...*host.Event) []host.Outcome {
	t.Helper()
	return storetest.Put(t, tested{s}, now, events...)
}

func change(t testing.TB, s *Store, f func(*Tx) error) {
	t.Helper()
	storetest.Change(t, tested{s}, func(tx storetest.Tx) error { return f(tx.(*Tx)) })
}

func hold(t testing.TB, s *Store, now int64, h host.HoldOptions, e *host.Event) host.Outcome {
	t.Helper()
	return storetest.Hold(t, tested{s}, now, h, e)
}

func release(t testing.TB, s *Store, now int64, r host.Release) host.ReleaseOutcome {
	t.Helper()
	return storetest.Release(t, tested{s}, now, r)
}

func check(t testing.TB, s *Store) {
	t.Helper()
	storetest.Check(t, tested{s})
}

func selected(t testing.TB, s *Store, now int64, filters ...host.Filter) []string {
	t.Helper()
	return storetest.Selected(t, tested{s}, now, filters...)
}
