package postgres

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"talon/host"
)

// TestUnusedConnectionsEnd: the connections of a busy time end after it, but one.
func TestUnusedConnectionsEnd(t *testing.T) {
	s := opened(t, server.URL(t), Options{Readers: 6, unused: 20 * time.Millisecond})
	var used []*pgxpool.Conn
	for range 6 {
		c, err := s.pool.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		used = append(used, c)
	}
	for _, c := range used {
		c.Release()
	}
	for s.pool.Stat().TotalConns() > 1 { // the end of the test program bounds the wait
		time.Sleep(5 * time.Millisecond)
	}
	if ended := s.pool.Stat().MaxIdleDestroyCount(); ended < 5 {
		t.Errorf("%d connections ended for want of use, want 5", ended)
	}
	if _, err := s.Held(t.Context(), host.ID{}); err != nil {
		t.Errorf("a read after that: %v", err)
	}
}
