// Package attack plays strangers who attack a relay while honest people use it.
// It measures how much of the attack the honest people notice.
//
// Each attack is a pair of functions. The first prepares: it signs events and makes packs. The
// second attacks until its context ends. Both take a [Target] and a count, so that a test can
// run a small attack inside its own process.
//
// [Measure] starts a server, prepares the attack in a process of its own at nice 19, and
// measures the honest people twice: while the attackers stand idle, then during the attack.
package attack

import (
	"cmp"
	"context"
	"slices"
)

// Attack is one way to harm a server.
type Attack struct {
	Name  string
	Text  string // the harm, in plain words
	Count int    // how often, in the unit that Unit names
	Unit  string

	// Disk is how many bytes the attackers may leave on the disk: bytes that the server
	// grants to everybody. 0 means [diskGrowth].
	Disk int64

	// Flags are further flags of talon serve that the attack needs.
	Flags []string

	// Max has the most that each figure of the attack may reach.
	Max map[string]int64

	// Twice are operations whose p99 may be twice as high as alone at most, whatever that is.
	Twice []string

	// Rounds is how often the phases alternate, so that other work of the machine is in both of
	// them. 0 means that the attack comes once, after the phase alone.
	Rounds int

	// Prepare makes what the attack sends.
	Prepare func(ctx context.Context, t *Target, count int) (Run, error)
}

// Run attacks until the context ends. It is called once for each round.
type Run func(ctx context.Context) Outcome

// Outcome is what the attackers saw.
type Outcome struct {
	Figures Figures `json:"figures"`        // such as the events that the server accepted
	Said    string  `json:"said,omitempty"` // the first refusal of the server
}

// Figures are counts by name.
type Figures map[string]int64

// add adds the outcome of another round.
func (o *Outcome) add(other Outcome) {
	if o.Figures == nil {
		o.Figures = Figures{}
	}
	for name, n := range other.Figures {
		if name == figureOpen || name == figurePeak {
			o.Figures[name] = max(o.Figures[name], n)
		} else {
			o.Figures[name] += n
		}
	}
	o.Said = cmp.Or(o.Said, other.Said)
}

// All returns the attacks in the order in which they run.
func All() []Attack {
	return slices.Concat(crash(), slowFetches(), emptyPushes(), thinPacks(), heldKinds(), junk(), pots(), fanout(), pages(), crawlers(), reflection())
}
