package manifest

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode"

	"talon/sdk/abi"
)

// VectorNow is the time of a vector that names none, VectorDomain where the relay
// is reached then; it takes pull requests under /prs/.
const (
	VectorNow    = 1_700_000_000
	VectorDomain = "relay.example.com"
)

const (
	maxVectors = 64
	maxSets    = 64 // of a vector
	maxUsage   = 64 // likewise
)

// Vector is a test that a module carries: a request, the state of the relay, and the answer that
// the module must give. Each vector begins with a new instance without memory, unless it continues
// the vector before. The relay has no repositories.
//
// A vector of the throttle world states fields of the answer: see [Vector.CheckAnswer].
type Vector struct {
	Name     string         `json:"name"`     // unlike that of any other
	Function string         `json:"function"` // of the world policy or throttle
	Config   map[string]any `json:"config"`   // as the operator writes it
	Service  *VectorService `json:"service"`  // where the relay is reached; VectorDomain if absent
	Now      int64          `json:"now"`      // VectorNow if absent
	Then     bool           `json:"then"`     // goes on with the instance of the vector before, and its config and service

	Event  *VectorEvent `json:"event"`  // admit, audience
	Source VectorSource `json:"source"` // admit

	Client  VectorClient   `json:"client"`  // query, connect, push
	Filters []VectorFilter `json:"filters"` // query
	Verb    string         `json:"verb"`    // query: req (also if absent), count or neg
	Open    uint32         `json:"open"`    // connect: connections of the relay, this one included

	FromAddress uint32      `json:"from_address"` // connect: of them from the client's address
	Push        *VectorPush `json:"push"`         // push

	Asks json.RawMessage `json:"request"` // functions of a throttle: fields of the request, without now

	Stored []VectorEvent       `json:"stored"` // what the store has, newest first
	Held   []VectorEvent       `json:"held"`   // what is in purgatory, likewise
	Sets   map[string][]string `json:"sets"`   // members are 64 hex digits or any text

	// Usage is what authors (64 hex digits) and repositories (30617:pubkey:d) take. Others take nothing.
	Usage map[string]VectorUsage `json:"usage"`

	Want VectorWant `json:"want"` // functions of a policy

	asked throttleAsked // functions of a throttle
	wants []byte        // likewise: JSON
}

// VectorService is how the relay of a vector is reached.
type VectorService struct {
	Domain   string `json:"domain"`
	PRs      bool   `json:"prs"`
	Operator Key    `json:"operator,omitzero"`
}

// At returns the address of the vector's relay.
func (v *Vector) At() abi.Service {
	if v.Service == nil {
		return abi.Service{Domain: VectorDomain, PRs: true}
	}
	return abi.Service{Domain: v.Service.Domain, PRs: v.Service.PRs, Operator: v.Service.Operator}
}

// VectorWant is the answer that a vector wants. Rule and Reason are compared only
// if they are not empty.
type VectorWant struct {
	Action string `json:"action"` // pass, accept, reject, shadow-reject, hold or auth-required
	Rule   string `json:"rule,omitempty"`
	Reason string `json:"reason,omitempty"` // "prefix: text"

	// Keys and Set are compared if the action is restrict.
	Keys []Key  `json:"keys,omitempty"`
	Set  string `json:"set,omitempty"`

	// Wake is compared if the action is hold. Wait is compared if it is not 0.
	Wake *VectorFilter `json:"wake,omitempty"`
	Wait int64         `json:"wait,omitempty"` // seconds

	// These are compared if one of them is there.
	MaxAuthorBytes     int64 `json:"max_author_bytes,omitempty"`
	MaxRepositoryBytes int64 `json:"max_repository_bytes,omitempty"`
	End                bool  `json:"end,omitempty"`
}

// VectorUsage is how much of the store an author or a repository takes.
type VectorUsage struct {
	Events int64 `json:"events"`
	Bytes  int64 `json:"bytes"`     // of the JSON of the events
	Git    int64 `json:"git_bytes"` // bytes of git data
}

// Policy reports whether the function is one of a policy, which answers with a
// verdict.
func (v *Vector) Policy() bool { return answers[v.Function] != nil }

