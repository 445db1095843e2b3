package gitfetch

import "time"

// Limits bound one request to a git server, which is one fetch.
type Limits struct {
	Bytes    int64         // that a server may send
	Objects  int64         // of a pack
	Refs     int           // that a server lists: lines before a pack
	RefBytes int64         // of them
	Whole    time.Duration // from the beginning to the last object
	Stall    time.Duration // a server must send something in this time,
	Rate     int64         // and so many bytes a second over it, once it sends a pack

	Connections int // to one address, under whatever names
}

// DefaultLimits are those of an operator who sets none.
var DefaultLimits = Limits{
	Bytes: 2 << 30, Objects: 20_000_000, Refs: 500_000, RefBytes: 64 << 20, Whole: 20 * time.Minute, Stall: 30 * time.Second, Rate: 1 << 10, Connections: 16,
}
