package semantics

import (
	"slices"

	"talon/host"
)

// Targets returns the ids and addresses that a deletion event names, each once (NIP-09).
// Addresses of other authors do not count.
func Targets(deletion *host.Event) (ids []host.ID, addresses []host.Address) {
	sawID, sawAddress := map[host.ID]bool{}, map[host.Address]bool{}
	for _, tag := range deletion.Tags {
		if len(tag) < 2 {
			continue
		}
		switch tag[0] {
		case "e":
			var id host.ID
			if host.ParseHex(id[:], tag[1]) && !sawID[id] {
				sawID[id] = true
				ids = append(ids, id)
			}
		case "a":
			if a, ok := host.ParseAddress(tag[1]); ok && a.PubKey == deletion.PubKey && !sawAddress[a] {
				sawAddress[a] = true
				addresses = append(addresses, a)
			}
		}
	}
	return ids, addresses
}

// Deletes reports whether a deletion by id of somebody removes an event: their own, or a gift wrap
// that is addressed to them (NIP-59). It removes no deletion. event reads the event; a gift wrap of
// somebody else that cannot be read stays.
func Deletes(by, of host.PubKey, kind host.Kind, event func() (*host.Event, error)) (bool, error) {
	if by == of {
		return kind != host.KindDeletion, nil
	}
	if kind != host.KindGiftWrap {
		return false, nil
	}
	e, err := event()
	return err == nil && e != nil && slices.Contains(e.Recipients(), by), err
}

// wrapDeleted reports whether a recipient has deleted the id of a gift wrap.
func wrapDeleted(rows Rows, e *host.Event) (bool, error) {
	if e.Kind != host.KindGiftWrap {
		return false, nil
	}
	return rows.DeletedBy(e.ID, e.Recipients())
}

// remove carries out a deletion event and returns the stored events that it removed.
func remove(rows Rows, deletion *host.Event) (removed []*host.Event, err error) {
	ids, addresses := Targets(deletion)
	if len(ids) > 0 {
		if removed, err = removeByID(rows, ids, deletion.PubKey); err != nil {
			return nil, err
		}
	}
	if len(addresses) > 0 {
		at, err := removeAt(rows, addresses, deletion.CreatedAt)
		if err != nil {
			return nil, err
		}
		removed = append(removed, at...)
	}
	return removed, nil
}

// removeByID removes the events that the author may delete. It keeps in mind that the author deleted these
// ids, also of events that are not here yet, but not of those that are here and stay.
func removeByID(rows Rows, ids []host.ID, author host.PubKey) ([]*host.Event, error) {
	stored, err := rows.StoredByID(ids)
	if err != nil {
		return nil, err
	}
	stays := map[host.ID]bool{}
	var gone []Stored
	for _, e := range stored {
		deletes, err := Deletes(author, e.PubKey, e.Kind, func() (*host.Event, error) { return rows.StoredEvent(e.Seq) })
		if err != nil {
			return nil, err
		}
		if deletes {
			gone = append(gone, e)
		} else {
			stays[e.ID] = true
		}
	}
	var deleted []host.ID
	for _, id := range ids {
		if !stays[id] {
			deleted = append(deleted, id)
		}
	}
	if len(deleted) > 0 {
		if err := rows.AddTombstones(deleted, author); err != nil {
			return nil, err
		}
	}
	if len(gone) == 0 {
		return nil, nil
	}
	return rows.Remove(gone)
}

// removeAt removes the versions that are not newer than the deletion. It keeps in mind that
// the author wants none such.
func removeAt(rows Rows, addresses []host.Address, until int64) ([]*host.Event, error) {
	if err := rows.AddAddressTombstones(addresses, until); err != nil {
		return nil, err
	}
	stored, err := rows.StoredAt(addresses)
	if err != nil {
		return nil, err
	}
	var gone []Stored
	for _, e := range stored {
		if e.CreatedAt <= until {
			gone = append(gone, e)
		}
	}
	if len(gone) == 0 {
		return nil, nil
	}
	return rows.Remove(gone)
}