// UnmarshalJSON reads a vector and checks all that can be checked without the
// rest of the manifest. Its errors name the vector.
func (v *Vector) UnmarshalJSON(b []byte) error {
	type plain Vector
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	err := dec.Decode((*plain)(v))
	var given vectorGiven
	if err == nil {
		err = json.Unmarshal(b, &given)
	}
	if err == nil {
		err = v.validate(&given)
	}
	if err != nil {
		return fmt.Errorf("vector %.64q: %w", v.Name, inWords(err))
	}
	return nil
}

// vectorGiven says which fields of a vector were written, since their values do not show it.
type vectorGiven struct {
	Want         json.RawMessage
	Event        eventGiven
	Stored, Held []eventGiven
}

// eventGiven has the id that an event was written with, nil if it was written without.
type eventGiven struct{ ID *Key }

func (v *Vector) validate(given *vectorGiven) error {
	switch {
	case v.Name == "" || len(v.Name) > 64 || strings.ContainsFunc(v.Name, unicode.IsControl):
		return errors.New("name: want one line of at most 64 bytes")
	case !v.Policy() && newThrottleAsked[v.Function] == nil:
		all := append(Functions(WorldPolicy), Functions(WorldThrottle)...)
		return fmt.Errorf("function %.32q: want one of %s", v.Function, strings.Join(all, ", "))
	case v.Now < 0:
		return fmt.Errorf("now is %d: want unix seconds", v.Now)
	case len(v.Sets) > maxSets:
		return fmt.Errorf("sets has more than %d entries", maxSets)
	case len(v.Usage) > maxUsage:
		return fmt.Errorf("usage has more than %d entries", maxUsage)
	}
	for name, u := range v.Usage {
		if !strings.HasPrefix(name, "30617:") && (len(name) != 64 || fill(make([]byte, 32), []byte(name)) != nil) {
			return fmt.Errorf("the usage of %.80q: want an author in 64 hex digits, or the address 30617:pubkey:d", name)
		}
		if u.Events < 0 || u.Bytes < 0 || u.Git < 0 {
			return fmt.Errorf("the usage of %.80q has a number below zero", name)
		}
	}
	for name := range v.Sets {
		if !isName(name, 64) {
			return fmt.Errorf("the set %.70q: want a-z, 0-9, - and _, at most 64", name)
		}
	}
	if v.Now == 0 {
		v.Now = VectorNow
	}
	if v.Event != nil {
		v.Event.complete(v.Now, given.Event)
	}
	for i := range v.Stored {
		v.Stored[i].complete(v.Now, given.Stored[i])
	}
	for i := range v.Held {
		v.Held[i].complete(v.Now, given.Held[i])
	}
	if err := v.fits(); err != nil {
		return err
	}
	if !v.Policy() {
		return v.readThrottle(given.Want)
	}
	action := slices.Index(actionNames, v.Want.Action)
	switch {
	case action < 0:
		return fmt.Errorf("want.action %.32q: want one of %s", v.Want.Action, strings.Join(actionNames, ", "))
	case !MayAnswer(v.Function, uint32(action)):
		return fmt.Errorf("want.action %s is no answer to %s", v.Want.Action, v.Function)
	case action != abi.ActionRestrict && (v.Want.Keys != nil || v.Want.Set != ""):
		return fmt.Errorf("want: keys and set belong to restrict, not to %s", v.Want.Action)
	case action != abi.ActionHold && (v.Want.Wake != nil || v.Want.Wait != 0):
		return fmt.Errorf("want: wake and wait belong to hold, not to %s", v.Want.Action)
	}
	return nil
}

