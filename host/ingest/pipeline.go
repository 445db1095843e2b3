package ingest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

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
	Quota  Quota          // optional

	// EachHeld calls yield for every event in purgatory; nil if there is none when the
	// pipeline starts.
	EachHeld func(ctx context.Context, yield func(host.HeldEvent) error) error

	Log *slog.Logger
	Now func() time.Time

	Workers int // goroutines that verify and ask the policy at once
	Queue   int // items that may wait before Submit blocks; each source may always have one
	Batch   int // items of one commit
}

// Pipeline is the one way in. See the package documentation.
type Pipeline struct {
	cfg      Config
	metrics  *metrics
	schedule *schedule
	version  atomic.Uint64 // of the history, as committed
	recent   *recent
	quotas   *quotas
}

// entry is an item on its way. It belongs to a worker until it is decided, then to
// the writer.
type entry struct {
	item    *host.Item // nil for an arrival
	arrival *arrival   // nil for an item
	lane    *lane

	verified bool          // the protocol's rules, the id and the signature hold
	deferred bool          // verified, and not decided before its turn
	verdict  *host.Verdict // set if the item ends without being written
	holding  *host.Holding // set if the item goes into purgatory
	err      error         // the host failed
	facts    facts         // what the decision rests on
	version  uint64        // of the history, of the facts

	// Set by the writer for a decision that is made when the entry's turn has come.
	atTurn   bool
	open     []change // of the open batch, which the decision sees as if committed
	failures uint64   // batches that had failed by then
	retries  int      // decisions that were made again
	started  time.Time

	// Guarded by schedule.mu.
	decided    bool
	first      bool          // its first decision is under way
	verifyOnly bool          // in which the policy is not asked
	slow       bool          // it counts among those of slow sources
	reserved   time.Duration // what its lane was charged for it ahead
	notify     chan struct{} // closed when it is decided; nil if nobody waits
}

// New returns a pipeline. It does nothing until Run.
func New(cfg Config) *Pipeline {
	m := newMetrics()
	return &Pipeline{cfg: cfg, metrics: m, schedule: newSchedule(cfg.Workers, m.waits), recent: newRecent(recentIDs), quotas: newQuotas(cfg.Quota)}
}

// Submit queues an item behind those of the same Source. It blocks while too much is
// queued, until ctx ends. If it returns nil, the item's Done is called exactly once;
// otherwise never.
func (p *Pipeline) Submit(ctx context.Context, it *host.Item) error {
	return p.enqueue(ctx, it.Source, &entry{item: it})
}

// Arrive queues an arrival. It blocks and answers as Submit does. The data must be in
// its place before: an event is then either held when the arrival is planned, or
// decided with the data there.
func (p *Pipeline) Arrive(ctx context.Context, a *host.Arrival) error {
	return p.enqueue(ctx, nil, &entry{arrival: &arrival{Arrival: a}})
}

func (p *Pipeline) enqueue(ctx context.Context, source *host.Source, e *entry) error {
	s := p.schedule
	s.mu.Lock()
	defer s.mu.Unlock()
	for waited := false; ; waited = true {
		if s.closed {
			return ErrClosed
		}
		l := s.lanes[source]
		if s.pending < p.cfg.Queue || l == nil || l.len() == 0 {
			break
		}
		if !waited {
			p.metrics.blocked.Inc()
		}
		room := make(chan struct{})
		s.rooms = append(s.rooms, room)
		s.mu.Unlock()
		select {
		case <-room:
			s.mu.Lock()
		case <-ctx.Done():
			s.mu.Lock()
			s.leaveRoom(room)
			return ctx.Err()
		}
	}
	s.add(source, e)
	return nil
}

// Run decides and writes until ctx ends, and tells the publisher, which may be
// nil and may be a [Follower], what was stored. Then it refuses new items, finishes those that are queued,
// and returns.
func (p *Pipeline) Run(ctx context.Context, publisher Publisher) error {
	s := p.schedule
	// The work that is queued is finished even though ctx has ended.
	working := context.WithoutCancel(ctx)
	if p.cfg.EachHeld != nil {
		if err := p.quotas.load(working, p.cfg.EachHeld); err != nil {
			return fmt.Errorf("count what is held: %w", err)
		}
	}
	var workers sync.WaitGroup
	s.spawn = func() { workers.Go(func() { p.decideAll(working) }) }
	for range p.cfg.Workers {
		s.spawn()
	}
	stop := context.AfterFunc(ctx, s.close)
	defer stop()
	w := writer{Pipeline: p, publisher: publisher, contention: contention{parallel: p.cfg.Workers}}
	w.follower, _ = publisher.(Follower)
	w.write()
	s.end()
	workers.Wait()
	return nil
}
