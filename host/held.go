package host

import "context"

// ReasonHeld answers an event that is held, where its policy gives no other reason
// (GRASP-01).
const ReasonHeld = "purgatory: won't be served until git data arrives"

// Holding is how an event goes into purgatory.
type Holding struct {
	Reason  string    // the sender hears it, also when the event comes again
	Synced  bool      // another relay sent it, not its author's client
	Restart []Address // held announcements whose time it starts again
}

// Fate is what became of an event in purgatory.
type Fate uint8

const (
	FateHeld     Fate = iota // it came, and waits for its git data
	FateRevived              // it was dormant, and waits again: its repository is to be made again
	FateDormant              // it stays, an announcement, but its repository is to go
	FateExpired              // its time is up, or it had to give way: its repository is to go too
	FateDeleted              // its author deleted it (NIP-09)
	FateReplaced             // a newer version has come
	FateReleased             // it is stored now
	FateStored               // it was stored before; only in Released
	FateAbsent               // it is not here, and why is not known; only in Released
)

// Fates is the number of fates: every Fate is below it.
const Fates = int(FateAbsent) + 1

func (f Fate) String() string {
	return [Fates]string{
		"held", "revived", "dormant", "expired", "deleted", "replaced", "released", "stored", "absent",
	}[f]
}

// HeldChange is one change that a commit made in purgatory.
type HeldChange struct {
	Event  *Event
	Fate   Fate
	Synced bool // another relay sent it; only with FateHeld
}

// HeldEvent is an event in purgatory.
type HeldEvent struct {
	JSON    []byte
	Since   int64 // unix seconds: it came then, or its time was started again
	Dormant bool  // an announcement whose repository has gone
}

// Release says what is to be done because git data is complete.
type Release struct {
	IDs     []ID      // held events to store
	Restart []Address // held announcements whose time starts again, for a push to them was authorised
}

// Released is what became of one event of a [Release].
type Released struct {
	ID    ID
	Fate  Fate   // FateReleased, or why not
	Event *Event // nil unless it was held
	Seq   int64  // as in Outcome; 0 unless FateReleased
}

// ReleaseOutcome is what a release did. It is final only when its transaction has
// been committed.
type ReleaseOutcome struct {
	Events  []Released // each id once, in the order in which they were stored: oldest first
	Removed []*Event   // stored events that the released ones replaced or deleted
	Held    []HeldChange
}

// Arrival says that git data has come. It goes through the same pipeline as events.
type Arrival struct {
	// Plan says what to release. It is asked by a worker, and again if a fact that it
	// read has changed by its turn; so it sees every event that was answered as held
	// before.
	Plan func(ctx context.Context, facts RepoFacts, now int64) (Release, error)

	// Done is called once, after the commit, from the pipeline's own goroutine: it
	// must not block. After an error nothing was released.
	Done func([]Released, error)
}

// ReleaseOf returns the plan of an arrival whose events are known.
func ReleaseOf(ids ...ID) func(context.Context, RepoFacts, int64) (Release, error) {
	return func(context.Context, RepoFacts, int64) (Release, error) { return Release{IDs: ids}, nil }
}
