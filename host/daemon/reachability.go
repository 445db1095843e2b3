package daemon

import (
	"context"
	"sync"
	"time"
)

const (
	pingTime  = 2 * time.Second // after which the database counts as away
	pingEvery = time.Second     // at most: strangers ask for the health of the server too
)

// reachability knows whether the database can be reached.
type reachability struct {
	ping func(ctx context.Context) error // nil: it is a file, which is always there

	mu  sync.Mutex // guards what follows
	at  time.Time  // of the last ping
	err error      // its result
}

// away returns what is wrong, or "". Without the database a node can answer nothing, so a load
// balancer must send clients elsewhere.
func (d *reachability) away() string {
	if d.ping == nil {
		return ""
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if time.Since(d.at) >= pingEvery {
		ctx, cancel := context.WithTimeout(context.Background(), pingTime)
		d.err = d.ping(ctx)
		cancel()
		d.at = time.Now()
	}
	if d.err != nil {
		return "the database cannot be reached"
	}
	return ""
}
