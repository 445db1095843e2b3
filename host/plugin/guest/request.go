package guest

import (
	"bytes"
	"fmt"
	"net/netip"
	"strings"
	"time"
	"unicode"

	"github.com/prometheus/client_golang/prometheus"

	"talon/host"
	"talon/sdk/abi"
	"talon/sdk/abi/manifest"
)

// Request is a buffer for one request, encoded once for all modules that are
// asked. What a method returns is valid until the next call of one. The zero
// value is ready.
type Request struct {
	b       []byte
	from    netip.Addr // whose text address is
	address []byte
}

// keepRequest is the largest buffer that is used again.
const keepRequest = 256 << 10

// empty returns the buffer to write the next request to.
func (q *Request) empty() []byte {
	if cap(q.b) > keepRequest {
		q.b = nil
	}
	return q.b[:0]
}

// Admit asks about an event.
func (q *Request) Admit(it *host.Item, now int64) []byte {
	e := it.Event
	wire := abi.AdmitRequest[host.Tag, host.PubKey]{
		Event: abi.Event[host.Tag]{
			ID: e.ID[:], PubKey: e.PubKey[:], Sig: e.Sig[:],
			CreatedAt: e.CreatedAt, Kind: uint32(e.Kind), Tags: e.Tags, Content: e.Content,
		},
		Authed: it.Authed,
		Now:    now,
	}
	if s := it.Source; s != nil {
		wire.Origin = origin(s.Origin)
		wire.Relay = s.Relay
		wire.Address = q.addr(s.Addr)
	}
	q.b = abi.AppendAdmitRequest(q.empty(), &wire)
	return q.b
}

// Query asks about the filters of one message. Filters that can match nothing
// are left out.
func (q *Request) Query(it *host.Query, now int64) []byte {
	b := q.empty()
	for i := range it.Filters {
		f := &it.Filters[i]
		if f.Empty() {
			continue
		}
		wire := abi.QueryFilter[host.ID, host.PubKey, host.Kind, host.TagFilter]{
			IDs: f.IDs, Authors: f.Authors, Kinds: f.Kinds, Tags: f.Tags, Since: f.Since, Until: f.Until, Limit: f.Limit,
		}
		b = abi.AppendFilterOf(b, &wire)
	}
	wire := abi.QueryRequest[host.PubKey]{Client: q.client(it.Client), Verb: verb(it.Verb), Now: now}
	q.b = abi.AppendQueryRequest(b, &wire)
	return q.b
}

// Connect asks about a client that has just come.
func (q *Request) Connect(it *host.Connection, now int64) []byte {
	wire := abi.ConnectRequest[host.PubKey]{
		Client: q.client(&it.Client), Open: uint32(it.Open), FromAddress: uint32(it.FromAddr), Now: now,
	}
	q.b = abi.AppendConnectRequest(q.empty(), &wire)
	return q.b
}

// Push asks about ref updates.
func (q *Request) Push(it *host.Push, now int64) []byte {
	wire := abi.PushRequest[host.PubKey, host.RefUpdate]{
		Client: q.client(it.Client), Repo: it.Repo.String(), Maintainers: it.Maintainers, Updates: it.Updates,
		Bytes: it.Bytes, Stored: it.Stored, PRs: it.PRs, Now: now,
	}
	q.b = abi.AppendPushRequest(q.empty(), &wire)
	return q.b
}

func (q *Request) client(c *host.Client) abi.Client[host.PubKey] {
	if c == nil {
		return abi.Client[host.PubKey]{}
	}
	return abi.Client[host.PubKey]{
		Address: q.addr(c.Addr), Authed: c.Authed, UserAgent: c.UserAgent, Origin: c.Origin, Path: c.Path,
	}
}

// addr returns an address as text, empty where there is none.
func (q *Request) addr(a netip.Addr) []byte {
	if !a.IsValid() {
		return nil
	}
	// A worker decides about several events of one source, one after the other.
	if a != q.from {
		q.from, q.address = a, a.AppendTo(q.address[:0])
	}
	return q.address
}

func origin(o host.Origin) uint32 {
	switch o {
	case host.FromClient:
		return abi.OriginClient
	case host.FromImport:
		return abi.OriginImport
	case host.FromSync:
		return abi.OriginSync
	}
	return abi.OriginUnspecified
}

func verb(v host.QueryVerb) uint32 {
	switch v {
	case host.QueryReq:
		return abi.VerbReq
	case host.QueryCount:
		return abi.VerbCount
	case host.QueryNeg:
		return abi.VerbNeg
	}
	return abi.VerbUnspecified
}

// appendEvent appends a stored event as the next of an EventList.
func appendEvent(b []byte, e *host.Event, inList bool) []byte {
	wire := abi.Event[host.Tag]{
		ID: e.ID[:], PubKey: e.PubKey[:], Sig: e.Sig[:],
		CreatedAt: e.CreatedAt, Kind: uint32(e.Kind), Tags: e.Tags, Content: e.Content,
	}
	if inList {
		return abi.AppendEventOf(b, &wire)
	}
	return abi.AppendEvent(b, &wire)
}

// Observer is an optional interface of the facts of a decision. It records what the
// module asked beside them. The goroutine of the decision calls it.
type Observer interface {
	// Contained records the answer about a member of a set. The slices are valid
	// during the call.
	Contained(name, member []byte, yes, known bool)

	// Used records that the module used a capability whose answer is not in the
	// facts: it depends on repositories, or on what the module remembers.
	Used(capability string)
}

// reportUse reports to the witness, if there is one, that a capability is used.
func (c *call) reportUse(capability string) {
	if w, ok := c.facts.(Observer); ok {
		w.Used(capability)
	}
}

