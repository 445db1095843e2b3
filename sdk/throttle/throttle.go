package throttle

import (
	"talon/sdk/abi"
	"talon/sdk/module"
)

// Throttle decides when to try, and how much. Which of its methods the host calls
// is in "functions" of the manifest, all of them where that is absent. They are
// never called twice at the same time.
type Throttle interface {
	// Configure is called once, before anything else. An error refuses the
	// configuration: it should name the key and the value.
	Configure(cfg Config) error

	// Delay says how long to wait before the first attempt: for a repository, whose
	// event was held, or for a relay that was not connected before
	// ("throttle_delay").
	Delay(in DelayInput) DelayAnswer

	// Admit says whether one more request to a domain, or a connection to a relay,
	// may start now ("throttle_admit").
	Admit(in AdmitInput) AdmitAnswer

	// After receives how a request, a connection or a round for a repository ended,
	// and returns when to go on ("throttle_after").
	After(in AfterInput) AfterAnswer

	// Pick says which of the repositories that wait for a domain is next
	// ("throttle_pick").
	Pick(in PickInput) PickAnswer

	// Tick receives the load of this server, every few seconds, and returns what
	// clients may do ("throttle_tick").
	Tick(in TickInput) TickAnswer
}

// Config holds every setting of the manifest.
type Config = module.Config

// Registration is the result of [Register]; it has no meaning.
type Registration struct{}

// WrongValue returns the error for a value that the manifest cannot describe as
// wrong: it names the key, the value and what is wanted.
func WrongValue(key, value, want string) error { return module.WrongValue(key, value, want) }

// Lengths of time, in milliseconds.
const (
	Second int64 = 1000
	Minute       = 60 * Second
	Hour         = 60 * Minute
	Day          = 24 * Hour
)

// Level is the weight of a line in the log.
type Level = module.Level

const (
	Debug = module.Debug
	Info  = module.Info
	Warn  = module.Warn
	Error = module.Error
)

// Kinds of subject.
const (
	Domain     = abi.SubjectDomain     // git requests to a domain
	Relay      = abi.SubjectRelay      // connections to a relay
	Repository = abi.SubjectRepository // the search for a repository's git data
)

// Origins of an event.
const (
	FromClient = abi.OriginClient // a client of this relay
	FromImport = abi.OriginImport // the operator's import
	FromSync   = abi.OriginSync   // another relay
)

// Outcomes of a request, a connection or a round.
const (
	OK           = abi.OutcomeOK
	Partial      = abi.OutcomePartial
	NotFound     = abi.OutcomeNotFound
	RateLimited  = abi.OutcomeRateLimited
	Refused      = abi.OutcomeRefused
	Server       = abi.OutcomeServer
	Timeout      = abi.OutcomeTimeout
	Unreachable  = abi.OutcomeUnreachable
	DNS          = abi.OutcomeDNS
	TLS          = abi.OutcomeTLS
	Protocol     = abi.OutcomeProtocol
	TooLarge     = abi.OutcomeTooLarge
	Disconnected = abi.OutcomeDisconnected
)

// Health of a domain or relay.
const (
	Unchanged = abi.HealthUnspecified
	Healthy   = abi.HealthHealthy
	Degraded  = abi.HealthDegraded
	Dead      = abi.HealthDead
	Barred    = abi.HealthBarred
)
