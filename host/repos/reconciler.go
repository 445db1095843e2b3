// Package repos reconciles the git repositories of a GRASP service with its events, and its
// events with the git data that comes. It says which repository a path names, decides on pushes,
// moves refs, and releases events that waited.
//
// Each repository has one job for all of that. The job compares the stored events, the events in
// purgatory and the git data, and does the missing steps. Many things ask for the job: a push
// that landed, an event that was held, stored or removed, a start after a crash. None of them
// does more than ask. So a crash cannot leave a sequence of steps half done, and each step has
// one implementation.
//
// A repository is here for each announcement that a policy has held (GRASP-01), from then until
// the announcement goes. It has a folder from its first git data on. The repositories under
// /prs/ exist as well, as long as they have a ref (GRASP-06).
//
// Invariants:
//
//  1. Refs land first, the commit that releases their events second. A job that runs
//     again after a crash finds that the refs are right, and releases.
//  2. A repository changes only under its lock, and a job holds no lock while it
//     waits for a commit or for another repository.
//  3. Heads and tags are those of the newest state in effect (grasp.Latest). It is stored, or
//     held with all its data here. Refs that were pushed of a newer state that waits for the
//     rest are an exception. When the newest state is deleted or expires, refs follow the
//     newest one that remains. If none remains, they stay.
//  4. An announcement is released by a state of its own maintainers whose data is in
//     its own repository. Data in another repository never releases it.
//  5. A repository whose announcement waits for git data is empty, and has no folder. An
//     authorised push, a hunt that found data, or shared objects of a state make the folder.
//     A request for a repository waits for its jobs a moment.
//  6. A job removes for good only what an event explains: an announcement deleted, expired
//     or never filled. It leaves a repository alone if no event explains it.
//
// DESIGN.md in this folder tells the whole story.
package repos

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"talon/host"
	"talon/host/bound"
	"talon/host/contain"
	"talon/host/maintainers"
	"talon/host/moderation"
	"talon/sdk/grasp"
)

// Store reads events, and keeps refs that have no event yet.
type Store interface {
	host.RepoFacts
	HeldStore
	Placeholders
	Usages
}

// HeldStore reads purgatory and tombstones.
type HeldStore interface {
	// HeldEvent returns the event in purgatory, and whether it is there.
	HeldEvent(ctx context.Context, id host.ID) (e host.HeldEvent, ok bool, err error)

	// EachHeld calls yield for every event in purgatory.
	EachHeld(ctx context.Context, yield func(host.HeldEvent) error) error

	// DeletedAddress reports whether a deletion stands against a version of the
	// address of that time.
	DeletedAddress(ctx context.Context, a host.Address, createdAt int64) (bool, error)
}

// Placeholders are the refs under refs/nostr/ whose event has not come, by
// repository. They survive a crash.
type Placeholders interface {
	AddPlaceholder(ctx context.Context, repo string, id host.ID, since int64) error // one that is there stays as it is
	DropPlaceholder(ctx context.Context, repo string, ids ...host.ID) error
	Placeholders(ctx context.Context, yield func(repo string, id host.ID, since int64) error) error // oldest first
}

// Pipeline commits releases of held events whose git data is complete.
type Pipeline interface {
	SubmitRelease(ctx context.Context, r *host.ReleaseRequest) error
}

// Policy decides about pushes that GRASP's own rules allow.
type Policy interface {
	Push(ctx context.Context, p *host.Push) (host.Ruling, error)
}

// Nodes are the processes that share the folders of repositories and the store. Each
// reconciles what it has committed itself; one of them has the role to look after all.
type Nodes interface {
	// RunAs calls a function that one node at a time runs, while this node has the role.
	RunAs(ctx context.Context, role string, run func(context.Context) error) error

	// EachLoss calls do when it starts, and after each loss of a node.
	EachLoss(ctx context.Context, do func(context.Context) error) error

	// Alive returns a function that reports whether the node of a name is alive.
	Alive(ctx context.Context) (func(name string) bool, error)

	// Others reports whether there may be any but this process.
	Others() bool
}

// Config configures a reconciler. All fields are required unless it says otherwise.
type Config struct {
	Disk     *Disk
	Service  grasp.Service // where this service is reached from outside
	Store    Store
	Pipeline Pipeline
	Policy   Policy
	Log      *slog.Logger
	Now      func() time.Time

	Jobs     int           // that run concurrently
	Maintain time.Duration // between two rounds of git maintenance; 0: never
	PullRefs int           // for events that are not here, which one network may push in an hour; 0: no bound
	Nodes    Nodes         // [Alone] if no other process shares the folders

	// Private reports whether a repository is not for everybody: only servers that its announcement
	// names are asked for its data. Nil: none is.
	Private func(a host.Address) bool

	// Moderation is the operator's log of what is taken down; nil is an empty one.
	Moderation *moderation.Log
}

func (c *Config) check() error {
	if c.Jobs < 1 {
		return fmt.Errorf("set up git: %d jobs at once are too few", c.Jobs)
	}
	return nil
}

