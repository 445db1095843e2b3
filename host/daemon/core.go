package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"talon/host"
	"talon/host/config"
	"talon/host/forge"
	"talon/host/ingest"
	"talon/host/plugin"
	"talon/host/plugin/guest"
	"talon/host/schnorr"
	"talon/host/store"
)

// Core is the part of Talon that decides and stores: the database, the plugins,
// the pipeline between them.
type Core struct {
	Store    *store.Store
	Plugins  *plugin.Registry
	Pipeline *ingest.Pipeline
	Disk     *forge.Disk // nil unless it serves
}

// OpenStore opens the database of the data folder for writing.
func OpenStore(ctx context.Context, cfg *config.Config, log *slog.Logger) (*store.Store, error) {
	return store.Open(ctx, cfg.Data, storeOptions(cfg, log))
}

// OpenStoreReadOnly opens the database for reading, also while a server runs on
// it.
func OpenStoreReadOnly(ctx context.Context, cfg *config.Config, log *slog.Logger) (*store.Store, error) {
	return store.OpenReadOnly(ctx, cfg.Data, storeOptions(cfg, log))
}

// storeOptions gives half of the cache to the texts of events, which most answers
// are made of, a quarter to the writer, which touches pages all over the indexes, and
// the rest to the readers.
func storeOptions(cfg *config.Config, log *slog.Logger) store.Options {
	readers := cfg.Readers
	if readers == 0 {
		readers = 2 * runtime.GOMAXPROCS(0)
	}
	cache := cacheOf(cfg)
	return store.Options{
		Readers:     readers,
		Texts:       cache / 2,
		WriterCache: cache / 4,
		ReaderCache: cache / 4 / int64(readers),
		Log:         log,
	}
}

// OpenCore opens the database and loads the plugins. Nothing runs yet. Only a
// core that serves has git, keeps the last good plugins and follows their folder:
// another command may be given a folder for once, and what it holds waits until
// somebody serves.
func OpenCore(ctx context.Context, cfg *config.Config, log *slog.Logger, serving bool) (*Core, error) {
	db, err := OpenStore(ctx, cfg, log)
	if err != nil {
		return nil, err
	}
	return openCore(ctx, cfg, log, db, serving)
}

// openCore is OpenCore on a database that is open. It closes that if it fails.
func openCore(ctx context.Context, cfg *config.Config, log *slog.Logger, db *store.Store, serving bool) (_ *Core, err error) {
	c := &Core{Store: db}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Close(context.WithoutCancel(ctx)))
		}
	}()
	o := plugin.Options{
		Dir:        cfg.Plugins,
		Policy:     cfg.Policy,
		CacheDir:   filepath.Join(cfg.Data, "wasm-cache"),
		Compiler:   cfg.Compiler,
		Bundled:    config.BundledFolder(),
		Prepared:   config.PreparedFolder(),
		AllowExec:  cfg.AllowExec,
		Signers:    cfg.PluginSigners,
		Limits:     guest.Limits{Fuel: cfg.Fuel, Memory: cfg.ModuleMemory},
		Disk:       db,
		StateQuota: cfg.ModuleState,
		Facts:      facts{db},
		Held:       db,
		Service:    service(cfg),
		Log:        log,
	}
	if serving {
		o.Shelf = filepath.Join(cfg.Data, "generations")
		o.Decisions = cfg.Decisions
		o.Watch = true
		if c.Disk, err = openDisk(ctx, cfg); err != nil {
			return nil, err
		}
		o.Git = c.Disk
	}
	if c.Plugins, err = plugin.Open(ctx, o); err != nil {
		return nil, fmt.Errorf("load the plugins: %w", err)
	}
	workers := cfg.Workers
	if workers == 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	c.Pipeline = ingest.New(ingest.Config{
		Verify:  schnorr.Verify,
		Policy:  c.Plugins,
		Store:   writes{db},
		Facts:   facts{db},
		Held:    db,
		Log:     log,
		Now:     time.Now,
		Workers: workers,
		Queue:   cfg.Queue,
		Batch:   cfg.Batch,
	})
	return c, nil
}

// Run decides and stores until ctx ends and what was submitted has been
// answered. Every commit goes to each of out.
func (c *Core) Run(ctx context.Context, out ...ingest.Publisher) error {
	// Plugins may remember something until the last decision.
	last, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	stopped := make(chan error, 1)
	go func() { stopped <- c.Plugins.Run(last) }()
	err := c.Pipeline.Run(ctx, committed{c.Plugins, out})
	stop()
	return errors.Join(err, <-stopped)
}

// committed hands each commit on, to the sets of plugins first.
type committed struct {
	plugins *plugin.Registry
	out     []ingest.Publisher
}

func (p committed) Publish(events []host.Published) {
	p.plugins.Published(context.Background(), events)
	for _, out := range p.out {
		out.Publish(events)
	}
}

func (p committed) Follow(removed []*host.Event, held []host.HeldChange) {
	for _, out := range p.out {
		if f, ok := out.(ingest.Follower); ok {
			f.Follow(removed, held)
		}
	}
}

// Close releases what OpenCore opened. Run must have returned.
func (c *Core) Close(ctx context.Context) error {
	var err error
	if c.Plugins != nil {
		err = c.Plugins.Close(ctx)
	}
	if c.Disk != nil {
		c.Disk.Close()
	}
	return errors.Join(err, c.Store.Close())
}

// Collectors returns the metrics of all parts.
func (c *Core) Collectors() []prometheus.Collector {
	list := c.Store.Collectors()
	list = append(list, c.Plugins.Collectors()...)
	return append(list, c.Pipeline.Collectors()...)
}

// writes is the store as the pipeline sees it.
type writes struct{ *store.Store }

func (w writes) Begin() (ingest.Tx, error) { return w.Store.Begin() }

// facts is the store as those see it who only read.
type facts struct{ *store.Store }

// Query returns the events that match, newest first.
func (f facts) Query(ctx context.Context, filter host.Filter) ([][]byte, error) {
	found, err := f.Select(ctx, []host.Filter{filter}, time.Now().Unix())
	if err != nil {
		return nil, err
	}
	if filter.Header {
		return f.Headers(ctx, found.Rows)
	}
	var list [][]byte
	err = f.Fetch(ctx, found.Rows, func(_ int64, json []byte) error {
		list = append(list, append([]byte(nil), json...))
		return nil
	})
	return list, err
}

// service is what every plugin is told of this relay.
func service(cfg *config.Config) host.Service {
	s := host.Service{Domain: cfg.Service(), PRs: cfg.PRs}
	host.ParseHex(s.Operator[:], cfg.PubKey) // where none is named, it stays zeros
	return s
}
