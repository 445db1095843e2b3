// Package gitfetch hunts for git data. If an event is held because its data is missing,
// the package asks every git server that the events name, until all objects are here or
// the time is over.
//
// Package queue decides which server to ask and when. A throttle module decides how
// politely. A [Hunter] does the work: it asks a [Repos] for the missing objects and their
// possible places, lets git fetch them, and reports the result to Repos.
//
// Git itself never reaches the network. It gets a URL of an [egressProxy] on the loopback
// interface. Behind that, this package speaks HTTP to the server. It looks up and checks every
// address that it connects to, follows redirects, counts bytes and objects, and watches the time.
// So it knows exactly why a fetch failed.
//
// Invariants:
//
//  1. Each address is checked at the moment of the connection. So a name that changes
//     its address between a check and its use gains nothing. Private addresses are
//     refused unless the operator allows them, and our own service is never asked.
//  2. Only http and https, without user names, to port 80, 443 or one from 1024 on.
//  3. A redirect to another domain is no part of a request: it is a URL of that
//     domain, with that domain's limits.
//  4. A fetch brings objects and never a ref. Signed events decide about refs.
//  5. Each fetch is bounded in bytes, objects and time, and is not held in memory. Packs
//     are scanned as those of pushes are: one beyond the limits is cut off before git has
//     all of it.
//  6. Nothing is lost with the process. Searches are rebuilt from the held events, and the
//     records of domains are stored. The start of a request is stored before it begins:
//     no restart, and no crash, gives a domain more than its limits.
//  7. A server that only held events name gets few requests. Each request counts against
//     the authors and networks that name it, and each connection against the address.
//  8. The throttle module is asked under the queue's lock, and its fuel bounds it. A
//     report of an event waits for neither. If the module fails, [queue.DefaultBackoff]
//     answers.
package gitfetch

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

	"github.com/prometheus/client_golang/prometheus"

	"talon/host"
	"talon/host/bound"
	"talon/host/contain"
	"talon/host/gitfetch/queue"
	"talon/host/gitrepo"
	"talon/host/throttle"
	"talon/sdk/abi"
)

// Config configures a hunter. All fields are required unless it says otherwise.
type Config struct {
	Repos     Repos
	Module    throttle.Module // nil: queue.DefaultBackoff answers
	Disk      throttle.Disk   // nil: what is known of domains ends with the process
	Addresses Addresses
	Clamps    queue.Clamps
	Limits    Limits
	Log       *slog.Logger
	Now       func() time.Time
	Prefix    string // of metrics; empty: talon

	// Namer says who sent a held event by an author. With nil, servers that only held events
	// name have no limits of their own.
	Namer func(event host.ID, author host.PubKey) bound.Namer

	Panics *contain.Guard // around each piece of work; may be nil

	Full func() bool // reports whether the disk has no room for what is fetched; nil says that it has
}

func (c *Config) setDefaults() {
	if c.Disk == nil {
		c.Disk = noDisk{}
	}
	c.Prefix = cmp.Or(c.Prefix, "talon")
}

// Hunter looks for git data. Its methods may be called by many goroutines.
type Hunter struct {
	cfg     Config
	log     *slog.Logger
	metrics *metrics
	guard   *guard

	strangers *strangers // nil: held events are as good as stored ones

	looks chan struct{} // holds a value for each question to the reconciler

	completed *bound.KeyRate // bytes that git appended to thin packs, by domain and by object store
	woken     chan struct{}  // receives after the queue had an input

	pendingMu sync.Mutex               // guards what follows; who holds mu may take it
	held      []Event                  // that are not in the queue yet
	released  map[string]queue.Outcome // identifiers of events that wait no more, not yet passed to the queue

	mu    sync.Mutex // guards queue, the module, and what follows
	queue *queue.Queue
	stops map[queue.Ticket]context.CancelCauseFunc // of requests that are under way
	moved map[redirect]string                      // the URL of an event that redirects led from
	saved int64                                    // when what is known of domains was kept last

	refused  map[string]map[source]bool // by identifier; see refuse
	refusals int                        // in all of them

	complained time.Time // of the disk; Run's own
}

// maxLooks bounds concurrent questions to the reconciler: each reads the store and looks
// for objects.
const maxLooks = 4

