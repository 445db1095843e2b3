package policy

import (
	"time"
	"unsafe"

	"talon/sdk/abi"
)

// The values that a module keeps outlive its instances, a new version of the module and a restart
// of the relay. All instances share them. A change takes effect immediately, and stays if the event
// is refused later.

// KVGet returns the value that the module has kept under a key of at most 256
// bytes, and whether there is one. The value is valid until the next function
// that answers with data. It needs the capability "kv.get".
func (f Facts) KVGet(key string) ([]byte, bool) {
	c := f.c
	n := c.ask(func(out []byte) int32 { return c.host.kvGet(key, out) })
	if n < 0 {
		return nil, false
	}
	return c.answer[:n], true
}

// KVSet keeps a value of at most 64 KiB for ttl seconds, or for ever if ttl is 0.
// It reports false if the module has used up its room: then nothing changes. It
// needs the capability "kv.set".
func (f Facts) KVSet(key string, value []byte, ttl int64) bool {
	return f.c.host.kvSet(key, value, ttl) == 0
}

// KVDelete forgets a key. It needs the capability "kv.delete".
func (f Facts) KVDelete(key string) { f.c.host.kvDelete(key) }

// KVIncr adds delta to the counter at key and returns the sum, which stops at the ends of int64. A
// new key begins at 0 and lives for ttl seconds, or for ever if ttl is 0. If there is no room, the
// stored value stays, and KVIncr returns the sum that it would have had. It needs the capability
// "kv.incr".
//
// For [Facts.KVGet], a counter is 8 bytes, little endian.
func (f Facts) KVIncr(key string, delta, ttl int64) int64 {
	return f.c.host.kvIncr(key, delta, ttl)
}

// Take takes n tokens from a bucket that holds up to burst and gets one back in
// each interval every, counted in milliseconds, at least one. It reports false if
// they are not there, and after which time they would be: wait is negative if that
// is never, since n is more than burst. It needs the capability "bucket.take".
//
// A bucket from which nobody took is full, so one for every address or author is
// no burden.
func (f Facts) Take(key string, n, burst int, every time.Duration) (wait time.Duration, ok bool) {
	millis := f.c.host.bucketTake(key, tokens(n), tokens(burst), max(every.Milliseconds(), 1))
	return time.Duration(min(millis, maxMillis)) * time.Millisecond, millis == 0
}

func tokens(n int) int32 { return int32(min(max(n, 0), maxTokens)) }

const (
	maxTokens = 1<<31 - 1                         // of a bucket
	maxMillis = 1 << 62 / int64(time.Millisecond) // keeps a time.Duration from overflowing
)

// InSet reports whether a set of the operator has the member, and whether there is such a set. 64
// hex digits match the key that they spell. It needs the capability "sets.contains".
func (f Facts) InSet(name, member string) (yes, known bool) {
	n := f.c.host.setsContains(name, member)
	return n == 1, n >= 0
}

// PubKeyInSet is like InSet, for a public key.
func (f Facts) PubKeyInSet(name string, pk PubKey) (yes, known bool) {
	c := f.c
	c.member = pk
	n := c.host.setsContains(name, view(c.member[:]))
	return n == 1, n >= 0
}

// Usage is how much of the store an author or a repository takes.
type Usage = abi.Usage

// UsageOf returns how much of the store an author takes: events, and the git data of own
// repositories. It reports false if the host cannot tell now. It needs the capability "usage.get".
//
// Others write at the same time, so what a policy allows by it is not exact. [Verdict.Within] is.
func (f Facts) UsageOf(author PubKey) (Usage, bool) {
	c := f.c
	c.member = author
	return c.usageOf(view(c.member[:]))
}

// UsageOfRepository returns how much of the store a repository takes, by the address of its
// announcement, 30617:pubkey:d. Its events are those that name it first. It is like
// [Facts.UsageOf].
func (f Facts) UsageOfRepository(address string) (Usage, bool) { return f.c.usageOf(address) }

func (c *call) usageOf(name string) (Usage, bool) {
	n := c.host.usageGet(name, c.usage[:])
	if n < 0 {
		return Usage{}, false
	}
	return abi.DecodeUsage(c.usage[:min(int(n), len(c.usage))]), true
}

// Facts are the functions of the host, by which a policy reads from the relay and keeps its own
// state. Every input has them. Each needs a capability that the manifest asks for.
//
// Names, keys and members are text without a copy; [Facts.Key] builds them without
// allocation.
type Facts struct{ c *call }

