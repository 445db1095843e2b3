package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"talon/host"
	"talon/host/config"
	"talon/host/ingest"
	"talon/host/plugin"
	"talon/host/schnorr"
	"talon/host/store"
)

// Core is the part of Talon that decides and stores: the database, the policy,
// the pipeline between them.
type Core struct {
	Store    *store.Store
	Policy   *plugin.Chain
	Pipeline *ingest.Pipeline
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
	return store.Options{
		Readers:     readers,
		Texts:       cfg.Cache / 2,
		WriterCache: cfg.Cache / 4,
		ReaderCache: cfg.Cache / 4 / int64(readers),
		Log:         log,
	}
}

// OpenCore opens the database and loads the policy. Nothing runs yet.
func OpenCore(ctx context.Context, cfg *config.Config, log *slog.Logger) (*Core, error) {
	db, err := OpenStore(ctx, cfg, log)
	if err != nil {
		return nil, err
	}
	chain, err := plugin.Open(ctx, plugin.Options{
		Dir:       cfg.Plugins,
		Chain:     cfg.Policy,
		Config:    moduleConfig(cfg, log),
		OnFailure: onFailure[cfg.OnFailure],
		Limits:    plugin.Limits{Fuel: cfg.Fuel, Memory: cfg.ModuleMemory},
		CacheDir:  filepath.Join(cfg.Data, "wasm-cache"),
		Log:       log,
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("load the policy: %w", err), db.Close())
	}
	workers := cfg.Workers
	if workers == 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	pipeline := ingest.New(ingest.Config{
		Verify:  schnorr.Verify,
		Policy:  chain,
		Store:   writes{db},
		Facts:   facts{db},
		Log:     log,
		Now:     time.Now,
		Workers: workers,
		Queue:   cfg.Queue,
		Batch:   cfg.Batch,
	})
	return &Core{Store: db, Policy: chain, Pipeline: pipeline}, nil
}

// moduleConfig returns what the modules of the chain are told. A table for another
// module may be there for another day, but it may also be a slip of the pen.
func moduleConfig(cfg *config.Config, log *slog.Logger) map[string]map[string]any {
	tables := map[string]map[string]any{}
	for name, table := range cfg.Modules {
		if !slices.Contains(cfg.Policy, name) {
			log.Warn("configuration of a module that is not in the policy chain", "module", name, "policy", cfg.Policy)
			continue
		}
		tables[name] = table
	}
	return tables
}

var onFailure = map[string]plugin.OnFailure{"closed": plugin.FailClosed, "open": plugin.FailOpen}

// Close releases what OpenCore opened. The pipeline must have stopped.
func (c *Core) Close(ctx context.Context) error {
	return errors.Join(c.Policy.Close(ctx), c.Store.Close())
}

// Collectors returns the metrics of all parts.
func (c *Core) Collectors() []prometheus.Collector {
	list := c.Store.Collectors()
	list = append(list, c.Policy.Collectors()...)
	return append(list, c.Pipeline.Collectors()...)
}

// writes is the store as the pipeline sees it.
type writes struct{ *store.Store }

func (w writes) Begin() (ingest.Tx, error) { return w.Store.Begin() }

// facts is the store as a policy sees it.
type facts struct{ store *store.Store }

func (f facts) Get(ctx context.Context, id host.ID) ([]byte, error) { return f.store.Get(ctx, id) }

func (f facts) Referenced(ctx context.Context, idOrAddress string) (bool, error) {
	return f.store.Referenced(ctx, idOrAddress)
}

func (f facts) Query(ctx context.Context, filter host.Filter) ([][]byte, error) {
	found, err := f.store.Select(ctx, []host.Filter{filter}, time.Now().Unix())
	if err != nil {
		return nil, err
	}
	var list [][]byte
	err = f.store.Fetch(ctx, found.Rows, func(_ int64, json []byte) error {
		list = append(list, append([]byte(nil), json...))
		return nil
	})
	return list, err
}