// fits checks that a vector has the request of its function, and no fields of another function.
func (v *Vector) fits() error {
	const policy = "admit query connect push audience"
	for _, member := range []struct {
		name, functions string
		given, needed   bool
	}{
		{"event", "admit audience", v.Event != nil, true},
		{"source", "admit", v.Source.given(), false},
		{"filters", "query", v.Filters != nil, true},
		{"verb", "query", v.Verb != "", false},
		{"client", "query connect push", v.Client.given(), false},
		{"open", "connect", v.Open != 0, false},
		{"from_address", "connect", v.FromAddress != 0, false},
		{"push", "push", v.Push != nil, true},
		{"stored", policy, v.Stored != nil, false},
		{"held", policy, v.Held != nil, false},
		{"usage", policy, v.Usage != nil, false},
		{"request", strings.Join(Functions(WorldThrottle), " "), v.Asks != nil, true},
	} {
		mine := slices.Contains(strings.Fields(member.functions), v.Function)
		switch {
		case member.given && !mine:
			return fmt.Errorf("%s is not for the function %s", member.name, v.Function)
		case mine && member.needed && !member.given:
			return fmt.Errorf("%s is missing", member.name)
		}
	}
	if _, ok := numbered(verbNames, v.Verb, abi.VerbReq); !ok {
		return fmt.Errorf("verb %.20q: want req, count or neg", v.Verb)
	}
	return nil
}

// numbered returns the number of a name, that of an absent one for an empty name, and
// whether there is one.
func numbered(names []string, name string, absent uint32) (number uint32, ok bool) {
	if name == "" {
		return absent, true
	}
	i := slices.Index(names, name)
	return uint32(max(i, 0)), i >= 0
}

// Request encodes the request to the module.
func (v *Vector) Request() ([]byte, error) {
	switch v.Function {
	case "audience":
		if v.Event == nil {
			return nil, fmt.Errorf("vector %q has no event", v.Name)
		}
		return abi.AppendAdmitRequest(nil, &abi.AdmitRequest[[]string, Key]{Event: v.Event.Encoded(), Now: v.Now}), nil
	case "admit":
		if v.Event == nil {
			return nil, fmt.Errorf("vector %q has no event", v.Name)
		}
		origin, _ := numbered(originNames, v.Source.Origin, abi.OriginClient) // it was read before
		return abi.AppendAdmitRequest(nil, &abi.AdmitRequest[[]string, Key]{
			Event: v.Event.Encoded(), Origin: origin, Address: []byte(v.Source.Address),
			Relay: v.Source.Relay, Authed: v.Source.Authed, Now: v.Now,
		}), nil
	case "query":
		verb, _ := numbered(verbNames, v.Verb, abi.VerbReq) // likewise
		var b []byte
		for i := range v.Filters {
			b = abi.AppendFilterOf(b, &v.Filters[i].filter)
		}
		return abi.AppendQueryRequest(b, &abi.QueryRequest[Key]{Client: v.Client.encoded(), Verb: verb, Now: v.Now}), nil
	case "connect":
		return abi.AppendConnectRequest(nil, &abi.ConnectRequest[Key]{
			Client: v.Client.encoded(), Open: v.Open, FromAddress: v.FromAddress, Now: v.Now,
		}), nil
	case "push":
		if v.Push == nil {
			return nil, fmt.Errorf("vector %q has no push", v.Name)
		}
		return abi.AppendPushRequest(nil, &abi.PushRequest[Key, VectorUpdate]{
			Client: v.Client.encoded(), Repo: v.Push.Repo, Maintainers: v.Push.Maintainers, Updates: v.Push.Updates,
			Bytes: v.Push.Bytes, Stored: v.Push.Stored, PRs: v.Push.PRs, Fetch: v.Push.Fetch, Now: v.Now,
		}), nil
	}
	if v.asked == nil {
		return nil, fmt.Errorf("vector %q is for the function %q, which is unknown", v.Name, v.Function)
	}
	return v.asked.append(nil, v.Now*1000), nil
}

// Check compares an answer with the one that the vector wants.
func (v *Vector) Check(action uint32, rule, reason string) error {
	if ActionName(action) == v.Want.Action &&
		(v.Want.Rule == "" || v.Want.Rule == rule) && (v.Want.Reason == "" || v.Want.Reason == reason) {
		return nil
	}
	return fmt.Errorf("vector %q: the answer is %s, want %s", v.Name, answer(ActionName(action), rule, reason),
		answer(v.Want.Action, v.Want.Rule, v.Want.Reason))
}

