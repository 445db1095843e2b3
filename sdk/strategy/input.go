package strategy

import "talon/sdk/abi"

// Kind says what an input is.
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
)

// Input is one thing that happened. Only the method of its kind returns what it
// holds; the others return empty values.
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
