package repos

import (
	"context"
	"encoding/binary"
	"testing"

	"talon/host"
)

// countedDrops is a store that counts what is dropped, and how much in one call.
type countedDrops struct{ rows, most int }

func (c *countedDrops) Placeholders(context.Context, func(string, host.ID, int64) error) error {
	return nil
}

func (c *countedDrops) AddPlaceholder(context.Context, string, host.ID, int64) error { return nil }

func (c *countedDrops) DropPlaceholder(_ context.Context, _ string, ids ...host.ID) error {
	c.rows += len(ids)
	c.most = max(c.most, len(ids))
	return nil
}

// TestManyAreForgotten: somebody pushed a thousand refs, and the repository goes. Events
// do not wait for all of them together, and no other repository's are forgotten.
func TestManyAreForgotten(t *testing.T) {
	store := new(countedDrops)
	ps := placeholders{store: store, rows: make(map[placeholder]int64)}
	for i := range 2*dropAtOnce + 1 {
		var id host.ID
		binary.BigEndian.PutUint64(id[:], uint64(i))
		if _, err := ps.add(t.Context(), "a", id, 1); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := ps.add(t.Context(), "b", host.ID{}, 1); err != nil {
		t.Fatal(err)
	}
	if err := ps.removeRepo(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if store.rows != 2*dropAtOnce+1 || store.most > dropAtOnce || ps.len() != 1 {
		t.Errorf("%d rows went, %d at once, and %d are left", store.rows, store.most, ps.len())
	}
}
