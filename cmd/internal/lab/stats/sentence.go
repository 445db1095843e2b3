package stats

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"talon/cmd/internal/lab/result"
)

// headline are the measures that a sentence is about, as far as they were measured.
var headline = []result.Measure{result.TotalBytes, result.StalenessP99, result.Completeness, result.ConnectionHours, result.RecoveryMax,
	result.GitRequests, result.GitRefusals, result.DataP99}

// Sentence describes the result of a comparison for the main measures: "b needs 38 %
// fewer bytes (31 to 44 %, 200 of 200 seeds), staleness p99 not distinguishable".
func (c *Comparison) Sentence() string {
	if c.Pairs == 0 {
		return c.B + " cannot be compared with " + c.A + ": there is no seed that both finished."
	}
	var changed, indistinct, equal []string
	for _, m := range headline {
		e := c.Effect(m)
		if e == nil {
			continue
		}
		switch e.Verdict() {
		case Equal:
			equal = append(equal, m.Info().Title)
		case Indistinct:
			indistinct = append(indistinct, m.Info().Title)
		default:
			changed = append(changed, e.Phrase())
		}
	}
	var parts []string
	if len(changed) > 0 {
		parts = append(parts, strings.Join(changed, ", "))
	}
	if len(indistinct) > 0 {
		parts = append(parts, listed(indistinct)+" not distinguishable")
	}
	if len(equal) > 0 {
		parts = append(parts, listed(equal)+" equal")
	}
	text := c.B + " beside " + c.A + ": " + strings.Join(parts, "; ") + "."
	if c.LeftOut > 0 {
		text += fmt.Sprintf(" %s left out, which not both finished.", seeds(c.LeftOut))
	}
	if need := SeedsNeeded(len(c.Effects)); c.Pairs < need {
		text += fmt.Sprintf(" With %s little can be told apart: take %d or more.", seeds(c.Pairs), need)
	}
	return text
}

// Phrase describes an effect, with its interval and the number of seeds that show it.
func (e *Effect) Phrase() string {
	info := e.Measure.Info()
	down := e.Estimate < 0
	count := e.Higher
	if down {
		count = e.Lower
	}
	low, high := e.Low, e.High
	if down {
		low, high = -high, -low
	}
	what := info.Title
	pick := func(less, more string) string {
		if down {
			return less
		}
		return more
	}
	var text, span string
	switch {
	case !e.Relative:
		by := pick("lower", "higher")
		if info.Unit == result.Time {
			by = pick("shorter", "longer")
		}
		text = fmt.Sprintf("%s %s %s", what, amount(math.Abs(e.Estimate), info.Unit), by)
		span = amountRange(low, high, info.Unit)
	case e.Estimate > 1:
		text = fmt.Sprintf("%s times %s", digits(1+e.Estimate), the(what, info.Unit))
		span = digits(1+low) + " to " + digits(1+high)
	case info.Unit == result.Ratio:
		text = fmt.Sprintf("%s %s %s", what, Percent(math.Abs(e.Estimate)), pick("lower", "higher"))
		span = percentRange(low, high)
	case info.Unit == result.Time || info.Unit == result.Hours:
		text = fmt.Sprintf("%s %s %s", what, Percent(math.Abs(e.Estimate)), pick("shorter", "longer"))
		span = percentRange(low, high)
	default:
		text = fmt.Sprintf("%s %s %s", Percent(math.Abs(e.Estimate)), pick(fewer(e.Measure), "more"), what)
		span = percentRange(low, high)
	}
	return fmt.Sprintf("%s (%s, %d of %s)", text, span, count, seeds(e.Pairs))
}

func the(what string, u result.Unit) string {
	if u == result.Time || u == result.Hours || u == result.Ratio {
		return "the " + what
	}
	return "as many " + what
}

func fewer(m result.Measure) string {
	if m == result.Fuel || m == result.Memory {
		return "less"
	}
	return "fewer"
}

func seeds(n int) string {
	if n == 1 {
		return "1 seed"
	}
	return strconv.Itoa(n) + " seeds"
}

func listed(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " and " + words[len(words)-1]
}

// SeedsNeeded returns the smallest number of seeds with which a measure that differs in
// all of them is significant, given the number of statements.
func SeedsNeeded(statements int) int {
	n := 2
	for signTest(n, 0)*float64(max(1, statements)) >= significant {
		n++
	}
	return n
}

// Percent writes a share with two digits or more.
func Percent(x float64) string { return digits(100*x) + " %" }

func percentRange(low, high float64) string { return digits(100*low) + " to " + Percent(high) }

func amount(x float64, u result.Unit) string {
	switch u {
	case result.Share:
		return digits(100*x) + " points"
	case result.Time:
		return digits(x) + " s"
	}
	return digits(x)
}

func amountRange(low, high float64, u result.Unit) string {
	if u == result.Share {
		return digits(100*low) + " to " + digits(100*high)
	}
	return digits(low) + " to " + digits(high)
}

// digits writes a number with two digits, and all digits before the point.
func digits(x float64) string {
	abs := math.Abs(x)
	decimals := 0
	switch {
	case abs == 0 || abs >= 9.95:
	case abs >= 0.995:
		decimals = 1
	default:
		decimals = min(6, 1-int(math.Floor(math.Log10(abs))))
	}
	return strconv.FormatFloat(x, 'f', decimals, 64)
}
