package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
)

// The log is copied back into the database in two parts. A goroutine of its own copies the
// bulk while the writer goes on. It never reaches the end while events keep coming, and only a
// log that has been copied whole starts over. So when little is left, the writer copies the
// rest between two commits.
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

var errCheckpointBusy = errors.New("readers hold the log")

func (c *conn) checkpoint(mode string) error {
	busy, err := c.number(context.Background(), fmt.Sprintf(`PRAGMA wal_checkpoint(%s)`, mode))
	if err == nil && busy != 0 && mode != "PASSIVE" {
		err = errCheckpointBusy
	}
	return err
}
