// Package strategy is the package that the author of a strategy in Go imports. A
// strategy is a module that decides what this service subscribes to on which
// relay, and when.
//
// A strategy is a reducer. It receives inputs, one at a time and in order, and returns actions,
// which the host carries out. It has no clock but [Input.Now], no network, no files, and no
// goroutines that live on between calls.
//
//	//go:embed manifest.json
//	var manifest string
//
//	var _ = strategy.Register(manifest, new(plan))
//
//	func main() {}
//
//	func (p *plan) Configure(cfg strategy.Config) error { … }
//
//	func (p *plan) Step(in strategy.Input, out *strategy.Actions) {
//		switch in.Kind() {
//		case strategy.Init:
//			for it := in.Init().Repositories(); it.Next(); {
//				…
//				out.Connect(relay, 0, "named by "+repository)
//			}
//		case strategy.RelayConnected:
//			out.Subscribe(strategy.Subscription{Relay: in.RelayConnected().Relay, ID: "announcements", Filters: …})
//		}
//	}
//
// It is compiled with
//
//	GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared -o plan.wasm
//
// and tested natively with package strategytest. talon.proto of package abi describes the inputs
// and actions.
//
// Invariants:
//
//  1. The same inputs after the same configuration give the same actions: take
//     random numbers from the seed of Init, and do not depend on the order of a
//     map.
//  2. The first input is Init, and after it the strategy knows all that it
//     needs: another strategy may have run before it. An Init in several parts
//     comes with nothing in between.
//  3. Texts, ids and views of an Input are valid until Step returns. Copy the
//     values that you keep: strings.Clone.
//  4. A point in time is in unix milliseconds. Times of events are in unix
//     seconds.
package strategy

import (
	"talon/sdk/abi"
	"talon/sdk/internal/guest"
	"talon/sdk/module"
)

