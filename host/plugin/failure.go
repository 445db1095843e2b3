package plugin

import (
	"errors"
	"fmt"
)

// cause is why a module could not decide: the closed set of labels for metrics.
type cause string

const (
	causeTrap    cause = "trap"    // unreachable, out of bounds, stack overflow, a panic in the guest
	causeFuel    cause = "fuel"    // spent its budget
	causeExit    cause = "exit"    // called proc_exit
	causeHost    cause = "host"    // went over a limit of host functions
	causeOutput  cause = "output"  // a verdict longer than the cap
	causeGarbage cause = "garbage" // an answer that is no verdict
	causeStart   cause = "start"   // no new instance could be made
	causeBreaker cause = "breaker" // failed too often; not tried
)

var causes = []cause{
	causeTrap, causeFuel, causeExit, causeHost, causeOutput, causeGarbage, causeStart, causeBreaker,
}

// failure says that a module did not do its part. The host did.
type failure struct {
	cause cause
	what  string // completes "the module …"
	err   error
}

func (f *failure) Error() string {
	if f.err == nil {
		return "the module " + f.what
	}
	return fmt.Sprintf("the module %s: %v", f.what, f.err)
}

func (f *failure) Unwrap() error { return f.err }

// asFailure returns the failure in err, nil if there is none.
func asFailure(err error) *failure {
	var f *failure
	if errors.As(err, &f) {
		return f
	}
	return nil
}

// Panics of host functions: they end the call that is under way.
var (
	errHostLimit = errors.New("too many calls of host functions, or too much data")
	errWait      = errors.New("a module cannot wait")
	errFilter    = errors.New("the filter of store.query is wrong")
	errPointer   = errors.New("a host function was given an address outside of the memory")
)

// exitError is the panic of proc_exit.
type exitError uint32

func (e exitError) Error() string { return fmt.Sprintf("exit status %d", uint32(e)) }
