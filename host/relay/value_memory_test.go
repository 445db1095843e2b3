package relay

import (
	"fmt"
	"runtime"
	"testing"

	"talon/host"
	"talon/internal/race"
)

// rootFilters returns the filters by which a Talon subscribes to root events: three for each 100.
func rootFilters(from, roots int) (list []host.Filter) {
	for _, name := range []byte("eEq") {
		values := make([]string, roots)
		for i := range values {
			values[i] = fmt.Sprintf("%064x", (from+i)*7919)
		}
		list = append(list, host.Filter{Tags: []host.TagFilter{{Name: name, Values: values}}, Limit: -1})
	}
	return list
}

// valueBytes measures what a value of a subscription takes in the index.
func valueBytes(roots int) float64 {
	inUse := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	x := newIndex()
	before := inUse()
	for n := 0; n < roots; n += 100 {
		x.add(&subscription{}, nil, rootFilters(n, 100))
	}
	after := inUse()
	runtime.KeepAlive(x)
	return float64(after-before) / float64(3*roots)
}

// TestValueBytes holds the figure that the default limit of values rests on against the index.
func TestValueBytes(t *testing.T) {
	if race.Detector {
		t.Skip("the race detector takes memory of its own")
	}
	got := valueBytes(50_000)
	t.Logf("%.0f bytes a value", got)
	if got > 1.1*ValueBytes {
		t.Errorf("a value takes %.0f bytes, ValueBytes says %d", got, ValueBytes)
	}
}
