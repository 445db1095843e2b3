package throttle

import (
	"math"
	"testing"

	"talon/sdk/abi"
)

func TestDomains(t *testing.T) {
	usual := DomainLimits{5, 30}
	d, err := ParseDomains("domains", []string{"b.example.com=1,0", " A.example.com. = 10, 60 ", "localhost:8080=2,256"}, usual)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]DomainLimits{
		"a.example.com": {10, 60}, "b.example.com": {1, 0}, "localhost:8080": {2, 256}, "localhost": usual, "": usual, "c.example.com": usual,
	} {
		if got := d.Of(name); got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
}

func TestLoad(t *testing.T) {
	for name, test := range map[string]struct {
		telemetry Telemetry
		want      float64
	}{
		"idle":                 {Telemetry{}, 0},
		"processors":           {Telemetry{CPU: 0.5, Queue: 1, QueueLimit: 10}, 0.5},
		"queue":                {Telemetry{CPU: 0.5, Queue: 9, QueueLimit: 10}, 0.9},
		"memory":               {Telemetry{Memory: 3, MemoryLimit: 4}, 0.75},
		"memory without limit": {Telemetry{Memory: 3}, 0},
		"beyond":               {Telemetry{CPU: 7}, 1},
		"not a number":         {Telemetry{CPU: math.NaN()}, 0},
		"negative":             {Telemetry{CPU: -1}, 0},
	} {
		if got := Load(&test.telemetry); got != test.want {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}

// TestEase walks through all loads: limits only fall, keep to the operator's clamps,
// and do not change often.
func TestEase(t *testing.T) {
	limit, low := ClientLimits{Events: 1000, BytesOut: 1 << 40, Connections: 3}, ClientLimits{Events: 90}
	current, changes := limit, 0
	for i := range 1001 {
		in := TickInput{TickRequest: &abi.TickRequest{Telemetry: Telemetry{CPU: float64(i) / 1000}, Current: current, Most: limit, Least: low}}
		a := Ease(in, 0.5, ClientLimits{Queries: 100})
		if !a.Set {
			continue
		}
		changes++
		l := a.Limits
		if l.Events > current.Events || l.BytesOut > current.BytesOut || l.Events < low.Events || l.Queries > 100 || l.Connections != 3 || l.Filters != 0 {
			t.Fatalf("at a load of %d thousandths: %+v after %+v", i, l, current)
		}
		current = l
	}
	if changes != 10 || current.Events != 90 || current.Queries != 5 {
		t.Errorf("%d changes, %+v at the end; want 10 and the least", changes, current)
	}
	calm := Ease(TickInput{TickRequest: &abi.TickRequest{Current: current, Most: limit}}, 0.5, ClientLimits{Queries: 100})
	if calm != Limit(limit) {
		t.Errorf("calm again: %+v, want the operator's most", calm)
	}
}

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
