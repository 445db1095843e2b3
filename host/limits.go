package host

// ClientLimits is what one client may do for now, beside what the operator's
// configuration allows for ever. 0: no limit beyond that.
type ClientLimits struct {
	Connections   int64 // from one address
	Subscriptions int64 // open on one connection
	Filters       int64 // of one REQ or COUNT
	Events        int64 // EVENTs of one connection in a minute
	Queries       int64 // REQs, COUNTs and NEG-OPENs of one connection in a minute
	BytesIn       int64 // of one connection in a second
	BytesOut      int64 // of one connection in a second
}

// Within returns the limits brought between least and most. Where there is a most, no
// limit is that one; 0 in least or most clamps nothing. Where the two contradict each
// other, most holds.
func (l ClientLimits) Within(least, most ClientLimits) ClientLimits {
	clamp := func(n, least, most int64) int64 {
		if n <= 0 {
			return most
		}
		n = max(n, least)
		if most > 0 {
			n = min(n, most)
		}
		return n
	}
	return ClientLimits{
		Connections:   clamp(l.Connections, least.Connections, most.Connections),
		Subscriptions: clamp(l.Subscriptions, least.Subscriptions, most.Subscriptions),
		Filters:       clamp(l.Filters, least.Filters, most.Filters),
		Events:        clamp(l.Events, least.Events, most.Events),
		Queries:       clamp(l.Queries, least.Queries, most.Queries),
		BytesIn:       clamp(l.BytesIn, least.BytesIn, most.BytesIn),
		BytesOut:      clamp(l.BytesOut, least.BytesOut, most.BytesOut),
	}
}
