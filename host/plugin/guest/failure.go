package guest

import (
	"errors"
	"fmt"
)

// Cause is why a module could not do its part: the closed set of labels for
// metrics.
type Cause string

const (
	CauseTrap    Cause = "trap"    // unreachable, out of bounds, stack overflow, a panic in the guest
	CauseFuel    Cause = "fuel"    // spent its budget
	CauseExit    Cause = "exit"    // called proc_exit
	CauseHost    Cause = "host"    // misused a host function, or went over a limit of them
	CauseOutput  Cause = "output"  // an answer longer than the cap
	CauseGarbage Cause = "garbage" // an answer that is no verdict
	CauseStart   Cause = "start"   // no new instance could be made
	CauseBreaker Cause = "breaker" // failed too often; not tried
)

var causes = []Cause{
	CauseTrap, CauseFuel, CauseExit, CauseHost, CauseOutput, CauseGarbage, CauseStart, CauseBreaker,
}

// Failure says that a module did not do its part. The host did.
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
	errHostLimit = errors.New("too many calls of host functions, or too much data")
	errReadsTime = errors.New("its reads of the store, of purgatory and of repositories took too long")
	errWait      = errors.New("a module cannot wait")
	errFilter    = errors.New("the filter of store.query is wrong")
	errPointer   = errors.New("a host function was given an address outside of the memory")
	errArgument  = errors.New("a host function was given a value that it does not take")
)

// misuses are the panics above.
var misuses = []error{errHostLimit, errReadsTime, errWait, errFilter, errPointer, errArgument}

// exitError is the panic of proc_exit.
type exitError uint32

func (e exitError) Error() string { return fmt.Sprintf("exit status %d", uint32(e)) }
