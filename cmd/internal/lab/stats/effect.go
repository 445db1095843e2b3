package stats

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/gonum/mathext"

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
	text := c.B + " compared with " + c.A + ": " + strings.Join(parts, "; ") + "."
	if c.LeftOut > 0 {
		text += fmt.Sprintf(" %s left out, which not both finished.", result.Counted(c.LeftOut, "seed"))
	}
	if need := SeedsNeeded(len(c.Effects)); c.Pairs < need {
		text += fmt.Sprintf(" With %s little can be told apart: take %d or more.", result.Counted(c.Pairs, "seed"), need)
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
	resamples   = 4000
	significant = 1 - confidence
	negligible  = 0.001 // a relative change of less matters to nobody
)

// Effect is the difference of one measure between two variants.
type Effect struct {
	Measure  result.Measure
	Pairs    int     // seeds in which both finished and have the measure
	A, B     float64 // means
	Relative bool    // the estimate is a share of A; otherwise it has the measure's unit

	Estimate  float64 // B less A
	Low, High float64 // its confidence interval; not numbers with one pair

	Lower, Higher int // pairs in which B is so
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

// Verdict returns better or worse by the direction of the measure.
func (e *Effect) Verdict() Verdict {
	weight := negligible * math.Abs(e.A)
	switch {
	case e.Relative:
		weight = negligible
	case e.Measure.Info().Unit == result.Share:
		weight = 0 // one lost event is one too many
	}
	if e.Lower+e.Higher == 0 || e.Low > -weight && e.High < weight {
		return Equal
	}
	up := e.Low > 0 && e.Higher > e.Lower
	down := e.High < 0 && e.Lower > e.Higher
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
	over, by := make([]float64, len(a)), make([]float64, len(a))
	for i := range a {
		over[i], by[i] = 1, b[i]-a[i]
		if e.Relative {
			over[i] = a[i]
		}
	}
	e.Estimate = sum(by) / sum(over)
	e.Low, e.High = interval(over, by)
	e.P = signTest(e.Lower, e.Higher)
	e.Adjusted = e.P
	return e
}

// interval returns the studentized bootstrap interval of sum(y) over sum(x): how far the
// estimates of the samples are from that of all pairs, in units of their own standard
// errors. With skewed measures it covers the truth more often than other bootstraps do.
func interval(x, y []float64) (low, high float64) {
	n := len(x)
	if n < 2 {
		return math.NaN(), math.NaN()
	}
	estimate := sum(y) / sum(x)
	rest := make([]float64, n) // of y, what the estimate does not explain
	for i := range rest {
		rest[i] = y[i] - float64(estimate*x[i])
	}
	// studentize returns by how much the estimate of some pairs is off, and its standard
	// error, from sums of x, of rest, and of their products.
	studentize := func(sx, sr, sxx, sxr, srr float64) (off, se float64) {
		off = sr / sx
		squares := max(0, srr-float64(2*off*sxr)+float64(off*off*sxx))
		return off, math.Sqrt(squares*float64(n)/float64(n-1)) / sx
	}
	draw := rand.New(rand.NewPCG(1, uint64(n)))
	sample := make([]float64, resamples)
	for i := range sample {
		var sx, sr, sxx, sxr, srr float64
		for range n {
			k := draw.IntN(n)
			sx += x[k]
			sr += rest[k]
			sxx += float64(x[k] * x[k])
			sxr += float64(x[k] * rest[k])
			srr += float64(rest[k] * rest[k])
		}
		if off, se := studentize(sx, sr, sxx, sxr, srr); off != 0 {
			sample[i] = off / se
		}
	}
	slices.Sort(sample)
	_, se := studentize(sum(x), 0, 0, 0, dot(rest, rest))
	if se == 0 {
		return estimate, estimate
	}
	return estimate - float64(Quantile(sample, 1-significant/2)*se), estimate - float64(Quantile(sample, significant/2)*se)
}

func dot(x, y []float64) (total float64) {
	for i := range x {
		total += float64(x[i] * y[i])
	}
	return total
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
