// Package abi is the boundary between Talon and its modules: the names of
// exports and imports, and the messages of talon.proto with code to write and
// read them. Both sides use it: the host, and guests through package policy.
//
// # What is generated
//
// go generate ./internal/abigen makes these from talon.proto: the files *_gen.go here, the messages
// in the SDKs of other languages, and docs/reference-messages.md. The results are checked in, and a
// test of internal/abigen fails if they are not current. Some code is written by hand, because of
// its cost in a guest or because of the types of its callers: the wire, an event and its tags,
// filters, the request about an event, the writer of a verdict, and checks of more than one field.
//
// # How to add a field
//
// Add a line to its message in talon.proto, with the next number and a note, and run go generate
// ./internal/abigen. Then structs, writers, readers, the other languages, the JSON of vectors and
// the reference have the field, unless the message has the mark "go hand". Fill in the field in the
// host code that writes the message, and give it a value in the samples of the tests here. Run go
// test with -update in talon/sdk, talon/sdk/abi and ./internal/abigen, because the golden bytes,
// their meaning and the exported API change. The first list of a message that had none makes its
// struct a view to read, as the golden API will say.
//
// A field of a message with that mark is added to its code here by hand; one of
// Verdict is read by all, and is written by [AppendVerdict]. A number above 15 takes
// two bytes on the wire: the generator refuses it until package abi writes them.
//
// # Calls
//
// A module exports its memory as "memory", the marker [ExportMarker], and
//
//	talon_buffer(size i32) -> i32           the address of an input buffer of at least size bytes
//	talon_configure(len i32) -> i64         reads a Config from the buffer
//
// and the functions of its world; those of the policy world are at least one of
//
//	talon_admit(len i32) -> i64             reads an AdmitRequest from the buffer
//	talon_query(len i32) -> i64             reads a QueryRequest
//	talon_connect(len i32) -> i64           reads a ConnectRequest
//	talon_push(len i32) -> i64              reads a PushRequest
//
// The host asks for a buffer when the one that it has is too small, writes a
// message to its start and calls the function with the message's length. The
// buffer stays valid until the next talon_buffer. A result of 0 is "fine": the
// configuration is accepted, the policy passes. Any other result is
// address<<32 | length of a message in the module's memory: a Configured from
// talon_configure, a Verdict from the others. The host reads it before it calls
// again.
//
// # Host functions
//
// They are imported from [ImportModule], one import name for each capability. So the import section
// shows the capabilities of a module. A function that answers with data takes the address and
// capacity of a buffer of the guest. It returns the length of its answer, and writes the answer
// only if it fits. So a guest can grow a small buffer and ask again. Nothing calls back into the
// guest while a host function runs.
//
// Invariants:
//
//  1. Encoders append to the buffer they are given and allocate nothing else.
//  2. Views read in place, allocate nothing and never panic, whatever the
//     bytes. They are valid as long as the bytes are.
//  3. Unknown fields are skipped; absent fields have their zero value.
//  4. The code and talon.proto describe the same messages, also where it is by hand.
//
// The package imports nothing that a guest would have to carry along. It never
// imports host packages.
package abi

// Exports of a module.
const (
	ExportMarker    = "talon_abi_1"     // () -> (), does nothing; its name says which ABI the module speaks
	ExportMemory    = "memory"          //
	ExportBuffer    = "talon_buffer"    // (size i32) -> i32
	ExportConfigure = "talon_configure" // (len i32) -> i64

	// Functions of the policy world. Each answers with a Verdict, 0 for a pass. The
	// host calls those that the manifest names.
	ExportAdmit   = "talon_admit"   // (len i32) -> i64, reads an AdmitRequest
	ExportQuery   = "talon_query"   // (len i32) -> i64, reads a QueryRequest
	ExportConnect = "talon_connect" // (len i32) -> i64, reads a ConnectRequest
	ExportPush    = "talon_push"    // (len i32) -> i64, reads a PushRequest

	// ExportAudience is asked who may receive an event. It reads an AdmitRequest without a
	// source: the answer does not depend on who sent the event, nor on who asks for it.
	ExportAudience = "talon_audience" // (len i32) -> i64

	// ExportInitialize is called once, before anything else, if the module has
	// it. Toolchains use it to set up their runtime.
	ExportInitialize = "_initialize" // () -> ()
)

// ImportModule is the module name of every host function.
const ImportModule = "talon"

