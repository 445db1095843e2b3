package abi

import "unicode/utf8"

// MaxDelay is the longest time that a throttle may ask for: 366 days, in
// milliseconds.
const MaxDelay = 366 * 24 * 3600 * 1000

// AnswerError says what is wrong with an answer of a throttle.
type AnswerError struct{ What string }

func (e *AnswerError) Error() string { return e.What }

// DelayAnswer is the message DelayAnswer.
type DelayAnswer struct {
	Delay  int64
	Expiry int64
}

// AppendDelayAnswer appends a.
func AppendDelayAnswer(b []byte, a *DelayAnswer) []byte {
	b = appendUint(b, 1, uint64(a.Delay))
	return appendUint(b, 2, uint64(a.Expiry))
}

// DecodeDelayAnswer reads a DelayAnswer that came from a module. Both times are
// from 0 to MaxDelay. An error is an *AnswerError or ErrMalformed, as of the
// other decoders of answers.
func DecodeDelayAnswer(b []byte) (DelayAnswer, error) {
	var a DelayAnswer
	r := reader{rest: b}
	for r.next() {
		switch r.key {
		case 1<<3 | wireVarint:
			a.Delay = int64(r.num)
		case 2<<3 | wireVarint:
			a.Expiry = int64(r.num)
		}
	}
	if r.bad {
		return DelayAnswer{}, ErrMalformed
	}
	if err := checkTime("delay", a.Delay); err != nil {
		return DelayAnswer{}, err
	}
	if err := checkTime("expiry", a.Expiry); err != nil {
		return DelayAnswer{}, err
	}
	return a, nil
}

// ThrottleAdmitAnswer is the message ThrottleAdmitAnswer.
type ThrottleAdmitAnswer struct {
	Start bool
	Wait  int64
}

// AppendThrottleAdmitAnswer appends a.
func AppendThrottleAdmitAnswer(b []byte, a *ThrottleAdmitAnswer) []byte {
	b = appendBool(b, 1, a.Start)
	return appendUint(b, 2, uint64(a.Wait))
}

// DecodeThrottleAdmitAnswer reads a ThrottleAdmitAnswer that came from a module.
func DecodeThrottleAdmitAnswer(b []byte) (ThrottleAdmitAnswer, error) {
	var a ThrottleAdmitAnswer
	r := reader{rest: b}
	for r.next() {
		switch r.key {
		case 1<<3 | wireVarint:
			a.Start = r.num != 0
		case 2<<3 | wireVarint:
			a.Wait = int64(r.num)
		}
	}
	if r.bad {
		return ThrottleAdmitAnswer{}, ErrMalformed
	}
	if a.Start && a.Wait != 0 {
		return ThrottleAdmitAnswer{}, &AnswerError{"start and wait exclude each other"}
	}
	if err := checkTime("wait", a.Wait); err != nil {
		return ThrottleAdmitAnswer{}, err
	}
	return a, nil
}

// AfterAnswer is the message AfterAnswer.
type AfterAnswer struct {
	Delay  int64
	GiveUp bool
	Health uint32
	Reason string
}

// AppendAfterAnswer appends a.
func AppendAfterAnswer(b []byte, a *AfterAnswer) []byte {
	b = appendUint(b, 1, uint64(a.Delay))
	b = appendBool(b, 2, a.GiveUp)
	b = appendUint(b, 3, uint64(a.Health))
	return appendNonEmpty(b, 4, a.Reason)
}

// DecodeAfterAnswer reads an AfterAnswer that came from a module.
func DecodeAfterAnswer(b []byte) (AfterAnswer, error) {
	var a AfterAnswer
	var reason []byte
	r := reader{rest: b}
	for r.next() {
		switch r.key {
		case 1<<3 | wireVarint:
			a.Delay = int64(r.num)
		case 2<<3 | wireVarint:
			a.GiveUp = r.num != 0
		case 3<<3 | wireVarint:
			a.Health = r.uint32()
		case 4<<3 | wireBytes:
			reason = r.data
		}
	}
	if r.bad || !utf8.Valid(reason) {
		return AfterAnswer{}, ErrMalformed
	}
	if err := checkTime("delay", a.Delay); err != nil {
		return AfterAnswer{}, err
	}
	switch {
	case a.Health > HealthBarred:
		return AfterAnswer{}, &AnswerError{"health " + decimal(int(a.Health)) + " is not one that this host knows"}
	case len(reason) > MaxActionReason:
		return AfterAnswer{}, &AnswerError{"reason has " + decimal(len(reason)) + " bytes; the limit is " + decimal(MaxActionReason)}
	}
	a.Reason = string(reason)
	return a, nil
}

// PickAnswer is the message PickAnswer.
type PickAnswer struct {
	Index uint32
	None  bool
}

// AppendPickAnswer appends a.
func AppendPickAnswer(b []byte, a *PickAnswer) []byte {
	b = appendUint(b, 1, uint64(a.Index))
	return appendBool(b, 2, a.None)
}

// DecodePickAnswer reads a PickAnswer that came from a module which was asked
// about that many repositories.
func DecodePickAnswer(b []byte, waiting int) (PickAnswer, error) {
	var a PickAnswer
	r := reader{rest: b}
	for r.next() {
		switch r.key {
		case 1<<3 | wireVarint:
			a.Index = r.uint32()
		case 2<<3 | wireVarint:
			a.None = r.num != 0
		}
	}
	switch {
	case r.bad:
		return PickAnswer{}, ErrMalformed
	case a.None:
		return PickAnswer{None: true}, nil
	case int64(a.Index) >= int64(waiting):
		return PickAnswer{}, &AnswerError{"index " + decimal(int(a.Index)) + " of " + decimal(waiting) + " that wait"}
	}
	return a, nil
}

// TickAnswer is the message TickAnswer.
type TickAnswer struct {
	Set    bool // the answer has limits; if not, they stay as they are
	Limits ClientLimits
}

// AppendTickAnswer appends a.
func AppendTickAnswer(b []byte, a *TickAnswer) []byte {
	if !a.Set {
		return b
	}
	return appendClientLimits(b, 1, &a.Limits)
}

// DecodeTickAnswer reads a TickAnswer that came from a module. The operator's
// clamps are for the caller: 0 is "no limit", not the least.
func DecodeTickAnswer(b []byte) (TickAnswer, error) {
	var a TickAnswer
	r := reader{rest: b}
	for r.next() {
		if !r.is(1, wireBytes) {
			continue
		}
		inner := reader{rest: r.data}
		for inner.next() {
		}
		if inner.bad {
			return TickAnswer{}, ErrMalformed
		}
		a.Set, a.Limits = true, readClientLimits(reader{rest: r.data})
	}
	if r.bad {
		return TickAnswer{}, ErrMalformed
	}
	if a.Limits.BytesIn < 0 || a.Limits.BytesOut < 0 {
		return TickAnswer{}, &AnswerError{"a limit is negative"}
	}
	return a, nil
}

func checkTime(name string, v int64) error {
	switch {
	case v < 0:
		return &AnswerError{name + " is negative"}
	case v > MaxDelay:
		return &AnswerError{name + " is longer than 366 days"}
	}
	return nil
}
