package githttp

import (
	"context"
	"errors"
	"net/netip"
	"runtime"
	"sync"
	"time"

	"talon/host/gitrepo"
)

// minProgress is how many bytes a client must move in Limits.Stall.
const minProgress = 64 << 10

// Limits bound what clients can use of a server. All but CPU, Disk and Thin must be positive.
type Limits struct {
	Stall time.Duration // in which a client must send or take 64 KiB
	Whole time.Duration // of one request

	// GitTime is how long git may work on when all of a push is there; each MiB of it
	// adds a second. It ends packs that are small and take for ever. It also bounds the
	// change of refs.
	GitTime time.Duration

	// CPU is the processor time that git may work in an hour for pushes of one network;
	// 0 for no bound. A push begins as long as something is left of it.
	CPU time.Duration

	// Disk is the bytes that pushes of one network may add to the disk in an hour; 0 for no
	// bound. A push begins as long as something is left of it.
	Disk int64

	// Thin is the bytes that git may append in an hour to the thin packs of one author, and of
	// one network; 0 for no bound. Clients are asked for other packs when less than a quarter
	// is left. ThinEarly is what git may append to a pack whose refs no event here asks for.
	Thin      int64
	ThinEarly gitrepo.ThinLimit

	FetchBytes   int64 // of the body of a fetch, inflated
	PushBytes    int64 // of the body of a push, inflated
	Commands     int   // of one push
	CommandBytes int   // of all commands of one push

	Fetches    int // that git works on concurrently, of all repositories
	FetchQueue int // more of them that wait for their turn
	Pushes     int
	PushQueue  int // that wait, or send slowly
	QueueTime  time.Duration
	LockTime   time.Duration // that a push which is all here waits for its repository

	// DrainBytes and DrainTime bound what is still read of a push that was refused:
	// most clients send all of it before they look at the answer.
	DrainBytes int64
	DrainTime  time.Duration
}

// DefaultLimits are the default limits.
var DefaultLimits = Limits{
	Stall: time.Minute,
	Whole: time.Hour,

	GitTime: time.Minute,

	CPU: 10 * time.Minute,

	Disk:      8 << 30,
	Thin:      1 << 30,
	ThinEarly: gitrepo.ThinLimit{Free: 16 << 20, Times: 10},

	FetchBytes:   16 << 20,
	PushBytes:    2<<30 + 8<<20,
	Commands:     20_000,
	CommandBytes: 4 << 20,

	Fetches:    max(4, 2*runtime.NumCPU()),
	FetchQueue: 512,
	Pushes:     max(4, runtime.NumCPU()),
	PushQueue:  64,
	QueueTime:  time.Minute,
	LockTime:   time.Minute,

	DrainBytes: 1 << 30,
	DrainTime:  time.Minute,
}

func (l *Limits) check() error {
	for _, n := range []int64{
		int64(l.Stall), int64(l.Whole), int64(l.GitTime), l.FetchBytes, l.PushBytes, int64(l.Commands), int64(l.CommandBytes),
		int64(l.Fetches), int64(l.FetchQueue), int64(l.Pushes), int64(l.PushQueue), int64(l.QueueTime),
		int64(l.LockTime), l.DrainBytes, int64(l.DrainTime), l.ThinEarly.Free, l.ThinEarly.Times,
	} {
		if n <= 0 {
			return errors.New("set up git over HTTP: every limit must be positive")
		}
	}
	return nil
}

var errBusy = errors.New("the server is busy")

// limiter bounds how many requests git works on concurrently, and how many more wait. One
// network gets half of the places at most.
type limiter struct {
	work chan struct{} // one value for each that works
	wait time.Duration
	max  int // that wait or work

	mu     sync.Mutex // guards what follows
	inside int
	from   map[netip.Prefix]int // of them, by network
}

func newLimiter(work, queue int, wait time.Duration) *limiter {
	return &limiter{work: make(chan struct{}, work), wait: wait, max: work + queue, from: make(map[netip.Prefix]int)}
}

// reserve reserves a place for a client of a network, or fails with errBusy without waiting.
func (g *limiter) reserve(network netip.Prefix) (release func(), err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.inside == g.max || network.IsValid() && g.from[network] >= (g.max+1)/2 {
		return nil, errBusy
	}
	g.inside++
	if network.IsValid() {
		g.from[network]++
	}
	return sync.OnceFunc(func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.inside--
		if !network.IsValid() {
			return
		}
		if g.from[network]--; g.from[network] == 0 {
			delete(g.from, network)
		}
	}), nil
}

// idle is how long one whose turn it is may wait for a client before others get it.
const idle = time.Second

// slot is the right to have git work. Its holder may lend it while it waits. It belongs
// to one goroutine; release may be called by another.
type slot struct {
	limiter *limiter
	ctx     context.Context // of the one request that it is for

	mu     sync.Mutex // guards what follows
	held   bool
	closed bool
}

// acquire waits for the turn of one who has reserved a place.
func (g *limiter) acquire(ctx context.Context) (*slot, error) {
	timer := time.NewTimer(g.wait)
	defer timer.Stop()
	select {
	case g.work <- struct{}{}:
		return &slot{limiter: g, ctx: ctx, held: true}, nil
	case <-timer.C:
		return nil, errBusy
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// yieldWhile calls f, which waits for a client. If that takes long, others have their turn.
func (t *slot) yieldWhile(f func()) error {
	timer := time.AfterFunc(idle, func() { t.release(false) })
	f()
	timer.Stop()
	t.mu.Lock()
	held := t.held || t.closed
	t.mu.Unlock()
	if held {
		return nil
	}
	select {
	case t.limiter.work <- struct{}{}:
	case <-t.ctx.Done():
		return context.Cause(t.ctx)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.held = !t.closed; t.closed {
		<-t.limiter.work
	}
	return nil
}

// release gives the turn away: until yieldWhile is over, or for good.
func (t *slot) release(closed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = t.closed || closed
	if t.held {
		t.held = false
		<-t.limiter.work
	}
}