const (
	otherRule   = "other"
	unnamedRule = "unnamed"
	maxReason   = 1 << 10

	// maxRetry bounds how long a refused event is remembered for a module.
	maxRetry = time.Minute
)

// prefixes may start a reason (NIP-01, NIP-42, GRASP purgatory).
var prefixes = []string{
	"blocked", "invalid", "pow", "rate-limited", "restricted", "mute", "error", "duplicate", "auth-required", "purgatory",
}

// actions translates a verdict's action, the index.
var actions = [...]host.Action{
	abi.ActionPass:         host.Pass,
	abi.ActionAccept:       host.Accept,
	abi.ActionReject:       host.Reject,
	abi.ActionShadowReject: host.ShadowReject,
	abi.ActionHold:         host.Hold,
	abi.ActionRequireAuth:  host.RequireAuth,
}

// mayAnswer says which actions are answers to which function, by their indexes.
var mayAnswer = func() (table [Push + 1][len(actions)]bool) {
	for f := range table {
		for action := range actions {
			table[f][action] = manifest.MayAnswer(Func(f).String(), uint32(action))
		}
	}
	return table
}()

// rule is what an instance remembers of a rule code with an action, so that
// deciding by it again allocates nothing.
type rule struct {
	key   ruleKey
	code  string // as metrics and logs have it
	count prometheus.Counter

	given  []byte // reason as the guest last gave it
	reason string // and as it is sent
}

type ruleKey struct {
	action host.Action
	source string
	code   string
}

// lastVerdict is what an instance has answered last, and what that means. Most events get
// the same answer as the one before.
type lastVerdict struct {
	f      Func
	answer []byte
	ruling host.Ruling
	rule   *rule // nil: there is none
}

// maxLastVerdict is the longest answer that is kept.
const maxLastVerdict = 256

// is reports whether an answer is the last one again.
func (l *lastVerdict) is(f Func, source string, answer []byte) bool {
	return l.rule != nil && l.f == f && l.rule.key.source == source && bytes.Equal(l.answer, answer)
}

// keep keeps an answer, unless it is a long one.
func (l *lastVerdict) keep(f Func, answer []byte, ruling host.Ruling, r *rule) {
	if len(answer) > maxLastVerdict {
		l.rule = nil
		return
	}
	l.f, l.answer, l.ruling, l.rule = f, append(l.answer[:0], answer...), ruling, r
}

// cachedVerdict returns what the instance knows of a rule.
func (inst *instance) cachedVerdict(action host.Action, source string, code []byte) *rule {
	if r := inst.rules[ruleKey{action, source, string(code)}]; r != nil {
		return r
	}
	name := unnamedRule
	switch {
	case len(code) == 0 && action == host.Pass:
		name = ""
	case isRule(code):
		if name = string(code); !inst.module.metrics.rules.admit(name) {
			name = otherRule
		}
	}
	r := &rule{key: ruleKey{action, source, string(code)}, code: name, count: inst.module.metrics.verdict(action, name, source)}
	// The guest chooses the codes, so what is remembered is bounded.
	if len(inst.rules) < 4*maxRules && len(code) <= 64 {
		inst.rules[r.key] = r
	}
	return r
}

// ruling makes a ruling of a verdict, and returns the rule that it counts for.
func (inst *instance) ruling(f Func, v *abi.VerdictView, source string) (host.Ruling, *rule, *Failure) {
	if int(v.Action) >= len(actions) {
		return host.Ruling{}, nil, &Failure{Cause: CauseGarbage, what: "answered with an unknown action"}
	}
	action := actions[v.Action]
	if !mayAnswer[f][v.Action] {
		return host.Ruling{}, nil, &Failure{Cause: CauseGarbage, what: fmt.Sprintf("answered %s with %s", f.export(), action)}
	}
	r := inst.cachedVerdict(action, source, v.Rule)
	ruling := host.Ruling{Action: action, Rule: r.code, Module: inst.module.name}
	switch action {
	case host.Reject, host.Hold, host.RequireAuth:
		if r.reason == "" || !bytes.Equal(r.given, v.Reason) {
			r.given = append(r.given[:0], v.Reason...)
			r.reason = Reason(action, string(v.Reason))
		}
		ruling.Reason = r.reason
	}
	if action == host.Reject && f == Admit {
		ruling.Retry = min(time.Duration(v.Retry)*time.Second, maxRetry)
	}
	if action == host.Hold {
		ruling.Parent = string(v.Parent)
	}
	return ruling, r, nil
}

// Reason makes what a plugin says fit for an OK message: one line with a
// standard prefix, of bounded length.
func Reason(action host.Action, text string) string {
	text = oneLine(text, maxReason)
	want := "blocked"
	switch action {
	case host.Hold:
		want = "purgatory"
	case host.RequireAuth:
		want = "auth-required"
	}
	prefix, _, ok := strings.Cut(text, ": ")
	switch {
	case ok && action != host.Reject && prefix == want:
		return text
	case ok && action == host.Reject && isPrefix(prefix):
		return text
	case text == "":
		return want + ": refused by policy"
	}
	return want + ": " + truncate(text, maxReason-len(want)-2)
}

// oneLine makes a text of a module fit to be shown: without what moves the cursor,
// at most n bytes.
func oneLine(text string, n int) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, truncate(text, n)))
}

func isPrefix(s string) bool {
	for _, p := range prefixes {
		if s == p {
			return true
		}
	}
	return false
}

func isRule(code []byte) bool {
	for _, c := range code {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '.' && c != '_' {
			return false
		}
	}
	return len(code) > 0 && len(code) <= 64
}