// New returns a hunter. The queue takes events from now on, and Run does the work. ctx is
// the context of calls of the throttle.
func New(ctx context.Context, cfg Config) *Hunter {
	cfg.setDefaults()
	h := &Hunter{
		cfg: cfg, log: cfg.Log, guard: newGuard(cfg.Addresses.Private, cfg.Limits.Connections),
		looks: make(chan struct{}, maxLooks), woken: make(chan struct{}, 1), moved: make(map[redirect]string),
		stops: make(map[queue.Ticket]context.CancelCauseFunc), refused: make(map[string]map[source]bool),
		completed: bound.NewKeyRate(bound.Spec{
			Name: "completion of thin packs of the hunt", Unit: "bytes an hour", Key: cfg.Limits.Thin,
			Yields: "the domain or object store that is over its share is fetched from later",
		}, cfg.Now),
	}
	h.strangers = newStrangers(&h.cfg)
	h.metrics = newMetrics(cfg.Prefix, func() float64 {
		h.mu.Lock()
		defer h.mu.Unlock()
		return float64(h.queue.Len())
	})
	module := throttle.New(ctx, cfg.Module, "git servers", cfg.Log, func(q throttle.Function) { h.metrics.failures[q].Inc() })
	h.queue = queue.New(NewThrottle(module), cfg.Clamps)
	return h
}

// Bounds returns the rows of the table of bounds.
func (h *Hunter) Bounds() []bound.Spec {
	list := []bound.Spec{h.completed.Spec()}
	if h.strangers != nil {
		list = append(list, h.strangers.visits.Bounds()...)
	}
	return list
}

// Collectors returns the metrics.
func (h *Hunter) Collectors() []prometheus.Collector { return h.metrics.all }

// Held begins the search for an event's git data, or renews the search. It does not
// block, and asks no module: the writer calls it.
func (h *Hunter) Held(e Event) {
	if !h.setAside(e) {
		h.log.Warn("too many events come at once: the git data of one is not searched for", "identifier", e.Repository.D)
	}
	h.wake()
}

// setAside keeps an event for the queue, if there is room.
func (h *Hunter) setAside(e Event) bool {
	h.pendingMu.Lock()
	defer h.pendingMu.Unlock()
	room := len(h.held) < h.cfg.Clamps.Repositories
	if room {
		h.held = append(h.held, e)
	}
	return room
}

// NoLongerHeld reports that an event has left purgatory: it was released, or has gone. A
// search for whose identifier nothing is missing then ends. Like Held, it does not block.
func (h *Hunter) NoLongerHeld(e Event, released bool) {
	how := queue.Forgotten
	if released {
		how = queue.Complete
		if h.strangers != nil {
			h.strangers.stored.Store(true)
		}
	}
	h.pendingMu.Lock()
	if have, ok := h.released[e.Repository.D]; ok {
		h.released[e.Repository.D] = min(have, how)
	} else if len(h.released) < h.cfg.Clamps.Repositories { // else the search ends with its next round
		if h.released == nil {
			h.released = make(map[string]queue.Outcome)
		}
		h.released[e.Repository.D] = how
	}
	h.pendingMu.Unlock()
	h.wake()
}

// maxDrained is how many events go to the queue at a time: the throttle is asked about each,
// and others wait for mu.
const maxDrained = 256

// drainPending tells the queue of events that were held, and then of those that wait no more.
// REQUIRES: mu.
func (h *Hunter) drainPending() {
	list, left := h.takePending()
	for _, e := range list {
		h.add(e)
	}
	for identifier, how := range left {
		h.queue.Released(identifier, how)
	}
}

// takePending returns some of the events that are not in the queue yet, and if these are all, what
// waits no more.
func (h *Hunter) takePending() (list []Event, left map[string]queue.Outcome) {
	h.pendingMu.Lock()
	defer h.pendingMu.Unlock()
	n := min(len(h.held), maxDrained)
	list = h.held[:n]
	if h.held = h.held[n:]; len(h.held) == 0 {
		h.held = nil
		left, h.released = h.released, nil
	} else {
		h.wake()
	}
	return list, left
}