// Now returns the time of the decision in unix seconds, the only clock there is.
func (f Facts) Now() int64 { return f.c.now }

// Key joins parts to one text, without allocation: the key of an author's bucket
// is
//
//	in.Key("author:", string(pk[:]))
//
// It is valid until the next call of Key.
func (f Facts) Key(parts ...string) string {
	c := f.c
	c.key = c.key[:0]
	for _, part := range parts {
		c.key = append(c.key, part...)
	}
	return view(c.key)
}

// view returns b as text without a copy.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// call is the state of one decision. It is reused, so that a decision allocates
// nothing.
type call struct {
	admit   abi.AdmitRequestView
	query   abi.QueryRequestView
	connect abi.ConnectRequestView
	push    abi.PushRequestView
	now     int64

	host   hostFunctions
	answer []byte // of the last function that answered with data
	filter []byte // of the last Query
	key    []byte // of the last Key
	object []byte // of the last GitHasCommit
	member PubKey // of the last PubKeyInSet and UsageOf
	usage  [abi.UsageBytes]byte
	got    abi.EventView
}

// firstAnswer is the capacity that the first answer finds; it grows when an answer
// needs more.
const firstAnswer = 16 << 10

// decodeAdmit makes c the state of a decision about an encoded request. So do the
// others for their requests.
func (c *call) decodeAdmit(request []byte) (Input, error) {
	err := c.admit.Decode(request)
	c.now = c.admit.Now
	return Input{Facts{c}}, err
}

func (c *call) decodeQuery(request []byte) (QueryInput, error) {
	err := c.query.Decode(request)
	c.now = c.query.Now
	return QueryInput{Facts{c}}, err
}

func (c *call) decodeConnect(request []byte) (ConnectInput, error) {
	err := c.connect.Decode(request)
	c.now = c.connect.Now
	return ConnectInput{Facts{c}}, err
}

func (c *call) decodePush(request []byte) (PushInput, error) {
	err := c.push.Decode(request)
	c.now = c.push.Now
	return PushInput{Facts{c}}, err
}

// GitHas reports whether the repository with this address (30617:pubkey:d) has the
// object, whose name is 40 or 64 hex digits; with "" for the object, whether the
// repository is here. It needs the capability "git.has".
// Where the host cannot answer, it reports false, and the host replaces the
// verdict as for [Facts.Get].
func (f Facts) GitHas(repo, object string) bool { return f.c.host.gitHas(repo, object) == 1 }

// GitHasCommit reports whether the repository has the object and that is a commit,
// which the branches of a repository must name. It needs the capability "git.has".
func (f Facts) GitHasCommit(repo, object string) bool {
	c := f.c
	c.object = append(append(c.object[:0], object...), abi.OfCommit...)
	return c.host.gitHas(repo, view(c.object)) == 1
}

// GitRef returns the object name that a ref (refs/heads/main) of the repository
// has, as hex digits, and whether there is one. It is valid until the next
// function that answers with data. It needs the capability "git.ref".
func (f Facts) GitRef(repo, ref string) (object string, ok bool) {
	c := f.c
	n := c.ask(func(out []byte) int32 { return c.host.gitRef(repo, ref, out) })
	if n < 0 {
		return "", false
	}
	return view(c.answer[:n]), true
}

// Filter selects stored events (NIP-01). An empty list is no condition.
type Filter struct {
	IDs     []ID
	Authors []PubKey
	Kinds   []int
	Tags    []TagFilter
	Since   int64 // inclusive; 0 is no condition
	Until   int64 // inclusive; 0 is no condition
	Limit   int   // 0: as many as the host allows

	// Header leaves out the tags, the content and the signature of found events. Then large events
	// cost no more than small ones.
	Header bool
}

// Names for a [TagFilter] that are no tags.
const (
	// ByAddress asks for the events at addresses, kind:pubkey:d, at most one stored event for each.
	// It is a lookup: other events of the author, or of others under the same d, cost nothing.
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

// Held is like Get, for events in purgatory, which are not served yet. It needs the capability
// "held.get".
func (f Facts) Held(id ID) (Event, bool) {
	c := f.c
	n := c.ask(func(out []byte) int32 { return c.host.heldGet(&id, out) })
	if n < 0 || c.got.Decode(c.answer[:n]) != nil {
		return Event{}, false
	}
	return Event{&c.got}, true
}

// QueryHeld is like Query, for events in purgatory. It needs the capability "held.query".
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
