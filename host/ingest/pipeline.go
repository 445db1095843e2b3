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

	// NextHeld is the same for purgatory.
	NextHeld() (int64, bool)
}

// Tx is a transaction of the store. After any other error than that of Commit only
// Rollback is left.
type Tx interface {
	Put(e *host.Event, now int64) (host.Outcome, error)
	Hold(e *host.Event, h host.Holding, now int64) (host.Outcome, error)
	Release(r host.Release, now int64) (host.ReleaseOutcome, error)
	Sweep(now int64, limit int) (removed []*host.Event, err error)
	SweepHeld(now int64, limit int) (changes []host.HeldChange, err error)
	Commit() error
	Rollback() error
}

// Publisher tells those who listen. It must not block.
type Publisher interface {
	Publish(events []host.Published)
}

// Follower is what a [Publisher] may be as well: it is told, after each commit that
// did such things, which stored events it removed and what it changed in purgatory.
// It must not block. What a crash kept from it is for it to find out when it starts,
// from the store.
type Follower interface {
	Follow(removed []*host.Event, held []host.HeldChange)
}

// Config holds what a pipeline needs. All fields are required unless it says
// otherwise.
type Config struct {
	Verify func(*host.Event) error // id and signature; called by several workers at once
	Policy Policy
	Store  Store
	Facts  host.Facts     // committed state
	Held   host.HeldFacts // and of purgatory; nil if there is none: what a policy would hold is refused
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
	item    *host.Item // nil for an arrival
	arrival *arrival   // nil for an item
	decided chan struct{}

	verified bool          // the protocol's rules, the id and the signature hold
	verdict  *host.Verdict // set if the item ends without being written
	holding  *host.Holding // set if the item goes into purgatory
	err      error         // the host failed
	facts    facts         // what the decision rests on
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
	return p.enqueue(ctx, &entry{item: it, decided: make(chan struct{}, 1)})
}

// Arrive queues an arrival behind what was submitted before. It blocks and answers
// as Submit does. The data must be in its place before: an event that comes after the
// arrival is decided with it there, one that came before is held when the arrival is
// planned.
func (p *Pipeline) Arrive(ctx context.Context, a *host.Arrival) error {
	return p.enqueue(ctx, &entry{arrival: &arrival{Arrival: a}, decided: make(chan struct{}, 1)})
}

func (p *Pipeline) enqueue(ctx context.Context, e *entry) error {
	p.closing.RLock()
	defer p.closing.RUnlock()
	if p.closed {
		return ErrClosed
	}
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
// nil and may be a [Follower], what was stored. Then it refuses new items, finishes those that are queued,
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
		w.follower, _ = publisher.(Follower)
		w.write()
		close(p.work)
		return nil
	})
	return g.Wait()
}
