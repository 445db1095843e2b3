package world

import (
	"hash/fnv"
	"math/rand/v2"
)

// stream is a source of random numbers of its own for one thing.
type stream struct{ *rand.Rand }

// chance is true with a probability.
func (s stream) chance(p float64) bool { return s.Float64() < p }

// between returns a number from low to limit.
func (s stream) between(low, limit int) int { return low + s.IntN(max(1, limit-low+1)) }

// exponential returns a number with a mean.
func (s stream) exponential(mean float64) float64 { return -mean * ln(1-float64(s.Float64())) }

// logNormal returns a number with a median.
func (s stream) logNormal(median, sigma float64) float64 { return median * exp(sigma*s.normal()) }

// normal returns a number of a bell curve: the sum of twelve even ones, which needs no
// function that processors have their own way to compute.
func (s stream) normal() float64 {
	sum := -6.0
	for range 12 {
		sum += float64(s.Float64())
	}
	return sum
}

func newStream(seed uint64, name string) stream {
	h := fnv.New64a()
	h.Write([]byte(name))
	return stream{rand.New(rand.NewPCG(seed, h.Sum64()))}
}

// exp is e to the x. The compiler may fuse a product and a sum on some processors: the
// conversions forbid it, so that all have the same bits.
func exp(x float64) float64 {
	x = min(max(x, -700), 700)
	y := 1 + float64(x/4096)
	for range 12 {
		y = float64(y * y)
	}
	return y
}

// ln is the natural logarithm of a positive number.
func ln(x float64) float64 {
	const ln2 = 0.693147180559945309417
	n := 0.0
	for ; x < 0.75; x *= 2 {
		n--
	}
	for ; x > 1.5; x /= 2 {
		n++
	}
	t := (x - 1) / (x + 1)
	square, sum, power := float64(t*t), 0.0, t
	for i := 1; i < 30; i += 2 {
		sum += power / float64(i)
		power = float64(power * square)
	}
	return float64(2*sum) + float64(n*ln2)
}

// weighted draws from things of different weight.
type weighted struct{ sums []float64 }

func (w *weighted) add(weight float64) {
	sum := weight
	if n := len(w.sums); n > 0 {
		sum += w.sums[n-1]
	}
	w.sums = append(w.sums, sum)
}

func (w *weighted) draw(s stream) int {
	at := float64(s.Float64() * w.sums[len(w.sums)-1])
	low, high := 0, len(w.sums)-1
	for low < high {
		if middle := (low + high) / 2; w.sums[middle] > at {
			high = middle
		} else {
			low = middle + 1
		}
	}
	return low
}
