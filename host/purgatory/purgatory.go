// Package purgatory has the rules of held events, once for all engines of the store. An
// engine implements [Rows] with statements, and decides nothing itself.
//
// Each file has one rule, and is named after it:
//
//	hold.go         which event is held, and which is refused
//	room.go         how much is held, and what gives way
//	weight.go       how much each author and each network has
//	bounds.go       the rows of purgatory in the table of bounds
//	term.go         how long an event is held, and its phases
//	restart.go      when the time of an announcement starts again
//	gone.go         which announcements are not taken from sync again
//	sweep.go        how an event changes its phase as time passes
//	release.go      how held events become stored ones
//	dependent.go    how an event waits for another held event
//	verdict.go      how an event waits until a module decides about it again
//	takedown.go     what the operator hides, removes and shows again
//	put.go          what a stored event takes out of purgatory
//	placeholder.go  how long a ref waits for its event
//	purgatory.go    the rows that the rules read and write
//
// The states of a held event:
//
//	       hold            sweep: 30 min         sweep: 24 h           sweep: 7 d
//	absent ───────→ waiting ───────────→ dormant ───────────→ gone ───────────→ absent
//	                 │   ↑                  │ │  (its id only)
//	                 │   └──────────────────┘ └→ room: it gives way
//	                 │      restart
//	                 └→ release, put: it is stored, replaced or deleted
//
// Only announcements become dormant or gone. Other events are absent after 30 minutes.
//
// A held event has a cause, and the cause has a trigger that releases it:
//
//	cause         trigger                                           lifetime
//	CauseGit      its objects are complete: [Release]               [Term]
//	CauseParent   its parent is stored: [Release], [Put]            while its parent waits
//	CauseVerdict  an event matches its wake filter: it is put, or   as the module says, up to [MaxWait]
//	              held for another cause, if the policies say so
//
// A cause is a number in the row, and what its trigger needs is in columns of the row. All of
// this happens inside one transaction of the engine: a crash leaves the state before or after.
//
// The rules of stored events are in package host/store/semantics. This package does no I/O of
// its own, and every rule is a function of its arguments, the time included.
package purgatory

import (
	"talon/host"
	"talon/host/store/semantics"
	"talon/host/wire"
)

// Rows are the stored and held events in the open transaction of an engine.
type Rows interface {
	semantics.Rows

	// MayHold is false if no event of this kind is held.
	MayHold(k host.Kind) bool

	// HeldTotal returns how many events are held, and the bytes of their JSON.
	HeldTotal() (events, bytes int64)

	// Held returns the row of an event, nil if it is not held.
	Held(id host.ID) (*Row, error)

	// HeldByID returns the rows of the events among these ids.
	HeldByID(ids []host.ID) ([]*Row, error)

	// HeldAt returns the rows at these addresses that are not newer than until.
	HeldAt(addresses []host.Address, until int64) ([]*Row, error)

	// HeldDue returns rows that are dormant, or are not, and due by now: the first limit.
	HeldDue(dormant bool, now int64, limit int) ([]*Row, error)

	// KeyOf returns the key under which rows depend on an event: of its address, or its id.
	KeyOf(e *host.Event) []byte

	// HeldParent returns the first row that has this key and depends on nothing, nil for none.
	HeldParent(key []byte) (*Row, error)

	// Dependents returns the rows that depend on this key, in the order in which they came.
	Dependents(key []byte) ([]*Row, error)

	// CountDependents returns how many rows depend on this key, and how many of them came from
	// a network.
	CountDependents(key, network []byte) (all, ofNetwork int64, err error)

	// Weight returns how many rows a class has under a key, and the bytes of their JSON.
	Weight(c Class, key []byte) (w Weight, err error)

	// Heaviest returns the key of a class that has most events, or most bytes, and what it
	// has. Of several it is the highest key. It is nil for an empty class.
	Heaviest(c Class, byBytes bool) (key []byte, w Weight, err error)

	// NewestOf returns the row that came last under a key of a class, nil for none. It leaves
	// one row out.
	NewestOf(c Class, key []byte, except int64) (*Row, error)

	// FirstDependent returns the row of a stranger that depends on any key and is due first,
	// nil for none. It leaves one row out.
	FirstDependent(except int64) (*Row, error)

	// FirstDormant returns the dormant row that is due first, nil for none. It looks at
	// rows of the author, or of all strangers for nil, and leaves one row out.
	FirstDormant(author *host.PubKey, except int64) (*Row, error)

	// InsertHeld adds the row of an event with its index rows.
	InsertHeld(e *host.Event, k *semantics.Known, r *Row) error

	// UpdateHeld writes Since, Due, Dormant and Wake of a row.
	UpdateHeld(r *Row) error

	// RemoveHeld removes rows with their index rows.
	RemoveHeld(rows []*Row) error

	// Gone returns until when an announcement is not taken from sync, and false if it may be.
	Gone(id host.ID) (until int64, ok bool, err error)

	// AddGone, RemoveGone and RemoveGoneBefore write what Gone reads. The last one removes at
	// most limit ids whose time is over by now.
	AddGone(id host.ID, until int64) error
	RemoveGone(id host.ID) error
	RemoveGoneBefore(now int64, limit int) error

	// Traces returns what the database has of an event that is not held.
	Traces(id host.ID) (Traces, error)
}

// Cause says why an event is held. Its numbers are in databases.
type Cause uint8

const (
	CauseGit    Cause = iota // its git data, or that of its repository, is not here
	CauseParent              // another held event is all that justifies it

	// CauseVerdict: a module waits for an event that matches a filter.
	CauseVerdict
)

// Row is a held event.
type Row struct {
	Number    int64 // of the engine; rows that came later have higher ones
	ID        host.ID
	PubKey    host.PubKey
	Kind      host.Kind
	CreatedAt int64
	JSON      []byte

	Since   int64 // unix seconds: it came, or its time was restarted
	Due     int64 // for the next sweep
	Dormant bool
	Reason  string // as its sender read it

	Cause  Cause
	Parent []byte // the key of what it depends on, for CauseParent

	Wake []byte // the canonical JSON of the filter for which it waits, for CauseVerdict

	Network []byte // the key of where it came from, nil for none: see NetworkOf
	Known   bool   // it is in the part for known people
	Synced  bool   // another relay sent it, not its author's client

	Audience *host.Audience // as in the event

	event  *host.Event
	parsed bool
}

// Event returns the event, nil if its text cannot be read any more.
func (r *Row) Event() *host.Event {
	if !r.parsed {
		r.parsed = true
		if e, err := wire.ParseEvent(r.JSON); err == nil {
			if r.event = e; r.Audience != nil {
				r.event = e.For(r.Audience)
			}
		}
	}
	return r.event
}

// Traces say why an event may not be held.
type Traces struct {
	Stored  bool
	Gone    bool // an announcement that waited for its git data in vain
	Deleted bool // somebody asked for the deletion of its id
}

// remove removes rows and notes what became of their events. A damaged row goes without a note:
// it must not stop every batch that meets it.
func remove(rows Rows, list []*Row, status host.HeldStatus, changes *[]host.HeldChange) error {
	if len(list) == 0 {
		return nil
	}
	if err := rows.RemoveHeld(list); err != nil {
		return err
	}
	for _, r := range list {
		if e := r.Event(); e != nil {
			*changes = append(*changes, host.HeldChange{Event: e, Status: status})
		}
	}
	if status != host.StatusExpired && status != host.StatusDeleted {
		return nil // see releaseDependents
	}
	for _, r := range list {
		if err := removeDependents(rows, r, changes); err != nil {
			return err
		}
	}
	return nil
}
