// Package policy is what the author of a policy in Go imports.
//
// A policy is a type with two methods, registered together with its manifest:
//
//	//go:embed manifest.json
//	var manifest string
//
//	var _ = policy.Register(manifest, new(rules))
//
//	func main() {}
//
//	func (r *rules) Configure(cfg policy.Config) error       { … }
//	func (r *rules) Admit(in policy.Input) policy.Verdict { … }
//
// and is compiled with
//
//	GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared -o rules.wasm
//
// A policy may also decide about queries, connections, pushes, and the readers of events. It then
// has a method of [Querier], [Connector], [Pusher] or [Audiencer], and "functions" of its manifest
// names the functions to call. Every input has [Facts], through which a policy asks the host about
// the relay and keeps values.
//
// The same package compiles natively, so that a policy is tested with go test
// and package policytest.
//
// Invariants:
//
//  2. Strings, events and tags of an input are valid until the method returns.
//     Answers of the host (events from the store, values) are valid until the
//     next function that answers with data: Get, Held, Query, QueryHeld, KVGet,
//     GitRef. Copy the values that you keep.
//  3. A module imports only the host functions that its code can reach.
//
// A policy has no files, no network, no clock but [Facts.Now] and no goroutines
// that live on between calls; a host ends a call that waits or runs too long.
package policy

import (
	"unicode/utf8"
	"unsafe"

	"talon/sdk/abi"
	"talon/sdk/module"
)

// Policy decides which events a relay accepts. It may also be a [Querier], a
// [Connector], a [Pusher] and an [Audiencer]; "functions" of its manifest names what the host
// calls: ["admit", "query"], only "admit" where it is absent.
type Policy interface {
	// Configure is called once, before the first Admit. An error refuses the
	// configuration: it should name the key and the value.
	Configure(cfg Config) error

	// Admit decides about one event, whose id and signature are right. It is
	// never called twice at the same time, but a relay runs several copies of
	// the module: do not count on seeing every event.
	Admit(in Input) Verdict
}

// Querier is a policy that also decides about queries.
type Querier interface {
	// Query decides whether a client may ask for what its filters select: "query"
	// in the manifest. Reject ends the subscription with the reason, RequireAuth
	// until the client authenticates, ShadowReject answers as if nothing were here.
	// There is no Hold. If all policies pass, the client may ask.
	Query(in QueryInput) Verdict
}

// Connector is a policy that also decides about connections.
type Connector interface {
	// Connect decides whether a client may connect: "connect" in the manifest. The
	// answers are Pass, Accept and Reject; a client cannot authenticate before it
	// is connected. If all policies pass, it may.
	Connect(in ConnectInput) Verdict
}

// Pusher is a policy that also decides about pushes to git repositories.
type Pusher interface {
	// Push decides whether ref updates may happen: "push" in the manifest. The
	// answers are Pass, Accept and Reject. If all policies pass, they may, unless
	// GRASP's own rules refuse them.
	Push(in PushInput) Verdict
}

// Audiencer is a policy that also decides who may receive events.
type Audiencer interface {
	// Audience decides who may receive an event: "audience" in the manifest, whose member of
	// that name says about which events. The answers are Pass, which is everybody, [OnlyKeys],
	// [OnlyMembers] and [Nobody]. The strictest answer of all policies counts. The relay stores
	// it with the event, and asks again when the module or its settings change. The input has
	// no source: the answer must not depend on who sent the event.
	Audience(in Input) Verdict
}

// Idler is a policy that has nothing to decide with some configurations.
type Idler interface {
	// Idle returns the functions, as the manifest names them, in which the policy
	// passes every request as it is configured. The host does not call them. It is
	// called after Configure.
	Idle() []string
}

// Describer is a policy that says something about the relay, as it is configured.
type Describer interface {
	// Describe returns the text for people and clients, in the relay's information
	// document (NIP-11) and on its pages. It is called after Configure.
	Describe() Description
}

// Description is a policy's description of the relay. Each text is one line of at most 1 KiB.
type Description struct {
	// Grasps are the specifications that it implements: GRASP-01, …; at most 16. A policy that
	// names GRASP-01 hosts repositories. The host also asks it about events of kinds 30617, 30618,
	// 1618 and 1619 that an earlier policy accepts, and Hold holds them.
	Grasps []string

	Criteria string // which repositories are accepted
	Curation string // by what rule the operator chooses among them; empty if there is no choice
	Writes   Writes // whose events are accepted, as far as this policy is asked

	// Limits are figures that the policy enforces. NIP-11 shows the strictest of all policies.
	Limits Limitation
}

// Limitation has figures that a policy enforces. 0 is no limit.
type Limitation = abi.Limitation

