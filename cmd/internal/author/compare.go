package author

import (
	"cmp"
	"context"
	"fmt"
	"slices"
)

// Difference is a pair of different verdicts of two modules, with the questions that got
// it.
type Difference struct {
	A, B  string // verdicts, without their reasons
	Count int
	First []Unlike // of them
}

// Unlike is a question that two modules answer differently.
type Unlike struct {
	Where, Event string // the event's id, empty for other questions
	A, B         Answer
}

// Bounds of a comparison: what modules say may differ for each question.
const (
	maxDifferences = 1000
	maxFirst       = 3
)

// Comparison counts where two modules differ.
type Comparison struct {
	Asked, Differ int
	Failed        int    // questions about which one of them, or both, had no verdict
	FirstFailure  string // where, and why
	kinds         map[[2]string]*Difference
}

// Compare asks both modules the same questions.
func (c *Comparison) Compare(ctx context.Context, a, b *Runner, q *Case) {
	one, other := a.Ask(ctx, q), b.Ask(ctx, q)
	c.Add(q, one, other)
}

// Add compares two answers to the same question.
func (c *Comparison) Add(q *Case, one, other Answer) {
	c.Asked++
	if err := cmpErr(one.Err, other.Err); err != nil {
		if c.Failed++; c.Failed == 1 {
			c.FirstFailure = q.Where + ": " + err.Error()
		}
	}
	if one.Same(&other) {
		return
	}
	c.Differ++
	key := [2]string{one.Verdict(), other.Verdict()}
	d := c.kinds[key]
	if d == nil {
		if len(c.kinds) >= maxDifferences {
			key = [2]string{"other verdicts", "other verdicts"}
		}
		if d = c.kinds[key]; d == nil {
			d = &Difference{A: key[0], B: key[1]}
			if c.kinds == nil {
				c.kinds = map[[2]string]*Difference{}
			}
			c.kinds[key] = d
		}
	}
	d.Count++
	if len(d.First) < maxFirst {
		d.First = append(d.First, Unlike{q.Where, q.Event(), one, other})
	}
}

// Differences returns all differences, the most frequent first.
func (c *Comparison) Differences() []*Difference {
	var list []*Difference
	for _, d := range c.kinds {
		list = append(list, d)
	}
	slices.SortFunc(list, func(x, y *Difference) int {
		return cmp.Or(cmp.Compare(y.Count, x.Count), cmp.Compare(x.A, y.A), cmp.Compare(x.B, y.B))
	})
	return list
}

// Same reports whether two answers are the same to clients and operators.
func (a *Answer) Same(b *Answer) bool {
	if a.Err != nil || b.Err != nil {
		return a.Err != nil && b.Err != nil
	}
	return a.Action == b.Action && a.Rule == b.Rule && a.Reason == b.Reason && a.Wake == b.Wake && a.Wait == b.Wait
}

// Verdict is the answer in two words at most: the action and the rule.
func (a *Answer) Verdict() string {
	switch {
	case a.Err != nil:
		return "failure"
	case a.Rule == "":
		return a.Action.String()
	}
	return a.Action.String() + " " + a.Rule
}

// Event returns the id of the event in the question; empty for other questions and where
// it has none.
func (q *Case) Event() string {
	if e := q.Vector.Event; e != nil && e.ID != [32]byte{} {
		return fmt.Sprintf("%x", e.ID)
	}
	return ""
}

// Said is the message to the client, or why there is no verdict.
func (a *Answer) Said() string {
	if a.Err != nil {
		return a.Err.Error()
	}
	if a.Wake != "" {
		return a.Reason + " (until an event matches " + a.Wake + ")"
	}
	return a.Reason
}
