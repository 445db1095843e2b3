package result

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/bits"
	"slices"
	"time"
)

// Histogram counts times in buckets whose width is a 16th of their power of two, in
// milliseconds: a bound is at most 6.25 % above the times below it, and histograms of
// different runs have the same bounds.
type Histogram struct {
	Missing uint64         // what never arrived
	counts  map[int]uint64 // by bucket
}

// Add counts a time. One before zero, as a skewed clock makes it, counts as zero.
func (h *Histogram) Add(d time.Duration) { h.add(bucket(uint64(max(0, d.Milliseconds()))), 1) }

func (h *Histogram) add(bucket int, n uint64) {
	if h.counts == nil {
		h.counts = map[int]uint64{}
	}
	h.counts[bucket] += n
}

// Merge adds what another histogram has counted.
func (h *Histogram) Merge(o *Histogram) {
	h.Missing += o.Missing
	for b, n := range o.counts {
		h.add(b, n)
	}
}

// IsZero reports whether nothing was counted.
func (h Histogram) IsZero() bool { return h.Total() == 0 }

// Total returns the number of values, including what never arrived.
func (h *Histogram) Total() uint64 {
	n := h.Missing
	for _, c := range h.counts {
		n += c
	}
	return n
}

// Bars returns the buckets that are not empty, the shortest times first.
func (h *Histogram) Bars() []Bar {
	bars := make([]Bar, 0, len(h.counts))
	for _, b := range slices.Sorted(maps.Keys(h.counts)) {
		bars = append(bars, Bar{Seconds(time.Duration(bound(b)) * time.Millisecond), h.counts[b]})
	}
	return bars
}

// Quantile returns the bound of the bucket of the q-th part of all that was counted. It
// returns false if that never arrived, or nothing was counted.
func (h *Histogram) Quantile(q float64) (time.Duration, bool) {
	rank := uint64(max(1, math.Ceil(q*float64(h.Total()))))
	var n uint64
	for _, b := range h.Bars() {
		if n += b.Count; n >= rank {
			return b.LE.Duration(), true
		}
	}
	return 0, false
}

func (h Histogram) MarshalJSON() ([]byte, error) {
	j := histogramJSON{Missing: h.Missing, Buckets: [][2]json.RawMessage{}}
	for _, b := range h.Bars() {
		n, err := json.Marshal(b.Count)
		if err != nil {
			return nil, err
		}
		j.Buckets = append(j.Buckets, [2]json.RawMessage{json.RawMessage(b.LE.String()), n})
	}
	return json.Marshal(j)
}

func (h *Histogram) UnmarshalJSON(text []byte) error {
	var j histogramJSON
	if err := json.Unmarshal(text, &j); err != nil {
		return err
	}
	*h = Histogram{Missing: j.Missing}
	for _, pair := range j.Buckets {
		var le Seconds
		var n uint64
		if err := json.Unmarshal(pair[0], &le); err != nil {
			return fmt.Errorf("read a histogram: %w", err)
		}
		if err := json.Unmarshal(pair[1], &n); err != nil {
			return fmt.Errorf("read a histogram: %w", err)
		}
		if le < 0 {
			return fmt.Errorf("read a histogram: the bound %s is below zero", le)
		}
		h.add(bucket(uint64(le.ms())), n)
	}
	return nil
}

const subBits = 4 // 16 buckets to a power of two

// bucket returns the number of the bucket of a time.
func bucket(ms uint64) int {
	if ms < 1<<subBits {
		return int(ms)
	}
	shift := bits.Len64(ms) - 1 - subBits
	return (shift+1)<<subBits + int(ms>>shift) - 1<<subBits
}

// bound returns the longest time of a bucket, in milliseconds.
func bound(bucket int) uint64 {
	if bucket < 1<<subBits {
		return uint64(bucket)
	}
	shift := bucket>>subBits - 1
	return uint64(bucket&(1<<subBits-1)+1<<subBits+1)<<shift - 1
}

// Bar is a bucket: how many times were at most LE, and above that of the bar before.
type Bar struct {
	LE    Seconds
	Count uint64
}

type histogramJSON struct {
	Missing uint64               `json:"missing,omitempty" doc:"how many never arrived"`
	Buckets [][2]json.RawMessage `json:"buckets" doc:"pairs [le, n]: n times were at most le seconds, and above the le of the pair before"`
}