// Writes says whether a client must know the rules before it writes here. The first policy with an
// answer decides for the relay.
type Writes = abi.Writes

const (
	WritesUnsaid     = abi.WritesUnsaid
	WritesOpen       = abi.WritesOpen       // every valid event is accepted, but for spam and excess
	WritesRestricted = abi.WritesRestricted // only events of some authors, some kinds, about something
)

// configured returns the answer to the host of a policy that has taken its configuration.
func configured(p Policy) (c abi.Configured) {
	if i, ok := p.(Idler); ok {
		c.Idle = i.Idle()
	}
	if d, ok := p.(Describer); ok {
		c.About = abi.About(d.Describe())
	}
	return c
}

// Func is a policy without configuration.
type Func func(in Input) Verdict

func (f Func) Configure(Config) error { return nil }

func (f Func) Admit(in Input) Verdict { return f(in) }

// Registration is the result of [Register]; it has no meaning.
type Registration struct{}

// Config holds every setting of the manifest, the operator's value or the
// default. The host has checked types and limits.
type Config = module.Config

// Service is how the relay is reached from outside: [Config.Service] of a policy.
type Service = module.Service

// WrongValue returns the error for a value that the manifest cannot describe as wrong. It names the
// key, the value and a valid one.
func WrongValue(key, value, want string) error { return module.WrongValue(key, value, want) }

// Log writes a line to the operator's log. It needs the capability "log". Lines
// beyond the host's limit are dropped.
func (f Facts) Log(level Level, text string) {
	f.c.host.log(int32(level), text)
}

// Level is the weight of a line in the log.
type Level = module.Level

const (
	Debug = module.Debug
	Info  = module.Info
	Warn  = module.Warn
	Error = module.Error
)

// Count adds n, 0 or more, to a counter of the operator's metrics. A name is a-z,
// 0-9 and _; a module has 32 at most. It needs the capability "metric".
func (f Facts) Count(name string, n float64) {
	f.c.host.metric(abi.MetricCounter, name, n)
}

// Gauge sets a gauge of the operator's metrics. It needs the capability "metric".
func (f Facts) Gauge(name string, value float64) {
	f.c.host.metric(abi.MetricGauge, name, value)
}

// Action is the answer of a verdict to an event, a query, a connection or a push.
type Action uint32

const (
	ActionPass         Action = abi.ActionPass
	ActionAccept       Action = abi.ActionAccept
	ActionReject       Action = abi.ActionReject
	ActionShadowReject Action = abi.ActionShadowReject
	ActionHold         Action = abi.ActionHold
	ActionRequireAuth  Action = abi.ActionRequireAuth
	ActionRestrict     Action = abi.ActionRestrict
)

func (a Action) String() string {
	names := [...]string{"pass", "accept", "reject", "shadow-reject", "hold", "auth-required", "restrict"}
	if int(a) < len(names) {
		return names[a]
	}
	return "unknown"
}

// Verdict is a policy's decision.
type Verdict struct {
	Action Action
	Rule   string // stable code of the rule that decided: a-z 0-9 - . _, at most 64 bytes
	Prefix string // standard prefix of the reason (NIP-01, NIP-42)
	Text   string // the reason after its prefix, for people
	Retry  uint32 // seconds, see [Verdict.RetryFor]
	Parent string // see [Verdict.With]

	// See [Verdict.Awaiting].
	Wake *Filter
	Wait uint32 // seconds

	// Keys, 32 bytes each, one after the other, and Set are the readers of a restricted event.
	Keys, Set string

	End bool // see [Verdict.Ending]

	// See [Verdict.Within].
	MaxAuthorBytes, MaxRepositoryBytes int64
}

// Pass has no opinion: the next policy decides. If all pass, an event is refused;
// a query, a connection and a push are allowed.
func Pass() Verdict { return Verdict{} }

// Accept stores the event, or allows the request. Later policies of the chain are not asked.
func Accept() Verdict { return Verdict{Action: ActionAccept} }

// Reject refuses. The client gets "prefix: text"; the prefix is one of blocked, invalid,
// pow, rate-limited, restricted, error.
func Reject(prefix, text string) Verdict {
	return Verdict{Action: ActionReject, Prefix: prefix, Text: text}
}

// ShadowReject refuses the event, and answers the client that it was stored. It answers a
// query as if nothing were here.
func ShadowReject() Verdict { return Verdict{Action: ActionShadowReject} }

// Hold keeps the event in purgatory: it is not served until it is released. A host
// without a purgatory refuses the event. Only an event can be held.
func Hold(text string) Verdict {
	return Verdict{Action: ActionHold, Prefix: "purgatory", Text: text}
}

// RequireAuth refuses the event or the query until the client authenticates (NIP-42).
func RequireAuth(text string) Verdict {
	return Verdict{Action: ActionRequireAuth, Prefix: "auth-required", Text: text}
}

