package policytest

import (
	"testing"

	"talon/sdk/abi"
	"talon/sdk/abi/manifest"
	"talon/sdk/policy"
)

// Now is the time of every decision until a test changes Harness.Now.
const Now = 1_700_000_000

// Harness runs one configured policy. Change its fields between decisions.
type Harness struct {
	Now     int64
	Origin  policy.Origin
	Address string
	Relay   string
	Authed  []policy.PubKey // keys that the client has proven

	Stored []Event  // what the store holds, newest first
	Logged []string // lines that the policy has logged

	t        testing.TB
	policy   policy.Policy
	manifest *manifest.Manifest
	call     *policy.Call
}

// New configures p with values, as an operator writes them, and ends the test
// if that fails.
func New(t testing.TB, manifestText string, p policy.Policy, values map[string]any) *Harness {
	t.Helper()
	h, err := Configure(t, manifestText, p, values)
	if err != nil {
		t.Fatalf("configure: %v", err)
	}
	return h
}

// Configure is New for tests of wrong configurations.
func Configure(t testing.TB, manifestText string, p policy.Policy, values map[string]any) (*Harness, error) {
	t.Helper()
	m, err := manifest.Parse([]byte(manifestText))
	if err != nil {
		t.Fatal(err)
	}
	settings, err := m.Resolve(values)
	if err != nil {
		return nil, err
	}
	if err := policy.Configure(p, settings); err != nil {
		return nil, err
	}
	h := &Harness{Now: Now, Origin: policy.FromClient, t: t, policy: p, manifest: m}
	h.call = policy.NewCall(host{h})
	return h, nil
}

// Admit asks the policy about e.
func (h *Harness) Admit(e Event) policy.Verdict {
	h.t.Helper()
	return h.Decide(h.Request(e))
}

// Request encodes what the policy would be asked about e.
func (h *Harness) Request(e Event) []byte {
	return abi.AppendAdmitRequest(nil, &abi.AdmitRequest[[]string, policy.PubKey]{
		Event:  e.encoded(h.Now),
		Origin: uint32(h.Origin), Address: []byte(h.Address), Relay: h.Relay, Authed: h.Authed, Now: h.Now,
	})
}

// Decide asks the policy about an encoded request. It allocates nothing itself.
func (h *Harness) Decide(request []byte) policy.Verdict {
	verdict, err := h.call.Admit(h.policy, request)
	if err != nil {
		h.t.Fatalf("decode the request: %v", err)
	}
	return verdict
}

// Want fails the test unless the policy answers e with this action and rule.
func (h *Harness) Want(e Event, action policy.Action, rule string) {
	h.t.Helper()
	if v := h.Admit(e); v.Action != action || v.Rule != rule {
		h.t.Errorf("kind %d %.40q: %v by %q (%s), want %v by %q", e.Kind, e.Content, v.Action, v.Rule, v.Reason(), action, rule)
	}
}

// WantNoAllocations fails the test if deciding about e allocates.
func (h *Harness) WantNoAllocations(e Event) {
	h.t.Helper()
	request := h.Request(e)
	if n := testing.AllocsPerRun(100, func() { h.Decide(request) }); n != 0 {
		h.t.Errorf("a decision allocates %v times, want 0", n)
	}
}
