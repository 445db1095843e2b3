package abi

// Input is something that a strategy is told. Exactly the messages that a
// StepRequest can hold are inputs.
type Input interface {
	// appendInput appends the input as a field of a StepRequest.
	appendInput(b []byte) []byte
}

// AppendStep appends a StepRequest. It allocates nothing else.
func AppendStep(b []byte, now int64, input Input) []byte {
	b = appendUint(b, 1, uint64(now))
	return input.appendInput(b)
}

// StepView reads a StepRequest in place.
type StepView struct {
	Now  int64
	Kind uint32 // InputInit and so on: the input that Decode found

	body []byte
}

// Decode makes v a view of b. The input is looked into only when it is read.
func (v *StepView) Decode(b []byte) error {
	*v = StepView{}
	r := reader{rest: b}
	for r.next() {
		switch field := uint32(r.key >> 3); {
		case r.is(1, wireVarint):
			v.Now = int64(r.num)
		case r.is(field, wireBytes) && field >= InputInit && field <= lastInput:
			v.Kind, v.body = field, r.data
		}
	}
	if r.bad {
		return ErrMalformed
	}
	inner := reader{rest: v.body}
	for inner.next() {
	}
	return inner.err()
}

// as returns the message of the input if it is of that kind, else an empty one.
func (v *StepView) as(kind uint32) reader {
	if v.Kind != kind {
		return reader{}
	}
	return reader{rest: v.body}
}

func appendFilter(b []byte, field byte, f *Filter) []byte {
	b, at := open(b, field)
	return seal(AppendFilter(b, f), at)
}

func appendFilters(b []byte, field byte, list []Filter) []byte {
	for i := range list {
		b = appendFilter(b, field, &list[i])
	}
	return b
}
