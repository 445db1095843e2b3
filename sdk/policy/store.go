package policy

import "talon/sdk/abi"

// Filter selects stored events (NIP-01). An empty list is no condition.
type Filter struct {
	IDs     []ID
	Authors []PubKey
	Kinds   []int
	Tags    []TagFilter
	Since   int64 // inclusive; 0 is no condition
	Until   int64 // inclusive; 0 is no condition
	Limit   int   // 0: as many as the host allows

	// Header leaves out the tags, the content and the signature of what is found: then it
	// costs the same however large the events are.
	Header bool
}

// Names for a [TagFilter] that are no tags.
const (
	// ByAddress asks for what is at addresses, kind:pubkey:d: one stored event for each at
	// most. It is a lookup, however much an author has stored, or others under the same d.
	ByAddress = "address"

	// ByMaintainer asks for the repository announcements (NIP-34) that list a maintainer. Its
	// values are pubkey:identifier.
	ByMaintainer = "maintainer"
)

// TagFilter asks for a tag whose name is a single letter, with one of the values, or
// for [ByAddress] or [ByMaintainer].
type TagFilter struct {
	Name   string
	Values []string
}

// Get returns the stored event with this id, and whether there is one. It needs
// the capability "store.get".
//
// Where the host cannot answer, Get reports false, and the host replaces the
// verdict by one that asks the client to try again.
func (f Facts) Get(id ID) (Event, bool) {
	c := f.c
	n := c.ask(func(out []byte) int32 { return c.host.storeGet(&id, out) })
	if n < 0 || c.got.Decode(c.answer[:n]) != nil {
		return Event{}, false
	}
	return Event{&c.got}, true
}

// Query returns the stored events that match, newest first: at most 500, of 512
// KiB together. It ends before an event that does not fit, which a query for headers
// finds, and Get has whole. It needs the capability "store.query". Where the host cannot answer, there are none, and
// the host replaces the verdict as for Get.
func (f Facts) Query(filter Filter) Events {
	c := f.c
	c.filter = filter.append(c.filter[:0])
	n := c.ask(func(out []byte) int32 { return c.host.storeQuery(c.filter, out) })
	return Events{list: abi.ReadEventList(c.answer[:max(n, 0)]), view: &c.got, failed: n < 0}
}

// Held does what Get does, for events in purgatory, which are not served yet. It needs
// the capability "held.get".
func (f Facts) Held(id ID) (Event, bool) {
	c := f.c
	n := c.ask(func(out []byte) int32 { return c.host.heldGet(&id, out) })
	if n < 0 || c.got.Decode(c.answer[:n]) != nil {
		return Event{}, false
	}
	return Event{&c.got}, true
}

// QueryHeld does what Query does, for events in purgatory. It needs the capability
// "held.query".
func (f Facts) QueryHeld(filter Filter) Events {
	c := f.c
	c.filter = filter.append(c.filter[:0])
	n := c.ask(func(out []byte) int32 { return c.host.heldQuery(c.filter, out) })
	return Events{list: abi.ReadEventList(c.answer[:max(n, 0)]), view: &c.got, failed: n < 0}
}

// Referenced reports whether a stored event names the id (64 hex digits) or
// address (kind:pubkey:d) in an e, E, q, a or A tag. It needs the capability
// "store.referenced".
func (f Facts) Referenced(idOrAddress string) bool {
	return f.c.host.storeReferenced(idOrAddress) == 1
}

// Events are the answer to a query:
//
//	for found := in.Query(f); found.Next(); {
//		event := found.Event()
//	}
type Events struct {
	list   abi.EventListView
	view   *abi.EventView
	failed bool
}

// Next moves to the next event, and reports whether there is one.
func (e *Events) Next() bool { return e.list.Next(e.view) }

// More reports, after Next has returned false, whether others may match: the list
// is as long as it may be, or an event was too large for it.
func (e *Events) More() bool { return e.list.More() }

// Failed reports whether the host could not answer: then there are no events, and
// nothing that is kept beyond this decision may rest on that.
func (e *Events) Failed() bool { return e.failed }

// Event returns the event that Next moved to.
func (e *Events) Event() Event { return Event{e.view} }

// ask calls a host function that writes to the answer buffer, again with a
// larger buffer if the answer did not fit. It returns the answer's length, or a
// negative result.
func (c *call) ask(f func(out []byte) int32) int32 {
	if c.answer == nil {
		c.answer = make([]byte, firstAnswer)
	}
	n := f(c.answer)
	if int(n) > len(c.answer) {
		c.answer = make([]byte, int(n))
		if n = f(c.answer); int(n) > len(c.answer) {
			return abi.Unavailable
		}
	}
	return n
}

func (f *Filter) append(b []byte) []byte {
	wire := abi.Filter{Limit: uint32(max(f.Limit, 0)), Header: f.Header}
	for _, id := range f.IDs {
		wire.IDs = append(wire.IDs, id)
	}
	for _, pk := range f.Authors {
		wire.Authors = append(wire.Authors, pk)
	}
	for _, kind := range f.Kinds {
		wire.Kinds = append(wire.Kinds, uint32(kind))
	}
	for _, t := range f.Tags {
		wire.Tags = append(wire.Tags, abi.TagFilter(t))
	}
	if f.Since != 0 {
		wire.Since = &f.Since
	}
	if f.Until != 0 {
		wire.Until = &f.Until
	}
	return abi.AppendFilter(b, &wire)
}
