package stats

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/gonum/mathext"

	"talon/cmd/internal/lab/result"
)

// headline are the measures that a sentence is about, as far as they were measured. A sentence
// says first what was lost: completeness is not among them.
var headline = []result.Measure{result.Recall, result.TotalBytes, result.StalenessP99, result.ConnectionHours, result.RecoveryMax,
	result.GitRequests, result.GitRefusals, result.DataP99}

// Sentence describes the result of a comparison for the main measures: "completeness equal; 38 %
// fewer bytes (31 to 44 %, 200 of 200 seeds); staleness p99 not distinguishable (2.1 % shorter,
// -4.0 to 1.0 %; shorter in 12, longer in 8)".
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
			if m != result.Recall { // completeness says it
				equal = append(equal, m.Info().Title)
			}
		case Indistinct:
			indistinct = append(indistinct, m.Info().Title+" not distinguishable ("+e.Counts()+")")
		default:
			changed = append(changed, e.Phrase())
		}
	}
	var parts []string
	if e := c.Effect(result.Completeness); e != nil {
		parts = append(parts, c.completeness(e))
	}
	if len(changed) > 0 {
		parts = append(parts, strings.Join(changed, ", "))
	}
	if len(indistinct) > 0 {
		parts = append(parts, listed(indistinct))
	}
	if len(equal) > 0 {
		parts = append(parts, listed(equal)+" equal")
	}
	text := c.B + " compared with " + c.A + ": " + strings.Join(parts, "; ") + "."
	if c.LeftOut > 0 {
		text += fmt.Sprintf(" %s left out, which not both finished.", result.Counted(c.LeftOut, "seed"))
	}
	if need := SeedsNeeded(len(headline)); c.Pairs < need {
		text += fmt.Sprintf(" With %s little can be told apart: take %d or more.", result.Counted(c.Pairs, "seed"), need)
	}
	return text
}

// completeness says which events only one of the two has.
func (c *Comparison) completeness(e *Effect) string {
	if !e.exact {
		switch e.Verdict() {
		case Equal:
			return "completeness equal"
		case Indistinct:
			return "completeness not distinguishable (" + e.Counts() + ")"
		}
		return e.Phrase()
	}
	switch {
	case len(c.Losses) > 0:
		lower := ""
		if e.B < e.A {
			lower = fmt.Sprintf(" (completeness %s lower)", amount(e.A-e.B, result.Share))
		}
		return fmt.Sprintf("LOST %s that %s has%s, in %d of %s, such as %s", result.Counted(len(c.Losses), "event"), c.A, lower,
			c.seedsWithLoss(), result.Counted(c.Pairs, "seed"), c.Losses[0])
	case c.Gained > 0:
		return fmt.Sprintf("completeness higher: %s that %s lacks", result.Counted(c.Gained, "event"), c.A)
	case e.Verdict() == Better:
		return fmt.Sprintf("completeness higher in %d of %s", e.Higher, result.Counted(e.Pairs, "seed"))
	}
	return "completeness equal"
}

// Counts says what an effect about which there is no claim looks like: the change of the median
// seed, its interval, and how many seeds are lower and higher.
func (e *Effect) Counts() string {
	less, more := "lower", "higher"
	if u := e.Measure.Info().Unit; u == result.Time || u == result.Hours {
		less, more = "shorter", "longer"
	}
	if !e.Relative {
		u := e.Measure.Info().Unit
		return fmt.Sprintf("%s, %s; %s in %d, %s in %d", amount(e.Estimate, u), amountRange(e.Low, e.High, u), less, e.Lower, more, e.Higher)
	}
	return fmt.Sprintf("%s, %s; %s in %d, %s in %d", Percent(e.Estimate), percentRange(e.Low, e.High), less, e.Lower, more, e.Higher)
}

// Statement describes what became of a measure.
func (c *Comparison) Statement(m result.Measure) string {
	e := c.Effect(m)
	if m == result.Completeness {
		return c.completeness(e)
	}
	return e.Phrase()
}

