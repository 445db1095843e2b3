package daemon

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"talon/host"
	"talon/host/audience"
	"talon/host/cluster"
	"talon/host/config"
	"talon/host/ingest"
	"talon/host/moderation"
	"talon/host/orphans"
	"talon/host/plugin/state"
	"talon/host/relay"
	"talon/host/relaysync"
	"talon/host/repos"
	"talon/host/store"
	"talon/host/store/postgres"
	"talon/host/store/semantics"
	"talon/host/users"
	"talon/host/wire"
)

// Store is a database as the parts of Talon need it, each by its own interface. All
// engines give the same answers: see package host/store/storetest.
type Store interface {
	// run has the pipeline work on the store, until ctx ends.
	run(ctx context.Context, p *ingest.Pipeline, to committed) error

	ingest.Store
	relay.Store
	relaysync.Local
	state.Disk
	host.HeldFacts
	repos.HeldStore
	repos.Placeholders
	repos.Usages

	Get(ctx context.Context, id host.ID) ([]byte, error)
	Referenced(ctx context.Context, idOrAddress string) (bool, error)
	Headers(ctx context.Context, rows []int64) ([][]byte, error) // [host.Event.Header] of each that is still there

	// Relay, Relays and SaveRelays keep what is known of other servers, of each sort of
	// knowledge by URL; a nil value is forgotten.
	Relay(ctx context.Context, about, url string) ([]byte, error)
	Relays(ctx context.Context, about string) (map[string][]byte, error)
	SaveRelays(ctx context.Context, about string, relays map[string][]byte) error

	// HiddenBy returns hidden events, by the filters of semantics.HiddenKeys; HiddenAfter returns
	// them in the order of their numbers.
	HiddenBy(ctx context.Context, f host.Filter) ([][]byte, error)
	HiddenAfter(ctx context.Context, number int64, limit int) ([]semantics.Hidden, error)

	// HiddenOf returns hidden events of an author or of a kind, in the order of their numbers.
	HiddenOf(ctx context.Context, author *host.PubKey, kind host.Kind, number int64, limit int) ([]semantics.Hidden, error)

	// VanishedAfter returns requests to vanish, in the order of their numbers.
	VanishedAfter(ctx context.Context, number int64, limit int) ([]host.VanishRequest, error)

	// NotTakenDown returns those of ids that are neither hidden nor removed by the operator.
	NotTakenDown(ctx context.Context, ids []host.ID) ([]host.ID, error)

	// Refused yields the ids that sync does not fetch again.
	Refused(ctx context.Context, yield func(semantics.RefusedID)) error

	// Moderation returns the rows of the moderation log after a number.
	Moderation(ctx context.Context, after int64) ([]moderation.Row, error)

	// LargestUsage returns the authors, repositories or kinds with the highest number of bytes.
	LargestUsage(ctx context.Context, class host.UsageClass, limit int) ([]host.UsageRow, error)

	// Export yields every stored event, oldest first; yield may wait.
	Export(ctx context.Context, yield func(json []byte) error) error

	// Withheld yields each stored event that is not for everybody, in no order; yield may wait.
	Withheld(ctx context.Context, yield func(id host.ID, a *host.Audience) error) error
	HiddenAudiences(ctx context.Context, yield func(id host.ID, a *host.Audience)) error
	host.AudienceFacts

	// Check compares everything that is stored with everything else, and reports each
	// problem. It returns how many stored events it looked at.
	Check(ctx context.Context, verify func(*host.Event) error, report func(problem string)) (checked int64, err error)

	Collectors() []prometheus.Collector
	Close() error
}

// Knowledge about other servers, by the name under which the store keeps it.
const (
	knownHealth   = "health"
	knownSync     = "sync"
	knownHoldings = "holdings"
	knownRefused  = "refused"
	knownGit      = "git"
)

// Knowledge about people and about deleted announcements is kept in the same way, under
// [users.About] and [orphans.About].

// Knowledge lists all sorts of it, for talon copy.
var Knowledge = []string{knownHealth, knownSync, knownHoldings, knownRefused, knownGit, users.About, orphans.About, audience.About}

// OpenStore opens the database for writing.
func OpenStore(ctx context.Context, cfg *config.Config, log *slog.Logger) (Store, error) {
	return openStore(ctx, cfg, log, "", store.Open, postgres.Open)
}

// OpenStoreReadOnly opens the database for reading, also while a server runs on
// it.
func OpenStoreReadOnly(ctx context.Context, cfg *config.Config, log *slog.Logger) (Store, error) {
	return openStore(ctx, cfg, log, "", store.OpenReadOnly, postgres.OpenReadOnly)
}

// openNodeStore opens the database for writing, with the name of this node on each connection. The
// name has port 0 if the system chooses the port.
func openNodeStore(ctx context.Context, cfg *config.Config, log *slog.Logger) (Store, error) {
	if url, err := cfg.Postgres(); err != nil || url == "" {
		return OpenStore(ctx, cfg, log)
	}
	name, err := nodeName(cfg, cfg.Listen)
	if err != nil {
		return nil, err
	}
	return openStore(ctx, cfg, log, cluster.Application(name), store.Open, postgres.Open)
}

