package session

import "talon/sdk/abi"

// Drop is why something that a relay sent was passed over.
type Drop uint8

// Reasons.
const (
	DropUnasked  Drop = iota // no open subscription asked for it
	DropForged               // id or signature are wrong
	DropKnown                // it is here, or was refused lately
	DropNonsense             // it was not understood
)

// Drops is the number of reasons.
const Drops = int(DropNonsense) + 1

func (d Drop) String() string { return [Drops]string{"unasked", "forged", "known", "nonsense"}[d] }

// violation passes over something that the relay sent, and counts by its weight how far
// that breaks the rules. Too many violations end the session; they are forgiven over
// time.
func (s *Session) violation(why Drop, weight float64) {
	s.stats.Dropped[why]++
	if s.violations += weight; s.violations > float64(s.limits.Violations) {
		s.end(EndViolations)
	}
}

// SourceOf names a purpose, for metrics and lines.
func SourceOf(purpose uint32) string {
	switch purpose {
	case abi.PurposeStartup:
		return "startup"
	case abi.PurposeReconnect:
		return "reconnect"
	case abi.PurposeDaily:
		return "daily"
	}
	return "live"
}
