package layers

import (
	"talon/sdk/abi"
	"talon/sdk/strategy"
)

// work is how much one step does, in tag values that it writes; the rest is told
// in these. A step of that size takes well under a millisecond in a guest; what is
// left over follows in the next one.
const (
	work     = 500
	workPlan = 100 // a plan for a relay, and as much for each 1,000 roots
	workDo   = 20  // an action
)

// turn is the step that is under way.
type turn struct {
	out    *strategy.Actions
	now    int64 // unix milliseconds
	limits abi.StepLimits
	left   int  // work that may still be done
	full   bool // something has to wait for the next step
}

// room reports whether the answer holds so many more actions with so many bytes of
// text, and the timer after them.
func (t *turn) room(actions, size int) bool {
	const rest = 400 // of an action: ids, a reason, lengths; the timer
	if t.left > 0 && t.out.Len()+actions < int(t.limits.Actions) && (t.limits.Bytes == 0 || t.out.Size()+size+rest <= int(t.limits.Bytes)) {
		return true
	}
	t.full = true
	return false
}
