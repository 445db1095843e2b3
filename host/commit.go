package host

// Commit describes a transaction of another process that writes to the same database.
type Commit struct {
	Published []Published // stored events, in the order of their Seq, and ephemeral ones
	Removed   []*Event
	Held      []HeldChange
	Arrived   bool // git data has come

	// Gap says that what was committed before this is not known in full: whatever was
	// read before may have changed, and what purgatory has is to be read again.
	Gap bool

	// Plugins is the number of the generation of plugins that decides from here on, if it is
	// another than before; else 0.
	Plugins int64
}

// PluginSet is a generation of the plugins of all nodes that share a database.
type PluginSet struct {
	Number  int64  // 0: there is none
	Node    string // that proposed it
	Records []byte // see package host/plugin
}
