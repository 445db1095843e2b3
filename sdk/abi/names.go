package abi

// Exports of a module.
const (
	ExportMarker    = "talon_abi_1"     // () -> (), does nothing; its name says which ABI the module speaks
	ExportMemory    = "memory"          //
	ExportBuffer    = "talon_buffer"    // (size i32) -> i32
	ExportConfigure = "talon_configure" // (len i32) -> i64
	ExportAdmit     = "talon_admit"     // (len i32) -> i64

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
	// the EventList that matches the Filter.
	CapStoreQuery = "store.query"

	// CapStoreReferenced (text i32, len i32) -> i32 returns 1 if a stored event
	// names the id (64 hex digits) or address (kind:pubkey:d) in an e, E, q, a or
	// A tag, 0 if none does.
	CapStoreReferenced = "store.referenced"

	// CapLog (level i32, text i32, len i32) writes a line to the operator's log.
	CapLog = "log"
)

// Results of host functions below zero.
const (
	NotFound    = -1 // no such event
	Unavailable = -2 // the host could not answer; ask the client to try again
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

// Unpack is the inverse of [Pack].
func Unpack(result uint64) (addr, length uint32) {
	return uint32(result >> 32), uint32(result)
}
