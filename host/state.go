package host

// StateEntry is one thing that a module remembers. Key and value are bytes of
// the module's own.
type StateEntry struct {
	Module  string
	Space   byte // what kind of memory it belongs to
	Key     string
	Value   []byte // nil: it is forgotten
	Expires int64  // unix seconds; 0 is never
}