// Reconciler reconciles repositories and events. See the package documentation.
type Reconciler struct {
	cfg     Config
	disk    *Disk
	log     *slog.Logger
	jobs    jobs
	slots   chan struct{} // holds a value for each job that works
	repacks chan struct{} // holds a value while a repack works
	waiting placeholders
	pushing pushing
	pulled  *bound.Rate // refs for events that are not here
	metrics *metrics
	panics  *contain.Guard // around the round of a job, and the work on one repository

	// inFlightReleases are the events that a release request of a job's own releases: what follows from
	// them, the job has done.
	inFlightReleases sync.Map // host.ID → place

	ctx  context.Context // of the jobs: it ends when Run does
	stop context.CancelFunc
}

// New returns a reconciler. It answers from now on; Run finds out what happened while no
// process ran.
func New(ctx context.Context, cfg Config) (*Reconciler, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	cfg.Moderation = cmp.Or(cfg.Moderation, new(moderation.Log))
	f := &Reconciler{
		cfg: cfg, disk: cfg.Disk, log: cfg.Log,
		slots:   make(chan struct{}, cfg.Jobs),
		repacks: make(chan struct{}, 1),
		metrics: newMetrics(),
		pulled: bound.NewRate(bound.Spec{
			Name: "refs for events that are not here", Unit: "refs an hour", Network: int64(cfg.PullRefs),
			Yields: "the network that is over its share waits",
		}, cfg.Now),
		panics: contain.New(contain.Repos, cfg.Log),
	}
	f.ctx, f.stop = context.WithCancel(context.WithoutCancel(ctx))
	f.jobs.start = func(key any, j *job) { go f.runJob(key, j) }
	f.metrics.watch(f)
	f.waiting.store, f.waiting.rows = cfg.Store, make(map[placeholder]int64)
	if err := f.waiting.load(ctx); err != nil {
		f.stop()
		return nil, fmt.Errorf("set up git: %w", err)
	}
	return f, nil
}

// finishTime is how long Run waits for jobs when it ends.
const finishTime = 10 * time.Second

// Run reconciles everything once, and then does the timed work until ctx ends. It waits
// for the jobs under way.
func (f *Reconciler) Run(ctx context.Context) error {
	// Jobs under way get finishTime to finish: refs that moved have events to release.
	defer func() {
		defer time.AfterFunc(finishTime, f.stop).Stop()
		f.jobs.close()
		f.stop()
	}()
	g, ctx := errgroup.WithContext(ctx)
	run := func(part func() error) { g.Go(func() error { return f.panics.Run(part) }) }
	run(func() error { return f.expirePlaceholders(ctx) })
	run(func() error { return f.cfg.Nodes.RunAs(ctx, "maintenance", f.lookAfterAll) })
	err := g.Wait()
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// Bounds returns the limits that clients share, for the table of bounds.
func (f *Reconciler) Bounds() []bound.Spec { return []bound.Spec{f.pulled.Spec()} }

// Collectors returns the metrics.
func (f *Reconciler) Collectors() []prometheus.Collector {
	return append(slices.Clip(f.metrics.all), f.panics.Collector())
}

type metrics struct {
	seconds      prometheus.Histogram
	failed       prometheus.Counter
	made         prometheus.Counter
	removed      prometheus.Counter
	aligned      prometheus.Counter
	released     prometheus.Counter
	refused      prometheus.Counter
	placeholders prometheus.Counter
	all          []prometheus.Collector
}

func newMetrics() *metrics {
	m := new(metrics)
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Namespace: "talon", Subsystem: "repo", Name: name, Help: help})
		m.all = append(m.all, c)
		return c
	}
	m.seconds = prometheus.NewHistogram(prometheus.HistogramOpts{
		Namespace: "talon", Subsystem: "repo", Name: "job_seconds",
		Help:    "Time to bring one repository in line with the events, the wait for its lock included.",
		Buckets: prometheus.ExponentialBuckets(0.001, 4, 9),
	})
	m.all = append(m.all, m.seconds)
	m.failed = counter("job_failures_total", "Repositories that could not be brought in line.")
	m.made = counter("made_total", "Repositories that were made.")
	m.removed = counter("removed_total", "Repositories that were removed, their announcement gone.")
	m.aligned = counter("aligned_total", "Repositories whose refs were moved to those of a state, beyond pushes.")
	m.released = counter("released_total", "Events that were released because their git data is complete.")
	m.refused = counter("pushes_refused_total", "Pushes that the rules or a policy refused.")
	m.placeholders = counter("placeholders_expired_total", "Refs under refs/nostr/ that were deleted because no event came.")
	return m
}

func (m *metrics) ran(began time.Time, err error) {
	m.seconds.Observe(time.Since(began).Seconds())
	if err != nil {
		m.failed.Inc()
	}
}