// Capabilities: each is the import name of one host function, and the name by
// which a manifest asks for it.
const (
	// CapStoreGet (id i32, out i32, cap i32) -> i32 answers with the stored Event
	// whose 32-byte id is at id.
	CapStoreGet = "store.get"

	// CapStoreQuery (filter i32, len i32, out i32, cap i32) -> i32 answers with
	// the EventList that matches the Filter, at most 500 events of 512 KiB together.
	CapStoreQuery = "store.query"

	// CapStoreReferenced (text i32, len i32) -> i32 returns 1 if a stored event
	// names the id (64 hex digits) or address (kind:pubkey:d) in an e, E, q, a or
	// A tag, 0 if none does.
	CapStoreReferenced = "store.referenced"

	// CapLog (level i32, text i32, len i32) writes a line to the operator's log.
	CapLog = "log"

	// CapHeldGet (id i32, out i32, cap i32) -> i32 is CapStoreGet for events in
	// purgatory.
	CapHeldGet = "held.get"

	// CapHeldQuery (filter i32, len i32, out i32, cap i32) -> i32 is CapStoreQuery
	// for events in purgatory.
	CapHeldQuery = "held.query"

	// CapGitHas (repo i32, repolen i32, oid i32, oidlen i32) -> i32 returns 1 if
	// the repository (its address, "30617:<hex>:<d>") has the object (40 or 64 hex
	// digits), else 0. Followed by OfCommit, the object must be a commit, and not a tag
	// of one. An oid of no digits asks for the repository itself.
	CapGitHas = "git.has"

	// CapGitRef (repo i32, repolen i32, ref i32, reflen i32, out i32, cap i32) -> i32
	// answers with the object name that the ref has, as hex digits.
	CapGitRef = "git.ref"

	// CapUsageGet (name i32, len i32, out i32, cap i32) -> i32 answers with the Usage of an
	// author (the 32 bytes of the key, or 64 hex digits) or of a repository (its address,
	// "30617:<hex>:<d>"). It is a fact of the moment: no decision is made again because it
	// changes. It writes as many numbers as fit, so that a later version may add some.
	CapUsageGet = "usage.get"

	// CapKVGet (key i32, klen i32, out i32, cap i32) -> i32 answers with the value
	// that the module has kept under the key.
	CapKVGet = "kv.get"

	// CapKVSet (key i32, klen i32, val i32, vlen i32, ttl i64) -> i32 keeps a value
	// for ttl seconds, for ever if ttl is 0. It returns 0 or NoRoom.
	CapKVSet = "kv.set"

	// CapKVDelete (key i32, klen i32) forgets the value of the key.
	CapKVDelete = "kv.delete"

	// CapKVIncr (key i32, klen i32, delta i64, ttl i64) -> i64 adds delta to the counter of the key
	// and returns the sum. The value is 8 bytes, little endian. A value of another length counts as
	// 0. The sum saturates. If there is no room, the stored value does not change, and the function
	// still returns the sum. ttl applies when the key is new.
	CapKVIncr = "kv.incr"

	// CapSetsContains (name i32, nlen i32, member i32, mlen i32) -> i32 returns 1 if the set has
	// the member, 0 if not, and NotFound if there is no such set. A key matches both as 32 bytes
	// and as 64 hex digits.
	CapSetsContains = "sets.contains"

	// CapBucketTake (key i32, klen i32, n i32, burst i32, per_ms i64) -> i64 takes n
	// from a token bucket that holds up to burst and gets one back every per_ms
	// milliseconds. It returns 0 if they were taken, the milliseconds until they
	// would be there if not, and Never if n is more than burst.
	CapBucketTake = "bucket.take"

	// CapMetric (kind i32, name i32, nlen i32, value f64) adds a value of 0 or more
	// to a counter or sets a gauge. A name is a-z 0-9 _; a module has 32 at most.
	CapMetric = "metric"
)

// OfCommit follows an object name where only a commit will do.
const OfCommit = "^{commit}"

// Results of host functions below zero.
const (
	NotFound    = -1 // no such event, value, ref, set
	Unavailable = -2 // the host could not answer; ask the client to try again
	NoRoom      = -3 // of CapKVSet: the module's quota is used up
)

// Never is the result of CapBucketTake for more than the bucket holds.
const Never = -1

// Kinds of CapMetric.
const (
	MetricCounter = 0
	MetricGauge   = 1
)

// Limits of the memory of a module.
const (
	MaxKey   = 256      // bytes of a key
	MaxValue = 64 << 10 // bytes of a value
)

// Levels of CapLog.
const (
	LevelDebug = 0
	LevelInfo  = 1
	LevelWarn  = 2
	LevelError = 3
)

// Pack returns the result of a function that answers with a message.
func Pack(addr, length uint32) int64 {
	return int64(uint64(addr)<<32 | uint64(length))
}

// Unpack inverts [Pack].
func Unpack(result uint64) (addr, length uint32) {
	return uint32(result >> 32), uint32(result)
}

// Strategy and throttle.

// ExportStep is the function of the strategy world.
const ExportStep = "talon_step" // (len i32) -> i64, reads a StepRequest, answers with StepActions

// Functions of the throttle world. A result of 0 is an answer without fields.
const (
	ExportThrottleDelay = "talon_throttle_delay" // (len i32) -> i64, reads a DelayRequest, answers with a DelayAnswer
	ExportThrottleAdmit = "talon_throttle_admit" // (len i32) -> i64, reads a ThrottleAdmitRequest, answers with a ThrottleAdmitAnswer
	ExportThrottleAfter = "talon_throttle_after" // (len i32) -> i64, reads an AfterRequest, answers with an AfterAnswer
	ExportThrottlePick  = "talon_throttle_pick"  // (len i32) -> i64, reads a PickRequest, answers with a PickAnswer
	ExportThrottleTick  = "talon_throttle_tick"  // (len i32) -> i64, reads a TickRequest, answers with a TickAnswer
)

// Says reports whether a policy says anything about the relay.
func (m *About) Says() bool {
	return len(m.Grasps) > 0 || m.Criteria != "" || m.Curation != "" || m.Writes != WritesUnsaid || m.Limits != Limitation{}
}
