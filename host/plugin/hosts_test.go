package plugin

import (
	"fmt"
	"testing"

	"talon/host"
	"talon/sdk/abi"
)

// hosting is a policy that hosts repositories, asked after those that accept everything.
func hosting(action uint32, rule string) tiny {
	p := tiny{version: "1", place: 95, action: action, rule: rule, says: abi.About{Grasps: []string{"GRASP-01"}}}
	switch action {
	case abi.ActionHold:
		p.reason = "purgatory: wait"
	case abi.ActionReject:
		p.reason = "blocked: no"
	}
	return p
}

// ofKind is an event of a kind.
func ofKind(kind host.Kind, id byte) *host.Item {
	it := item(id)
	it.Event.Kind = kind
	return it
}

// TestHosts: what a policy accepts is still shown to those behind it that host
// repositories, if it may have to wait for git data. They hold it, or it stays accepted.
func TestHosts(t *testing.T) {
	kinds := []host.Kind{30617, 30618, 1618, 1619}
	for _, test := range []struct {
		name    string
		plugins map[string]tiny
		sidecar string // of grasp
		want    string // about the kinds of repositories
		asked   string
	}{
		{"held", map[string]tiny{"open": accepting("1"), "grasp": hosting(abi.ActionHold, "waits")}, "", "grasp hold waits", "[open grasp]"},
		{"refused", map[string]tiny{"open": accepting("1"), "grasp": hosting(abi.ActionReject, "x")}, "", "open accept v1", "[open grasp]"},
		{"passed", map[string]tiny{"open": accepting("1"), "grasp": hosting(abi.ActionPass, "")}, "", "open accept v1", "[open grasp]"},
		{"accepted twice", map[string]tiny{"open": accepting("1"), "grasp": hosting(abi.ActionAccept, "known"), "later": hosting(abi.ActionHold, "waits")}, "", "open accept v1", "[open grasp]"},
		{"the second holds", map[string]tiny{"open": accepting("1"), "grasp": hosting(abi.ActionReject, "x"), "later": hosting(abi.ActionHold, "waits")}, "", "later hold waits", "[open grasp later]"},
		{"others are passed over", map[string]tiny{"open": accepting("1"), "guard": {version: "1", place: 92, action: abi.ActionReject, rule: "x", reason: "blocked: x"}, "grasp": hosting(abi.ActionHold, "waits")}, "", "grasp hold waits", "[open grasp]"},
		{"it comes first", map[string]tiny{"open": {version: "1", place: 99, action: abi.ActionAccept, rule: "v1"}, "grasp": hosting(abi.ActionAccept, "known"), "later": hosting(abi.ActionHold, "waits")}, "", "grasp accept known", "[grasp]"},
		{"it does not host", map[string]tiny{"open": accepting("1"), "grasp": {version: "1", place: 95, action: abi.ActionHold, rule: "waits", reason: "purgatory: x"}}, "", "open accept v1", "[open]"},
		{"in shadow mode", map[string]tiny{"open": accepting("1"), "grasp": hosting(abi.ActionHold, "waits")}, `mode = "shadow"`, "open accept v1", "[open]"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			for name, p := range test.plugins {
				w.drop(name+".wasm", p.wasm(t))
			}
			if test.sidecar != "" {
				w.drop("grasp.toml", []byte(test.sidecar))
			}
			w.mustOpen()
			defer w.close()
			for i, kind := range kinds {
				it := ofKind(kind, byte(i))
				if got := w.ruled(it); got != test.want {
					t.Errorf("kind %d: %s, want %s", kind, got, test.want)
				}
				if why, ok := w.Why(it.Event.ID); !ok || fmt.Sprint(why.Asked) != test.asked {
					t.Errorf("kind %d: asked %v, want %s", kind, why.Asked, test.asked)
				}
			}
			calls := w.of("grasp").Calls
			for i, kind := range []host.Kind{0, 1, 5, 1617, 1621, 10317, 20000, 30616, 30619} {
				w.ruled(ofKind(kind, byte(10+i)))
			}
			if test.plugins["open"].place == 90 && w.of("grasp").Calls != calls {
				t.Errorf("it was asked about other kinds: %d calls, then %d", calls, w.of("grasp").Calls)
			}
		})
	}
}

// TestHostFails: an announcement that is stored while its host cannot decide would never
// get a repository. It is refused, so that it may come again.
func TestHostFails(t *testing.T) {
	grasp := hosting(abi.ActionHold, "waits")
	grasp.trap = true
	for _, test := range []struct{ sidecar, want string }{
		{"", "grasp reject failed"},
		{`on-failure = "open"`, "open accept v1"},
	} {
		w := newWorld(t)
		w.drop("open.wasm", accepting("1").wasm(t))
		w.drop("grasp.wasm", grasp.wasm(t))
		w.drop("grasp.toml", []byte(test.sidecar))
		w.mustOpen()
		if got := w.ruled(ofKind(30617, 255)); got != test.want {
			t.Errorf("%q: %s, want %s", test.sidecar, got, test.want)
		}
		if got := w.ruled(ofKind(1, 255)); got != "open accept v1" {
			t.Errorf("%q: another kind: %s", test.sidecar, got)
		}
		w.close()
	}

	// One that is required and missing may be the host.
	w := newWorld(t)
	w.drop("open.wasm", accepting("1").wasm(t))
	w.drop("grasp.wasm", hosting(abi.ActionHold, "waits").wasm(t))
	w.drop("grasp.toml", []byte("required = true\nplace = 95"))
	w.mustOpen()
	defer w.close()
	w.remove("grasp.wasm")
	w.look()
	if got := w.ruled(ofKind(30617, 1)); got != "grasp reject missing" {
		t.Errorf("a missing one: %s", got)
	}
	if got := w.ruled(ofKind(1, 2)); got != "open accept v1" {
		t.Errorf("a missing one, another kind: %s", got)
	}
}

// ruled is who decides about an item, and what.
func (w *world) ruled(it *host.Item) string {
	w.t.Helper()
	r, err := w.Admit(w.t.Context(), it, nil, now)
	if err != nil {
		w.t.Fatal(err)
	}
	return r.Module + " " + r.Action.String() + " " + r.Rule
}
