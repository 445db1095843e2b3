package host

import "context"

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

// ReferenceTags are the tags by which one event names another, or an address
// (NIP-01, NIP-10, NIP-18, NIP-22).
const ReferenceTags = "aAeEq"
