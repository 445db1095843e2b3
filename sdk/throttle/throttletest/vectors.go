package throttletest

import (
	"reflect"
	"testing"

	"talon/sdk/abi/manifest"
	"talon/sdk/throttle"
)

// Vectors runs the tests of the manifest for throttles, each as a subtest, as a relay
// does before it lets a module decide. Each story of vectors begins with a copy of th
// as it is now.
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