// CheckAudience compares the readers in an answer with those that the vector wants.
func (v *Vector) CheckAudience(keys []Key, set string) error {
	if v.Want.Action != ActionName(abi.ActionRestrict) || slices.Equal(keys, v.Want.Keys) && set == v.Want.Set {
		return nil
	}
	return fmt.Errorf("vector %q: the audience is %s, want %s", v.Name, audience(keys, set), audience(v.Want.Keys, v.Want.Set))
}

// CheckWake compares the filter for which an event waits, as JSON or empty for none, and for how many
// seconds, with what the vector wants.
func (v *Vector) CheckWake(filter string, wait int64) error {
	if v.Want.Action != ActionName(abi.ActionHold) {
		return nil
	}
	want := ""
	if v.Want.Wake != nil {
		text, err := v.Want.Wake.MarshalJSON()
		if err != nil {
			return fmt.Errorf("vector %q: want.wake: %w", v.Name, err)
		}
		want = string(text)
	}
	switch {
	case !sameFilter(filter, want):
		return fmt.Errorf("vector %q: the event waits for %q, want %q", v.Name, filter, want)
	case v.Want.Wait != 0 && v.Want.Wait != wait:
		return fmt.Errorf("vector %q: the event waits for %d s, want %d s", v.Name, wait, v.Want.Wait)
	}
	return nil
}

// sameFilter reports whether filters in JSON have the same conditions, in any order. The limit is no
// condition, and an empty text is no filter.
func sameFilter(a, b string) bool {
	if a == "" || b == "" {
		return a == b
	}
	var list [2]map[string]any
	for i, text := range []string{a, b} {
		if json.Unmarshal([]byte(text), &list[i]) != nil {
			return false
		}
		delete(list[i], "limit")
		for _, condition := range list[i] {
			if values, ok := condition.([]any); ok {
				slices.SortFunc(values, func(x, y any) int { return strings.Compare(fmt.Sprint(x), fmt.Sprint(y)) })
			}
		}
	}
	return reflect.DeepEqual(list[0], list[1])
}

// CheckLimits compares the limits of an answer, and whether it ends the connection, with what the
// vector wants.
func (v *Vector) CheckLimits(author, repository int64, end bool) error {
	w := &v.Want
	if w.MaxAuthorBytes|w.MaxRepositoryBytes == 0 && !w.End || author == w.MaxAuthorBytes && repository == w.MaxRepositoryBytes && end == w.End {
		return nil
	}
	return fmt.Errorf("vector %q: max_author_bytes %d, max_repository_bytes %d, end %v; want %d, %d, %v",
		v.Name, author, repository, end, w.MaxAuthorBytes, w.MaxRepositoryBytes, w.End)
}

// audience prints the readers of a restricted event.
func audience(keys []Key, set string) string {
	switch {
	case len(keys) > 0:
		return fmt.Sprintf("%d keys (%x)", len(keys), keys[:min(len(keys), 4)])
	case set != "":
		return fmt.Sprintf("the set %.64q", set)
	}
	return "nobody"
}

// answer prints an answer: reject by "deny-word" with "blocked: no".
func answer(action, rule, reason string) string {
	if rule != "" {
		action += fmt.Sprintf(" by %.64q", rule)
	}
	if reason != "" {
		action += fmt.Sprintf(" with %.200q", reason)
	}
	return action
}

// Decision is a decision as one line of a recording: a [Vector] that a relay writes during a
// decision, with further fields. Vector reads its own parts. The events are complete.
type Decision struct {
	Function    string              `json:"function"`
	Now         int64               `json:"now"`
	Service     VectorService       `json:"service"`
	Event       json.RawMessage     `json:"event,omitempty"`
	Source      *VectorSource       `json:"source,omitempty"`
	Client      *VectorClient       `json:"client,omitempty"`
	Verb        string              `json:"verb,omitempty"`
	Filters     []VectorFilter      `json:"filters,omitempty"`
	Open        int                 `json:"open,omitempty"`
	FromAddress int                 `json:"from_address,omitempty"`
	Push        *VectorPush         `json:"push,omitempty"`
	Stored      []json.RawMessage   `json:"stored,omitempty"`
	Held        []json.RawMessage   `json:"held,omitempty"`
	Sets        map[string][]string `json:"sets,omitempty"`

	Usage map[string]VectorUsage `json:"usage,omitempty"`

	Want VectorWant `json:"want"`
	Recorded
}

