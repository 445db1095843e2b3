package host

import (
	"context"
	"time"
)

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

// HeldFacts is what may be read of purgatory, recorded in the same way. Announcements
// whose repository has gone are among it as long as they can be revived.
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

// Waiter is what the facts of a decision may be as well: those who decide are few.
type Waiter interface {
	// Wait runs f, which may block for a disk or a process. Meanwhile the caller does
	// not count among those who decide.
	Wait(f func())
}

// Parked is what a [Waiter] may be as well.
type Parked interface {
	// Parked returns how long the decision has waited for its turn among those who
	// decide, after what it waited for had come. That time is nobody's budget.
	Parked() time.Duration
}
