package plugin

import "time"

// A plugin that decides over time may take a fifth of a processor, over a minute.
const (
	reducerShare  = 0.2
	reducerWindow = time.Minute
	reducerBurst  = time.Duration(reducerShare * float64(reducerWindow))

	// slowestFuel is how long code takes for one unit of fuel on the slowest machine. Other
	// programs took the time beyond that.
	slowestFuel = 20 * time.Nanosecond
)

// share is what one plugin may take of a processor: time comes back while it does
// nothing.
type share struct {
	remaining time.Duration // less than nothing: it has taken more
	at        time.Time
	said      time.Time // when a warning was given
}

func newShare(now time.Time) share { return share{remaining: reducerBurst, at: now} }

func (s *share) charge(took time.Duration) { s.remaining -= took }

// wait returns how long the plugin has to wait for its next step.
func (s *share) wait(now time.Time) time.Duration {
	if passed := now.Sub(s.at); passed > 0 {
		s.remaining = min(s.remaining+time.Duration(float64(passed)*reducerShare), reducerBurst)
	}
	s.at = now
	if s.remaining >= 0 {
		return 0
	}
	return time.Duration(float64(-s.remaining) / reducerShare)
}

// warn reports whether it is time to say that the plugin waits: once a minute.
func (s *share) warn(now time.Time) bool {
	if !s.said.IsZero() && now.Sub(s.said) < reducerWindow {
		return false
	}
	s.said = now
	return true
}
