package throttle

import (
	"talon/sdk/abi"
)

// DelayInput is what Delay is asked about.
type DelayInput struct {
	Facts
	*abi.DelayRequestView
}

// AdmitInput is what Admit is asked about.
type AdmitInput struct {
	Facts
	*abi.ThrottleAdmitRequestView
}

// AfterInput is the input of After.
type AfterInput struct {
	Facts
	*abi.AfterRequestView
}

// PickInput is what Pick is asked about.
type PickInput struct {
	Facts
	*abi.PickRequestView
}

// TickInput is the input of Tick.
type TickInput struct {
	Facts
	*abi.TickRequest
}

// Subject is what a throttle is asked about, and what happened with it lately.
type Subject = abi.SubjectView

// ClientLimits is what one client may do; 0 is no limit.
type ClientLimits = abi.ClientLimits

// Telemetry is how this server is doing.
type Telemetry = abi.Telemetry

// Facts are the functions of the host.
type Facts struct{ c *call }

// Log writes a line to the operator's log. It needs the capability "log". Lines
// beyond the host's limit are dropped.
func (f Facts) Log(level Level, text string) { f.c.host.log(int32(level), text) }

// call is the state of one decision. It is reused, so that a decision allocates
// nothing.
type call struct {
	delay abi.DelayRequestView
	admit abi.ThrottleAdmitRequestView
	after abi.AfterRequestView
	pick  abi.PickRequestView
	tick  abi.TickRequest
	host  hostFunctions
}

// The methods read a request, ask t, and append the encoded answer to b.

func (c *call) askDelay(t Throttle, request, b []byte) ([]byte, error) {
	if err := c.delay.Decode(request); err != nil {
		return nil, err
	}
	answer := t.Delay(DelayInput{Facts{c}, &c.delay})
	return abi.AppendDelayAnswer(b, &answer), nil
}

func (c *call) askAdmit(t Throttle, request, b []byte) ([]byte, error) {
	if err := c.admit.Decode(request); err != nil {
		return nil, err
	}
	answer := t.Admit(AdmitInput{Facts{c}, &c.admit})
	return abi.AppendThrottleAdmitAnswer(b, &answer), nil
}

func (c *call) askAfter(t Throttle, request, b []byte) ([]byte, error) {
	if err := c.after.Decode(request); err != nil {
		return nil, err
	}
	answer := t.After(AfterInput{Facts{c}, &c.after})
	answer.Reason = cut(answer.Reason)
	return abi.AppendAfterAnswer(b, &answer), nil
}

func (c *call) askPick(t Throttle, request, b []byte) ([]byte, error) {
	if err := c.pick.Decode(request); err != nil {
		return nil, err
	}
	answer := t.Pick(PickInput{Facts{c}, &c.pick})
	return abi.AppendPickAnswer(b, &answer), nil
}

func (c *call) askTick(t Throttle, request, b []byte) ([]byte, error) {
	if err := c.tick.Decode(request); err != nil {
		return nil, err
	}
	answer := t.Tick(TickInput{Facts{c}, &c.tick})
	return abi.AppendTickAnswer(b, &answer), nil
}

// cut shortens a reason to what the host takes, not within a rune.
func cut(s string) string {
	if len(s) <= abi.MaxActionReason {
		return s
	}
	n := abi.MaxActionReason
	for n > 0 && s[n]&0xc0 == 0x80 {
		n--
	}
	return s[:n]
}

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

// Backoff returns the time to wait after that many failures in a row: first
// after the first one, then twice as long each time, at most most.
func Backoff(first, limit int64, failures uint32) int64 {
	d := first
	for n := failures; n > 1 && d > 0; n-- {
		if d > limit/2 {
			return limit
		}
		d *= 2
	}
	return min(d, limit)
}

// UntilFree returns how long to wait until one more start keeps to at most that
// many in any window of this length: 0 if it may be now. The host reports the
// latest 256 starts: with a higher limit than that, there is always room.
func UntilFree(s *Subject, limit int, window int64) int64 {
	if age, ok := s.Age(limit - 1); ok {
		return max(window-int64(age), 0)
	}
	return 0
}