// watch adds the gauges of a reconciler.
func (m *metrics) watch(f *Reconciler) {
	gauge := func(name, help string, value func() int) {
		m.all = append(m.all, prometheus.NewGaugeFunc(
			prometheus.GaugeOpts{Namespace: "talon", Subsystem: "repo", Name: name, Help: help},
			func() float64 { return float64(value()) }))
	}
	gauge("jobs", "Repositories that are being brought in line, or wait for it.", f.jobs.len)
	gauge("placeholders", "Refs under refs/nostr/ that wait for their event.", f.waiting.len)
}

// Anybody may announce an identifier, and name any pull request: what is looked at
// is bounded, the newest first.
const (
	maxAnnouncements = 500
	maxStates        = 500 // held ones of the maintainers of one repository
	maxPullRequests  = 10_000
)

// announcements returns those of an identifier, stored and held. The owner's own is
// among them, however many others there are.
func (f *Reconciler) announcements(ctx context.Context, identifier string, owners ...grasp.PubKey) ([]maintainers.Announced, error) {
	var list []maintainers.Announced
	seen := make(map[host.ID]bool)
	filter := host.Filter{
		Kinds: []host.Kind{grasp.KindAnnouncement},
		Tags:  []host.TagFilter{{Name: 'd', Values: []string{identifier}}},
		Limit: maxAnnouncements,
	}
	for range 2 {
		err := maintainers.ReadAll(ctx, f.cfg.Store, filter, func(e *host.Event, held bool) {
			a, err := e.Announcement()
			if err == nil && a.Identifier == identifier && !seen[e.ID] {
				seen[e.ID] = true
				list = append(list, maintainers.Announced{Announcement: a, Held: held})
			}
		})
		if err != nil {
			return nil, fmt.Errorf("look for announcements: %w", err)
		}
		if len(owners) == 0 || len(list) < maxAnnouncements {
			break
		}
		filter.Authors = host.PubKeys(owners)
	}
	return list, nil
}

// own returns the newest announcement of the owner, nil if there is none.
func own(list []maintainers.Announced, owner grasp.PubKey) *maintainers.Announced {
	var newest *maintainers.Announced
	for i := range list {
		if a := &list[i]; a.PubKey == owner && (newest == nil || a.Newer(&newest.Stamp)) {
			newest = a
		}
	}
	return newest
}

// stored returns the owner's announcement that is served, nil if there is none.
func stored(list []maintainers.Announced, owner grasp.PubKey) *maintainers.Announced {
	for i := range list {
		if a := &list[i]; a.PubKey == owner && !a.Held {
			return a
		}
	}
	return nil
}

// maxAlone is how many announcements are looked at for another author's: the owner's may
// have the identifier in a second d tag.
const maxAlone = 20

// isOnlyOwner reports whether nobody but the owner announces the identifier.
func (f *Reconciler) isOnlyOwner(ctx context.Context, repo grasp.Repo) (bool, error) {
	filter := host.Filter{
		Kinds: []host.Kind{grasp.KindAnnouncement}, Tags: []host.TagFilter{{Name: 'd', Values: []string{repo.Identifier}}},
		Limit: maxAlone, Header: true,
	}
	n, others := 0, false
	err := maintainers.ReadAll(ctx, f.cfg.Store, filter, func(e *host.Event, _ bool) {
		n++
		others = others || e.PubKey != repo.PubKey
	})
	if err != nil {
		return false, fmt.Errorf("look for announcements: %w", err)
	}
	return !others && n < maxAlone, nil
}

// states returns the states of an identifier by its maintainers, stored and held. Every event
// that counts for refs and pushes is read here, also one that the operator hides later.
func (f *Reconciler) states(ctx context.Context, identifier string, authors []grasp.PubKey) ([]grasp.Candidate, error) {
	if len(authors) == 0 {
		return nil, nil
	}
	filter := host.Filter{
		Kinds:   []host.Kind{grasp.KindState},
		Tags:    []host.TagFilter{{Name: 'd', Values: []string{identifier}}},
		Authors: host.PubKeys(authors),
		Limit:   maxStates,
	}
	var list []grasp.Candidate
	err := maintainers.ReadAll(ctx, f.cfg.Store, filter, func(e *host.Event, held bool) {
		if s, err := e.State(); err == nil && s.Identifier == identifier {
			list = append(list, grasp.Candidate{State: s, Served: !held})
		}
	})
	if err != nil {
		return nil, fmt.Errorf("look for states: %w", err)
	}
	return list, nil
}

// trackedStates returns the states of maintainers that name refs, the newest first.
func (f *Reconciler) trackedStates(ctx context.Context, identifier string, maintainers []grasp.PubKey) ([]grasp.Candidate, error) {
	states, err := f.states(ctx, identifier, maintainers)
	if err != nil {
		return nil, err
	}
	return effectual(states), nil
}

// effectual returns those of states that name refs, the newest first.
func effectual(states []grasp.Candidate) []grasp.Candidate {
	states = slices.DeleteFunc(slices.Clone(states), func(c grasp.Candidate) bool { return !c.Tracks() })
	slices.SortFunc(states, func(a, b grasp.Candidate) int {
		if a.Newer(&b.Stamp) {
			return -1
		}
		return 1
	})
	return states
}
