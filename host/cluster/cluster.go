// Package cluster makes several Talons on one PostgreSQL one relay: it keeps which nodes
// are alive, which node has each role, and which may write to a repository.
//
// A node joins with a connection of its own, its session. The session has a row in table node,
// which the node renews, and a number that no earlier session had. Locks are session advisory
// locks: they end with the connection. Nodes send requests to each other through table call, which
// each node reads when it renews its session.
//
// Invariants:
//
//  1. A session is over for its node before it is over for others. A node counts from
//     when it asked for a renewal, by its monotonic clock. Others count from when the
//     database carried that out, by the clock of the database. A node that finds a
//     session which was not renewed in time ends its connection. That frees its locks.
//  2. A lost connection is a lost session, whatever the reason: locks are not taken over
//     into the next one, which has a higher number.
//  3. Two nodes never have the same name at the same time.
//  4. A lock alone does not keep out a node that was paused and goes on. So a change
//     that must not come late compares the session's number when it happens. Package
//     gitrepo does that.
//
// A process that is alone needs nothing of this package.
package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// DefaultLease is the time after which a session ends without a renewal. A node whose
	// machine has gone, or is paused, is replaced in this time and two renewals more.
	DefaultLease = 6 * time.Second

	renewals   = 3 // in the time of a lease
	keepLost   = 24 * time.Hour
	maxBackoff = 2 * time.Second
)

var (
	// ErrLost says that the session has ended, and every lock of it.
	ErrLost = errors.New("this node has lost its session in the database")

	// ErrNameInUse says that a node of that name is alive.
	ErrNameInUse = errors.New("a node of that name is alive")

	errClosed = errors.New("this node has left the cluster")
)

// State is the state that a node reports of itself.
type State string

const (
	Starting State = "starting"
	Ready    State = "ready"
	Draining State = "draining"
)

// Options are the options of [Join].
type Options struct {
	Name    string        // see [CheckName]
	Address string        // where clients reach the node itself
	Release string        // of the program
	Lease   time.Duration // 0: DefaultLease; the same on all nodes
	Log     *slog.Logger
}

func (o *Options) setDefaults() { o.Lease = cmp.Or(o.Lease, DefaultLease) }

func (o *Options) check() error { return CheckName(o.Name) }

// CheckName returns an error if the name of a node is not valid: it is a file name and a
// label.
func CheckName(name string) error {
	ok := name != "" && len(name) <= 64 && name[0] != '.' && strings.Trim(name, nameBytes) == ""
	if !ok {
		return errors.New("the name of a node has 1 to 64 of the characters A-Z a-z 0-9 . : _ - and does not begin with a dot")
	}
	return nil
}

// Application returns the name that all connections of a node have in the database.
func Application(node string) string { return "talon node " + node }

const nameBytes = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.:_-"

// Cluster is this node among the others. Its methods may be called by many goroutines.
type Cluster struct {
	cfg     *pgx.ConnConfig
	options Options
	started time.Time
	log     *slog.Logger
	stop    chan struct{}
	stopped chan struct{}
	renew   chan struct{} // asks for a renewal now
	called  chan struct{} // receives when another node asks something of this one

	mu      sync.Mutex // guards what follows
	session *session   // the present one, or the last
	changed chan struct{}
	state   State
	roles   []string
	closed  bool
}

// Join makes this process a node of the cluster that keeps its events in a database. The
// store must have made its schema there. A node of the same name that has just ended, or
// does not renew its session any more, is waited for.
func Join(ctx context.Context, connection string, o Options) (*Cluster, error) {
	o.setDefaults()
	if err := o.check(); err != nil {
		return nil, err
	}
	cfg, err := configure(connection, Application(o.Name))
	if err != nil {
		return nil, err
	}
	c := &Cluster{
		cfg: cfg, options: o, started: time.Now(), log: o.Log, state: Starting,
		stop: make(chan struct{}), stopped: make(chan struct{}), renew: make(chan struct{}, 1), called: make(chan struct{}, 1),
		changed: make(chan struct{}),
	}
	deadline := time.Now().Add(2 * o.Lease)
	for {
		c.session, err = c.open(ctx, 0)
		if err == nil {
			break
		}
		if !errors.Is(err, ErrNameInUse) || time.Now().After(deadline) || ctx.Err() != nil {
			return nil, fmt.Errorf("join the cluster as node %s: %w", o.Name, err)
		}
		pause(ctx, o.Lease/renewals/2)
	}
	go c.run()
	return c, nil
}