func openStore(
	ctx context.Context, cfg *config.Config, log *slog.Logger, application string,
	file func(context.Context, string, store.Options) (*store.Store, error),
	server func(context.Context, string, postgres.Options) (*postgres.Store, error),
) (Store, error) {
	url, err := cfg.Postgres()
	if err != nil {
		return nil, err
	}
	if url == "" {
		db, err := file(ctx, cfg.Data, sqliteOptions(cfg, log))
		if err != nil {
			return nil, err
		}
		return sqlite{db}, nil
	}
	if err := os.MkdirAll(cfg.Data, 0o700); err != nil {
		return nil, fmt.Errorf("make the data folder: %w", err)
	}
	db, err := server(ctx, url, postgres.Options{Wait: cfg.Standby, Readers: readers(cfg), CacheBytes: cacheOf(cfg) / 2, Log: log, Application: application})
	if err != nil {
		return nil, err
	}
	return pg{db}, nil
}

// sqlite is SQLite's engine as a [Store].
type sqlite struct{ *store.Store }

func (s sqlite) Begin() (ingest.Tx, error) { return begun(s.Store.Begin()) }

func (s sqlite) run(ctx context.Context, p *ingest.Pipeline, to committed) error {
	return p.Run(ctx, to)
}

// pg is PostgreSQL's.
type pg struct{ *postgres.Store }

func (s pg) Begin() (ingest.Tx, error) { return begun(s.Store.Begin()) }

// run has the pipeline take turns with those of other processes on the same database.
func (s pg) run(ctx context.Context, p *ingest.Pipeline, to committed) error {
	return p.RunShared(ctx, s, to, to.remote)
}

func (s pg) BeginShared(yield func(host.Commit), upcoming func(int) []*host.Event) (ingest.SharedTx, error) {
	tx, err := s.Store.BeginAfter(yield, upcoming)
	if err != nil {
		return nil, err
	}
	return tx, nil
}

// begun is a transaction of an engine, nil after an error: an interface that has a nil
// pointer is not nil, and who sees one rolls it back.
func begun[T ingest.Tx](tx T, err error) (ingest.Tx, error) {
	if err != nil {
		return nil, err
	}
	return tx, nil
}

// sqliteOptions gives half of the cache to the texts of events, which most answers
// are made of, a quarter to the writer, which touches pages all over the indexes, and
// the rest to the readers.
func sqliteOptions(cfg *config.Config, log *slog.Logger) store.Options {
	readers, cache := readers(cfg), cacheOf(cfg)
	return store.Options{
		Readers:     readers,
		EventCache:  cache / 2,
		WriterCache: cache / 4,
		ReaderCache: cache / 4 / int64(readers),
		Log:         log,
	}
}

func readers(cfg *config.Config) int {
	if cfg.Readers == 0 {
		return 2 * runtime.GOMAXPROCS(0)
	}
	return cfg.Readers
}

// facts is the store as the host and its modules see it, who only read: with the events that are not
// for everybody.
type facts struct{ Store }

// Query returns the events that match, newest first.
func (f facts) Query(ctx context.Context, filter host.Filter) ([][]byte, error) {
	filter.Reader = host.Everything
	return query(ctx, f.Store, filter)
}

// pageFacts is the store as the reader of the context sees it.
type pageFacts struct{ Store }

// Get returns the JSON of the stored event with this id, nil if there is none for the reader.
func (f pageFacts) Get(ctx context.Context, id host.ID) ([]byte, error) {
	found, err := f.Query(ctx, host.Filter{IDs: []host.ID{id}, Limit: 1})
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return found[0], nil
}

// Query returns the events for the reader that match, newest first.
func (f pageFacts) Query(ctx context.Context, filter host.Filter) ([][]byte, error) {
	filter.Reader = readerOf(ctx)
	return query(ctx, f.Store, filter)
}

// Held returns the JSON of the held event with this id, nil if there is none for the reader.
func (f pageFacts) Held(ctx context.Context, id host.ID) ([]byte, error) {
	h, ok, err := f.HeldEvent(ctx, id)
	if err != nil || !ok || !readerOf(ctx).Receives(h.Audience) {
		return nil, err
	}
	return h.JSON, nil
}

// HeldBy returns the held events for the reader that match, newest first.
func (f pageFacts) HeldBy(ctx context.Context, filter host.Filter) ([][]byte, error) {
	found, err := f.Store.HeldBy(ctx, filter)
	if err != nil {
		return nil, err
	}
	var list [][]byte
	for _, text := range found {
		e, err := wire.ParseEvent(text)
		if err != nil {
			return nil, err
		}
		received, err := f.Held(ctx, e.ID)
		if err != nil {
			return nil, err
		}
		if received != nil {
			list = append(list, text)
		}
	}
	return list, nil
}

// Referenced reports whether an event for the reader names the id or address.
func (f pageFacts) Referenced(ctx context.Context, idOrAddress string) (bool, error) {
	return host.FindReference(ctx, f.Query, idOrAddress)
}

func query(ctx context.Context, f Store, filter host.Filter) ([][]byte, error) {
	found, err := f.Select(ctx, []host.Filter{filter}, time.Now().Unix())
	if err != nil {
		return nil, err
	}
	if filter.Header {
		return f.Headers(ctx, found.Rows)
	}
	var list [][]byte
	err = f.Fetch(ctx, found.Rows, func(_ int64, json []byte) error {
		list = append(list, bytes.Clone(json)) // some callers keep it for long
		return nil
	})
	return list, err
}
