package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"talon/sdk/abi"
)

// throttleAsked is the request of a vector of the throttle world. Its fields have
// the names of talon.proto, without now, which is that of the vector; values of
// enumerations have small letters and hyphens.
type throttleAsked interface {
	// append appends the encoded request; now is in unix milliseconds.
	append(b []byte, now int64) []byte

	// answer returns the answer 0.
	answer() throttleWanted
}

// throttleWanted is an answer, named in the same way.
type throttleWanted interface {
	// read decodes an encoded answer, as a host does it.
	read(answer []byte) error

	append(b []byte) []byte
}

// newThrottleAsked returns an empty request to a function.
var newThrottleAsked = map[string]func() throttleAsked{
	"throttle_delay": func() throttleAsked { return new(delayRequestForm) },
	"throttle_admit": func() throttleAsked { return new(throttleAdmitRequestForm) },
	"throttle_after": func() throttleAsked { return new(afterRequestForm) },
	"throttle_pick":  func() throttleAsked { return new(pickRequestForm) },
	"throttle_tick":  func() throttleAsked { return new(tickRequestForm) },
}

// readThrottle reads the request and the wanted answer of a function of the throttle world.
func (v *Vector) readThrottle(want []byte) error {
	if string(v.Asks) == "null" {
		return errors.New("request is missing")
	}
	q := newThrottleAsked[v.Function]()
	if err := strictly(v.Asks, q); err != nil {
		return fmt.Errorf("request: %w", err)
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(want, &fields); err != nil || len(fields) == 0 {
		return errors.New("want: name at least one field of the answer")
	}
	if pick, ok := q.(*pickRequestForm); ok && len(pick.Waiting) == 0 {
		return errors.New("request: waiting is empty")
	}
	w := q.answer()
	err := strictly(want, w)
	if err == nil {
		err = w.read(w.append(nil))
	}
	if err != nil {
		return fmt.Errorf("want: %w", err)
	}
	v.asked, v.wants = q, slices.Clone(want)
	return nil
}

// strictly reads JSON and refuses unknown fields. A test of something other than its author thinks
// is worse than none.
func strictly(text []byte, v any) error {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	err := dec.Decode(v)
	if err == nil {
		return nil
	}
	if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		return fmt.Errorf("there is no field %.70s", name)
	}
	return inWords(err)
}

// ReadAnswer reports why a host refuses a module's encoded answer to a vector of the
// throttle world.
func (v *Vector) ReadAnswer(answer []byte) error {
	if v.asked == nil {
		return fmt.Errorf("vector %q is not for a throttle", v.Name)
	}
	return v.asked.answer().read(answer)
}

// CheckAnswer compares a throttle's encoded answer with each field that the vector
// wants.
func (v *Vector) CheckAnswer(answer []byte) error {
	if err := v.ReadAnswer(answer); err != nil {
		return fmt.Errorf("vector %q: a host refuses the answer: %w", v.Name, err)
	}
	w := v.asked.answer()
	_ = w.read(answer) // as before
	got := text(w)
	// Fields that want does not name keep their values.
	if err := strictly(v.wants, w); err != nil {
		return fmt.Errorf("vector %q: want: %w", v.Name, err)
	}
	if text(w) == got {
		return nil
	}
	var want bytes.Buffer
	_ = json.Compact(&want, v.wants) // it was read before
	return fmt.Errorf("vector %q: the answer is %.400s, want %.400s", v.Name, got, want.String())
}

func text(w throttleWanted) string {
	b, _ := json.Marshal(w) // of numbers and texts: it cannot fail
	return string(b)
}

// filled returns a message with the fields of its form, or a form with those of its
// message: they have the same names.
func filled[M any](to *M, from any) *M {
	fillIn(reflect.ValueOf(to).Elem(), reflect.ValueOf(from).Elem())
	return to
}

func fillIn(to, from reflect.Value) {
	switch from.Kind() {
	case reflect.Struct:
		for i := range from.NumField() {
			fillIn(to.FieldByName(from.Type().Field(i).Name), from.Field(i))
		}
	case reflect.Slice:
		to.Set(reflect.MakeSlice(to.Type(), from.Len(), from.Len()))
		for i := range from.Len() {
			fillIn(to.Index(i), from.Index(i))
		}
	default:
		to.Set(from.Convert(to.Type()))
	}
}

// checkMax reads a list that a host cuts.
func checkMax[E any](n int, name string, b []byte, list *[]E) error {
	if err := strictly(b, list); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if len(*list) > n {
		return fmt.Errorf("%s has %d entries; a host tells of %d", name, len(*list), n)
	}
	return nil
}

func named(v *uint32, names []string, text []byte) error {
	i := slices.Index(names, string(text))
	if i < 0 || len(text) == 0 {
		return fmt.Errorf("%.40q: want one of %s", text, strings.TrimPrefix(strings.Join(names, ", "), ", "))
	}
	*v = uint32(i)
	return nil
}

// pickWanted is the message PickAnswer.
type pickWanted struct {
	Index uint32 `json:"index"`
	None  bool   `json:"none"`

	waiting int // repositories of the request
}

func (q *pickRequestForm) answer() throttleWanted { return &pickWanted{waiting: len(q.Waiting)} }

func (w *pickWanted) read(answer []byte) error {
	a, err := abi.DecodePickAnswer(answer, w.waiting)
	w.Index, w.None = a.Index, a.None
	return err
}

func (w *pickWanted) append(b []byte) []byte {
	return abi.AppendPickAnswer(b, &abi.PickAnswer{Index: w.Index, None: w.None})
}

// tickWanted has no limits if the answer leaves them unchanged.
type tickWanted struct {
	Limits *clientLimitsForm `json:"limits"`
}

func (*tickRequestForm) answer() throttleWanted { return new(tickWanted) }

func (w *tickWanted) read(answer []byte) error {
	a, err := abi.DecodeTickAnswer(answer)
	if w.Limits = nil; a.Set {
		w.Limits = (*clientLimitsForm)(&a.Limits)
	}
	return err
}

func (w *tickWanted) append(b []byte) []byte {
	if w.Limits == nil {
		return b
	}
	return abi.AppendTickAnswer(b, &abi.TickAnswer{Set: true, Limits: *filled(new(abi.ClientLimits), w.Limits)})
}
