package guest

import (
	"errors"
	"fmt"
)

// Cause says why a module failed: the closed set of labels for metrics.
type Cause string

const (
	CauseTrap    Cause = "trap"    // unreachable, out of bounds, stack overflow, a panic in the guest
	CauseFuel    Cause = "fuel"    // spent its budget
	CauseExit    Cause = "exit"    // called proc_exit
	CauseTime    Cause = "time"    // its reads met the guard: a host function hangs, or the machine is busy
	CauseReads   Cause = "reads"   // read more often than its budget allows
	CauseBytes   Cause = "bytes"   // moved more bytes by host functions
	CauseCalls   Cause = "calls"   // called host functions more often
	CauseHost    Cause = "host"    // misused a host function
	CauseOutput  Cause = "output"  // an answer longer than the cap
	CauseGarbage Cause = "garbage" // an answer that is no verdict
	CauseStart   Cause = "start"   // no new instance could be made
)

var causes = []Cause{
	CauseTrap, CauseFuel, CauseTime, CauseReads, CauseBytes, CauseCalls, CauseExit, CauseHost, CauseOutput, CauseGarbage, CauseStart,
}

// Failure reports that a module failed, and not the host.
type Failure struct {
	Cause Cause

	what string // completes "the module …"
	err  error
}

func (f *Failure) Error() string {
	if f.err == nil {
		return "the module " + f.what
	}
	return fmt.Sprintf("the module %s: %v", f.what, f.err)
}

func (f *Failure) Unwrap() error { return f.err }

// AsFailure returns the failure in err, nil if there is none.
func AsFailure(err error) *Failure {
	if err == nil {
		return nil // the usual decision allocates nothing
	}
	var f *Failure
	if errors.As(err, &f) {
		return f
	}
	return nil
}

// Panics of host functions: they end the call that is under way.
var (
	errFuel      = errors.New("its fuel is spent") // reported as any other lack of fuel
	errTime      = errors.New("its reads took longer than its budget of time; the machine is busy, or a host function hangs")
	errReads     = errors.New("it read store, purgatory and repositories more often than its budget allows")
	errBytes     = errors.New("it moved more bytes by host functions than its budget allows")
	errHostCalls = errors.New("it called host functions more often than its budget allows")
	errRandom    = errors.New("it took too many random bytes")
	errWait      = errors.New("a module cannot wait")
	errFilter    = errors.New("the filter of store.query is wrong")
	errPointer   = errors.New("a host function was given an address outside of the memory")
	errArgument  = errors.New("a host function was given a value that it does not take")
)

// endings are the causes of the panics above.
var endings = []struct {
	err   error
	cause Cause
}{
	{errTime, CauseTime}, {errReads, CauseReads}, {errBytes, CauseBytes}, {errHostCalls, CauseCalls}, {errRandom, CauseHost},
	{errWait, CauseHost}, {errFilter, CauseHost}, {errPointer, CauseHost}, {errArgument, CauseHost},
}

// causeOf returns the cause of a panic of a host function, empty for another error.
func causeOf(err error) Cause {
	for _, e := range endings {
		if errors.Is(err, e.err) {
			return e.cause
		}
	}
	return ""
}

// exitError is the panic of proc_exit.
type exitError uint32

func (e exitError) Error() string { return fmt.Sprintf("exit status %d", uint32(e)) }
