package postgres

import (
	"context"
	"os"
	"testing"

	"talon/host"
	"talon/host/store/storetest"
	"talon/internal/testkit"
)

var server testkit.Postgres

func TestMain(m *testing.M) {
	code := m.Run()
	server.Stop()
	os.Exit(code)
}

func TestSuite(t *testing.T) {
	server.URL(t) // or skip all
	storetest.Run(t, engine{})
}

// engine is PostgreSQL as the suite of all engines opens it.
type engine struct{}

func (engine) Rounds() int { return 1 }

func (engine) New(t testing.TB) string { return server.URL(t) }

func (engine) Open(ctx context.Context, name string, o storetest.Options) (storetest.Store, error) {
	return suite(Open(ctx, name, Options{Readers: 2, Held: o.Held}))
}

func (engine) ReadOnly(ctx context.Context, name string) (storetest.Store, error) {
	return suite(OpenReadOnly(ctx, name, Options{Readers: 1}))
}

func suite(s *Store, err error) (storetest.Store, error) {
	if err != nil {
		return nil, err
	}
	return looking{tested{s}, new([]*host.Event)}, nil
}

// tested is a store as the suite sees it.
type tested struct{ *Store }

func (s tested) Begin() (storetest.Tx, error) { return s.Store.Begin() }

// looking is a store that looks the events of a few transactions up with the first that is put.
type looking struct {
	tested
	lately *[]*host.Event
}

func (s looking) Begin() (storetest.Tx, error) {
	tx, err := s.BeginAfter(func(host.Commit) {}, func(int) []*host.Event { return *s.lately })
	if err != nil {
		return nil, err
	}
	return lookingTx{tx, s.lately}, nil
}

type lookingTx struct {
	*Tx
	lately *[]*host.Event
}

func (tx lookingTx) Put(e *host.Event, now int64) (host.Outcome, error) {
	*tx.lately = append((*tx.lately)[max(0, len(*tx.lately)-20):], e)
	return tx.Tx.Put(e, now)
}
