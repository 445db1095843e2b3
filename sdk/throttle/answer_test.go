package throttle

import (
	"math"
	"testing"
)

func TestBackoff(t *testing.T) {
	for _, test := range []struct {
		first, most int64
		failures    uint32
		want        int64
	}{
		{5, 100, 0, 5}, {5, 100, 1, 5}, {5, 100, 2, 10}, {5, 100, 3, 20}, {5, 100, 5, 80}, {5, 100, 6, 100}, {5, 100, math.MaxUint32, 100},
		{5, math.MaxInt64, math.MaxUint32, math.MaxInt64}, {200, 100, 1, 100}, {0, 100, math.MaxUint32, 0}, {50, 100, 2, 100}, {51, 100, 2, 100},
	} {
		if got := Backoff(test.first, test.most, test.failures); got != test.want {
			t.Errorf("after %d failures, %d, at most %d: %d, want %d", test.failures, test.first, test.most, got, test.want)
		}
	}
}
