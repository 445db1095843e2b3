// Package policytest runs a policy natively, so that it is tested with go test:
//
//	func TestGreeting(t *testing.T) {
//		h := policytest.New(t, manifest, new(rules), nil)
//		h.Want(policytest.Event{Kind: 1, Content: "hello"}, policy.ActionAccept, "")
//	}
//
// Test a policy for queries, connections, pushes or audiences with [Harness.Query],
// [Harness.Connect], [Harness.Push] and [Harness.Audience]. The fields of the harness replace the
// relay: its stored events, sets, repositories and time. Values that the policy keeps live as long
// as the harness, and they count and expire as in a relay.
//
// [Vectors] runs the tests in the manifest of the module. So go test shows the result that a relay
// gets before it lets the module decide.
//
// The configuration is checked against the manifest and the event is encoded
// and read in place, as a relay does it. Events are not verified: a test need
// not sign.
package policytest

import (
	"reflect"
	"slices"
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

	// More about the client of a query, connection or push.
	UserAgent string
	WebOrigin string // the page that a browser was on
	Path      string // of the request, "/" until a test changes it

	Stored []Event             // what the store holds, newest first
	Held   []Event             // what is in purgatory
	Sets   map[string][]string // members are 64 hex digits or any text
	Git    map[string]Repo     // by the address of the announcement, 30617:pubkey:d

	// Usage is what authors (64 hex digits) and repositories (30617:pubkey:d) take.
	Usage map[string]policy.Usage

	Room    int64              // bytes that keys and values may take together
	Failing bool               // the store and purgatory cannot answer queries
	Logged  []string           // lines that the policy has logged
	Metrics map[string]float64 // counters and gauges

	About policy.Description // what the policy said when it was configured

	t        testing.TB
	policy   policy.Policy
	manifest *manifest.Manifest
	call     *policy.Call
	idle     []string // functions that the policy says to pass
	kept     map[string]kept
	buckets  map[string]*int64 // unix milliseconds at which each is full again
}

// Repo is a git repository that the relay has.
type Repo struct {
	Objects []string          // commits, by their names as hex digits
	Others  []string          // objects that are no commits
	Refs    map[string]string // refs/heads/main: the object's name
}

// Push is a push as a test writes it.
type Push struct {
	Repo        string // address of the announcement, 30617:pubkey:d
	Maintainers []policy.PubKey
	Updates     []abi.RefUpdate
	Bytes       int64 // of the pack; 0 if it is not known
	Stored      int64 // bytes that the repository takes on disk
	PRs         bool  // to the repository under /prs/
	Fetch       bool  // the host fetches, and nobody pushes
}

// Service is the address of the relay that [New] and [Configure] simulate.
var Service = policy.Service{Domain: manifest.VectorDomain, PRs: true}

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

// Configure is like New, but returns the error.
func Configure(t testing.TB, manifestText string, p policy.Policy, values map[string]any) (*Harness, error) {
	t.Helper()
	return ConfigureAt(t, Service, manifestText, p, values)
}

// ConfigureAt is like Configure, for a relay at another address.
func ConfigureAt(t testing.TB, at policy.Service, manifestText string, p policy.Policy, values map[string]any) (*Harness, error) {
	t.Helper()
	m, err := manifest.Parse([]byte(manifestText))
	if err != nil {
		t.Fatal(err)
	}
	settings, err := m.Resolve(values)
	if err != nil {
		return nil, err
	}
	said, err := policy.Configure(p, abi.Config{Settings: settings, Service: at})
	if err != nil {
		return nil, err
	}
	checkFunctions(t, m, p)
	h := &Harness{
		Now: Now, Origin: policy.FromClient, Path: "/", Room: 6 << 20, Metrics: map[string]float64{},
		About: policy.Description(said.About), idle: said.Idle,
		t: t, policy: p, manifest: m, kept: map[string]kept{}, buckets: map[string]*int64{},
	}
	h.call = policy.NewCall(host{h})
	return h, nil
}

// checkFunctions fails the test unless the manifest names the functions that the
// policy has: a relay calls no others.
func checkFunctions(t testing.TB, m *manifest.Manifest, p policy.Policy) {
	t.Helper()
	_, querier := p.(policy.Querier)
	_, connector := p.(policy.Connector)
	_, pusher := p.(policy.Pusher)
	_, audiencer := p.(policy.Audiencer)
	for _, f := range []struct {
		name, method string
		has          bool
	}{{"query", "Query", querier}, {"connect", "Connect", connector}, {"push", "Push", pusher}, {"audience", "Audience", audiencer}} {
		switch named := slices.Contains(m.Functions, f.name); {
		case named && !f.has:
			t.Errorf("the manifest names the function %s, but the policy has no method %s", f.name, f.method)
		case f.has && !named:
			t.Errorf("the policy has a method %s, but a relay never calls it: the manifest's functions are %q", f.method, m.Functions)
		}
	}
}

