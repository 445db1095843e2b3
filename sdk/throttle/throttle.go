// Package throttle is the package that the author of a throttle in Go imports. A throttle is a
// module that decides how hard this service presses on other people's git servers and relays, and
// how much clients may press on this one.
//
//	//go:embed manifest.json
//	var manifest string
//
//	var _ = throttle.Register(manifest, new(gentle))
//
//	func main() {}
//
//	func (g *gentle) Admit(in throttle.AdmitInput) throttle.AdmitAnswer {
//		if in.Subject.InFlight >= 5 {
//			return throttle.WaitForEnd()
//		}
//		return throttle.Start()
//	}
//
// It is compiled with
//
//	GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared -o gentle.wasm
//
// and tested natively with package throttletest. talon.proto of package abi describes the messages.
//
// Invariants:
//
//  1. Each input carries the facts: the requests in flight, when the latest ones
//     began, how often and since when it failed. A throttle that keeps nothing
//     loses nothing when it is swapped.
//  2. A decision allocates nothing but what the throttle itself does.
//  3. Texts and iterators of an input are valid until the method returns.
//  4. A point in time is in unix milliseconds, a length of time in milliseconds.
//  5. The operator's limits hold with any answer of a throttle.
package throttle

import (
	"talon/sdk/abi"
	"talon/sdk/internal/guest"
	"talon/sdk/module"
)

// Throttle decides when to try, and how much. "functions" of the manifest names the methods that
// the host calls. Without it, the host calls all of them. It never calls two at the same time.
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

	// Tick receives the load of this server, every few seconds, and returns the limits of clients
	// ("throttle_tick").
	Tick(in TickInput) TickAnswer
}

// Config holds every setting of the manifest.
type Config = module.Config

// Registration is the result of [Register]; it has no meaning.
type Registration struct{}

// WrongValue returns the error for a value that the manifest cannot describe as wrong. It names the
// key, the value and a valid one.
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

// DelayInput is the request of Delay.
type DelayInput struct {
	Facts
	*abi.DelayRequestView
}

// AdmitInput is the request of Admit.
type AdmitInput struct {
	Facts
	*abi.ThrottleAdmitRequestView
}

// AfterInput is the input of After.
type AfterInput struct {
	Facts
	*abi.AfterRequestView
}

// PickInput is the request of Pick.
type PickInput struct {
	Facts
	*abi.PickRequestView
}

// TickInput is the input of Tick.
type TickInput struct {
	Facts
	*abi.TickRequest
}

// Subject is the domain, relay or repository of a request, with its recent history.
type Subject = abi.SubjectView

// ClientLimits is the list of limits of one client; 0 is no limit.
type ClientLimits = abi.ClientLimits

// Telemetry is how this server is doing.
type Telemetry = abi.Telemetry

// Facts are the functions of the host.
type Facts struct{ c *call }

// Log writes a line to the operator's log. It needs the capability "log". Lines
// beyond the host's limit are dropped.
func (f Facts) Log(level Level, text string) { f.c.host.log(int32(level), text) }

// call is the state of one decision. It is reused, so that a decision allocates
// nothing.
type call struct {
	delay abi.DelayRequestView
	admit abi.ThrottleAdmitRequestView
	after abi.AfterRequestView
	pick  abi.PickRequestView
	tick  abi.TickRequest
	host  hostFunctions
}

// The methods read a request, ask t, and append the encoded answer to b.

func (c *call) askDelay(t Throttle, request, b []byte) ([]byte, error) {
	if err := c.delay.Decode(request); err != nil {
		return nil, err
	}
	answer := t.Delay(DelayInput{Facts{c}, &c.delay})
	return abi.AppendDelayAnswer(b, &answer), nil
}

func (c *call) askAdmit(t Throttle, request, b []byte) ([]byte, error) {
	if err := c.admit.Decode(request); err != nil {
		return nil, err
	}
	answer := t.Admit(AdmitInput{Facts{c}, &c.admit})
	return abi.AppendThrottleAdmitAnswer(b, &answer), nil
}

func (c *call) askAfter(t Throttle, request, b []byte) ([]byte, error) {
	if err := c.after.Decode(request); err != nil {
		return nil, err
	}
	answer := t.After(AfterInput{Facts{c}, &c.after})
	answer.Reason = guest.Cut(answer.Reason)
	return abi.AppendAfterAnswer(b, &answer), nil
}

func (c *call) askPick(t Throttle, request, b []byte) ([]byte, error) {
	if err := c.pick.Decode(request); err != nil {
		return nil, err
	}
	answer := t.Pick(PickInput{Facts{c}, &c.pick})
	return abi.AppendPickAnswer(b, &answer), nil
}

func (c *call) askTick(t Throttle, request, b []byte) ([]byte, error) {
	if err := c.tick.Decode(request); err != nil {
		return nil, err
	}
	answer := t.Tick(TickInput{Facts{c}, &c.tick})
	return abi.AppendTickAnswer(b, &answer), nil
}

// Answers of a throttle.
type (
	DelayAnswer = abi.DelayAnswer
	AdmitAnswer = abi.ThrottleAdmitAnswer
	AfterAnswer = abi.AfterAnswer
	PickAnswer  = abi.PickAnswer
	TickAnswer  = abi.TickAnswer
)

// Start lets the request start.
func Start() AdmitAnswer { return AdmitAnswer{Start: true} }

// Wait has the host ask again after a time of at least a millisecond.
func Wait(millis int64) AdmitAnswer { return AdmitAnswer{Wait: max(millis, 1)} }

// WaitForEnd has the host ask again when another request to the same subject has
// ended.
func WaitForEnd() AdmitAnswer { return AdmitAnswer{} }

// Next picks the repository at index i of those that wait.
func Next(i int) PickAnswer { return PickAnswer{Index: uint32(i)} }

// Nobody picks none until another request has ended.
func Nobody() PickAnswer { return PickAnswer{None: true} }

// Keep leaves the limits of clients unchanged.
func Keep() TickAnswer { return TickAnswer{} }

// Limit sets the limits of clients. The host brings them within the operator's
// clamps.
func Limit(limits ClientLimits) TickAnswer { return TickAnswer{Set: true, Limits: limits} }

// Backoff returns the time to wait after a number of failures in a row. It is first after the first
// failure, and doubles with each further one, up to limit.
func Backoff(first, limit int64, failures uint32) int64 {
	d := first
	for n := failures; n > 1 && d > 0; n-- {
		if d > limit/2 {
			return limit
		}
		d *= 2
	}
	return min(d, limit)
}

// UntilFree returns how long to wait until one more start keeps to at most that
// many in any window of this length: 0 if it may be now. The host reports the
// latest 256 starts: with a higher limit than that, there is always room.
func UntilFree(s *Subject, limit int, window int64) int64 {
	if age, ok := s.Age(limit - 1); ok {
		return max(window-int64(age), 0)
	}
	return 0
}
