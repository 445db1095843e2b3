// Package ingest is the only way into the store. Every event, from any source,
// passes Submit → verify → policy → one writer → commit → answer. Git data that has
// arrived takes the same way.
//
// It owns the order of effects, the batches of the writer, and the promise that a
// decision is true when it takes effect. DESIGN.md in this folder gives the reasons
// for this shape.
//
// Invariants:
//
//  1. Items of one source take effect in the order in which Submit returned; those of
//     different sources do not wait for each other's decisions (schedule).
//  2. An item is answered exactly once, and OK true only after its commit
//     (batch.answer).
//  3. A decision whose facts have changed before its turn is made again, with
//     everything before it visible (writer.applyNext), a bounded number of times.
//  4. The writer never calls a policy, and waits for one 10 ms at most (writer.wait).
//  5. The effects of a commit are data: the events to publish, in commit order, the
//     removed events, and the changes of purgatory ([Follower]).
//  6. A held event is answered OK true after its commit. It is published when a
//     release request releases it ([Pipeline.SubmitRelease]).
//
// It never parses JSON from outside, never looks at a socket, and never retries a
// write that failed: the item is answered with the error and the sender decides.
package ingest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"talon/host"
	"talon/host/bound"
	"talon/host/contain"
	"talon/host/moderation"
)

// ErrClosed answers a Submit after the pipeline has begun to stop.
var ErrClosed = errors.New("ingest is shutting down")

// Policy decides about an event. Several workers call it concurrently.
type Policy interface {
	Admit(ctx context.Context, it *host.Item, facts *host.FactReader, now int64) (host.Ruling, error)
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
	SetAudience(id host.ID, a *host.Audience) (*host.AudienceChange, error)

	// AuthorUsage returns how much of the store an author takes, with the changes of the transaction.
	AuthorUsage(author host.PubKey) (host.Usage, error)

	// TakeDown hides, purges or shows events.
	TakeDown(t host.Takedown, now int64) (host.TakedownOutcome, error)

	// Vanish notes a request to vanish.
	Vanish(v *host.VanishRequest) (host.Outcome, error)

	// AddModeration adds rows to the moderation log, and returns those that were new.
	AddModeration(list []moderation.Row, now int64) (added []moderation.Row, err error)

	Commit() error
	Rollback() error
}

// Shared is a store that other processes write too. A decision is then checked against their
// commits as against those of this process.
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
	NotifyGitData()        // reports to them that git data has come
}

// Follower receives what each commit did, in the order of commits. It must not block. After a
// crash, it reads what it missed from the store when it starts.
type Follower interface {
	// Publish receives the new events, ephemeral ones included, if there are any.
	Publish(events []host.Published)

	// Follow receives the removed events and the changes in purgatory, if there are any.
	Follow(removed []*host.Event, held []host.HeldChange)
}

// TakedownFollower is a [Follower] that also receives, after Follow, the events that a takedown has
// removed. It must not block.
type TakedownFollower interface {
	TakenDown(removed []*host.Event)
}

// Audiences says who may receive an event. It may be called by several workers concurrently.
type Audiences interface {
	// Audience returns nil for everybody. It reads through facts.
	Audience(ctx context.Context, e *host.Event, facts *host.FactReader, now int64) (*host.Audience, error)

	// With returns the audience of an event whose own is given, and that may also belong to the
	// repositories of events of the open batch.
	With(e *host.Event, own *host.Audience, pending []*host.Event) *host.Audience

	// Version changes when other modules answer.
	Version() uint64

	// Unsettle says that stored events may have answers of older settings.
	Unsettle()

	// Committed follows commits, before a decision can rest on them. It does not wait.
	Committed(published []host.Published, held []host.HeldChange)

	// Missed says that commits of other nodes are not known. It does not wait.
	Missed()
}

// Users is the set of known people (package users).
type Users interface {
	// Holder returns the holder of a client, by its address and the keys that it has proven.
	Holder(addr netip.Addr, proven []host.PubKey) bound.Holder

	// Knows reports whether an event may use the part for known people.
	Knows(author host.PubKey, addr netip.Addr) bool

	// Brought notes that a client has brought the first accepted copy of an event. Proven
	// says that it has proven the author's key. It does not wait.
	Brought(e *host.Event, addr netip.Addr, proven bool)
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

	// Audiences says who may receive an event; nil: everybody receives every event.
	Audiences Audiences

	// Users knows who may use the part for known people; nil knows nobody.
	Users Users

	// Moderation is the moderation log in memory; nil if it is empty when the pipeline starts.
	Moderation *moderation.Log

	// NamesRelay reports whether a URL names this relay, for requests to vanish; nil: none does.
	NamesRelay func(url string) bool

	// Refused follows events that the policy accepted and the pipeline refused, such as one that is over
	// quota when it is written; nil: nobody does. It does not wait.
	Refused func(event host.ID, reason string)

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
	deciding *contain.Guard // around each decision
	writing  *contain.Guard // around each effect
	version  atomic.Uint64  // of the history, as committed
	recent   *recentIDSet
	quotas   *quotas
	vanished *vanished

	operations chan *operation
	ended      chan struct{} // closed when Run has returned
}

