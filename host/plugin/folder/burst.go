package folder

import "time"

// burst is a number of changes that are seen as one.
type burst struct {
	quiet       time.Duration
	first, last time.Time // of the changes; zero: there is none
}

// most is how many times the quiet time a burst lasts at most, so that a file
// that is written without end does not keep the others waiting.
const most = 10

func (b *burst) add(now time.Time) {
	if b.first.IsZero() {
		b.first = now
	}
	b.last = now
}

// due returns how long the burst still lasts, and whether there is one.
func (b *burst) due(now time.Time) (time.Duration, bool) {
	if b.first.IsZero() {
		return 0, false
	}
	end := b.last.Add(b.quiet)
	if limit := b.first.Add(most * b.quiet); limit.Before(end) {
		end = limit
	}
	return max(end.Sub(now), 0), true
}

func (b *burst) clear() { b.first, b.last = time.Time{}, time.Time{} }