// Recorded is the part of a recorded decision that a vector does not have.
type Recorded struct {
	By string `json:"by"` // the plugin that gave the answer; empty if none had an opinion

	// Chain are the plugins that decide, in order, and Asked is how many of them were asked. Chain
	// is null if the line has the answer of one plugin.
	Chain []string `json:"chain"`
	Asked int      `json:"asked,omitempty"`

	// Unseen are further capabilities on which the answer depends. A line cannot record the content
	// of repositories, or values that a module kept before the first line.
	Unseen []string `json:"unseen,omitempty"`
}

// Line returns the decision as a line of JSON.
func (d *Decision) Line() ([]byte, error) { return readable(d) }

// readable returns the JSON of a value, and a line feed. It does not escape the special characters
// of HTML.
func readable(v any) ([]byte, error) {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return text.Bytes(), err
}

// Keys returns ids or keys as vectors have them.
func Keys[K ~[32]byte](list []K) (keys []Key) {
	for _, k := range list {
		keys = append(keys, Key(k))
	}
	return keys
}

func (k Key) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, k[:]), nil }

// FilterOf returns a filter as vectors have it.
func FilterOf[I, P ~[32]byte, K ~uint16, T ~struct {
	Name   byte
	Values []string
}](f *abi.QueryFilter[I, P, K, T]) VectorFilter {
	var to VectorFilter
	to.filter.IDs, to.filter.Authors = Keys(f.IDs), Keys(f.Authors)
	for _, kind := range f.Kinds {
		to.filter.Kinds = append(to.filter.Kinds, uint16(kind))
	}
	for _, tag := range f.Tags {
		to.filter.Tags = append(to.filter.Tags, tagCondition(tag))
	}
	to.filter.Since, to.filter.Until, to.filter.Limit = f.Since, f.Until, f.Limit
	return to
}

func (f VectorFilter) MarshalJSON() ([]byte, error) {
	to := map[string]any{}
	if f.filter.IDs != nil {
		to["ids"] = f.filter.IDs
	}
	if f.filter.Authors != nil {
		to["authors"] = f.filter.Authors
	}
	if f.filter.Kinds != nil {
		to["kinds"] = f.filter.Kinds
	}
	for _, tag := range f.filter.Tags {
		to["#"+string(rune(tag.Name))] = tag.Values
	}
	if f.filter.Since != nil {
		to["since"] = *f.filter.Since
	}
	if f.filter.Until != nil {
		to["until"] = *f.filter.Until
	}
	if f.filter.Limit >= 0 {
		to["limit"] = f.filter.Limit
	}
	return readable(to)
}

func (u VectorUpdate) MarshalJSON() ([]byte, error) {
	return readable(struct {
		Ref string `json:"ref"`
		Old string `json:"old"`
		New string `json:"new"`
	}(u))
}

// answers are the actions that make sense for each function of the policy world.
var answers = map[string][]uint32{
	"admit":   {abi.ActionPass, abi.ActionAccept, abi.ActionReject, abi.ActionShadowReject, abi.ActionHold, abi.ActionRequireAuth},
	"query":   {abi.ActionPass, abi.ActionAccept, abi.ActionReject, abi.ActionShadowReject, abi.ActionRequireAuth},
	"connect": {abi.ActionPass, abi.ActionAccept, abi.ActionReject},
	"push":    {abi.ActionPass, abi.ActionAccept, abi.ActionReject},

	"audience": {abi.ActionPass, abi.ActionRestrict},
}

// MayAnswer reports whether a function of the policy world may answer with an
// action: only an event can be held, and only a client that sends events or
// queries can be asked to authenticate.
func MayAnswer(function string, action uint32) bool {
	return slices.Contains(answers[function], action)
}

// ActionName returns an action's name as a vector has it.
func ActionName(action uint32) string {
	if action < uint32(len(actionNames)) {
		return actionNames[action]
	}
	return "an unknown action"
}