// Strategy decides which subscriptions to open on which relay, and when.
type Strategy interface {
	// Configure is called once, before the first Step. An error refuses the
	// configuration: it should name the key and the value.
	Configure(cfg Config) error

	// Step takes one input and adds its actions to out. It is never called twice at the same time.
	Step(in Input, out *Actions)
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

// Classes of reasons for an end, or of complaints of a relay.
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

// Kind is the kind of an input.
type Kind uint32

// A strategy ignores a kind that it does not know: hosts may have more of them
// later.
const (
	Init              Kind = abi.InputInit
	LocalEvent        Kind = abi.InputLocalEvent
	RepoGone          Kind = abi.InputRepoGone
	RelayConnected    Kind = abi.InputRelayConnected
	RelayDisconnected Kind = abi.InputRelayDisconnected
	Eose              Kind = abi.InputEose
	Closed            Kind = abi.InputClosed
	HistoricDone      Kind = abi.InputHistoricDone
	Notice            Kind = abi.InputNotice
	TimerFired        Kind = abi.InputTimerFired
	RootActivity      Kind = abi.InputRootActivity
	Repeats           Kind = abi.InputRepeats
)

// Input is one event of the world. Only the method of its kind returns its content. The others
// return empty values.
type Input struct{ c *call }

// Kind returns the kind of the input.
func (in Input) Kind() Kind { return Kind(in.c.view.Kind) }

// Now returns the time of the step in unix milliseconds. It never goes back.
func (in Input) Now() int64 { return in.c.view.Now }

// Init returns the state of the world with which an instance begins.
func (in Input) Init() World { return World{in.c.view.Init()} }

// LocalEvent returns an event that was accepted here.
func (in Input) LocalEvent() abi.LocalEventView { return in.c.view.LocalEvent() }

// RepoGone returns a repository that is no longer ours.
func (in Input) RepoGone() abi.RepoGone { return in.c.view.RepoGone() }

// RelayConnected returns a connection that is up.
func (in Input) RelayConnected() abi.RelayConnected { return in.c.view.RelayConnected() }

// RelayDisconnected returns a connection that ended, or that could not be made.
func (in Input) RelayDisconnected() abi.RelayDisconnected { return in.c.view.RelayDisconnected() }

// Eose returns a subscription whose stored events have all arrived.
func (in Input) Eose() abi.Eose { return in.c.view.Eose() }

// Closed returns a subscription that the relay ended, or that the host did not
// open.
func (in Input) Closed() abi.Closed { return in.c.view.Closed() }

// HistoricDone returns a historic that ended.
func (in Input) HistoricDone() abi.HistoricDone { return in.c.view.HistoricDone() }

// Notice returns a NOTICE of a relay.
func (in Input) Notice() abi.Notice { return in.c.view.Notice() }

// TimerFired returns a timer whose time has come.
func (in Input) TimerFired() abi.TimerFired { return in.c.view.TimerFired() }

// RootActivity returns root events about which other events were accepted here.
func (in Input) RootActivity() abi.RootActivityView { return in.c.view.RootActivity() }

// Repeats returns how many events of a relay other relays had delivered before.
func (in Input) Repeats() abi.Repeats { return in.c.view.Repeats() }

// Log writes a line to the operator's log. It needs the capability "log". Lines
// beyond the host's limit are dropped.
func (in Input) Log(level Level, text string) { in.c.host.log(int32(level), text) }

// World is the input Init.
type World struct{ abi.StepInitView }

// First reports whether a world begins here: forget the one before.
func (w World) First() bool { return w.Part == 0 }

// Complete reports whether this is the last part: plan now.
func (w World) Complete() bool { return !w.More }

// call is the state of one step. It is reused.
type call struct {
	view abi.StepView
	host hostFunctions
	out  Actions
}

// step runs s on an encoded StepRequest, and returns the encoded StepActions,
// which are in b as far as they fit.
func (c *call) step(s Strategy, request, b []byte) ([]byte, error) {
	if err := c.view.Decode(request); err != nil {
		return nil, err
	}
	c.out.reset(b)
	s.Step(Input{c}, &c.out)
	return c.out.b, nil
}

// Actions is the list of actions for the host, in order.
type Actions struct {
	b       []byte
	n       int
	action  abi.StepAction
	filters []abi.Filter
}

func (o *Actions) reset(b []byte) { o.b, o.n = b, 0 }

// Len returns the number of actions so far. The host refuses an answer that goes over its
// limits; a strategy with more to do sets a timer for now.
func (o *Actions) Len() int { return o.n }

// Size returns the number of bytes so far.
func (o *Actions) Size() int { return len(o.b) }

// Connect keeps a connection to the relay up. The higher priority comes first if limits do not
// allow all. The reason is for the operator. A long one is cut.
func (o *Actions) Connect(relay string, priority uint32, reason string) {
	o.add(abi.StepAction{Do: abi.DoConnect, Relay: relay, Priority: priority, Reason: guest.Cut(reason)})
}

// Disconnect ends a Connect.
func (o *Actions) Disconnect(relay, reason string) {
	o.add(abi.StepAction{Do: abi.DoDisconnect, Relay: relay, Reason: guest.Cut(reason)})
}

// Subscription is the argument of Subscribe.
type Subscription struct {
	Relay   string
	ID      string // 1 to 64 bytes from ! to ~
	Filters []Filter
	Live    bool // nothing that is stored
	Purpose uint32
}

// Subscribe opens a subscription on a connected relay, in place of one with the
// same id. The answer is an Eose or Closed.
func (o *Actions) Subscribe(s Subscription) {
	o.filters = o.filters[:0]
	for i := range s.Filters {
		o.filters = append(o.filters, s.Filters[i].wire())
	}
	o.add(abi.StepAction{Do: abi.DoSubscribe, Relay: s.Relay, ID: s.ID, Filters: o.filters, Live: s.Live, Purpose: s.Purpose})
}

// Unsubscribe closes a subscription or ends a historic. There is no answer.
func (o *Actions) Unsubscribe(relay, id string) {
	o.add(abi.StepAction{Do: abi.DoUnsubscribe, Relay: relay, ID: id})
}

// Catchup is the argument of Historic.
type Catchup struct {
	Relay   string
	ID      string // 1 to 64 bytes from ! to ~; shared with subscriptions
	Filter  Filter
	Method  uint32
	Purpose uint32
	Page    uint32 // events of one page of MethodREQ; 0: the host chooses
	Push    bool   // also send what the relay lacks, after negentropy

	// Compare with the events that this relay is believed to hold, instead of with all events here.
	// This has an effect once the same filter was compared to the end. Without new events the
	// comparison then costs little more than the filter, however many events the relay lacks.
	Holdings bool
}

// Historic fetches the stored events of a relay that we do not have. The answer is a HistoricDone.
func (o *Actions) Historic(h Catchup) {
	o.filters = append(o.filters[:0], h.Filter.wire())
	o.add(abi.StepAction{
		Do: abi.DoHistoric, Relay: h.Relay, ID: h.ID, Filters: o.filters,
		Method: h.Method, Purpose: h.Purpose, Page: h.Page, Push: h.Push, Holdings: h.Holdings,
	})
}

// SetTimer sets a timer to a time in unix milliseconds, in place of one with the
// same id.
func (o *Actions) SetTimer(id string, at int64) {
	o.add(abi.StepAction{Do: abi.DoSetTimer, ID: id, At: max(at, 1)})
}

// StopTimer ends a timer.
func (o *Actions) StopTimer(id string) {
	o.add(abi.StepAction{Do: abi.DoSetTimer, ID: id})
}

// Uncovered reports how many repositories, root events and authors (of whom deletions are wanted)
// have no subscription at a relay, because it has no room for them. It replaces the report before;
// with zeros all have one.
func (o *Actions) Uncovered(relay string, repositories, roots, authors uint32) {
	o.add(abi.StepAction{Do: abi.DoUncovered, Relay: relay, Repositories: repositories, Roots: roots, Authors: authors})
}

// Progress is how far a strategy has come with a relay.
type Progress struct {
	Past      bool  // not all that is wanted of what the relay has stored is fetched
	Closed    bool  // the relay closed a subscription that is to be opened again
	OldDates  bool  // events with old dates that came there during an absence are not fetched
	Anew      bool  // the absence was too long to continue: all is fetched again
	NextCheck int64 // unix milliseconds: when all is compared again; 0: not known
}

// Progress reports how far the strategy has come with a relay. It replaces the report before,
// and ends with the connection.
func (o *Actions) Progress(relay string, p Progress) {
	o.add(abi.StepAction{
		Do: abi.DoProgress, Relay: relay, Past: p.Past, Closed: p.Closed, OldDates: p.OldDates, Anew: p.Anew, NextCheck: max(p.NextCheck, 0),
	})
}

func (o *Actions) add(a abi.StepAction) {
	o.action = a // kept here, so that taking its address allocates nothing
	o.b = abi.AppendAction(o.b, &o.action)
	o.n++
}

// Filter selects events (NIP-01). An empty list is no condition.
type Filter struct {
	IDs     []ID
	Authors []ID
	Kinds   []uint32
	Tags    []TagFilter
	Since   int64  // unix seconds, inclusive; 0 is no condition
	Until   int64  // unix seconds, inclusive; 0 is no condition
	Limit   uint32 // 0: none
}

// ID is an event id or a public key.
type ID = [32]byte

// TagFilter asks for a tag whose name is a single letter, with one of the values.
type TagFilter = abi.TagFilter

// Hexes writes many ids for tags and filters, without garbage. An action copies its arguments.
type Hexes = abi.Hexes

// Hex returns an id as tags and filters have it.
func Hex(id []byte) string { return string(abi.AppendHex(nil, id)) }

func (f *Filter) wire() abi.Filter {
	wire := abi.Filter{IDs: f.IDs, Authors: f.Authors, Kinds: f.Kinds, Tags: f.Tags, Limit: f.Limit}
	if f.Since != 0 {
		wire.Since = &f.Since
	}
	if f.Until != 0 {
		wire.Until = &f.Until
	}
	return wire
}
