package throttle

// Relays are the numbers by which relays that fail are tried again, lengths of time
// all but one.
type Relays struct {
	First, Most int64 // after a failure: doubles with each one in a row
	Stable      int64 // a connection that ended sooner counts as a failure
	DeadAfter   int64 // of failures only: the relay is dead
	DeadEvery   int64 // between attempts to reach a dead relay
	Limited     int64 // after "rate-limited", unless the relay names a longer time
	Barred      int64 // after a wrong name, certificate or protocol

	AtOnce uint32 // attempts to connect, to all relays together
}

// Admit lets one attempt to connect to a relay start at a time, not before After
// said.
func (r *Relays) Admit(in AdmitInput) AdmitAnswer {
	if left := in.Subject.NotBefore - in.Now; left > 0 {
		return Wait(left)
	}
	if in.Subject.InFlight > 0 || in.AllInFlight >= r.AtOnce {
		return WaitForEnd()
	}
	return Start()
}

// After says when to connect again: at once to a relay that was fine, and less often
// the longer it fails.
func (r *Relays) After(in AfterInput) AfterAnswer {
	switch in.Outcome {
	case OK:
		return AfterAnswer{Health: Healthy}
	case Disconnected:
		if in.Since == 0 || in.Now-in.Since >= r.Stable {
			return AfterAnswer{Health: Healthy}
		}
	case RateLimited:
		return AfterAnswer{Delay: min(max(r.Limited, in.RetryAfter), Day), Health: Degraded, Reason: "it asks for less"}
	case DNS, TLS, Protocol:
		return AfterAnswer{Delay: r.Barred, Health: Barred, Reason: "its name, certificate or protocol is wrong"}
	}
	if since := in.Subject.FailingSince; since != 0 && in.Now-since >= r.DeadAfter {
		return AfterAnswer{Delay: r.DeadEvery, Health: Dead, Reason: "it has failed for long"}
	}
	delay := max(Backoff(r.First, r.Most, in.Subject.Failures), min(in.RetryAfter, Day))
	return AfterAnswer{Delay: delay, Health: Degraded}
}
