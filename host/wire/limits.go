package wire

// Limits bounds what a message may ask for. The size of a message is bounded
// before it gets here.
type Limits struct {
	SubID   int // characters of a subscription id; NIP-01 allows 64
	Filters int // filters of one REQ or COUNT
	Values  int // values of one filter, all its lists together
}

// DefaultLimits are the limits of a relay that is told nothing else.
var DefaultLimits = Limits{SubID: 64, Filters: 20, Values: 2000}
