package host

import (
	"context"
	"iter"
	"strings"
)

// ReferenceTags are the tags by which one event names another, or an address
// (NIP-01, NIP-10, NIP-18, NIP-22).
const ReferenceTags = "aAeEq"

// References iterates over the ids and addresses that an event names, as its tags have them.
func (e *Event) References() iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, tag := range e.Tags {
			if len(tag) > 1 && len(tag[0]) == 1 && strings.Contains(ReferenceTags, tag[0]) && !yield(tag[1]) {
				return
			}
		}
	}
}

// Names reports whether an event names the id or address.
func (e *Event) Names(idOrAddress string) bool {
	for name := range e.References() {
		if name == idOrAddress {
			return true
		}
	}
	return false
}

// ReferenceFilters returns filters that together select the events that name one of the ids and
// addresses. Every filter asks for one tag.
func ReferenceFilters(idsOrAddresses ...string) []Filter {
	list := make([]Filter, 0, len(ReferenceTags))
	for _, name := range []byte(ReferenceTags) {
		list = append(list, Filter{Tags: []TagFilter{{Name: name, Values: idsOrAddresses}}})
	}
	return list
}

// FindReference reports whether a query finds an event that names the id or address.
func FindReference(ctx context.Context, query func(context.Context, Filter) ([][]byte, error), idOrAddress string) (bool, error) {
	for _, f := range ReferenceFilters(idOrAddress) {
		f.Limit, f.Header = 1, true
		if found, err := query(ctx, f); err != nil || len(found) > 0 {
			return err == nil, err
		}
	}
	return false, nil
}
