package policy

import (
	"talon/sdk/abi"
	"talon/sdk/module"
)

// Policy decides which events a relay accepts. It may also be a [Querier], a
// [Connector] and a [Pusher]; "functions" of its manifest names what the host
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

// Description is what a policy says about the relay. Texts are one line of at most
// 1 KiB.
type Description struct {
	// Grasps is what it implements: GRASP-01, …; at most 16. A policy that says GRASP-01
	// hosts repositories: it is also asked about events of kinds 30617, 30618, 1618 and 1619
	// that a policy before it accepts, and Hold holds them.
	Grasps []string

	Criteria string // which repositories are accepted
	Curation string // by what rule the operator chooses among them; empty if there is no choice
	Writes   Writes // whose events are accepted, as far as this policy is asked
}

// Writes says whether a client must know the rules before it writes here. What the first
// policy says that says something is true of the relay.
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

// WrongValue returns the error for a value that the manifest cannot describe as
// wrong: it names the key, the value and what is wanted.
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