// entry is an item on its way. It belongs to a worker until it is decided, then to
// the writer.
type entry struct {
	item    *host.Item      // nil for a release request
	release *releaseRequest // nil for an item
	lane    *lane

	verified bool   // the protocol's rules, the id and the signature hold
	deferred bool   // verified, and not decided before its turn
	version  uint64 // of the history, of the facts that were read
	decision

	// Set by the writer for a decision that is made when the entry's turn has come.
	atTurn   bool
	open     []change // of the open batch, which the decision sees as if committed
	failures uint64   // batches that had failed by then
	retries  int      // decisions that were made again
	started  time.Time
	answered bool
	turn     turn // when the writer ordered the entries last

	// Guarded by schedule.mu.
	decided    bool
	first      bool          // its first decision is under way
	verifyOnly bool          // in which the policy is not asked
	slow       *share        // among whose decisions it counts, if its source is slow
	reserved   time.Duration // what its lane was charged for it ahead
	notify     chan struct{} // closed when it is decided; nil if nobody waits
}

// knows reports whether an item may use the part for known people.
func (c *Config) knows(it *host.Item) bool {
	return c.Users != nil && c.Users.Knows(it.Event.PubKey, it.Source.Addr)
}

// holder returns who sent an item. The author is not looked at: nobody has verified the event yet.
func (c *Config) holder(it *host.Item) bound.Holder {
	if it.Source == nil {
		return bound.Holder{}
	}
	if c.Users == nil {
		return bound.Holder{Addr: it.Source.Addr}
	}
	return c.Users.Holder(it.Source.Addr, it.Authed)
}

// New returns a pipeline. It does nothing until Run.
func New(cfg Config) *Pipeline {
	m := newMetrics()
	if cfg.Moderation == nil {
		cfg.Moderation = new(moderation.Log)
	}
	return &Pipeline{
		cfg: cfg, metrics: m, schedule: newSchedule(cfg.Workers, m), recent: newRecentIDs(recentIDs), quotas: newQuotas(cfg.Quota, cfg.knows),
		deciding: contain.New(contain.Decision, cfg.Log), writing: contain.New(contain.Writer, cfg.Log),
		vanished:   newVanished(cfg.Now),
		operations: make(chan *operation), ended: make(chan struct{}),
	}
}

// Submit queues an item behind those of the same Source. It blocks while too much is
// queued, until ctx ends. If it returns nil, the item's Done is called exactly once;
// otherwise never.
func (p *Pipeline) Submit(ctx context.Context, it *host.Item) error {
	return p.enqueue(ctx, it.Source, p.cfg.holder(it), &entry{item: it})
}

// SubmitRelease queues a release request. It blocks and returns as Submit does. The data must be in its
// place before: an event is then either held when the release is planned, or decided with
// the data there.
func (p *Pipeline) SubmitRelease(ctx context.Context, r *host.ReleaseRequest) error {
	return p.enqueue(ctx, nil, bound.Holder{}, &entry{release: &releaseRequest{ReleaseRequest: r}})
}

func (p *Pipeline) enqueue(ctx context.Context, source *host.Source, by bound.Holder, e *entry) error {
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
	s.add(source, by, e)
	return nil
}

// Run decides and writes until ctx ends, and passes what was stored to the follower, which
// may be nil. Then it refuses new items, finishes those that are queued, and returns.
func (p *Pipeline) Run(ctx context.Context, here Follower) error {
	return p.run(ctx, &writer{Pipeline: p, here: here, shared: sharing{store: alone{p.cfg.Store}, alone: true}})
}

// RunShared is Run where other processes write the store too. remote receives what they
// have committed, in one order with what is committed here; it must not block.
func (p *Pipeline) RunShared(ctx context.Context, store Shared, here Follower, remote func(host.Commit)) error {
	shared := sharing{store: store, changed: store.Changed(), remote: remote}
	return p.run(ctx, &writer{Pipeline: p, here: here, shared: shared})
}

func (p *Pipeline) run(ctx context.Context, w *writer) error {
	defer close(p.ended)
	s := p.schedule
	// The work that is queued is finished even though ctx has ended.
	working := context.WithoutCancel(ctx)
	if p.cfg.EachHeld != nil {
		if err := p.quotas.load(working, p.cfg.EachHeld); err != nil {
			return fmt.Errorf("count what is held: %w", err)
		}
	}
	var workers sync.WaitGroup
	s.spawn = func() {
		workers.Go(func() {
			err := p.deciding.Run(func() error {
				p.decideAll(working)
				return nil
			})
			if err != nil {
				s.fail(err)
			}
		})
	}
	for range p.cfg.Workers {
		s.spawn()
	}
	stop := context.AfterFunc(ctx, s.close)
	defer stop()
	w.parallel = p.cfg.Workers
	err := p.writing.Run(w.write)
	s.stop()
	if err != nil {
		w.abort(err)
		return fmt.Errorf("decide about events: %w", err)
	}
	workers.Wait()
	return nil
}
