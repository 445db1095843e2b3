package layers

import "math/bits"

// spansOf returns the set of the bits in words low to high, and sets them to zero.
func spansOf(words []uint64, low, high int) Set {
	count := 0
	carry := uint64(0)
	for i := low; i <= high && i < len(words); i++ {
		w := words[i]
		count += bits.OnesCount64(w &^ (w<<1 | carry)) // bits where a span begins
		carry = w >> 63
	}
	if count == 0 {
		return Set{}
	}
	spans := make([]span, 0, count)
	open := false
	for i := low; i <= high && i < len(words); i++ {
		w := words[i]
		words[i] = 0
		if open && w == ^uint64(0) {
			continue
		}
		for at := 0; at < 64; {
			rest := w >> at
			if open {
				run := bits.TrailingZeros64(^rest)
				if at += run; at < 64 {
					spans[len(spans)-1].to = uint32(64*i + at)
					open = false
				}
				continue
			}
			if rest == 0 {
				break
			}
			at += bits.TrailingZeros64(rest)
			spans = append(spans, span{from: uint32(64*i + at)})
			open = true
		}
	}
	if open {
		spans[len(spans)-1].to = uint32(64 * (high + 1))
	}
	return Set{spans}
}
