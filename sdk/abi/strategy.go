package abi

import "unicode/utf8"

// Input is one of the messages that a StepRequest can hold: exactly these are
// the inputs of a strategy.
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

// ActionLimits bounds the input of DecodeActions.
type ActionLimits struct {
	Actions   int // of one answer
	Filters   int // of one subscription
	Values    int // of one filter: ids, authors, kinds, tags and tag values together
	AllValues int // of all filters of an answer
}

// ActionError describes the fault in an answer of a strategy.
type ActionError struct {
	Index int    // of the action, from 0
	What  string // what is wrong, and what is wanted
}

func (e *ActionError) Error() string {
	return "action " + decimal(e.Index) + ": " + e.What
}

// DecodeActions reads StepActions of a module, and returns a copy. Its size is bounded by the
// limits and by len(b). An error is an *ActionError or ErrMalformed. The caller checks whether
// relays may be contacted, and whether the numbers make sense together.
func DecodeActions(b []byte, limits ActionLimits) ([]StepAction, error) {
	var actions []StepAction
	d := actionDecoder{limits: limits, left: limits.AllValues}
	r := reader{rest: b}
	for r.next() {
		if !r.is(1, wireBytes) {
			continue
		}
		if len(actions) == limits.Actions {
			return nil, &ActionError{len(actions), "an answer has at most " + decimal(limits.Actions) + " actions"}
		}
		var a StepAction
		if what := d.action(&a, r.data); what != "" {
			return nil, &ActionError{len(actions), what}
		}
		actions = append(actions, a)
	}
	if r.bad {
		return nil, ErrMalformed
	}
	return actions, nil
}

// actionDecoder decodes the actions of one answer. Its methods return the fault, or "" if there is
// none.
type actionDecoder struct {
	limits ActionLimits
	left   int // values that the rest of the answer may have
}

const malformed = "malformed message"

func (d *actionDecoder) action(a *StepAction, b []byte) string {
	var body []byte
	r := reader{rest: b}
	for r.next() {
		field := uint32(r.key >> 3)
		if !r.is(field, wireBytes) || field < DoConnect || field > DoProgress {
			continue
		}
		if a.Do != 0 {
			return "two actions in one"
		}
		a.Do, body = field, r.data
	}
	switch {
	case r.bad:
		return malformed
	case a.Do == 0:
		return "of no kind that this host knows"
	}
	what := d.body(a, body)
	if what == "" {
		what = check(a)
	}
	if what != "" {
		return doNames[a.Do] + ": " + what
	}
	return ""
}

func (d *actionDecoder) onlyFilter(a *StepAction, b []byte) string {
	if len(a.Filters) == 1 {
		return "more than one filter"
	}
	return d.addFilter(a, b)
}

func (d *actionDecoder) filter(a *StepAction, b []byte) string {
	if len(a.Filters) == d.limits.Filters {
		return "a subscription has at most " + decimal(d.limits.Filters) + " filters"
	}
	return d.addFilter(a, b)
}

func (d *actionDecoder) addFilter(a *StepAction, b []byte) string {
	limit := min(d.limits.Values, d.left)
	f, err := DecodeFilter(b, limit)
	if err != nil {
		what := "a filter is malformed, or has more than " + decimal(limit) + " values"
		if limit < d.limits.Values {
			what += " (all filters of an answer have at most " + decimal(d.limits.AllValues) + ")"
		}
		return what
	}
	d.left -= len(f.IDs) + len(f.Authors) + len(f.Kinds) + len(f.Tags)
	for i := range f.Tags {
		d.left -= len(f.Tags[i].Values)
	}
	a.Filters = append(a.Filters, f)
	return ""
}

// check returns the field that is missing or out of range.
func check(a *StepAction) string {
	switch {
	case a.Do != DoSetTimer && a.Relay == "":
		return "no relay"
	case hasID(a.Do) && !isActionID(a.ID):
		return "id is not 1 to 64 bytes from ! to ~"
	case (a.Do == DoSubscribe || a.Do == DoHistoric) && len(a.Filters) == 0:
		return "no filter"
	case a.Method > MethodREQ:
		return "method " + decimal(int(a.Method)) + " is not one that this host knows"
	case a.Purpose > PurposeDaily:
		return "purpose " + decimal(int(a.Purpose)) + " is not one that this host knows"
	case a.At < 0, a.NextCheck < 0:
		return "a time before 1970"
	}
	return ""
}

// hasID reports whether actions of a kind have an id.
func hasID(do uint32) bool {
	return do == DoSubscribe || do == DoUnsubscribe || do == DoHistoric || do == DoSetTimer
}

func isActionID(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] < '!' || s[i] > '~' {
			return false
		}
	}
	return s != "" && len(s) <= MaxActionID
}

func copyText(dst *string, name string, data []byte, limit int) string {
	if len(data) > limit {
		return name + " has " + decimal(len(data)) + " bytes; the limit is " + decimal(limit)
	}
	if !utf8.Valid(data) {
		return name + " is not UTF-8"
	}
	*dst = string(data)
	return ""
}

// decimal is strconv.Itoa for numbers that are not negative; it keeps strconv out
// of small modules.
func decimal(n int) string {
	var b [20]byte
	i := len(b)
	for {
		i--
		b[i] = '0' + byte(n%10)
		if n /= 10; n == 0 {
			return string(b[i:])
		}
	}
}
