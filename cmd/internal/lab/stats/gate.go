package stats

import (
	"fmt"
	"strconv"
	"strings"

	"talon/cmd/internal/lab/result"
)

// Gate is a measure that must not get worse, and by how much it may.
type Gate struct {
	Measure result.Measure
	Allow   float64 // a share of the old value; of a measure that is a share, the change itself
}

// ParseGate reads a measure's name, or NAME=N%.
func ParseGate(text string) (Gate, error) {
	name, allow, given := strings.Cut(text, "=")
	m, err := result.ParseMeasure(name)
	if err != nil {
		return Gate{}, err
	}
	g := Gate{Measure: m}
	if given {
		number, ok := strings.CutSuffix(allow, "%")
		x, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		if !ok || err != nil || !(x >= 0 && x <= 1e6) {
			return Gate{}, fmt.Errorf("%.40q is wrong: want a share, such as %s=5%%", text, name)
		}
		g.Allow = x / 100
	}
	return g, nil
}

// Passes reports whether a measure did not get worse by more than is allowed. A change that
// chance explains passes.
func (g Gate) Passes(c *Comparison) bool {
	e := c.Effect(g.Measure)
	if e == nil || e.Verdict() != Worse {
		return true
	}
	by, most := max(e.Estimate, -e.Estimate), g.Allow
	if !e.Relative && g.Measure.Info().Unit != result.Share {
		most *= max(e.A, -e.A)
	}
	return by <= most
}

// Broken returns the seeds in which a finished and b did not, or b has more findings.
func Broken(a, b *Variant) []Outcome {
	var list []Outcome
	for i := range b.Runs {
		r := &b.Runs[i]
		k, ok := a.search(r.Seed)
		if !ok || a.Runs[k].Digest != r.Digest {
			continue
		}
		old := &a.Runs[k]
		if r.Findings > old.Findings || r.End.How != result.Finished && old.End.How == result.Finished {
			list = append(list, *r)
		}
	}
	return list
}
