// Package throttletest runs a throttle natively, so that it is tested with go
// test:
//
//	func TestSlots(t *testing.T) {
//		h := throttletest.New(t, manifest, new(gentle), nil)
//		full := abi.Subject{Kind: throttle.Domain, Name: "git.example.com", InFlight: 5}
//		if got := h.Admit(abi.ThrottleAdmitRequest{Subject: full}); got != throttle.WaitForEnd() {
//			t.Errorf("%+v", got)
//		}
//	}
//
// [Vectors] runs the tests in the manifest of the module. So go test shows the result that a relay
// gets before it lets the module decide.
//
// The configuration is checked against the manifest, requests and answers are
// encoded, read in place and decoded within limits, as a host does it.
package throttletest

import (
	"reflect"
	"slices"
	"testing"

	"talon/sdk/abi"
	"talon/sdk/abi/manifest"
	"talon/sdk/throttle"
)

// Start is the time of a harness when it is made, in unix milliseconds.
const Start int64 = 1_700_000_000_000

// Harness runs one configured throttle. Change its fields between decisions.
type Harness struct {
	Now    int64    // unix milliseconds; of every request that has none
	Logged []string // lines that the throttle has logged

	t        testing.TB
	throttle throttle.Throttle
	manifest *manifest.Manifest
	call     *throttle.Call
}

// New configures th with values, as an operator writes them, and ends the test if
// that fails.
func New(t testing.TB, manifestText string, th throttle.Throttle, values map[string]any) *Harness {
	t.Helper()
	h, err := Configure(t, manifestText, th, values)
	if err != nil {
		t.Fatalf("configure: %v", err)
	}
	return h
}

// Configure is like New, but returns the error.
func Configure(t testing.TB, manifestText string, th throttle.Throttle, values map[string]any) (*Harness, error) {
	t.Helper()
	m, err := manifest.Parse([]byte(manifestText))
	if err != nil {
		t.Fatal(err)
	}
	settings, err := m.Resolve(values)
	if err != nil {
		return nil, err
	}
	if err := throttle.Configure(th, settings); err != nil {
		return nil, err
	}
	h := &Harness{Now: Start, t: t, throttle: th, manifest: m}
	h.call = throttle.NewCall(host{h})
	return h, nil
}

// Delay asks the throttle. So do the other methods; each ends the test if a host
// would refuse the answer.
func (h *Harness) Delay(q abi.DelayRequest) throttle.DelayAnswer {
	h.t.Helper()
	h.stamp(&q.Now)
	b, err := h.call.Delay(h.throttle, abi.AppendDelayRequest(nil, &q), nil)
	return must(h, b, err, abi.DecodeDelayAnswer)
}

func (h *Harness) Admit(q abi.ThrottleAdmitRequest) throttle.AdmitAnswer {
	h.t.Helper()
	h.stamp(&q.Now)
	b, err := h.call.Admit(h.throttle, abi.AppendThrottleAdmitRequest(nil, &q), nil)
	return must(h, b, err, abi.DecodeThrottleAdmitAnswer)
}

func (h *Harness) After(q abi.AfterRequest) throttle.AfterAnswer {
	h.t.Helper()
	h.stamp(&q.Now)
	b, err := h.call.After(h.throttle, abi.AppendAfterRequest(nil, &q), nil)
	return must(h, b, err, abi.DecodeAfterAnswer)
}

func (h *Harness) Pick(q abi.PickRequest) throttle.PickAnswer {
	h.t.Helper()
	h.stamp(&q.Now)
	b, err := h.call.Pick(h.throttle, abi.AppendPickRequest(nil, &q), nil)
	return must(h, b, err, func(b []byte) (abi.PickAnswer, error) { return abi.DecodePickAnswer(b, len(q.Waiting)) })
}

func (h *Harness) Tick(q abi.TickRequest) throttle.TickAnswer {
	h.t.Helper()
	h.stamp(&q.Now)
	b, err := h.call.Tick(h.throttle, abi.AppendTickRequest(nil, &q), nil)
	return must(h, b, err, abi.DecodeTickAnswer)
}

// WantNoAllocations fails the test if admitting a request allocates.
func (h *Harness) WantNoAllocations(q abi.ThrottleAdmitRequest) {
	h.t.Helper()
	h.stamp(&q.Now)
	request, b := abi.AppendThrottleAdmitRequest(nil, &q), make([]byte, 0, 1<<10)
	if n := testing.AllocsPerRun(100, func() { h.call.Admit(h.throttle, request, b) }); n != 0 {
		h.t.Errorf("a decision allocates %v times, want 0", n)
	}
}

func (h *Harness) stamp(now *int64) {
	if *now == 0 {
		*now = h.Now
	}
}

func must[A any](h *Harness, b []byte, err error, decode func([]byte) (A, error)) A {
	h.t.Helper()
	if err != nil {
		h.t.Fatalf("decode the request: %v", err)
	}
	answer, err := decode(b)
	if err != nil {
		h.t.Fatalf("a host refuses the answer: %v", err)
	}
	return answer
}

// host answers host functions from the fields of a Harness.
type host struct{ h *Harness }

func (f host) Log(_ throttle.Level, text string) {
	if !slices.Contains(f.h.manifest.Capabilities, abi.CapLog) {
		f.h.t.Fatalf("the throttle logs, but its manifest does not ask for the capability %q", abi.CapLog)
	}
	f.h.Logged = append(f.h.Logged, text)
}

// Vectors runs the tests of the manifest for throttles, each as a subtest, as a relay does before
// it lets a module decide. Each story of vectors begins with a copy of the current th.
func Vectors(t *testing.T, manifestText string, th throttle.Throttle) {
	t.Helper()
	m, err := manifest.Parse([]byte(manifestText))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for i := range m.Vectors {
		v := &m.Vectors[i]
		if v.Policy() {
			continue
		}
		n++
		t.Run(v.Name, func(t *testing.T) {
			story := m.Story(i)
			h, err := Configure(t, manifestText, clone(th), story[0].Config)
			if err != nil {
				t.Fatalf("configure: %v", err)
			}
			var answer []byte
			for _, step := range story {
				request, err := step.Request()
				if err != nil {
					t.Fatal(err)
				}
				if answer, err = h.functions()[step.Function](h.throttle, request, nil); err != nil {
					t.Fatalf("decode the request: %v", err)
				}
			}
			if err := v.CheckAnswer(answer); err != nil {
				t.Error(err)
			}
		})
	}
	if n == 0 {
		t.Fatal("the manifest has no vectors for a throttle")
	}
}

// functions are those of the world, by their names in manifests.
func (h *Harness) functions() map[string]func(th throttle.Throttle, request, b []byte) ([]byte, error) {
	return map[string]func(th throttle.Throttle, request, b []byte) ([]byte, error){
		"throttle_delay": h.call.Delay, "throttle_admit": h.call.Admit, "throttle_after": h.call.After, "throttle_pick": h.call.Pick,
		"throttle_tick": h.call.Tick,
	}
}

// clone returns a new value with the fields of th, where th is a pointer.
func clone(th throttle.Throttle) throttle.Throttle {
	from := reflect.ValueOf(th)
	if from.Kind() != reflect.Pointer || from.IsNil() {
		return th
	}
	to := reflect.New(from.Type().Elem())
	to.Elem().Set(from.Elem())
	return to.Interface().(throttle.Throttle)
}