// add tells the queue of an event. REQUIRES: mu.
func (h *Hunter) add(e Event) {
	origin := [...]uint32{FromUser: abi.OriginClient, FromSync: abi.OriginSync}[e.Origin]
	now := h.now()
	_, known := h.queue.Repository(e.Repository.D)
	taken := h.queue.Add(now, queue.Event{
		Key: e.Repository.D, Name: e.Repository.String(), Origin: origin, Kind: uint32(e.Kind), Since: e.Since * 1000,
	})
	s, _ := h.queue.Repository(e.Repository.D)
	switch {
	case !taken:
		h.log.Warn("too many repositories wait for git data: one is not searched for", "identifier", e.Repository.D)
	case !known:
		h.log.Debug("search planned", "identifier", e.Repository.D, "delay", span(s.Next-now))
	default:
		h.log.Debug("search made fresh", "identifier", e.Repository.D, "delay", span(max(s.Next-now, 0))) // none during a round
	}
}

// FetchNow begins a round of the search for an identifier now, and asks again for what was
// refused.
func (h *Hunter) FetchNow(repository string, identifier string) error {
	ok := func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.drainPending()
		h.forget(identifier)
		return h.queue.FetchNow(h.now(), identifier, repository)
	}()
	h.wake()
	if !ok {
		return errors.New("too many repositories wait for git data")
	}
	return nil
}

// wake has the loop look at the queue again.
func (h *Hunter) wake() {
	select {
	case h.woken <- struct{}{}:
	default:
	}
}

func (h *Hunter) now() int64 { return h.cfg.Now().UnixMilli() }

// Run hunts until ctx ends. First it recalls what is known of domains, and rebuilds
// the queue from the events that are held. It returns when all that is known is kept. A panic in
// the queue is returned as an error: a new hunter begins with the events that are held.
func (h *Hunter) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	g, err := openEgressProxy(h.cfg.Addresses, h.guard, h.cfg.Limits, h.log, h.cfg.Panics)
	if err != nil {
		return fmt.Errorf("hunt for git data: %w", err)
	}
	defer g.Close()
	if err := h.restoreRecords(ctx); err != nil && ctx.Err() == nil {
		return fmt.Errorf("hunt for git data: %w", err)
	}
	waiting := 0
	err = h.cfg.Repos.Waiting(ctx, func(e Event) error {
		waiting++
		h.mu.Lock()
		defer h.mu.Unlock()
		h.add(e)
		return ctx.Err()
	})
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("hunt for git data: read what waits: %w", err)
	}
	h.log.Info("hunting for git data", "waiting", waiting)
	var running sync.WaitGroup
	failed := make(chan error, 1)
	err = h.cfg.Panics.Run(func() error { return h.hunt(ctx, g, &running, failed) })
	cancel()
	running.Wait()
	if err != nil {
		return err // what the queue knows may be wrong; what was kept before is not
	}
	h.keep(ctx, h.lastChanges())
	return nil
}

// turn is what the queue wants at a time.
type turn struct {
	now     int64
	works   []func()
	ended   []queue.Ended
	paused  []queue.Paused
	changed map[string]*queue.Record
	unsaved bool
	wait    time.Duration // until it wants more
}

// takeTurn asks the queue for its next pieces of work.
func (h *Hunter) takeTurn(ctx context.Context, g *egressProxy) (t turn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.drainPending()
	t.now = h.now()
	list := h.queue.Work(t.now)
	t.ended, t.paused = h.queue.Ended(), h.queue.Paused()
	for _, e := range t.ended {
		h.forget(e.Key)
	}
	t.wait = time.Hour
	if due, ok := h.queue.Due(); ok {
		t.wait = time.Duration(min(max(due-t.now, 0), time.Hour.Milliseconds())) * time.Millisecond
	}
	for _, w := range list {
		t.works = append(t.works, h.begin(ctx, g, w))
	}
	t.changed = h.changedRecords(t.now, list)
	t.unsaved = h.queue.HasChanged()
	return t
}

// lastChanges returns what became known since the last write.
func (h *Hunter) lastChanges() map[string]*queue.Record {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.queue.Changed()
}

// fullEvery is how often the hunt looks whether a full disk has room again.
const fullEvery = time.Second

// hunt does what the queue wants until ctx ends, or a piece of work panics whose end the queue
// does not know.
func (h *Hunter) hunt(ctx context.Context, g *egressProxy, running *sync.WaitGroup, failed chan error) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		if h.cfg.Full != nil && h.cfg.Full() {
			select {
			case <-ctx.Done():
			case err := <-failed:
				return err
			case <-time.After(fullEvery):
			}
			continue
		}
		t := h.takeTurn(ctx, g)
		unsaved := !h.keep(ctx, t.changed) || t.unsaved
		h.report(t.now, t.ended, t.paused)
		for _, work := range t.works {
			running.Go(func() {
				err := h.cfg.Panics.Run(func() error {
					work()
					return nil
				})
				if err != nil {
					select {
					case failed <- err:
					default:
					}
				}
				h.wake()
			})
		}
		wait := t.wait
		if unsaved {
			wait = min(wait, time.Duration(saveEvery)*time.Millisecond)
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-h.woken:
		case err := <-failed:
			return err
		}
	}
	return nil
}

