package throttle

import "talon/sdk/abi"

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

// AfterInput is what After is told.
type AfterInput struct {
	Facts
	*abi.AfterRequestView
}

// PickInput is what Pick is asked about.
type PickInput struct {
	Facts
	*abi.PickRequestView
}

// TickInput is what Tick is told.
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
