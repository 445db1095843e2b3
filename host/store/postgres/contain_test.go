package postgres

import (
	"context"
	"net"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"talon/host"
	"talon/host/contain"
	"talon/host/store/storetest"
)

// trap is a connection to the server that panics on request, when something is sent.
type trap struct {
	net.Conn
	armed *atomic.Bool
}

func (l trap) Write(b []byte) (int, error) {
	if l.armed.CompareAndSwap(true, false) {
		panic("planted")
	}
	return l.Conn.Write(b)
}

// A panic in a transaction rolls it back, whatever the connection was doing. The store goes on.
func TestPanic(t *testing.T) {
	var armed atomic.Bool
	s := opened(t, server.URL(t), Options{Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		var d net.Dialer
		conn, err := d.DialContext(ctx, network, address)
		return trap{conn, &armed}, err
	}})
	for n, tt := range []struct {
		name        string
		put, commit func(*Tx) // what comes before them
		stored      bool
		panics      float64
	}{
		{"nothing", nil, nil, true, 0},
		{"at work", func(tx *Tx) { tx.ids = nil }, nil, false, 1},
		{"in a statement", func(*Tx) { armed.Store(true) }, nil, false, 2},
		{"in the commit", nil, func(*Tx) { armed.Store(true) }, false, 3},
		{"nothing again", nil, nil, true, 3},
	} {
		e := storetest.Event(1+n, 1, 1, 1, host.Tag{"t", "x"})
		tx, err := s.Begin()
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		if tt.put != nil {
			tt.put(tx)
		}
		_, err = tx.Put(e, 0)
		if tt.commit != nil {
			tt.commit(tx)
		}
		if err == nil {
			err = tx.Commit()
		} else if rolled := tx.Rollback(); rolled != nil {
			t.Errorf("%s: %v", tt.name, rolled)
		}
		if tt.stored != (err == nil) || !tt.stored && !contain.Panicked(err) {
			t.Errorf("%s: %v", tt.name, err)
		}
		if has(t, s, e) != tt.stored {
			t.Errorf("%s: the event is stored: %v", tt.name, !tt.stored)
		}
		if n := testutil.ToFloat64(s.panics.Collector()); n != tt.panics {
			t.Errorf("%s: %v panics are counted", tt.name, n)
		}
	}
	if n := s.Total().Events; n != 2 {
		t.Errorf("%d events are counted, want 2", n)
	}
}
