package strategy

import (
	"talon/sdk/abi"
	"talon/sdk/module"
)

// Strategy decides what to subscribe to.
type Strategy interface {
	// Configure is called once, before the first Step. An error refuses the
	// configuration: it should name the key and the value.
	Configure(cfg Config) error

	// Step takes one input and adds what is to be done to out. It is never called
	// twice at the same time.
	Step(in Input, out *Actions)
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

// Classes of what ended, or of what a relay complains about.
const (
	ClassOther        = abi.ClassOther
	ClassRateLimited  = abi.ClassRateLimited
	ClassAuthRequired = abi.ClassAuthRequired
	ClassRestricted   = abi.ClassRestricted
	ClassUnsupported  = abi.ClassUnsupported
	ClassTooMuch      = abi.ClassTooMuch
	ClassError        = abi.ClassError
	ClassUnreachable  = abi.ClassUnreachable
	ClassLost         = abi.ClassLost
	ClassAsked        = abi.ClassAsked
	ClassLimit        = abi.ClassLimit
	ClassForbidden    = abi.ClassForbidden
)

// Support of a relay for something.
const (
	SupportUnknown = abi.SupportUnknown
	SupportYes     = abi.SupportYes
	SupportNo      = abi.SupportNo
)

// Levels of a repository: how much of it is wanted.
const (
	LevelFull  = abi.SyncLevelFull
	LevelState = abi.SyncLevelState
)

// Methods to fetch past events.
const (
	MethodAuto       = abi.MethodAuto
	MethodNegentropy = abi.MethodNegentropy
	MethodREQ        = abi.MethodREQ
)

// Purposes of asking for events: their source in the operator's metrics.
const (
	PurposeLive      = abi.PurposeLive
	PurposeStartup   = abi.PurposeStartup
	PurposeReconnect = abi.PurposeReconnect
	PurposeDaily     = abi.PurposeDaily
)
