package loop

import "talon/sdk/abi"

// learnt is what a relay showed of its limits beyond what it says of itself. It is kept
// across restarts, and forgotten when the relay says that it is another version, or after
// a while.
type learnt struct {
	Version       string `json:"version,omitempty"` // what the relay said of itself then
	At            int64  `json:"at,omitempty"`      // when it was learnt last
	Subscriptions uint32 `json:"subscriptions,omitempty"`
	Message       uint32 `json:"message,omitempty"`
	Fit           int    `json:"fit,omitempty"`  // bytes of the longest message that it answered
	Over          int    `json:"over,omitempty"` // of the shortest upon which it hung up
	drops         int    // connections in a row that ended so
}

// learntFor is how long that counts for a relay that does not say that it has changed, in
// milliseconds.
const learntFor = 7 * 24 * 60 * minute

// leastMessage is what is not taken from a relay because it hangs up.
const leastMessage = 4 << 10

// Merge returns what is known of a relay: what it says of itself now, and what it showed,
// unless it says that it is another version than the one that showed that.
func (d *Dial) Merge(said abi.Capabilities, version string) abi.Capabilities {
	if version == d.learnt.Version {
		d.learnt.merge(&said)
	}
	return said
}

func (l *learnt) merge(caps *abi.Capabilities) {
	least := func(to *uint32, showed uint32) {
		if showed != 0 && (*to == 0 || showed < *to) {
			*to = showed
		}
	}
	least(&caps.MaxSubscriptions, l.Subscriptions)
	least(&caps.MaxMessage, l.Message)
}

// says takes what a relay says of itself.
func (s *Loop) says(r *relay, version string) {
	if version != r.learnt.Version {
		r.learnt = learnt{Version: version}
	}
}

// learnt takes what the session of a relay has learnt.
func (s *Loop) learnt(r *relay, caps abi.Capabilities) {
	l := &r.learnt
	if caps.MaxSubscriptions != r.caps.MaxSubscriptions {
		l.Subscriptions, l.At = caps.MaxSubscriptions, s.clock
		s.log(Info, "a relay takes fewer subscriptions than it says", "relay", r.url, "subscriptions", caps.MaxSubscriptions)
	}
	if caps.MaxMessage != r.caps.MaxMessage {
		l.Message, l.At = caps.MaxMessage, s.clock
		s.log(Info, "a relay takes shorter messages than it says", "relay", r.url, "bytes", caps.MaxMessage)
	}
	r.caps = caps
	s.changed[r.url] = true
}

// hungUp looks at the end of a connection: a relay may have no other answer to a message
// that is too large for it.
func (s *Loop) hungUp(r *relay, e *Ended) {
	l := &r.learnt
	l.Fit = max(l.Fit, e.Answered)
	if l.Over != 0 && l.Fit >= l.Over {
		l.Over = 0
	}
	if e.Unanswered <= max(l.Fit, leastMessage) || e.Restart {
		l.drops = 0
		return
	}
	if l.drops++; l.drops < 2 && l.Over == 0 {
		return // that may have been chance
	}
	if l.Over == 0 || e.Unanswered < l.Over {
		l.Over = e.Unanswered
	}
	if most := uint32(max((l.Fit+l.Over)/2, leastMessage)); r.caps.MaxMessage == 0 || most < r.caps.MaxMessage {
		caps := r.caps
		caps.MaxMessage = most
		s.learnt(r, caps)
	}
}