// Close leaves the cluster and releases this node's locks.
func (c *Cluster) Close() error {
	c.mu.Lock()
	closed := c.closed
	c.closed = true
	c.mu.Unlock()
	if !closed {
		close(c.stop)
	}
	<-c.stopped
	return nil
}

// Name returns this node's name.
func (c *Cluster) Name() string {
	return c.options.Name
}

// SetState publishes the state of this node to the others.
func (c *Cluster) SetState(state State) {
	c.mu.Lock()
	c.state = state
	c.mu.Unlock()
	c.renewNow()
}

func (c *Cluster) setRole(role string, have bool) {
	c.mu.Lock()
	c.roles = slices.DeleteFunc(slices.Clone(c.roles), func(r string) bool { return r == role })
	if have {
		c.roles = append(c.roles, role)
		slices.Sort(c.roles)
	}
	c.mu.Unlock()
	c.renewNow()
}

// Roles returns the roles that this node has now.
func (c *Cluster) Roles() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.roles)
}

func (c *Cluster) renewNow() {
	select {
	case c.renew <- struct{}{}:
	default:
	}
}

// run renews the session, and opens another when it is lost.
func (c *Cluster) run() {
	defer close(c.stopped)
	for {
		s := c.session // nobody else sets it
		c.keep(s)
		s.close()
		next := c.reopen(s.number)
		if next == nil {
			return
		}
		c.mu.Lock()
		c.session = next
		close(c.changed)
		c.changed = make(chan struct{})
		c.mu.Unlock()
		c.log.Info("this node has a session in the database again", "number", next.number)
	}
}

// keep renews a session until that is lost, or the node leaves.
func (c *Cluster) keep(s *session) {
	tick := time.NewTicker(c.options.Lease / renewals)
	defer tick.Stop()
	for {
		select {
		case <-c.stop:
			s.lose(errClosed)
			s.deregister()
			return
		case <-s.ctx.Done():
			c.log.Warn("this node has lost its session in the database", "number", s.number, "err", context.Cause(s.ctx))
			return
		case <-tick.C:
		case <-c.renew:
		}
		c.mu.Lock()
		state, roles := c.state, strings.Join(c.roles, " ")
		c.mu.Unlock()
		called, err := s.renew(state, roles)
		if err != nil && s.ctx.Err() == nil {
			c.log.Warn("renew the session of this node in the database", "err", err)
		}
		if called {
			select {
			case c.called <- struct{}{}:
			default:
			}
		}
	}
}

// reopen opens a session after one that was lost; nil if the node leaves.
func (c *Cluster) reopen(last int64) *session {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		select {
		case <-c.stop:
			cancel()
		case <-ctx.Done():
		}
	}()
	wait := 50 * time.Millisecond
	for {
		select {
		case <-c.stop:
			return nil
		default:
		}
		s, err := c.open(ctx, last)
		if err == nil {
			return s
		}
		if wait >= maxBackoff {
			c.log.Warn("open a session in the database", "err", err)
		}
		pause(ctx, wait)
		wait = min(2*wait, maxBackoff)
	}
}

// current returns the session, and waits for one while there is none.
func (c *Cluster) current(ctx context.Context) (*session, error) {
	for {
		c.mu.Lock()
		s, changed, closed := c.session, c.changed, c.closed
		c.mu.Unlock()
		if closed {
			return nil, errClosed
		}
		if s.err() == nil {
			return s, nil
		}
		select {
		case <-changed:
		case <-c.stop:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// Number returns the number of the present session.
func (c *Cluster) Number() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.session.number
}

// pause waits for so long, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