// Interval is the change of the median seed, with its interval.
func (e *Effect) Interval() string {
	if e.exact {
		return ""
	}
	if e.Relative {
		return Percent(e.Estimate) + " (" + percentRange(e.Low, e.High) + ")"
	}
	u := e.Measure.Info().Unit
	return amount(e.Estimate, u) + " (" + amountRange(e.Low, e.High, u) + ")"
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
	return fmt.Sprintf("%s (%s, %d of %s)", text, span, count, result.Counted(e.Pairs, "seed"))
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

const (
	confidence  = 0.95
	significant = 1 - confidence
	negligible  = 0.001 // a relative change of less matters to nobody
)

// Effect is the difference of one measure between two variants.
type Effect struct {
	Measure  result.Measure
	Pairs    int     // seeds in which both finished and have the measure
	A, B     float64 // means
	Relative bool    // the estimate is a share of A; otherwise it has the measure's unit

	// Estimate is the change of the median seed, from A to B. Low and High are its interval: the
	// order statistics that the sign test does not reject, which is exact. With fewer than six
	// pairs there is none of 95 %, and they are the least and the greatest change.
	Estimate  float64
	Low, High float64
	Widest    float64 // the greatest change, up or down

	Lower, Higher int  // pairs in which B is so
	Lost          int  // of completeness: events that A has and B lacks
	exact         bool // one event more or less is a difference
	P             float64
	Adjusted      float64 // P, corrected for the statements that are made together
}

// Verdict classifies an effect.
type Verdict int

const (
	Indistinct Verdict = iota // chance explains it
	Equal                     // the same in all pairs, or to a thousandth
	Better
	Worse
)

// Verdict returns better or worse by the direction of the measure. Completeness is exact: one
// event that is lost in one seed is worse.
func (e *Effect) Verdict() Verdict {
	if e.exact {
		switch {
		case e.Lost > 0 || e.Lower > 0:
			return Worse
		case e.Higher > 0:
			return Better
		}
		return Equal
	}
	weight := negligible * math.Abs(e.A)
	if e.Relative {
		weight = negligible
	}
	if e.Widest < weight || e.Lower+e.Higher == 0 {
		return Equal
	}
	// The mean must not say the opposite: one seed may carry it.
	up := e.Low > 0 && e.Higher > e.Lower && e.B > e.A
	down := e.High < 0 && e.Lower > e.Higher && e.B < e.A
	switch {
	case e.Adjusted >= significant || !up && !down:
		return Indistinct
	case up == e.Measure.Info().Higher:
		return Better
	}
	return Worse
}

// effect compares the values of pairs.
func effect(m result.Measure, a, b []float64) Effect {
	e := Effect{Measure: m, Pairs: len(a), A: Mean(a), B: Mean(b)}
	for i := range a {
		switch {
		case b[i] < a[i]:
			e.Lower++
		case b[i] > a[i]:
			e.Higher++
		}
	}
	unit := m.Info().Unit
	e.Relative = unit != result.Share && unit != result.Index && !slices.ContainsFunc(a, func(x float64) bool { return x <= 0 })
	changes := make([]float64, len(a))
	for i := range a {
		changes[i] = b[i] - a[i]
		if e.Relative {
			changes[i] /= a[i]
		}
	}
	slices.Sort(changes)
	e.Estimate = Quantile(changes, 0.5)
	e.Low, e.High = interval(changes)
	e.Widest = max(-changes[0], changes[len(changes)-1])
	e.P = signTest(e.Lower, e.Higher)
	e.Adjusted = e.P
	return e
}

// interval returns the exact interval of the median of a sorted list.
func interval(sorted []float64) (low, high float64) {
	n, k := len(sorted), 0
	for k+1 < n-1-k && signTest(k+1, n-k-1) < significant {
		k++
	}
	return sorted[k], sorted[n-1-k]
}

// Quantile interpolates between the values of a sorted list that is not empty.
func Quantile(sorted []float64, p float64) float64 {
	at := float64(p * float64(len(sorted)-1))
	i := int(at)
	if i == len(sorted)-1 || sorted[i] == sorted[i+1] {
		return sorted[i] // infinite ones too
	}
	return sorted[i] + float64((at-float64(i))*(sorted[i+1]-sorted[i]))
}

// signTest returns the probability that so uneven a split, or a more uneven one, is
// chance: twice the tail of the binomial distribution with one half.
func signTest(lower, higher int) float64 {
	n, k := float64(lower+higher), float64(min(lower, higher))
	if n == 0 {
		return 1
	}
	return min(1, 2*mathext.RegIncBeta(n-k, k+1, 0.5))
}

// holm corrects p-values for their number, with more power than Bonferroni's method.
func holm(p []float64) []float64 {
	order := make([]int, len(p))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(p[i], p[j]) })
	out := make([]float64, len(p))
	limit := 0.0
	for rank, i := range order {
		limit = max(limit, min(1, p[i]*float64(len(p)-rank)))
		out[i] = limit
	}
	return out
}

func sum(list []float64) (total float64) {
	for _, x := range list {
		total += x
	}
	return total
}

// Mean returns the mean of a list that is not empty.
func Mean(list []float64) float64 { return sum(list) / float64(len(list)) }