// Admit asks the policy about e.
func (h *Harness) Admit(e Event) policy.Verdict {
	h.t.Helper()
	return h.decide("admit", h.Request(e))
}

// Audience asks the policy who may receive e.
func (h *Harness) Audience(e Event) policy.Verdict {
	h.t.Helper()
	return h.decide("audience", abi.AppendAdmitRequest(nil, &abi.AdmitRequest[[]string, policy.PubKey]{Event: e.encoded(h.Now), Now: h.Now}))
}

// Request encodes the request about e.
func (h *Harness) Request(e Event) []byte {
	return abi.AppendAdmitRequest(nil, &abi.AdmitRequest[[]string, policy.PubKey]{
		Event:  e.encoded(h.Now),
		Origin: uint32(h.Origin), Address: []byte(h.Address), Relay: h.Relay, Authed: h.Authed, Now: h.Now,
	})
}

// Decide asks the policy about an encoded request of [Harness.Request]. It allocates nothing itself.
func (h *Harness) Decide(request []byte) policy.Verdict {
	verdict, err := h.call.Admit(h.policy, request)
	if err != nil {
		h.t.Fatalf("decode the request: %v", err)
	}
	return verdict
}

// DecideQuery is like Decide, for a request of [Harness.QueryRequest].
func (h *Harness) DecideQuery(request []byte) policy.Verdict {
	verdict, err := h.call.Query(h.policy.(policy.Querier), request)
	if err != nil {
		h.t.Fatalf("decode the request: %v", err)
	}
	return verdict
}

// Query asks the policy about filters.
func (h *Harness) Query(verb policy.Verb, filters ...policy.Filter) policy.Verdict {
	h.t.Helper()
	return h.decide("query", h.QueryRequest(verb, filters...))
}

// QueryRequest encodes the request about filters.
func (h *Harness) QueryRequest(verb policy.Verb, filters ...policy.Filter) []byte {
	h.t.Helper()
	var b []byte
	for i := range filters {
		b = h.appendFilter(b, &filters[i])
	}
	return abi.AppendQueryRequest(b, &abi.QueryRequest[policy.PubKey]{Client: h.client(), Verb: uint32(verb), Now: h.Now})
}

func (h *Harness) appendFilter(b []byte, f *policy.Filter) []byte {
	h.t.Helper()
	wire := abi.QueryFilter[policy.ID, policy.PubKey, uint16, tagCondition]{IDs: f.IDs, Authors: f.Authors, Limit: -1}
	for _, kind := range f.Kinds {
		wire.Kinds = append(wire.Kinds, uint16(kind))
	}
	for _, tag := range f.Tags {
		if len(tag.Name) != 1 {
			h.t.Fatalf("the filter's tag %q: want a single letter", tag.Name)
		}
		wire.Tags = append(wire.Tags, tagCondition{tag.Name[0], tag.Values})
	}
	if f.Since != 0 {
		wire.Since = &f.Since
	}
	if f.Until != 0 {
		wire.Until = &f.Until
	}
	if f.Limit != 0 {
		wire.Limit = f.Limit
	}
	return abi.AppendFilterOf(b, &wire)
}

type tagCondition = struct {
	Name   byte
	Values []string
}

// Connect asks the policy about a client that has just come. With it, the relay has
// open connections, fromAddress of them from the client's address.
func (h *Harness) Connect(open, fromAddress int) policy.Verdict {
	h.t.Helper()
	return h.decide("connect", abi.AppendConnectRequest(nil, &abi.ConnectRequest[policy.PubKey]{
		Client: h.client(), Open: uint32(open), FromAddress: uint32(fromAddress), Now: h.Now,
	}))
}

// Push asks the policy about p.
func (h *Harness) Push(p Push) policy.Verdict {
	h.t.Helper()
	return h.decide("push", abi.AppendPushRequest(nil, &abi.PushRequest[policy.PubKey, abi.RefUpdate]{
		Client: h.client(), Repo: p.Repo, Maintainers: p.Maintainers, Updates: p.Updates, Bytes: p.Bytes, Stored: p.Stored, PRs: p.PRs, Fetch: p.Fetch, Now: h.Now,
	}))
}

func (h *Harness) client() abi.Client[policy.PubKey] {
	return abi.Client[policy.PubKey]{
		Address: []byte(h.Address), Authed: h.Authed, UserAgent: h.UserAgent, Origin: h.WebOrigin, Path: h.Path,
	}
}

