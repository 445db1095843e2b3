package author

import (
	"cmp"
	"maps"
	"slices"
)

// Tally counts answers by verdict, and keeps what each cost.
type Tally struct {
	Asked, Failed int
	FirstFailure  string // where, and why
	verdicts      map[string]int
	fuel          []int64
}

// maxVerdicts is more than a relay tells apart.
const maxVerdicts = 1000

// Add counts one answer.
func (t *Tally) Add(q *Question, a *Answer) {
	t.Asked++
	if a.Err != nil {
		if t.Failed++; t.Failed == 1 {
			t.FirstFailure = q.Where + ": " + a.Err.Error()
		}
	}
	verdict := a.Verdict()
	if t.verdicts == nil {
		t.verdicts = map[string]int{}
	}
	if _, known := t.verdicts[verdict]; !known && len(t.verdicts) >= maxVerdicts {
		verdict = "other verdicts"
	}
	t.verdicts[verdict]++
	t.fuel = append(t.fuel, a.Fuel)
}

// Count is how often there was a verdict.
type Count struct {
	Verdict string
	Count   int
}

// Verdicts returns all, the most frequent first.
func (t *Tally) Verdicts() []Count {
	var list []Count
	for _, v := range slices.Sorted(maps.Keys(t.verdicts)) {
		list = append(list, Count{v, t.verdicts[v]})
	}
	slices.SortStableFunc(list, func(a, b Count) int { return cmp.Compare(b.Count, a.Count) })
	return list
}

// Fuel returns the median, the 99th percentile and the most of what answers cost.
func (t *Tally) Fuel() (p50, p99, most int64) {
	slices.Sort(t.fuel)
	return percentile(t.fuel, 50), percentile(t.fuel, 99), percentile(t.fuel, 100)
}

// percentile of a sorted list, by nearest rank; zero of none.
func percentile[T any](sorted []T, p int) (value T) {
	if len(sorted) == 0 {
		return value
	}
	return sorted[max((len(sorted)*p+99)/100, 1)-1]
}
