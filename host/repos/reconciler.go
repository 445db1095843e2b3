package repos

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"talon/host"
	"talon/host/githttp"
	"talon/host/gitrepo"
	rules "talon/sdk/grasp"
)

// Store is what a reconciler reads of events, and what it keeps of refs that have none.
type Store interface {
	host.RepoFacts
	HeldStore
	Placeholders
}

// HeldStore is what is asked of purgatory, and of tombstones, beside facts.
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

// Pipeline takes git data that has come on its way to a commit.
type Pipeline interface {
	Arrive(ctx context.Context, a *host.Arrival) error
}

// Policy decides about pushes that GRASP's own rules allow.
type Policy interface {
	Push(ctx context.Context, p *host.Push) (host.Ruling, error)
}

// Config is what a reconciler is made from. All fields are required unless it says
// otherwise.
type Config struct {
	Disk     *Disk
	Service  rules.Service // where this service is reached from outside
	Store    Store
	Pipeline Pipeline
	Policy   Policy
	Log      *slog.Logger
	Now      func() time.Time

	Jobs     int           // that work at once
	Maintain time.Duration // between two rounds of git maintenance; 0: never
	PullRefs int           // for events that are not here, which one network may push in an hour; 0: no bound
}

// Reconciler keeps repositories and events in line. See the package documentation.
type Reconciler struct {
	cfg     Config
	disk    *Disk
	log     *slog.Logger
	jobs    jobs
	slots   chan struct{} // holds a value for each job that works
	waiting placeholders
	pulled  *githttp.Budget // refs for events that are not here
	metrics *metrics

	// inFlightReleases are the events that an arrival of a job's own releases: what follows from
	// them, the job has done.
	inFlightReleases sync.Map // host.ID → place

	ctx  context.Context // of the jobs: it ends when Run does
	stop context.CancelFunc
}

// New returns a reconciler. It answers at once; what happened while nobody ran is found
// out by Run.
func New(ctx context.Context, cfg Config) (*Reconciler, error) {
	if cfg.Jobs < 1 {
		return nil, fmt.Errorf("set up git: %d jobs at once are too few", cfg.Jobs)
	}
	f := &Reconciler{
		cfg: cfg, disk: cfg.Disk, log: cfg.Log,
		slots:   make(chan struct{}, cfg.Jobs),
		metrics: newMetrics(),
		pulled:  githttp.NewBudget(float64(cfg.PullRefs), cfg.Now),
	}
	f.ctx, f.stop = context.WithCancel(context.WithoutCancel(ctx))
	f.jobs.start = func(key any, j *job) { go f.runJob(key, j) }
	f.metrics.watch(f)
	if err := f.waiting.load(ctx, cfg.Store); err != nil {
		f.stop()
		return nil, fmt.Errorf("set up git: %w", err)
	}
	return f, nil
}

// finishTime is how long Run waits for jobs when it ends.
const finishTime = 10 * time.Second

// Run brings everything in line once, and then does what time asks for, until ctx
// ends. Jobs that run then are finished.
func (f *Reconciler) Run(ctx context.Context) error {
	// What is under way is finished: refs that moved have events to release.
	defer func() {
		defer time.AfterFunc(finishTime, f.stop).Stop()
		f.jobs.close()
		f.stop()
	}()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return f.start(ctx) })
	g.Go(func() error { return f.expirePlaceholders(ctx) })
	g.Go(func() error { return f.maintain(ctx) })
	err := g.Wait()
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// Collectors returns the metrics.
func (f *Reconciler) Collectors() []prometheus.Collector { return f.metrics.all }

// Disk is where repositories are.
type Disk struct {
	Announced *gitrepo.Root
	PRs       *gitrepo.Root // under /prs/; nil: there are none
	none      *gitrepo.Root // has the empty one
	empty     *gitrepo.Repo // what is under /prs/ where nothing was pushed
}

// location is a repository, be it there or not.
type location struct {
	rules.Repo
	prs bool // under /prs/
}

func (p location) String() string {
	prefix := ""
	if p.prs {
		prefix = "prs/"
	}
	return prefix + p.Repo.Path()[1:]
}

// LogValue makes log lines of every format name the path.
func (p location) LogValue() slog.Value { return slog.StringValue(p.String()) }

func (p location) address() host.Address {
	return host.Address{Kind: rules.KindAnnouncement, PubKey: p.PubKey, D: p.Identifier}
}
