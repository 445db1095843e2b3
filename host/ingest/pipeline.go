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

// Policy decides about an event. Several workers call it concurrently.
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

	// NextExpiry returns the earliest time at which a stored event expires, and false if
	// none does. It does not touch the disk.
	NextExpiry() (int64, bool)

	// NextHeld returns the same for purgatory.
	NextHeld() (int64, bool)
}

// Tx is a transaction of the store. After an error of any method but Commit, only
// Rollback may be called.
type Tx interface {
	Put(e *host.Event, now int64) (host.Outcome, error)
	Hold(e *host.Event, h host.HoldOptions, now int64) (host.Outcome, error)
	Release(r host.Release, now int64) (host.ReleaseOutcome, error)
	Sweep(now int64, limit int) (removed []*host.Event, err error)
	SweepHeld(now int64, limit int) (changes []host.HeldChange, err error)
	Commit() error
	Rollback() error
}

// Shared is an optional interface of a [Store] that other processes write too. A decision
// is then checked against their commits as against those of this process.
type Shared interface {
	// Changed receives after others may have committed something.
	Changed() <-chan struct{}

	// Alone reports whether there are no others, as far as is known.
	Alone() bool

	// CatchUp yields what others have committed and was not yielded before, in the order
	// of commits. yield does not wait.
	CatchUp(yield func(host.Commit)) error

	// BeginShared begins a transaction after a CatchUp. Nobody else commits anything
	// before the transaction has ended. upcoming returns events that are likely to be put
	// or held next; the store may look them up together.
	BeginShared(yield func(host.Commit), upcoming func(limit int) []*host.Event) (SharedTx, error)
}

// SharedTx is a transaction of a [Shared] store.
type SharedTx interface {
	Tx
	Publish(e *host.Event) // sends an ephemeral event to the other processes
	Arrive()               // reports to them that git data has come
}

// Publisher sends new events to subscribers. It must not block.
type Publisher interface {
	Publish(events []host.Published)
}

// Follower is an optional interface of a [Publisher]. It receives, after each commit that
// has any, the removed events and the changes in purgatory. It must not block. After a
// crash, it reads what it missed from the store when it starts.
type Follower interface {
	Follow(removed []*host.Event, held []host.HeldChange)
}

// Elsewhere is an optional interface of a [Publisher]. It receives what others have
// committed to a [Shared] store, in one order with what is committed here. It must not
// block. Without it, Publish and Follow receive that too.
type Elsewhere interface {
	Elsewhere(c host.Commit)
}

// Config holds what a pipeline needs. All fields are required unless it says
// otherwise.
type Config struct {
	Verify func(*host.Event) error // id and signature; called by several workers concurrently
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

	Workers int // goroutines that verify and ask the policy
	Queue   int // items that may wait before Submit blocks; each source may always have one
	Batch   int // items of one commit
}

// Pipeline decides about events and writes them. See the package documentation.
type Pipeline struct {
	cfg      Config
	metrics  *metrics
	schedule *schedule
	version  atomic.Uint64 // of the history, as committed
	recent   *recentIDSet
	quotas   *quotas
}

// entry is an item on its way. It belongs to a worker until it is decided, then to
// the writer.
type entry struct {
	item    *host.Item      // nil for a release request
	release *releaseRequest // nil for an item
	lane    *lane

	verified bool              // the protocol's rules, the id and the signature hold
	deferred bool              // verified, and not decided before its turn
	verdict  *host.Verdict     // set if the item ends without being written
	hold     *host.HoldOptions // set if the item goes into purgatory
	err      error             // the host failed
	facts    facts             // what the decision rests on
	waited   string            // the module that it waited for longest
	version  uint64            // of the history, of the facts

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
	slow       *share        // among whose decisions it counts, if its source is slow
	reserved   time.Duration // what its lane was charged for it ahead
	notify     chan struct{} // closed when it is decided; nil if nobody waits
}

// New returns a pipeline. It does nothing until Run.
func New(cfg Config) *Pipeline {
	m := newMetrics()
	return &Pipeline{cfg: cfg, metrics: m, schedule: newSchedule(cfg.Workers, m), recent: newRecentIDs(recentIDs), quotas: newQuotas(cfg.Quota)}
}

// Submit queues an item behind those of the same Source. It blocks while too much is
// queued, until ctx ends. If it returns nil, the item's Done is called exactly once;
// otherwise never.
func (p *Pipeline) Submit(ctx context.Context, it *host.Item) error {
	return p.enqueue(ctx, it.Source, &entry{item: it})
}

// SubmitRelease queues a release request. It blocks and returns as Submit does. The data must be in its
// place before: an event is then either held when the arrival is planned, or decided with
// the data there.
func (p *Pipeline) SubmitRelease(ctx context.Context, a *host.ReleaseRequest) error {
	return p.enqueue(ctx, nil, &entry{release: &releaseRequest{ReleaseRequest: a}})
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
		s.slots = append(s.slots, room)
		s.mu.Unlock()
		select {
		case <-room:
			s.mu.Lock()
		case <-ctx.Done():
			s.mu.Lock()
			s.releaseSlot(room)
			return ctx.Err()
		}
	}
	s.add(source, e)
	return nil
}

// Run decides and writes until ctx ends, and passes what was stored to the publisher,
// which may be nil and may be a [Follower]. Then it refuses new items, finishes those
// that are queued, and returns.
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
	w.elsewhere, _ = publisher.(Elsewhere)
	w.share()
	w.write()
	s.end()
	workers.Wait()
	return nil
}
