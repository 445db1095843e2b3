package postgres

import (
	"context"
	"testing"

	"talon/host"
	"talon/host/store/storetest"
)

// TestOlderProgramsAreCounted has a program commit that does not know of table usage: the next
// transaction counts its events from the log, and the next start counts all if the log is lost.
func TestOlderProgramsAreCounted(t *testing.T) {
	url := server.URL(t)
	a, b := opened(t, url, Options{Readers: 1}), opened(t, url, Options{Readers: 1})
	ctx := context.Background()
	exec := func(sql string) {
		t.Helper()
		if _, err := a.pool.Exec(ctx, `SET default_transaction_read_only = off`); err != nil {
			t.Fatal(err)
		}
		if _, err := a.pool.Exec(ctx, sql); err != nil {
			t.Fatal(err)
		}
	}
	storetest.Put(t, tested{a}, 0, storetest.Event(1, 1, 0, 1), storetest.Event(2, 2, 1, 1))
	older := func(f func()) {
		t.Helper()
		exec(`CREATE TABLE before AS SELECT * FROM usage; CREATE TABLE counted AS SELECT usage FROM total`)
		f()
		exec(`TRUNCATE usage; INSERT INTO usage SELECT * FROM before; UPDATE total SET usage = (SELECT usage FROM counted); DROP TABLE before; DROP TABLE counted`)
	}
	older(func() {
		storetest.Put(t, tested{b}, 0, storetest.Event(3, 1, 0, 2), storetest.Event(4, 3, 1, 1)) // replaces and adds
		storetest.Put(t, tested{b}, 0, storetest.Event(5, 2, 5, 2, host.Tag{"e", storetest.Event(2, 2, 1, 1).ID.String()}))
	})
	storetest.Put(t, tested{a}, 0, storetest.Event(6, 1, 1, 1))
	storetest.Check(t, tested{a})

	older(func() { storetest.Put(t, tested{b}, 0, storetest.Event(7, 7, 1, 2)) })
	exec(`TRUNCATE log`)
	storetest.Put(t, tested{b}, 0, storetest.Event(8, 8, 1, 2))
	problems := 0
	if _, err := b.Check(ctx, func(*host.Event) error { return nil }, func(string) { problems++ }); err != nil || problems != 2 {
		t.Errorf("%d problems (author and kind), %v", problems, err)
	}
	c := opened(t, url, Options{Readers: 1})
	storetest.Check(t, tested{c})
	storetest.Put(t, tested{b}, 0, storetest.Event(9, 9, 1, 2))
	storetest.Check(t, tested{b})
}
