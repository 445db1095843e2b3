package ingest

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"talon/host"
)

// ErrClosed answers a Submit after the pipeline has begun to stop.
var ErrClosed = errors.New("ingest is shutting down")

// Policy decides about an event. It is called by several workers at once.
type Policy interface {
	Admit(ctx context.Context, it *host.Item, facts host.Facts, now int64) (host.Ruling, error)
}

// Store is where decisions take effect. Only one Tx is open at a time.
//
// Commit is durable when it returns nil. When it returns an error the caller
// assumes that nothing was written, and is safe if it was: events are sent again
// and found to be duplicates.
type Store interface {
	Begin() (Tx, error)

	// NextExpiry is the earliest time at which a stored event expires, and false
	// if none does. It does not touch the disk.
	NextExpiry() (int64, bool)
}

// Tx is a transaction of the store. A failed Put or Sweep leaves only Rollback.
type Tx interface {
	Put(e *host.Event, now int64) (host.Outcome, error)
	Sweep(now int64, limit int) (removed []*host.Event, err error)
	Commit() error
	Rollback() error
}

// Publisher tells those who listen. It must not block.
type Publisher interface {
	Publish(events []host.Published)
}

// Config holds what a pipeline needs. All fields are required unless it says
// otherwise.
type Config struct {
	Verify func(*host.Event) error // id and signature; called by several workers at once
	Policy Policy
	Store  Store
	Facts  host.Facts // committed state
	Log    *slog.Logger
	Now    func() time.Time

	Workers int // goroutines that verify and ask the policy
	Queue   int // items that may wait before Submit blocks
	Batch   int // items of one commit
}

// Pipeline is the one way in. See the package documentation.
type Pipeline struct {
	cfg     Config
	metrics *metrics

	queue chan *entry // in the order of Submit; read by the writer only
	work  chan *entry // in any order; read by the workers

	closing sync.RWMutex // held for reading while an item is queued
	closed  bool         // guarded by closing

	revision atomic.Uint64 // number of the last commit that was made
	recent   *recent
}

// entry is an item on its way. It belongs to a worker until decided holds a
// token, then to the writer.
type entry struct {
	item    *host.Item
	decided chan struct{}

	verified bool          // the protocol's rules, the id and the signature hold
	verdict  *host.Verdict // set if the item ends without being written
	err      error         // the host failed
	facts    []host.Filter // what the decision rests on
	revision uint64        // of the facts

	ready bool // the writer has taken the token
}

// New returns a pipeline. It does nothing until Run.
func New(cfg Config) *Pipeline {
	return &Pipeline{
		cfg:     cfg,
		metrics: newMetrics(),
		queue:   make(chan *entry, cfg.Queue),
		work:    make(chan *entry, cfg.Queue+cfg.Batch),
		recent:  newRecent(recentIDs),
	}
}

// Submit queues an item. It blocks while the queue is full, until ctx ends. If it
// returns nil, the item's Done is called exactly once; otherwise never.
func (p *Pipeline) Submit(ctx context.Context, it *host.Item) error {
	p.closing.RLock()
	defer p.closing.RUnlock()
	if p.closed {
		return ErrClosed
	}
	e := &entry{item: it, decided: make(chan struct{}, 1)}
	select {
	case p.queue <- e:
	default:
		p.metrics.blocked.Inc()
		select {
		case p.queue <- e:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	p.work <- e
	return nil
}

// Run decides and writes until ctx ends, and tells the publisher, which may be
// nil, what was stored. Then it refuses new items, finishes those that are queued,
// and returns.
func (p *Pipeline) Run(ctx context.Context, publisher Publisher) error {
	var g errgroup.Group
	for range p.cfg.Workers {
		g.Go(func() error {
			// The work that is queued is finished even though ctx has ended.
			p.decideAll(context.WithoutCancel(ctx))
			return nil
		})
	}
	g.Go(func() error {
		<-ctx.Done()
		p.closing.Lock()
		p.closed = true
		close(p.queue)
		p.closing.Unlock()
		return nil
	})
	g.Go(func() error {
		w := writer{Pipeline: p, publisher: publisher}
		w.write()
		close(p.work)
		return nil
	})
	return g.Wait()
}
