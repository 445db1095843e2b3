package daemon

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestDatabaseAway asks again after a second, not before, and gives up on a database that hangs.
func TestDatabaseAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var result error
		pings := 0
		d := &reachability{ping: func(context.Context) error { pings++; return result }}
		ask := func(want string) {
			t.Helper()
			if got := d.away(); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		}
		ask("")
		result = errors.New("no route to host")
		ask("")
		time.Sleep(pingEvery)
		for range 100 {
			ask("the database cannot be reached")
		}
		if pings != 2 {
			t.Errorf("%d pings, want 2", pings)
		}
		d.ping = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		time.Sleep(pingEvery)
		ask("the database cannot be reached")
		result = nil
		d.ping = func(context.Context) error { return nil }
		time.Sleep(pingEvery)
		ask("")
	})
	if got := new(reachability).away(); got != "" {
		t.Errorf("a file: %q", got)
	}
}
