package postgres

import (
	"context"
	"errors"
	"os"
	"slices"
	"testing"
	"time"

	"talon/host"
	"talon/host/store/semantics"
	"talon/host/store/storetest"
	"talon/internal/testkit"
)

var server testkit.Postgres

func TestMain(m *testing.M) {
	code := m.Run()
	server.Stop()
	os.Exit(code)
}

// TestSuite runs the suite of all engines on two stores of one database: they answer like one.
// make scale has three stores.
func TestSuite(t *testing.T) {
	testkit.SkipRace(t)
	server.URL(t) // or skip all
	storetest.Run(t, engine{})
}

// engine is PostgreSQL as the suite of all engines opens it.
type engine struct{}

func (engine) Rounds() int { return 1 }

// patient is how long a transaction of a test may stand still, on a machine that does.
const patient = time.Hour

func (engine) New(t testing.TB) string { return server.URL(t) }

func (engine) Open(ctx context.Context, name string, o storetest.Options) (storetest.Store, error) {
	var n nodes
	for range testkit.Sized(2, 3) {
		s, err := Open(ctx, name, Options{Readers: 1, Held: o.Held, idle: patient})
		if err != nil {
			return nil, errors.Join(err, n.Close())
		}
		n.all = append(n.all, s)
		n.Store = s
	}
	return &n, nil
}

func (engine) ReadOnly(ctx context.Context, name string) (storetest.Store, error) {
	s, err := OpenReadOnly(ctx, name, Options{Readers: 1})
	if err != nil {
		return nil, err
	}
	return tested{s}, nil
}

// tested is a store as the suite sees it.
type tested struct{ *Store }

func (s tested) Begin() (storetest.Tx, error) { return s.Store.Begin() }

// nodes are several stores. The one that answers is embedded. The others also write, each two
// transactions in a row: one after what others wrote, one after its own.
type nodes struct {
	*Store
	all    []*Store
	begun  int
	lately []*host.Event // the last that were put
}

// next has another one answer.
func (n *nodes) next() {
	i := slices.Index(n.all, n.Store)
	n.Store = n.all[(i+1)%len(n.all)]
	if err := n.Store.CatchUp(func(host.Commit) {}); err != nil {
		panic(err)
	}
}

// Begin begins a transaction that looks up the last events with the first that is put.
func (n *nodes) Begin() (storetest.Tx, error) {
	writer := n.all[n.begun/2%len(n.all)]
	n.begun++
	tx, err := writer.BeginAfter(func(host.Commit) {}, func(int) []*host.Event { return n.lately }) // it catches up by itself
	if err != nil {
		return nil, err
	}
	return lookingTx{tx, n}, nil
}

type lookingTx struct {
	*Tx
	nodes *nodes
}

func (tx lookingTx) Put(e *host.Event, now int64) (host.Outcome, error) {
	tx.nodes.lately = append(tx.nodes.lately[max(0, len(tx.nodes.lately)-20):], e)
	return tx.Tx.Put(e, now)
}

func (n *nodes) NextExpiry() (int64, bool) { n.next(); return n.Store.NextExpiry() }
func (n *nodes) NextHeld() (int64, bool)   { n.next(); return n.Store.NextHeld() }
func (n *nodes) RemovedTotal() int64       { n.next(); return n.Store.RemovedTotal() }
func (n *nodes) Total() semantics.Total    { n.next(); return n.Store.Total() }

func (n *nodes) Close() error {
	var err error
	for _, s := range n.all {
		err = errors.Join(err, s.Close())
	}
	return err
}
