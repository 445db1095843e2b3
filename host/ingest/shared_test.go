package ingest

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"talon/host"
	"talon/host/store/postgres"
	"talon/host/store/semantics"
	"talon/internal/testkit"
)

// sharedStore is PostgreSQL's engine as a pipeline takes it.
type sharedStore struct{ *postgres.Store }

func (s sharedStore) Begin() (Tx, error) { return s.Store.Begin() }

func (s sharedStore) BeginShared(yield func(host.Commit), upcoming func(int) []*host.Event) (SharedTx, error) {
	tx, err := s.Store.BeginAfter(yield, upcoming)
	if err != nil {
		return nil, err
	}
	return tx, nil
}

// placed is an effect at its place in the order of all commits of a database.
type placed struct {
	effect
	commits int64 // of all by then
	other   bool  // the last of them is another pipeline's
}

// TestSerializableTogether runs the random histories of TestSerializable through three pipelines on
// one database. It compares every answer with those of a pipeline that handles one item at a time,
// in the order of commits. An item that changed nothing is compared after the facts that its
// pipeline knew.
func TestSerializableTogether(t *testing.T) {
	var server testkit.Postgres
	t.Cleanup(server.Stop)
	server.URL(t) // or skip
	for seed := range uint64(testkit.Sized(1, 3)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { serializableTogether(t, seed, server.URL(t)) })
	}
}

func serializableTogether(t *testing.T, seed uint64, url string) {
	const pipelines, clients = 3, 3
	var mu sync.Mutex
	var order []placed
	var h modelHistory
	var rigs []*rig
	for n := range pipelines {
		db, err := postgres.Open(t.Context(), url, postgres.Options{Readers: 2, Held: semantics.HeldLimits{ByAuthor: 4}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		others := map[int64]bool{} // commits of other pipelines
		r := startWith(t, digestPolicy, func(c *Config) {
			c.Store, c.Facts, c.Held = sharedStore{db}, testkit.Facts{Store: db, Now: 1}, db
			c.Batch = 16
		}, sharedStore{db}, func(host.Commit) { others[db.Commits()+1] = true })
		rigs = append(rigs, r)
		for client := range clients {
			client += n * clients
			h.client(t, r, rand.New(rand.NewPCG(seed, uint64(client))), client, func(x effect) {
				mu.Lock()
				defer mu.Unlock()
				at := db.Commits()
				order = append(order, placed{x, at, others[at]})
			})
		}
	}
	h.wait()
	for _, r := range rigs {
		r.stop()
	}
	slices.SortStableFunc(order, func(a, b placed) int {
		if a.commits != b.commits || a.other == b.other {
			return cmp.Compare(a.commits, b.commits)
		}
		if b.other {
			return -1
		}
		return 1
	})
	effects := make([]effect, len(order))
	for i := range order {
		effects[i] = order[i].effect
	}
	replay(t, effects)
}
