package host

import (
	"context"
	"errors"
	"time"
)

// ErrAway says that the database cannot be reached for now: the same may be tried again.
var ErrAway = errors.New("the database cannot be reached")

// Facts is what a policy may read of the relay while it decides. Each
// implementation records what was read, so that a decision can be taken again
// if a fact has changed by the time of the commit.
type Facts interface {
	// Get returns the JSON of the stored event with this id, nil if there is none.
	Get(ctx context.Context, id ID) ([]byte, error)

	// Query returns the JSON of stored events that match, newest first.
	Query(ctx context.Context, f Filter) ([][]byte, error)

	// Referenced reports whether a stored event names the id or address in one
	// of its e, E, q, a or A tags.
	Referenced(ctx context.Context, idOrAddress string) (bool, error)
}

// HeldFacts is what may be read of purgatory, recorded in the same way. It includes
// announcements whose repository was removed, as long as they can be revived.
type HeldFacts interface {
	// Held returns the JSON of the held event with this id, nil if there is none.
	Held(ctx context.Context, id ID) ([]byte, error)

	// HeldBy returns the JSON of held events that match, newest first, ties by lowest
	// id. A negative limit is none.
	HeldBy(ctx context.Context, f Filter) ([][]byte, error)
}

// RepoFacts is what is known of repositories: what is stored, and what waits.
type RepoFacts interface {
	Facts
	HeldFacts
}

// ReferenceTags are the tags by which one event names another, or an address
// (NIP-01, NIP-10, NIP-18, NIP-22).
const ReferenceTags = "aAeEq"

// Waiter is an optional interface of the facts of a decision: there are few workers.
type Waiter interface {
	// Asking names the module that is called from now on: each module has its own
	// limit of waits.
	Asking(module string)

	// Wait runs f, which may block for a disk or a process. Meanwhile another worker
	// decides.
	Wait(f func())
}

// Parked is an optional interface of a [Waiter].
type Parked interface {
	// Parked returns how long the decision has waited for a worker after its waits in
	// Wait had ended. That time counts against no budget.
	Parked() time.Duration
}

// Recorder is an optional interface of facts that record what is read.
type Recorder interface {
	// WithoutRecording returns the same facts without recording what is read, for reads
	// on which the decision does not depend.
	WithoutRecording() Facts
}

// StateEntry is one thing that a module remembers. Key and value are bytes of
// the module's own.
type StateEntry struct {
	Module  string
	Space   byte // what kind of memory it belongs to
	Key     string
	Value   []byte // nil: it is forgotten
	Expires int64  // unix seconds; 0 is never

	// Merged says that the value depends on what is stored, where others store it as well.
	Merged bool
}
