// Package semantics has the rules of stored events that all engines share. An engine
// implements [Rows] with statements, and decides nothing itself.
//
//	semantics.go  reasons, errors, totals and bounds
//	put.go        what is stored and what is refused: duplicates, expiry, versions, tombstones
//	deletion.go   what a deletion event (NIP-09) removes and forbids
//	vanish.go     requests to vanish (NIP-62), and what they forbid
//	hidden.go     events that the operator has taken out of sight
//	tags.go       the values under which an event is found
//	usage.go      how much authors, repositories and kinds take
//
// The rules of held events are in package host/purgatory.
package semantics

import "errors"

// Reasons why an event is not stored or held, as clients see them.
const (
	ReasonHave    = "duplicate: already have this event"
	ReasonNewer   = "replaced: have newer event"
	ReasonDeleted = "blocked: deleted by its author"
	ReasonExpired = "invalid: event has expired"

	ReasonVanished = "blocked: its author has asked to vanish (NIP-62)"
	ReasonUnwanted = "blocked: deleted by its recipient"

	ReasonRecipientVanished = "blocked: its recipient has asked to vanish (NIP-62)"

	ReasonGone    = "blocked: this announcement waited for its git data in vain: its author may send it again"
	ReasonFull    = "rate-limited: too many events wait for their git data here: try again later"
	ReasonNetwork = "rate-limited: too many events from your network wait for their git data here: try again later"

	ReasonNoParent   = "blocked: the event that this one depends on is not held here any more: send it again"
	ReasonParentFull = "rate-limited: too many events wait together with the one that this event depends on: try again when that is served"

	ReasonFullAwaiting    = "rate-limited: too many events wait here until others come: try again later"
	ReasonNetworkAwaiting = "rate-limited: too many events from your network wait here until others come: try again later"
	ReasonMayNotAwait     = "blocked: a policy of this relay would have an announcement or a state wait until another event comes, which is not possible"

	// ReasonOwnAwaiting has a format verb for the number of such events of the author.
	ReasonOwnAwaiting = "restricted: %d events of yours wait here until others come: delete those that you do not need"

	// ReasonOwnFull has a format verb for the number of held events of the author.
	ReasonOwnFull = "restricted: %d events of yours wait for their git data: push it, or delete those that you do not need"
)

var (
	// ErrEphemeral says that a store was given an event that is not to be kept.
	ErrEphemeral = errors.New("ephemeral events are not stored")

	// ErrReadOnly says that the store was opened for reading.
	ErrReadOnly = errors.New("store is read-only")

	// ErrClosed says that the store has been closed.
	ErrClosed = errors.New("store is closed")

	// ErrInUse says that another process serves or changes the same database.
	ErrInUse = errors.New("database is in use")

	// ErrNewer says that a newer Talon wrote the database.
	ErrNewer = errors.New("database is from a newer version of Talon")

	// ErrTooManyPlaceholders says that there is no room for another placeholder.
	ErrTooManyPlaceholders = errors.New("too many refs wait for their events")
)

// MaxPlaceholderRepo bounds the key of a repository, in bytes.
const MaxPlaceholderRepo = 8 << 10

// Total has the totals of a database.
type Total struct {
	Seq    int64 // the highest ever given
	Events int64
	Bytes  int64 // of their JSON

	Withheld int64 // events that are not for everybody

	Held      int64 // events in purgatory
	HeldBytes int64 // of their JSON

	Vanished int64 // authors who asked to vanish

	Hidden      int64 // events that the operator has taken out of sight
	HiddenBytes int64 // of their JSON
}

// HeldLimits bound purgatory, which anybody may fill whose events a policy holds.
type HeldLimits struct {
	Events   int64 // in all; default 20,000
	ByAuthor int64 // by one author; default 200
	Bytes    int64 // of their JSON, in all; default 64 MiB

	Dependents int64 // events that wait for other held events, in all; default 5,000
	ByParent   int64 // events that wait for the same one; default 100

	Verdicts         int64 // events that a policy holds until another event comes, in all; default 5,000
	VerdictsByAuthor int64 // of one author; default 20
	VerdictBytes     int64 // of their JSON, in all; default 16 MiB

	Placeholders int64 // refs that were pushed before their events; default 100,000
}

// SetDefaults fills in the limits that are not given.
func (l *HeldLimits) SetDefaults() {
	for _, v := range []struct {
		limit *int64
		value int64
	}{{&l.Events, 20_000}, {&l.ByAuthor, 200}, {&l.Bytes, 64 << 20}, {&l.Dependents, 5_000}, {&l.ByParent, 100}, {&l.Verdicts, 5_000}, {&l.VerdictsByAuthor, 20}, {&l.VerdictBytes, 16 << 20}, {&l.Placeholders, 100_000}} {
		if *v.limit == 0 {
			*v.limit = v.value
		}
	}
}
