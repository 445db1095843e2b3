package guest

// Func is a function that the host calls in modules.
type Func uint8

const (
	Admit    Func = iota // an event
	Query                // the filters of a REQ, COUNT or NEG-OPEN
	Connect              // a client that has just come
	Push                 // ref updates
	Audience             // who may receive an event
	Step                 // what happened to a strategy
	ThrottleDelay
	ThrottleAdmit
	ThrottleAfter
	ThrottlePick
	ThrottleTick
)

const functions = int(ThrottleTick) + 1

var functionNames = [functions]string{
	"admit", "query", "connect", "push", "audience", "step",
	"throttle_delay", "throttle_admit", "throttle_after", "throttle_pick", "throttle_tick",
}

// String returns the function's name as manifests have it.
func (f Func) String() string { return functionNames[f] }

// export is the name under which a module exports the function.
func (f Func) export() string { return "talon_" + functionNames[f] }

// policy reports whether the function answers with a verdict.
func (f Func) policy() bool { return f <= Audience }
