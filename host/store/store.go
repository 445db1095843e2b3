package store

import (
	"log/slog"
	"math"
	"os"
	"sync"
	"sync/atomic"

	"talon/host"
	"talon/host/contain"
	"talon/host/store/semantics"
	"talon/host/store/textcache"
)

// Store is an open database. Its methods may be called by many goroutines.
type Store struct {
	path    string
	log     *slog.Logger
	keys    keyring
	metrics *measures
	lock    *os.File // nil if read-only

	panics *contain.Guard // around what changes the database, and what is remembered of it

	writing sync.Mutex // held by the open Tx; guards writer
	writer  *writer    // nil if read-only

	queue      *readQueue
	dialReader func() (*conn, error) // opens a reading connection beyond the first
	tune       *tuning
	densities  [256][2]density // by the name of a tag or nameAuthor
	checkpoint *checkpointer   // nil if read-only
	closed     chan struct{}

	recent       atomic.Pointer[[]*memtable] // the last takes what is put; nil if read-only
	following    sync.Mutex                  // guards what follows, which is for a store that is read-only
	followed     []*memtable
	followedAt   Total
	followedFrom int64

	eventCache   *textcache.Cache
	total        atomic.Pointer[Total] // as of the last commit; never nil
	usage        pendingUsage
	expiry       atomic.Int64 // earliest in table expiry, noExpiry if it is empty
	removedTotal atomic.Int64 // events removed since Open

	heldLimits HeldLimits
	heldDue    atomic.Int64 // when something in purgatory is due, noExpiry if never

	placeholders atomic.Int64 // rows in table placeholder, those being added too
	snapshots    atomic.Int64 // those that are open
}

// Total has the totals of the database.
type Total = semantics.Total

const noExpiry = math.MaxInt64

// writer is what changes the database. The holder of Store.writing owns it.
type writer struct {
	conn    *conn
	seq     int64     // the last given; goes on growing when a transaction is rolled back
	rows    []posting // reused by each event that is removed
	packed  []byte    // reused by each event that is put
	pending []posting // of the open transaction, not written yet
	tune    *tuning

	known   semantics.Known   // what Put and Hold reuse for each event
	version semantics.Version // that it refers to

	usage usageOfTx // what the open transaction changes of the usage

	merge     mergePoint // as in the open transaction
	mergeDebt int        // what is to be merged of it
	stale     bool       // what is kept in memory does not agree with the database: see [Store.reload]

	checkpointLimit int64 // length of the log from which on the writer waits for readers

	// heldKinds has every kind that is in purgatory, and may have more: an event of
	// another kind has nothing to look for there.
	heldKinds map[host.Kind]struct{}
}
