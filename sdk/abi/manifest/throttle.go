package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
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
	"throttle_delay": func() throttleAsked { return new(delayAsked) },
	"throttle_admit": func() throttleAsked { return new(admitAsked) },
	"throttle_after": func() throttleAsked { return new(afterAsked) },
	"throttle_pick":  func() throttleAsked { return new(pickAsked) },
	"throttle_tick":  func() throttleAsked { return new(tickAsked) },
}

// readThrottle reads what is asked and wanted of a function of the throttle world.
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
	if pick, ok := q.(*pickAsked); ok && len(pick.Waiting) == 0 {
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

// strictly reads what is of no use unless it is understood in full: a test of
// something else than its author thinks is worse than none.
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
	// What want does not name stays as it is.
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

// Enumerations of talon.proto.
type (
	subjectKind uint32
	eventOrigin uint32
	outcome     uint32
	health      uint32
)

// Their names, the index.
var (
	subjectKinds = []string{abi.SubjectDomain: "domain", abi.SubjectRelay: "relay", abi.SubjectRepository: "repository"}
	eventOrigins = []string{abi.OriginClient: "client", abi.OriginImport: "import", abi.OriginSync: "sync"}
	outcomes     = []string{
		abi.OutcomeOK: "ok", abi.OutcomePartial: "partial", abi.OutcomeNotFound: "not-found", abi.OutcomeRateLimited: "rate-limited",
		abi.OutcomeRefused: "refused", abi.OutcomeServer: "server", abi.OutcomeTimeout: "timeout", abi.OutcomeUnreachable: "unreachable",
		abi.OutcomeDNS: "dns", abi.OutcomeTLS: "tls", abi.OutcomeProtocol: "protocol", abi.OutcomeTooLarge: "too-large",
		abi.OutcomeDisconnected: "disconnected",
	}
	healths = []string{
		abi.HealthUnspecified: "unchanged", abi.HealthHealthy: "healthy", abi.HealthDegraded: "degraded", abi.HealthDead: "dead",
		abi.HealthBarred: "barred",
	}
)

func (k *subjectKind) UnmarshalText(text []byte) error {
	return named((*uint32)(k), subjectKinds, text)
}
func (o *eventOrigin) UnmarshalText(text []byte) error {
	return named((*uint32)(o), eventOrigins, text)
}
func (o *outcome) UnmarshalText(text []byte) error { return named((*uint32)(o), outcomes, text) }
func (h *health) UnmarshalText(text []byte) error  { return named((*uint32)(h), healths, text) }

func (h health) MarshalText() ([]byte, error) { return []byte(healths[h]), nil }

func named(v *uint32, names []string, text []byte) error {
	i := slices.Index(names, string(text))
	if i < 0 || len(text) == 0 {
		return fmt.Errorf("%.40q: want one of %s", text, strings.TrimPrefix(strings.Join(names, ", "), ", "))
	}
	*v = uint32(i)
	return nil
}