// OnlyKeys lets only clients that prove one of the keys receive the event: at most 1,000, each
// 32 bytes, one after the other. The bytes are valid as long as the module keeps them unchanged.
func OnlyKeys(keys []byte) Verdict {
	return Verdict{Action: ActionRestrict, Keys: unsafe.String(unsafe.SliceData(keys), len(keys))}
}

// OnlyMembers lets only members of a set of the module receive the event.
func OnlyMembers(set string) Verdict { return Verdict{Action: ActionRestrict, Set: set} }

// Nobody lets nobody receive the event. It is stored, and the relay's own rules see it.
func Nobody() Verdict { return Verdict{Action: ActionRestrict} }

// By returns v with the code of the rule that decided, for the operator's
// metrics and logs. It must not change between versions of a module.
func (v Verdict) By(rule string) Verdict {
	v.Rule = rule
	return v
}

// RetryFor returns v, the refusal of an event, with a time in seconds, at most 60. If another event
// of the author is accepted in that time, the host decides about this event once more. It answers
// the client immediately. The host keeps only events of clients, the newest of an author and kind,
// and a limited number of each client.
func (v Verdict) RetryFor(seconds uint32) Verdict {
	v.Retry = seconds
	return v
}

// With returns v, which holds an event, such that the event depends on a held one: the parent,
// by its id or its address. Use it for an event that nothing else justifies. The host holds
// it no longer than the parent, and stores it when the parent is stored.
func (v Verdict) With(parent string) Verdict {
	v.Parent = parent
	return v
}

// Awaiting returns v, which holds an event, such that the event waits for another event that the
// filter matches: one that is stored or held later. The filter has ids, authors or tags, and at most
// 4 KiB as JSON. The host then decides about the held event again, with all policies and the facts as
// they are then. It may do that at other times too, such as after a change of the settings. It holds
// the event for the given seconds, at most 30 days; 0 is 7 days. Announcements and states of
// repositories cannot wait.
func (v Verdict) Awaiting(filter Filter, seconds uint32) Verdict {
	v.Wake, v.Wait = &filter, seconds
	return v
}

// Within returns v such that the host refuses the event or the push if the author would then have
// more bytes of events and git data than the first limit, or the repository of a push more bytes of
// git data than the second. The author of a push is the owner of the repository. 0 is no limit. The host enforces it
// while a pack arrives, and once more when it writes. The strictest of all policies that are
// asked counts. It is for events and pushes that are not refused.
func (v Verdict) Within(author, repository int64) Verdict {
	v.MaxAuthorBytes, v.MaxRepositoryBytes = author, repository
	return v
}

// Ending returns v, about an event or a query of a client, such that the host ends the connection
// after it has answered.
func (v Verdict) Ending() Verdict {
	v.End = true
	return v
}

// Reason returns the reason for the client.
func (v Verdict) Reason() string {
	if v.Prefix == "" {
		return v.Text
	}
	return v.Prefix + ": " + v.Text
}

// append appends the answer to the host, nothing for a pass without a rule. A guest pays
// for each call, and most verdicts have no text.
func (v *Verdict) append(b []byte) []byte {
	if len(v.Prefix)|len(v.Text)|len(v.Parent)|int(v.Retry) == 0 {
		b = abi.AppendVerdict(b, uint32(v.Action), v.Rule, "", "")
		if len(v.Keys)|len(v.Set) != 0 {
			b = abi.AppendAudience(b, v.Keys, v.Set)
		}
	} else {
		b = v.appendReason(b)
	}
	if v.more() {
		b = v.appendMore(b)
	}
	return b
}

func (v *Verdict) appendReason(b []byte) []byte {
	return abi.AppendParent(abi.AppendRetry(abi.AppendVerdict(b, uint32(v.Action), v.Rule, v.Prefix, cut(v.Text)), v.Retry), v.Parent)
}

// more reports whether the verdict has fields that few have.
func (v *Verdict) more() bool {
	return v.MaxAuthorBytes|v.MaxRepositoryBytes != 0 || v.End || v.Wake != nil
}

func (v *Verdict) appendMore(b []byte) []byte {
	if v.End {
		b = abi.AppendEnd(b)
	}
	if v.Wake != nil {
		b = abi.AppendWake(b, v.Wake.append(nil), v.Wait)
	}
	return abi.AppendLimits(b, max(v.MaxAuthorBytes, 0), max(v.MaxRepositoryBytes, 0))
}

// cut returns the part of a text that the host keeps, 1 KiB. A much longer answer counts as a
// failure of the module, and a text of a client may be part of it.
func cut(text string) string {
	if len(text) <= 1<<10 {
		return text
	}
	n := 1 << 10
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}
