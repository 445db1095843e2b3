package host

import (
	"math"
	"testing"
)

func TestClientLimitsWithin(t *testing.T) {
	all := func(n int64) ClientLimits { return ClientLimits{n, n, n, n, n, n, n} }
	for _, tt := range []struct {
		name               string
		asked, least, most int64
		want               int64
	}{
		{"between", 50, 10, 100, 50},
		{"below the least", 1, 10, 100, 10},
		{"above the most", 101, 10, 100, 100},
		{"as much as there is", math.MaxInt64, 10, 100, 100},
		{"no limit is the most", 0, 10, 100, 100},
		{"no limit, and no most", 0, 10, 0, 0},
		{"no clamps", 7, 0, 0, 7},
		{"no most", math.MaxInt64, 10, 0, math.MaxInt64},
		{"negative is no limit", -1, 10, 100, 100},
		{"an operator who wants less than the least", 50, 10, 3, 3},
	} {
		if got := all(tt.asked).Within(all(tt.least), all(tt.most)); got != all(tt.want) {
			t.Errorf("%s: %+v, want %d of each", tt.name, got, tt.want)
		}
	}
	// Each limit has its own clamps.
	got := ClientLimits{1, 2, 3, 4, 5, 6, 7}.Within(ClientLimits{Events: 10}, ClientLimits{Queries: 2, BytesOut: 1})
	if want := (ClientLimits{1, 2, 3, 10, 2, 6, 1}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
