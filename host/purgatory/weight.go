package purgatory

import (
	"crypto/sha256"
	"net/netip"

	"talon/host"
	"talon/host/bound"
)

// Class says what a weight counts. Engines keep the weights in a table, which their triggers
// write. The numbers are in databases.
type Class uint8

const (
	OfAll               Class = 0 // all rows, under an empty key
	OfAuthor            Class = 1 // by public key
	OfNetwork           Class = 2 // by the key of NetworkOf
	OfDependents        Class = 3 // rows that depend on others, under an empty key
	OfDependentsNetwork Class = 4 // of these, by the key of NetworkOf

	// KnownPart is added to a class for the rows in the part for known people. The classes
	// without it count the rows of strangers.
	KnownPart Class = 8

	// VerdictPart is added to a class for the rows of [CauseVerdict]. The classes without it do not
	// count them.
	VerdictPart Class = 16
)

// all is the key of classes that have only one.
var all = []byte{}

// Weight is what a key has.
type Weight struct{ Events, Bytes int64 }

func (w Weight) minus(r *Row) Weight { return Weight{w.Events - 1, w.Bytes - int64(len(r.JSON))} }

// within reports whether one event more, of some bytes, stays within a limit.
func (w Weight) within(limit Weight, size int64) bool {
	return w.Events+1 <= limit.Events && w.Bytes+size <= limit.Bytes
}

// relayKey begins the keys of relays.
const relayKey = 'r'

// NetworkOf returns the key of where an event came from: the /24 or /48 of a client, or the relay
// that sent it. It is empty for a client on this machine, and for an import.
func NetworkOf(s *host.Source) string {
	if s == nil {
		return ""
	}
	switch s.Origin {
	case host.FromClient:
		if _, wide := bound.Networks(s.Addr); wide.IsValid() {
			return prefixKey(wide)
		}
	case host.FromSync:
		if s.Relay != "" {
			sum := sha256.Sum256([]byte(s.Relay))
			return string(append([]byte{relayKey}, sum[:8]...))
		}
	}
	return ""
}

func prefixKey(p netip.Prefix) string {
	text, err := p.MarshalBinary()
	if err != nil {
		return "" // no prefix has an error
	}
	return "n" + string(text)
}

// isRelay reports whether a key is that of a relay. Relays have no share: what they send is
// wanted, and sync sends it again when it is refused. At the total they give way as networks do.
func isRelay(network []byte) bool { return len(network) > 0 && network[0] == relayKey }
