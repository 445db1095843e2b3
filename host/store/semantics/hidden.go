package semantics

import (
	"talon/host"
	"talon/host/memfacts"
	"talon/host/wire"
)

// Hidden is an event that the operator has taken out of sight. It is in no answer, and the rules
// of replacing, deleting and expiring still read it.
type Hidden struct {
	Stored // Seq is its number among hidden events
	JSON   []byte

	Audience *host.Audience // as in the event
}

// HiddenRows are the hidden events in the open transaction of an engine.
type HiddenRows interface {
	// HiddenTotal returns how many events are hidden.
	HiddenTotal() int64

	// HiddenByID and HiddenAt return the hidden events among those ids and addresses.
	HiddenByID(ids []host.ID) ([]Hidden, error)
	HiddenAt(addresses []host.Address) ([]Hidden, error)

	// InsertHidden adds an event that is not stored any more.
	InsertHidden(e *host.Event) error

	// RemoveHidden removes hidden events.
	RemoveHidden(list []Hidden) error

	// AddRefused notes ids that sync does not fetch again. There is a bound, and the ids that
	// were noted longest ago give way.
	AddRefused(list []RefusedID) error

	// ClearRefused forgets these ids.
	ClearRefused() error
}

// RefusedID is an event that sync does not fetch again, by what negentropy shows of it.
type RefusedID struct {
	ID        host.ID
	CreatedAt int64
}

// MaxRefused is how many ids a database keeps of events that sync does not fetch again. A row
// takes about 100 bytes with its index.
const MaxRefused = 500_000

// hiddenRefusal returns why an event is neither stored nor held because of what is hidden, and no
// reason if it may be.
func hiddenRefusal(rows HiddenRows, k *Known, e *host.Event) (code host.Code, reason string, err error) {
	if !k.MayBeHidden {
		return 0, "", nil
	}
	same, err := rows.HiddenByID([]host.ID{e.ID})
	if err != nil {
		return 0, "", err
	}
	if len(same) > 0 {
		return host.Duplicate, ReasonHave, nil
	}
	a, ok := e.Address()
	if !ok {
		return 0, "", nil
	}
	versions, err := rows.HiddenAt([]host.Address{a})
	for _, v := range versions {
		if Wins(v.CreatedAt, v.ID, e.CreatedAt, e.ID) {
			return host.Replaced, ReasonNewer, err
		}
	}
	return 0, "", err
}

// supersedeHidden removes the hidden version that a stored event replaces.
func supersedeHidden(rows HiddenRows, e *host.Event) error {
	a, ok := e.Address()
	if !ok {
		return nil
	}
	versions, err := rows.HiddenAt([]host.Address{a})
	if err != nil || len(versions) == 0 {
		return err
	}
	return rows.RemoveHidden(versions)
}

// removeHidden removes the hidden events that a deletion names.
func removeHidden(rows HiddenRows, deletion *host.Event) error {
	if rows.HiddenTotal() == 0 {
		return nil
	}
	ids, addresses := Targets(deletion)
	var gone []Hidden
	if len(ids) > 0 {
		found, err := rows.HiddenByID(ids)
		if err != nil {
			return err
		}
		for _, h := range found {
			deletes, err := Deletes(deletion.PubKey, h.PubKey, h.Kind, func() (*host.Event, error) { return wire.ParseEvent(h.JSON) })
			if err != nil {
				return err
			}
			if deletes {
				gone = append(gone, h)
			}
		}
	}
	if len(addresses) > 0 {
		found, err := rows.HiddenAt(addresses)
		if err != nil {
			return err
		}
		for _, h := range found {
			if h.CreatedAt <= deletion.CreatedAt {
				gone = append(gone, h)
			}
		}
	}
	return rows.RemoveHidden(gone)
}

// HiddenKeys returns how the hidden events of a filter are found, nil for a filter that is not
// about one of these: ids, addresses, maintainers, or an author, a kind and a d tag.
func HiddenKeys(f *host.Filter) (ids []host.ID, addresses, maintained []string) {
	if f.IDs != nil {
		return f.IDs, nil, nil
	}
	var identifiers []string
	for _, t := range f.Tags {
		switch t.Name {
		case host.AddressOf:
			return nil, t.Values, nil
		case host.MaintainerOf:
			maintained = t.Values
		case 'd':
			identifiers = t.Values
		}
	}
	if maintained != nil {
		return nil, nil, maintained
	}
	for _, author := range f.Authors {
		for _, kind := range f.Kinds {
			for _, d := range identifiers {
				if kind.Class() == host.Addressable {
					addresses = append(addresses, host.Address{Kind: kind, PubKey: author, D: d}.String())
				}
			}
		}
	}
	return nil, addresses, nil
}

// MatchHidden returns the JSON of the events that a filter matches, newest first.
func MatchHidden(found []Hidden, f *host.Filter) (texts [][]byte) {
	var list []*host.Event
	seen := make(map[host.ID]struct{}, len(found))
	for _, h := range found {
		if _, known := seen[h.ID]; known {
			continue // it was found by several keys
		}
		seen[h.ID] = struct{}{}
		if e, err := wire.ParseEvent(h.JSON); err == nil {
			list = append(list, e)
		}
	}
	return memfacts.Query(list, *f)
}
