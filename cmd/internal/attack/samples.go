package attack

import (
	"slices"
	"sync"
	"time"
)

// Samples are the operations of honest people in one phase.
type Samples struct {
	mu       sync.Mutex // guards the fields below
	times    map[string][]time.Duration
	refused  map[string]int
	examples []string // the first refusals of each operation
}

func newSamples() *Samples {
	return &Samples{times: map[string][]time.Duration{}, refused: map[string]int{}}
}

// addAll adds the samples of another phase.
func (s *Samples) addAll(other *Samples) {
	other.mu.Lock()
	defer other.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	for op, list := range other.times {
		s.times[op] = append(s.times[op], list...)
		s.refused[op] += other.refused[op]
	}
	s.examples = append(s.examples, other.examples...)
}

// A report shows the first refusals of each operation, cut to a number of bytes.
const (
	examplesEach = 2
	maxExample   = 250
)

func (s *Samples) add(op string, took time.Duration, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.times[op] = append(s.times[op], took)
	if err == nil {
		return
	}
	s.refused[op]++
	if s.refused[op] <= examplesEach {
		text := op + ": " + err.Error()
		s.examples = append(s.examples, text[:min(len(text), maxExample)])
	}
}

// Quantiles of an operation.
type Quantiles struct {
	N        int     `json:"n"`
	P50      float64 `json:"p50_ms"`
	P99      float64 `json:"p99_ms"`
	Refusals int     `json:"refusals"`
}

func (s *Samples) quantiles(op string) Quantiles {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := slices.Sorted(slices.Values(s.times[op]))
	if len(list) == 0 {
		return Quantiles{}
	}
	at := func(q float64) float64 {
		return float64(list[min(int(q*float64(len(list))), len(list)-1)].Microseconds()) / 1000
	}
	return Quantiles{N: len(list), P50: at(0.5), P99: at(0.99), Refusals: s.refused[op]}
}

func (s *Samples) refusals() (n int, examples []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range s.refused {
		n += k
	}
	return n, s.examples
}
