package guest

import (
	"context"
	"time"

	"talon/host"
)

// guard ends a call whose reads hang. It is no budget: fuel bounds the code of a module, and
// the number of reads is bounded too. So the guard is generous, and the caller makes a
// decision that met it once more.
type guard struct {
	limit time.Duration // of all reads of the call together; 0: none
	spent time.Duration
}

// read runs f with a context that ends when nothing is left, and adds up its time. It
// returns errTime if f failed because of that. A late answer counts as an answer. The time
// in which the decision waits for a worker does not count, if the facts are a [host.QueueTimer].
func (g *guard) read(ctx context.Context, facts host.Facts, f func(context.Context) error) error {
	if g.limit == 0 {
		return f(ctx)
	}
	if g.spent >= g.limit {
		return errTime
	}
	bounded, cancel := context.WithTimeoutCause(ctx, g.limit-g.spent, errTime)
	defer cancel()
	parked, _ := facts.(host.QueueTimer)
	var before time.Duration
	if parked != nil {
		before = parked.QueueTime()
	}
	began := time.Now()
	err := f(bounded)
	took := time.Since(began)
	if parked != nil {
		took -= min(parked.QueueTime()-before, took)
	}
	g.spent += took
	if err != nil && context.Cause(bounded) == errTime {
		return errTime
	}
	return err
}
