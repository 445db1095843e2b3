package throttle

import "talon/sdk/abi"

// Answers of a throttle.
type (
	DelayAnswer = abi.DelayAnswer
	AdmitAnswer = abi.ThrottleAdmitAnswer
	AfterAnswer = abi.AfterAnswer
	PickAnswer  = abi.PickAnswer
	TickAnswer  = abi.TickAnswer
)

// Start lets the request start.
func Start() AdmitAnswer { return AdmitAnswer{Start: true} }

// Wait has the host ask again after a time of at least a millisecond.
func Wait(millis int64) AdmitAnswer { return AdmitAnswer{Wait: max(millis, 1)} }

// WaitForEnd has the host ask again when another request to the same subject has
// ended.
func WaitForEnd() AdmitAnswer { return AdmitAnswer{} }

// Next picks the repository at index i of those that wait.
func Next(i int) PickAnswer { return PickAnswer{Index: uint32(i)} }

// Nobody picks none until another request has ended.
func Nobody() PickAnswer { return PickAnswer{None: true} }

// Keep leaves the limits of clients as they are.
func Keep() TickAnswer { return TickAnswer{} }

// Limit sets the limits of clients. The host brings them within the operator's
// clamps.
func Limit(limits ClientLimits) TickAnswer { return TickAnswer{Set: true, Limits: limits} }

// Backoff is the time to wait after that many failures in a row: first after the
// first one, then twice as long each time, at most most.
func Backoff(first, most int64, failures uint32) int64 {
	d := first
	for n := failures; n > 1 && d > 0; n-- {
		if d > most/2 {
			return most
		}
		d *= 2
	}
	return min(d, most)
}

// UntilFree is how long to wait until one more start keeps to at most that many
// in any window of this length: 0 if it may be now. The host tells of the latest
// 256 starts: with a higher limit than that, there is always room.
func UntilFree(s *Subject, most int, window int64) int64 {
	if age, ok := s.Age(most - 1); ok {
		return max(window-int64(age), 0)
	}
	return 0
}
