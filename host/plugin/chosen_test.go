package plugin

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"talon/host/plugin/plugintest"
	"talon/host/plugin/sidecar"
)

// TestPolicy lets the operator choose which policies decide, and in which order.
func TestPolicy(t *testing.T) {
	w := newWorld(t)
	w.o.Bundled = fallback(t, accepting("7"))
	w.drop("open.wasm", accepting("1").wasm(t))
	w.drop("open.toml", []byte("place = 0"))
	w.drop("guard.wasm", rejecting("no").wasm(t))
	traps := rejecting("x")
	traps.trap = true // on event 255
	w.drop("trap.wasm", traps.wasm(t))
	w.drop("trap.toml", []byte("mode = \"shadow\"\non-failure = \"bundled\"\nplace = 99"))

	w.o.Policy = []string{"guard", "open"}
	w.mustOpen()
	w.want("guard reject no")
	if guard, open := w.of("guard"), w.of("open"); guard.Running.Place != 1 || open.Running.Place != 2 || guard.LeftOut {
		t.Errorf("%+v, %+v; want places 1 and 2", guard.Running, open.Running)
	}
	trap := w.of("trap")
	if trap.Running != nil || !trap.LeftOut || trap.Mode != sidecar.Off || trap.Quarantine != nil {
		t.Errorf("%+v", trap)
	}
	// What comes later is left out too, and what is changed stays where it is.
	w.drop("late.wasm", rejecting("late").wasm(t))
	w.change("guard.toml", []byte("place = 1000\nmode = \"enforce\""))
	w.want("guard reject no")
	if s, err := w.SetMode(t.Context(), "late", sidecar.Enforce); err != nil || !s.LeftOut || s.Running != nil {
		t.Errorf("%+v, %v", s, err)
	}
	w.change("late.wasm", rejecting("later").wasm(t))
	if s := w.of("late"); !s.LeftOut || s.Running != nil {
		t.Errorf("%+v", s)
	}
	w.want("guard reject no")
	w.restart()
	w.want("guard reject no")

	// The fallback is no policy of the folder: it still decides where one has failed.
	w.o.Policy = []string{"trap", "guard", "open"}
	w.drop("trap.toml", []byte(`on-failure = "bundled"`))
	w.restart()
	w.want("trap reject x")
	if got := w.said(255); got != "bundled-grasp accept v7" {
		t.Errorf("%q", got)
	}
	w.o.Policy = nil
	w.restart()
	w.want("open accept v1")
	if s := w.of("late"); s.LeftOut || s.Running == nil {
		t.Errorf("nothing was chosen, and still: %+v", s)
	}
}

// TestWrongPolicy chooses what is not there: the relay does not start, and says what is.
func TestWrongPolicy(t *testing.T) {
	w := newWorld(t)
	w.drop("open.wasm", accepting("1").wasm(t))
	w.drop("guard.wasm", rejecting("no").wasm(t))
	w.drop("guard.toml", []byte(`mode = "off"`))
	calm, err := os.ReadFile(filepath.Join(plugintest.Build(t, "examples/hello-strategy", "examples/hello-throttle"), "hello-throttle.wasm"))
	if err != nil {
		t.Fatal(err)
	}
	w.drop("calm.wasm", calm)
	w.o.CacheDir = plugintest.MachineCode(t, "examples/hello-throttle")
	for _, test := range []struct {
		policy []string
		want   string
	}{
		{[]string{"open", "rate"}, "option policy names rate, and there is no rate.wasm in " + w.o.Dir + ": the policies there are guard, open"},
		{[]string{"open", "calm"}, "option policy names calm, which is no policy: leave it out, it runs all the same; the policies are guard, open"},
		{[]string{"guard"}, "no plugin in " + w.o.Dir + " decides about events"},
	} {
		w.o.Policy = test.policy
		if err := w.open(); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%q: %v\nwant %s", test.policy, err, test.want)
		}
	}
	w.o.Policy = []string{"open"}
	w.mustOpen()
	if s := w.of("calm"); s.LeftOut || s.Running == nil {
		t.Errorf("a throttle is no matter of the policy: %+v", s)
	}
}

// TestPolicyOfPrograms: a program is a policy like others, for who chooses and for who
// records.
func TestPolicyOfPrograms(t *testing.T) {
	w := newWorld(t)
	w.o.AllowExec = true
	w.drop("open.wasm", accepting("1").wasm(t))
	w.drop("spam.toml", execOf(programOf(t, "reject")))
	w.o.Policy = []string{"open"}
	w.mustOpen()
	w.want("open accept v1")
	if s := w.of("spam"); !s.LeftOut || s.Running != nil {
		t.Errorf("%+v", s)
	}
	w.o.Policy = []string{"spam", "open"}
	w.restart()
	if s := w.of("spam"); s.LeftOut || s.Running.Place != 1 {
		t.Errorf("%+v", s)
	}
	r := w.record(of("spam"))
	w.want("spam reject exec")
	r.want("admit spam reject exec")
}

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

			w.change("guard.wasm", []byte("garbage"))
			w.want("guard reject missing")
			if h := w.Health(); len(h) != 1 || !strings.Contains(h[0], "not a WebAssembly module") {
				t.Errorf("%q", h)
			}
			w.change("guard.wasm", guard)
			w.want("guard reject no")

			if test.policy == nil { // with a choice of policies, a start without one of them fails
				w.remove("guard.wasm")
				w.remove("guard.toml")
				w.look()
				w.want("guard reject missing")
				w.restart()
				w.want("guard reject missing")
				w.drop("guard.toml", []byte(test.sidecar))
				w.change("guard.wasm", guard)
				w.want("guard reject no")
			}
			w.mustSetMode("guard", sidecar.Off)
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
