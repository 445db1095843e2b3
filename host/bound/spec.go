package bound

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"

	"talon/host"
)

// Spec describes one limit. It is the limit's row in the table of bounds.
type Spec struct {
	Name           string // what is limited, such as "git requests that run"
	Unit           string // of Total, such as "requests" or "bytes an hour"
	Total          int64  // the most of all networks together; 0 for no total (a Rate)
	Network        int64  // the most of one network, and of one neighbourhood
	Key            int64  // the most of one author or owner (a KeyRate); 0 where keys do not count
	Known          int64  // the part of Total that only known people use
	Yields         string // who gives way when the total is reached
	AnonymousYield bool   // holders without a network give way as one network does; else they give way to nobody
}

// eighth is the part of a limit that one network gets.
const eighth = 8

// KnownPart returns the part of a total that only known people use: an eighth. It is none of a
// total so small that a network of theirs would get less than two.
func KnownPart(total int64) int64 {
	if total < 2*eighth*eighth {
		return 0
	}
	return total / eighth
}

// Share returns the part of a total that one network may hold: an eighth, and at least one.
func Share(total int64) int64 { return max(1, total/eighth) }

// divisor divides the total of each Pot and Queue. It is 1, unless the linker sets it: a test that
// attacks with a fiftieth of the strangers fills a fiftieth of the places.
var divisor = "1"

// minScaled is the least that division leaves of a total: two for each network.
const minScaled = 2 * eighth

// scaled returns a row divided by the divisor.
func (s Spec) scaled() Spec {
	n, err := strconv.ParseInt(divisor, 10, 64)
	if err != nil || n < 1 {
		panic(fmt.Sprintf("the divisor of bounds is %q, want a positive number", divisor))
	}
	if n == 1 {
		return s
	}
	s.Total = max(s.Total/n, min(s.Total, minScaled))
	s.Known = min(s.Known/n, s.Total)
	if s.Network != 0 {
		s.Network = min(s.Network, max(s.Network/n, Share(s.Total)))
	}
	return s
}

func (s *Spec) check() error {
	if s.Name == "" || s.Unit == "" || s.Yields == "" {
		return fmt.Errorf("make the bound %q: it needs a name, a unit and a rule for who gives way", s.Name)
	}
	if s.Total < 0 || s.Network < 0 || s.Key < 0 || s.Known < 0 || s.Known > s.Total {
		return fmt.Errorf("make the bound %q: its parts %d (network) and %d (known) do not fit in %d", s.Name, s.Network, s.Known, s.Total)
	}
	return nil
}

// Holder is somebody who takes a part of a limit.
type Holder struct {
	Addr  netip.Addr  // of the client; zero and loopback count towards the total only
	Known bool        // may use the part for known people
	Key   host.PubKey // that it has proven, of a known person; zero if its network is known only
}

// Networks returns the prefixes that count an address: its network and its neighbourhood.
// Both are zero for loopback and for no address.
func Networks(a netip.Addr) (narrow, wide netip.Prefix) {
	narrow = host.NetworkOf(a)
	if !narrow.IsValid() {
		return narrow, wide
	}
	bits := 24
	if narrow.Addr().Is6() {
		bits = 48
	}
	wide, err := narrow.Addr().Prefix(bits)
	if err != nil {
		return narrow, narrow
	}
	return narrow, wide
}

// ErrFull is the error of a holder that gets no part because all of it is in use.
var ErrFull = errors.New("the limit of all clients together is reached")

// ErrShare is the error of a holder whose network holds all that one network may.
var ErrShare = errors.New("the limit of one network is reached")