// begin returns the doing of a piece of work. REQUIRES: mu.
func (h *Hunter) begin(ctx context.Context, g *egressProxy, w queue.Work) func() {
	switch w.Kind {
	case queue.Look:
		return func() { h.probe(ctx, w) }
	case queue.Check:
		return func() { h.check(ctx, w) }
	case queue.Stop:
		stop := h.stops[w.Ticket]
		return func() { stop(errOthers) }
	}
	label := h.metrics.label(w.URL.Domain)
	asking, stop := context.WithCancelCause(ctx)
	h.stops[w.Ticket] = stop
	return func() { h.fetch(ctx, asking, g, w, label) }
}

// report logs and counts what has ended.
func (h *Hunter) report(now int64, ended []queue.Ended, paused []queue.Paused) {
	for _, p := range paused {
		h.log.Debug("search goes on later", "identifier", p.Key, "rounds", p.Attempts, "missing", p.Missing, "next", span(p.Next-now))
	}
	for _, e := range ended {
		h.metrics.ended[e.Outcome].Inc()
		h.metrics.age.Observe(float64(now-e.Since) / 1000)
		h.log.Info("search ended", "identifier", e.Key, "how", e.Outcome.String(), "rounds", e.Attempts, "took", span(now-e.Since))
	}
}

func span(millis int64) time.Duration { return time.Duration(millis) * time.Millisecond }

