package host

import "net/netip"

// Client is who is at the other end of a connection, as far as it is known.
type Client struct {
	Addr      netip.Addr // zero where there is none
	Authed    []PubKey   // keys that it has proven (NIP-42)
	UserAgent string     // what it says of itself
	Origin    string     // the page that a browser was on
	Path      string     // of the request, "/" for most
}

// NetworkOf returns what clients are counted by: an IPv4 address, or the /64 that an
// IPv6 host is usually given. Loopback is not counted, nor is a client without an
// address: for them it is the zero prefix.
func NetworkOf(a netip.Addr) netip.Prefix {
	a = a.Unmap().WithZone("")
	if !a.IsValid() || a.IsLoopback() {
		return netip.Prefix{}
	}
	size := a.BitLen()
	if a.Is6() {
		size = 64
	}
	p, err := a.Prefix(size)
	if err != nil {
		return netip.Prefix{}
	}
	return p
}

// Connection asks a policy about a client that has just come.
type Connection struct {
	Client   Client
	Open     int // connections of this relay, this one included
	FromAddr int // of them from the client's address, or its IPv6 /64; 0 for loopback
}

// QueryVerb is what a client does with filters.
type QueryVerb uint8

const (
	QueryReq   QueryVerb = iota // REQ: stored and live events
	QueryCount                  // COUNT (NIP-45)
	QueryNeg                    // NEG-OPEN (NIP-77)
)

func (v QueryVerb) String() string {
	return [...]string{"req", "count", "neg"}[v]
}

// Query asks a policy about the filters of one message.
type Query struct {
	Client  *Client
	Verb    QueryVerb
	Filters []Filter
}
