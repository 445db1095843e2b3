package policytest

import (
	"encoding/binary"
	"math"
	"strings"

	"talon/sdk/abi"
)

// kept is a value that a policy keeps.
type kept struct {
	value   []byte
	expires int64 // unix seconds; 0 is never
}

// Kept returns the value that the policy has kept under a key, and whether there
// is one.
func (h *Harness) Kept(key string) ([]byte, bool) {
	k, ok := h.kept[key]
	if !ok || k.expires != 0 && k.expires <= h.Now {
		return nil, false
	}
	return k.value, true
}

// Keep gives a key a value, as an earlier decision might have.
func (h *Harness) Keep(key string, value []byte) {
	h.kept[key] = kept{value: append([]byte{}, value...)}
}

// room reports whether a value of this length fits.
func (h *Harness) room(key string, length int) bool {
	used := int64(len(key) + length)
	for other := range h.kept {
		if value, ok := h.Kept(other); ok && other != key {
			used += int64(len(other) + len(value))
		}
	}
	return used <= h.Room
}

func (s host) KVGet(key string, out []byte) int32 {
	s.need(abi.CapKVGet)
	value, ok := s.h.Kept(key)
	if !ok {
		return abi.NotFound
	}
	return deliver(out, value)
}

func (s host) KVSet(key string, value []byte, ttl int64) int32 {
	s.need(abi.CapKVSet)
	if len(key) > abi.MaxKey || len(value) > abi.MaxValue || !s.h.room(key, len(value)) {
		return abi.NoRoom
	}
	s.h.kept[strings.Clone(key)] = kept{append([]byte{}, value...), s.until(ttl)}
	return 0
}

func (s host) KVDelete(key string) {
	s.need(abi.CapKVDelete)
	delete(s.h.kept, key)
}

func (s host) KVIncr(key string, delta, ttl int64) int64 {
	s.need(abi.CapKVIncr)
	old, ok := s.h.Kept(key)
	sum := delta
	if len(old) == 8 {
		sum = add(int64(binary.LittleEndian.Uint64(old)), delta)
	}
	if len(key) > abi.MaxKey || !s.h.room(key, 8) {
		return sum
	}
	if ok && len(old) == 8 {
		binary.LittleEndian.PutUint64(old, uint64(sum))
		return sum
	}
	expires := s.until(ttl)
	if ok {
		expires = s.h.kept[key].expires
	}
	s.h.kept[strings.Clone(key)] = kept{binary.LittleEndian.AppendUint64(nil, uint64(sum)), expires}
	return sum
}

// until returns when something that is kept for ttl seconds expires. A negative
// ttl is over already.
func (s host) until(ttl int64) int64 {
	if ttl == 0 {
		return 0
	}
	return add(s.h.Now, ttl)
}

func (s host) BucketTake(key string, n, burst int32, perMillis int64) int64 {
	s.need(abi.CapBucketTake)
	switch {
	case n <= 0:
		return 0
	case n > burst || len(key) > abi.MaxKey:
		return abi.Never
	case perMillis <= 0:
		return 0
	}
	perMillis = min(perMillis, 1<<52/int64(burst))
	now, window := s.h.Now*1000, int64(burst)*perMillis
	bucket := s.h.buckets[key]
	if bucket == nil {
		// The policy may build the key in a buffer. So a bucket is never assigned again
		// either: that would exchange the key.
		bucket = new(int64)
		s.h.buckets[strings.Clone(key)] = bucket
	}
	full := min(max(*bucket, now), now+window) + int64(n)*perMillis
	if wait := full - now - window; wait > 0 {
		return wait
	}
	*bucket = full
	return 0
}

// add stops at the ends of int64.
func add(a, b int64) int64 {
	sum := a + b
	switch {
	case a > 0 && b > 0 && sum < 0:
		return math.MaxInt64
	case a < 0 && b < 0 && sum >= 0:
		return math.MinInt64
	}
	return sum
}
