package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
)

// The log is copied back into the database in two parts. The bulk is copied by a
// goroutine of its own, beside the writer. That never reaches the end while
// events keep coming, and only a log that has been copied whole starts over; so
// when little is left the writer copies the rest between two commits.
//
// The longer a log may grow, the more often a page changes before it is copied
// once. A put into 100,000 events cost 125 µs of CPU with 1,000 pages, SQLite's
// own default, 105 with 4,000 and 101 with 16,000.

// checkpointer copies the log on a connection of its own.
type checkpointer struct {
	conn    *conn
	readers *atomic.Int64 // snapshots, which keep the log from starting over for as long as they are open
	log     *slog.Logger
	metrics *measures
	copying sync.Mutex // held by who copies: SQLite would turn a second one away
	wake    chan struct{}
	done    chan struct{}
}

func (cp *checkpointer) run() {
	defer close(cp.done)
	for range cp.wake {
		cp.copying.Lock()
		err := cp.conn.checkpoint("PASSIVE")
		cp.copying.Unlock()
		if err != nil {
			cp.metrics.failures.Inc()
			cp.log.Error("copy log into database", "err", err)
		}
	}
}

func (cp *checkpointer) notify() {
	select {
	case cp.wake <- struct{}{}:
	default:
	}
}

func (cp *checkpointer) stop() error {
	close(cp.wake)
	<-cp.done
	return cp.conn.close()
}

func startCheckpointer(path string, snapshots *atomic.Int64, log *slog.Logger, m *measures) (*checkpointer, error) {
	c, err := dial(path, "rw", "busy_timeout = 5000", "synchronous = FULL", "wal_autocheckpoint = 0")
	if err != nil {
		return nil, err
	}
	cp := &checkpointer{conn: c, readers: snapshots, log: log, metrics: m, wake: make(chan struct{}, 1), done: make(chan struct{})}
	go cp.run()
	return cp, nil
}

// maybeCheckpoint keeps the log bounded. REQUIRES: no transaction is open on w. Its errors
// are not the writer's: what is committed is committed.
func (w *writer) maybeCheckpoint(cp *checkpointer) error {
	row, err := w.conn.first(`PRAGMA wal_checkpoint(NOOP)`)
	if err != nil || row == nil {
		return err
	}
	length, _ := row[1].(int64)
	copied, _ := row[2].(int64)
	if length < w.tune.maxWAL {
		w.checkpointLimit = w.tune.maxWAL
	}
	switch left := length - copied; {
	case length > w.checkpointLimit && cp.readers.Load() > 0:
		// A backup ends by itself. The log is copied as far as it has read.
		if left > w.tune.finishWAL {
			cp.notify()
		}
	case length > w.checkpointLimit:
		// A reader that takes minutes, such as a check by another process, must not
		// make each commit wait.
		w.checkpointLimit = length + w.tune.maxWAL
		cp.copying.Lock()
		defer cp.copying.Unlock()
		return w.conn.checkpoint("RESTART")
	case length <= w.tune.startWAL || left == 0:
	case left > w.tune.finishWAL:
		cp.notify()
	case cp.copying.TryLock():
		defer cp.copying.Unlock()
		return w.conn.checkpoint("PASSIVE")
	}
	return nil
}

var errCheckpointBusy = errors.New("readers hold the log")

func (c *conn) checkpoint(mode string) error {
	busy, err := c.number(context.Background(), fmt.Sprintf(`PRAGMA wal_checkpoint(%s)`, mode))
	if err == nil && busy != 0 && mode != "PASSIVE" {
		err = errCheckpointBusy
	}
	return err
}
