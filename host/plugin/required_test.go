package plugin

import (
	"slices"
	"strings"
	"testing"

	"talon/host/plugin/sidecar"
)

// TestRequired removes and breaks a policy that is required: what it would judge is
// refused, also after a restart, until it is back, or the operator does without it.
func TestRequired(t *testing.T) {
	guard := rejecting("no").wasm(t)
	for _, test := range []struct {
		name    string
		sidecar string
		policy  []string
	}{
		{"by its side-car", "required = true\nplace = 20", nil},
		{"by the choice of policies", "place = 20", []string{"guard", "open"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			w.o.Policy = test.policy
			w.drop("open.wasm", accepting("1").wasm(t))
			w.drop("guard.wasm", guard)
			w.drop("guard.toml", []byte(test.sidecar))
			w.mustOpen()
			w.want("guard reject no")
			if len(w.Health()) != 0 {
				t.Errorf("%q", w.Health())
			}

			w.remove("guard.wasm")
			w.look()
			w.want("guard reject missing")
			r, err := w.Admit(t.Context(), item(1), nil, now)
			if err != nil || r.Reason != "error: policy guard is missing" {
				t.Errorf("%+v, %v", r, err)
			}
			if h := w.Health(); len(h) != 1 || !strings.Contains(h[0], "policy guard is missing: its files are not in the folder") {
				t.Errorf("%q", h)
			}
			if s := w.of("guard"); !s.Required || s.Missing == "" || s.Running != nil {
				t.Errorf("%+v", s)
			}
			w.look()
			w.want("guard reject missing")

			w.drop("guard.wasm", []byte("garbage"))
			w.look()
			w.want("guard reject missing")
			if h := w.Health(); len(h) != 1 || !strings.Contains(h[0], "not a WebAssembly module") {
				t.Errorf("%q", h)
			}
			w.drop("guard.wasm", guard)
			w.look()
			w.want("guard reject no")

			if test.policy == nil { // with a choice of policies, a start without one of them fails
				w.remove("guard.wasm")
				w.remove("guard.toml")
				w.look()
				w.want("guard reject missing")
				w.restart()
				w.want("guard reject missing")
				w.drop("guard.toml", []byte(test.sidecar))
				w.drop("guard.wasm", guard)
				w.look()
				w.want("guard reject no")
			}
			if _, err := w.SetMode(t.Context(), "guard", sidecar.Off); err != nil {
				t.Fatal(err)
			}
			w.want("open accept v1")
			w.remove("guard.wasm")
			w.remove("guard.toml")
			w.look()
			w.want("open accept v1")
		})
	}
}

// TestRequiredRests has a required policy that fails for all: with on-failure = "open"
// it is not got past.
func TestRequiredRests(t *testing.T) {
	w := guarded(t, "required = true\non-failure = 'open'")
	for i := range byte(40) {
		w.asks(from(client(i), uint32(i), 255))
	}
	if said := w.asks(from(client(100), 100, 1)); said != "guard reject failed" {
		t.Errorf("%s, want that it is refused", said)
	}
	if h := w.Health(); !slices.Equal(h, []string{"policy guard has failed for too many and rests"}) {
		t.Errorf("%q", h)
	}
}
