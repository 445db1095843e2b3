package semantics

import (
	"bytes"

	"talon/host"
)

// Rows are the stored events in the open transaction of an engine.
type Rows interface {
	HiddenRows
	VanishRows

	// Known returns what the database has that decides about an event. The result holds
	// until the next call. Unless all is set, it may leave Stored and Deleted open.
	Known(e *host.Event, all bool) (*Known, error)

	// Insert stores an event with its index rows, and returns its number. If Known left that
	// open, it returns 0 for an event that is stored, or whose id its author deleted; the
	// latter only if tombstones count.
	Insert(e *host.Event, k *Known, tombstones bool) (seq int64, err error)

	// RemoveVersion removes what Known found at an event's address, and returns it. It
	// returns nil for an event that cannot be read any more.
	RemoveVersion(v *Version) (*host.Event, error)

	// StoredEvent returns the stored event of a number, nil if it cannot be read any more.
	StoredEvent(seq int64) (*host.Event, error)

	// DeletedBy reports whether one of these keys has deleted the id.
	DeletedBy(id host.ID, keys []host.PubKey) (bool, error)

	// StoredByID and StoredAt return the stored events among those ids and addresses.
	StoredByID(ids []host.ID) ([]Stored, error)
	StoredAt(addresses []host.Address) ([]Stored, error)

	// Remove removes stored events and returns those that can be read.
	Remove(events []Stored) ([]*host.Event, error)

	// AddTombstones notes that the author deleted these ids.
	AddTombstones(ids []host.ID, author host.PubKey) error

	// AddAddressTombstones notes that the author deleted these addresses up to a time. One
	// that is deleted up to a later time stays so.
	AddAddressTombstones(addresses []host.Address, until int64) error
}

// Known is what the database has that decides about an event.
type Known struct {
	Stored  bool     // the event is stored
	Deleted bool     // its author has deleted its id
	Open    bool     // neither is looked up yet: one statement less for events without an address
	Version *Version // what is stored at its address, nil for nothing

	AddressDeleted bool  // its author has deleted its address
	Until          int64 // up to this time

	// Vanished is whether its author has asked to vanish, up to the time VanishedUntil.
	Vanished      bool
	VanishedUntil int64

	// MayBeHidden is false if neither the event nor anything at its address is hidden.
	MayBeHidden bool

	// MayBeHeld is false if purgatory has neither the event nor anything at its address.
	MayBeHeld bool

	IDKey, AddressKey []byte // of the engine
}

// Version is a stored event, by what decides which of two versions wins.
type Version struct {
	Seq       int64
	CreatedAt int64
	ID        host.ID
	JSON      []byte // where the engine has read it along
}

// Stored is a stored event, by what decides whether a deletion removes it.
type Stored struct {
	Seq       int64
	ID        host.ID
	PubKey    host.PubKey
	Kind      host.Kind
	CreatedAt int64
}

// Put stores an event, or returns why it does not. It replaces an older version, and it
// carries out a deletion. It also returns what was known of the event before, nil if its
// own text decided.
func Put(rows Rows, e *host.Event, now int64) (out host.Outcome, k *Known, err error) {
	if Expired(e, now) {
		return host.Outcome{Code: host.Rejected, Reason: ReasonExpired}, nil, nil
	}
	if k, err = rows.Known(e, false); err != nil {
		return out, nil, err
	}
	if out.Code, out.Reason, err = EarlyRefusal(rows, k, e); err != nil || out.Reason != "" {
		return out, k, err
	}
	if out.Code, out.Reason = k.Refusal(e); out.Reason != "" {
		return out, k, nil
	}
	if k.Version != nil {
		old, err := rows.RemoveVersion(k.Version)
		if err != nil {
			return out, nil, err
		}
		if old != nil {
			out.Removed = []*host.Event{old}
		}
	}
	if out.Seq, err = rows.Insert(e, k, tombstonesCount(e)); err != nil {
		return out, nil, err
	}
	if out.Seq == 0 {
		if k, err = rows.Known(e, true); err != nil {
			return out, nil, err
		}
		out.Code, out.Reason = k.Refusal(e)
		return out, k, nil
	}
	if k.MayBeHidden {
		if err := supersedeHidden(rows, e); err != nil {
			return out, nil, err
		}
	}
	if e.Kind == host.KindDeletion {
		if out.Removed, err = remove(rows, e); err == nil {
			err = removeHidden(rows, e)
		}
	}
	return out, k, err
}

// EarlyRefusal returns why an event is neither stored nor held because of what somebody else than its
// author decided, or because its author has vanished. It returns no reason if the event may be.
func EarlyRefusal(rows Rows, k *Known, e *host.Event) (code host.Code, reason string, err error) {
	if code, reason, err = vanishRefusal(rows, k, e); err != nil || reason != "" {
		return code, reason, err
	}
	if deleted, err := wrapDeleted(rows, e); err != nil || deleted {
		return host.Rejected, ReasonUnwanted, err
	}
	return hiddenRefusal(rows, k, e)
}

// Refusal returns why an event is neither stored nor held, and no reason if it may be.
func (k *Known) Refusal(e *host.Event) (host.Code, string) {
	switch {
	case k.Stored:
		return host.Duplicate, ReasonHave
	case k.Version != nil && Wins(k.Version.CreatedAt, k.Version.ID, e.CreatedAt, e.ID):
		return host.Replaced, ReasonNewer
	case k.AddressDeleted && e.CreatedAt <= k.Until, k.Deleted && tombstonesCount(e):
		return host.Rejected, ReasonDeleted
	}
	return host.Stored, ""
}

// tombstonesCount reports whether a deletion of its id keeps an event out: deletions cannot be
// deleted (NIP-09).
func tombstonesCount(e *host.Event) bool { return e.Kind != host.KindDeletion }

// Wins reports whether one version at an address wins over another: the newer one, and of one
// second the one with the lowest id (NIP-01).
func Wins(createdAt int64, id host.ID, otherAt int64, other host.ID) bool {
	return createdAt > otherAt || createdAt == otherAt && bytes.Compare(id[:], other[:]) < 0
}

// Expired reports whether an event has expired by now (NIP-40).
func Expired(e *host.Event, now int64) bool {
	at, ok := e.Expiration()
	return ok && at <= now
}