// wanted asks the reconciler, one of a few at a time.
func (h *Hunter) wanted(ctx context.Context, identifier string) ([]Want, error) {
	select {
	case h.looks <- struct{}{}:
		defer func() { <-h.looks }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	list, err := h.cfg.Repos.Wanted(ctx, identifier)
	if err != nil {
		return nil, fmt.Errorf("find out what git data is missing: %w", err)
	}
	return list, nil
}

// probe answers a Look.
func (h *Hunter) probe(ctx context.Context, w queue.Work) {
	var p queue.Plan
	var list []Want
	err := h.cfg.Panics.Run(func() (err error) {
		if list, err = h.wanted(ctx, w.Key); err == nil {
			p.URLs, p.Refused = h.urls(w.Key, list)
			p.URLs, p.Refused, err = h.affordable(ctx, list, p.URLs, p.Refused)
		}
		return err
	})
	if err != nil {
		// The next round will find out.
		p.Missing = 1
		if ctx.Err() == nil {
			h.log.Error("search for git data", "identifier", w.Key, "err", err)
		}
	} else {
		p.Missing = len(missing(list))
		h.log.Debug("search begins a round", "identifier", w.Key, "missing", p.Missing, "urls", len(p.URLs))
	}
	if p.Missing > 0 {
		h.metrics.attempts.Inc()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.queue.Looked(h.now(), w.Ticket, p)
}

// check answers a Check.
func (h *Hunter) check(ctx context.Context, w queue.Work) {
	lacks := 1
	if list, err := h.wanted(ctx, w.Key); err == nil {
		lacks = len(missing(list))
	} else if ctx.Err() == nil {
		h.log.Error("search for git data", "identifier", w.Key, "err", err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.queue.Looked(h.now(), w.Ticket, queue.Plan{Missing: lacks})
}

// missing returns the objects that some event lacks.
func missing(list []Want) (ids []string) {
	for _, w := range list {
		ids = append(ids, w.Objects...)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// urls returns the URLs to ask, those of each want in turn. Otherwise a want with hundreds of
// URLs would come before all others. It also returns the first few URLs that must not be asked.
func (h *Hunter) urls(identifier string, list []Want) (urls []queue.URL, refused []queue.Refused) {
	seen := make(map[string]bool)
	for i, more := 0, true; more && len(urls) < h.cfg.Clamps.URLs; i++ {
		more = false
		for _, w := range list {
			if i >= len(w.URLs) {
				continue
			}
			more = true
			u, err := h.cfg.Addresses.ParseURL(w.URLs[i])
			if err != nil {
				refused = refuse(refused, w.URLs[i], err)
				if !errors.Is(err, ErrOurs) {
					h.log.Debug("a URL is not asked", "identifier", identifier, "url", printable(w.URLs[i]), "err", err)
				}
				continue
			}
			refused := len(w.Objects) > 0 && len(h.takeable(identifier, u.Text, w.Objects)) == 0
			if !seen[u.Text] && !refused {
				seen[u.Text] = true
				urls = append(urls, u)
			}
		}
	}
	return urls, refused
}

// refuse adds a URL that is not asked. Events are held by the ten thousand, so that little
// is kept of each.
func refuse(list []queue.Refused, url string, err error) []queue.Refused {
	const maximum, longest = 5, 200
	u := queue.Refused{URL: strings.Clone(url[:min(len(url), longest)]), Reason: err.Error()}
	if len(list) == maximum || slices.Contains(list, u) {
		return list
	}
	return append(list, u)
}

// printable cuts a text of a stranger's for the log.
func printable(s string) string {
	if len(s) > 200 {
		s = s[:200]
	}
	return fmt.Sprintf("%+q", s)
}

// Repos returns the missing objects, and handles fetched ones.
type Repos interface {
	// Waiting calls yield for each event in purgatory that waits for git data: the hunt
	// begins with these after a start.
	Waiting(ctx context.Context, yield func(Event) error) error

	// Wanted returns what the repositories of an identifier lack, and where it may be.
	// It is empty if nothing that is held waits for git data.
	Wanted(ctx context.Context, identifier string) ([]Want, error)

	// Servers calls yield with the clone URLs of all stored announcements.
	Servers(ctx context.Context, yield func(url string)) error

	// Arrived reports that objects have come that a repository lacked. It returns when
	// that was reconciled with the events, and others that share its objects: Wanted then
	// says what is still missing. It is called for each repository that lacked them.
	Arrived(ctx context.Context, identifier string, into Repository) error
}

// Repository is the repository that objects are fetched into: a *gitrepo.Repo. Two of the
// same repository need not be equal.
type Repository interface {
	// Dir identifies the repository.
	Dir() string

	// Store identifies the object store: repositories with the same store share objects.
	Store() string

	// Format and ScanPack are those of [gitrepo.Repo].
	Format(ctx context.Context) (gitrepo.Format, error)
	ScanPack(format gitrepo.Format, early bool) *gitrepo.PackScan

	// Fetch is [gitrepo.Repo.Fetch].
	Fetch(ctx context.Context, from gitrepo.Source, ids ...string) (found []string, err error)
}

// Want is the set of objects that some events lack in one repository. Each repository has one,
// with its states and the URLs of its maintainers' announcements. Each pull request has one as
// well, with the URLs that it names and those of its repositories.
type Want struct {
	Into    Repository
	Objects []string // ids, as signed events name them
	URLs    []string // as the events write them; each is asked for these objects

	MaxBytes int64 // that may come for it; 0 is no limit
	Full     bool  // nothing may come: the owner has no room

	// Strangers has those of URLs that only held events name, with these.
	Strangers map[string][]Namer
}

// Event is an event in purgatory that waits for git data.
type Event struct {
	Repository host.Address // that it is about; its identifier names the search
	Kind       host.Kind
	Origin     Origin
	Since      int64 // unix seconds: it has waited since then; 0: since now
}

// Origin is the source of an event.
type Origin uint8

const (
	FromUser Origin = iota // a client: a push is expected
	FromSync               // another relay
)

// Limits bound one request to a git server, which is one fetch.
type Limits struct {
	Bytes    int64         // that a server may send
	Objects  int64         // of a pack
	Refs     int           // that a server lists: lines before a pack
	RefBytes int64         // of them
	Whole    time.Duration // from the beginning to the last object
	Stall    time.Duration // a server must send something in this time,
	Rate     int64         // bytes a second on average over Stall, once it sends a pack

	// Thin is the bytes that git may append in an hour to the thin packs of one domain, and to
	// those for one object store; 0 for no bound.
	Thin int64

	Connections int // to one address, under whatever names
}

// DefaultLimits are the default limits.
var DefaultLimits = Limits{
	Bytes: 2 << 30, Objects: 20_000_000, Refs: 500_000, RefBytes: 64 << 20, Whole: 20 * time.Minute, Stall: 30 * time.Second, Rate: 1 << 10, Thin: 1 << 30, Connections: 16,
}