// decide asks the policy about an encoded request of one of its functions, and
// fails the test if the answer makes no sense there.
func (h *Harness) decide(function string, request []byte) policy.Verdict {
	h.t.Helper()
	var v policy.Verdict
	var err error
	switch function {
	case "admit":
		v, err = h.call.Admit(h.policy, request)
	case "query":
		v, err = h.call.Query(has[policy.Querier](h), request)
	case "connect":
		v, err = h.call.Connect(has[policy.Connector](h), request)
	case "push":
		v, err = h.call.Push(has[policy.Pusher](h), request)
	case "audience":
		v, err = h.call.Audience(has[policy.Audiencer](h), request)
	}
	if err != nil {
		h.t.Fatalf("decode the request: %v", err)
	}
	if !manifest.MayAnswer(function, uint32(v.Action)) {
		h.t.Errorf("%v is no answer to %s", v.Action, function)
	}
	if v.Action != policy.ActionPass && slices.Contains(h.idle, function) {
		h.t.Errorf("the policy says that %s is idle, and answers %v: a relay would not have asked", function, v.Action)
	}
	return v
}

// has returns the policy as one that has a method of P.
func has[P any](h *Harness) P {
	h.t.Helper()
	p, ok := h.policy.(P)
	if !ok {
		h.t.Fatalf("the policy has no method of %T", (*P)(nil))
	}
	return p
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

// Vectors runs the tests of the manifest, each as a subtest, as a relay does before it lets a
// module decide. Each story of vectors begins with a copy of the current p.
func Vectors(t *testing.T, manifestText string, p policy.Policy) {
	t.Helper()
	m, err := manifest.Parse([]byte(manifestText))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(m.Vectors, func(v manifest.Vector) bool { return v.Policy() }) {
		t.Fatal("the manifest has no vectors for a policy")
	}
	for i := range m.Vectors {
		v := &m.Vectors[i]
		if !v.Policy() {
			continue
		}
		t.Run(v.Name, func(t *testing.T) {
			story := m.Story(i)
			h, err := ConfigureAt(t, story[0].At(), manifestText, clonePolicy(p), story[0].Config)
			if err != nil {
				t.Fatalf("configure: %v", err)
			}
			var verdict policy.Verdict
			for _, step := range story {
				h.Now, h.Sets = step.Now, step.Sets
				h.Stored, h.Held, h.Usage = events(step.Stored), events(step.Held), usages(step.Usage)
				request, err := step.Request()
				if err != nil {
					t.Fatal(err)
				}
				verdict = h.decide(step.Function, request)
			}
			if err := v.Check(uint32(verdict.Action), verdict.Rule, verdict.Reason()); err != nil {
				t.Error(err)
			}
			if err := v.CheckAudience(keysOf(verdict.Keys), verdict.Set); err != nil {
				t.Error(err)
			}
			if err := v.CheckWake(wakeOf(&verdict), int64(verdict.Wait)); err != nil {
				t.Error(err)
			}
			if err := v.CheckLimits(verdict.MaxAuthorBytes, verdict.MaxRepositoryBytes, verdict.End); err != nil {
				t.Error(err)
			}
		})
	}
}

func usages(list map[string]manifest.VectorUsage) map[string]policy.Usage {
	to := make(map[string]policy.Usage, len(list))
	for name, u := range list {
		to[name] = policy.Usage(u)
	}
	return to
}

// wakeOf returns the filter of the event for which a verdict has an event wait, as JSON; empty for
// none.
func wakeOf(v *policy.Verdict) string {
	if v.Wake == nil {
		return ""
	}
	f := abi.QueryFilter[policy.ID, policy.PubKey, uint16, struct {
		Name   byte
		Values []string
	}]{IDs: v.Wake.IDs, Authors: v.Wake.Authors, Limit: -1}
	for _, kind := range v.Wake.Kinds {
		f.Kinds = append(f.Kinds, uint16(kind))
	}
	for _, t := range v.Wake.Tags {
		f.Tags = append(f.Tags, struct {
			Name   byte
			Values []string
		}{t.Name[0], t.Values})
	}
	if v.Wake.Since != 0 {
		f.Since = &v.Wake.Since
	}
	if v.Wake.Until != 0 {
		f.Until = &v.Wake.Until
	}
	text, err := manifest.FilterOf(&f).MarshalJSON()
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func keysOf(text string) (keys []manifest.Key) {
	for ; len(text) >= len(manifest.Key{}); text = text[len(manifest.Key{}):] {
		keys = append(keys, manifest.Key([]byte(text[:len(manifest.Key{})])))
	}
	return keys
}

func events(list []manifest.VectorEvent) (events []Event) {
	for _, e := range list {
		events = append(events, Event{
			ID: policy.ID(e.ID), PubKey: policy.PubKey(e.PubKey), CreatedAt: e.CreatedAt,
			Kind: int(e.Kind), Tags: e.Tags, Content: e.Content,
		})
	}
	return events
}

// clonePolicy returns a new value with the fields of p, where p is a pointer.
func clonePolicy(p policy.Policy) policy.Policy {
	from := reflect.ValueOf(p)
	if from.Kind() != reflect.Pointer || from.IsNil() {
		return p
	}
	to := reflect.New(from.Type().Elem())
	to.Elem().Set(from.Elem())
	return to.Interface().(policy.Policy)
}
