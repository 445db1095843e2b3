package loop

import "talon/sdk/abi"

// learnt is what a relay showed of its limits, beyond what it says of itself. It is kept
// across restarts.
type learnt struct{}

// learnt takes what the session of a relay has learnt.
func (s *Loop) learnt(r *relay, caps abi.Capabilities) {
	r.caps = caps
	s.changed[r.url] = true
}
