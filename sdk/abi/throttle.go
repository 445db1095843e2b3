package abi

// MaxDelay is the longest time that a throttle may ask for: 366 days, in
// milliseconds.
const MaxDelay = 366 * 24 * 3600 * 1000

// AnswerError describes the fault in an answer of a throttle.
type AnswerError struct{ What string }

func (e *AnswerError) Error() string { return e.What }

// DecodeThrottleAdmitAnswer reads a ThrottleAdmitAnswer that came from a module. An
// error is an *AnswerError or ErrMalformed, as of the other decoders of answers.
func DecodeThrottleAdmitAnswer(b []byte) (ThrottleAdmitAnswer, error) {
	var a ThrottleAdmitAnswer
	if err := a.decode(b); err != nil {
		return ThrottleAdmitAnswer{}, err
	}
	if a.Start && a.Wait != 0 {
		return ThrottleAdmitAnswer{}, &AnswerError{"start and wait exclude each other"}
	}
	return a, nil
}

// DecodePickAnswer reads a PickAnswer that came from a module which was asked
// about that many repositories.
func DecodePickAnswer(b []byte, waiting int) (PickAnswer, error) {
	var a PickAnswer
	err := a.decode(b)
	switch {
	case err != nil:
		return PickAnswer{}, err
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

func checkKnown(name string, v, last uint32) error {
	if v > last {
		return &AnswerError{name + " " + decimal(int(v)) + " is not one that this host knows"}
	}
	return nil
}

func checkText(name, v string, limit int) error {
	if len(v) > limit {
		return &AnswerError{name + " has " + decimal(len(v)) + " bytes; the limit is " + decimal(limit)}
	}
	return nil
}

// Age returns the age of the start at index i, newest first, in milliseconds, and
// whether there is one. It costs much less than to walk there.
func (v *SubjectView) Age(i int) (age uint32, ok bool) {
	if v.rare {
		for it := v.Ages(); it.Next(); i-- {
			if i == 0 {
				return it.Age(), true
			}
		}
		return 0, false
	}
	var n uint64
	var shift uint
	for _, c := range v.ages {
		if i == 0 && shift < 64 {
			n |= uint64(c&0x7f) << shift
		}
		if shift += 7; c >= 0x80 {
			continue
		}
		if i == 0 {
			return uint32(min(n, 1<<32-1)), true
		}
		i--
		shift = 0
	}
	return 0, false
}
