package policytest

import (
	"encoding/binary"
	"encoding/hex"
	"math"
	"slices"
	"strconv"
	"strings"

	"talon/sdk/abi"
	"talon/sdk/policy"
)

// host answers host functions from the fields of a Harness.
type host struct{ h *Harness }

// need ends the test if the policy uses a capability that the manifest does not ask for. A relay
// would refuse such a module.
func (s host) need(capability string) {
	s.h.t.Helper()
	if !slices.Contains(s.h.manifest.Capabilities, capability) {
		s.h.t.Fatalf("the policy uses %s, its manifest does not ask for it", capability)
	}
}

func (s host) StoreGet(id policy.ID, out []byte) int32 {
	s.need(abi.CapStoreGet)
	return s.find(s.h.Stored, id, out)
}

func (s host) HeldGet(id policy.ID, out []byte) int32 {
	s.need(abi.CapHeldGet)
	return s.find(s.h.Held, id, out)
}

func (s host) find(events []Event, id policy.ID, out []byte) int32 {
	for i := range events {
		if e := &events[i]; e.id() == id {
			wire := e.encoded(s.h.Now)
			return deliver(out, abi.AppendEvent(nil, &wire))
		}
	}
	return abi.NotFound
}

func (s host) StoreQuery(filter, out []byte) int32 {
	s.need(abi.CapStoreQuery)
	return s.query(s.h.Stored, filter, out)
}

func (s host) HeldQuery(filter, out []byte) int32 {
	s.need(abi.CapHeldQuery)
	return s.query(s.h.Held, filter, out)
}

// Limits of a relay.
const (
	maxValues     = 1000 // of a filter
	maxFilter     = 256 << 10
	maxEvents     = 500 // of an answer
	maxEventBytes = 512 << 10
)

func (s host) query(events []Event, filter, out []byte) int32 {
	f, err := abi.DecodeFilter(filter, maxValues)
	if err != nil || len(filter) > maxFilter {
		s.h.t.Fatalf("a relay takes no such filter, of %d bytes: %v", len(filter), err)
	}
	if s.h.Failing {
		return abi.Unavailable
	}
	limit := maxEvents
	if f.Limit > 0 {
		limit = min(limit, int(f.Limit))
	}
	var list []byte
	more, n := false, 0
	for i := range events {
		e := &events[i]
		if !matches(&f, e) {
			continue
		}
		wire := e.encoded(s.h.Now)
		if f.Header {
			wire.Tags, wire.Content = nil, ""
		}
		longer := abi.AppendEventOf(list, &wire)
		if n == limit || len(longer) > maxEventBytes {
			more = true
			break
		}
		list, n = longer, n+1
	}
	if more || n == limit {
		list = abi.AppendMore(list)
	}
	return deliver(out, list)
}

func (s host) StoreReferenced(idOrAddress string) int32 {
	s.need(abi.CapStoreReferenced)
	for i := range s.h.Stored {
		for _, tag := range s.h.Stored[i].Tags {
			if len(tag) > 1 && slices.Contains([]string{"e", "E", "q", "a", "A"}, tag[0]) && tag[1] == idOrAddress {
				return 1
			}
		}
	}
	return 0
}

func (s host) Log(level policy.Level, text string) {
	s.need(abi.CapLog)
	s.h.Logged = append(s.h.Logged, strconv.Itoa(int(level))+" "+text)
}

// maxMetrics is how many names of metrics a relay keeps.
const maxMetrics = 32

// Metric ends the test if a relay would drop the value.
func (s host) Metric(kind int32, name string, value float64) {
	s.need(abi.CapMetric)
	if name == "" || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789_") != "" {
		s.h.t.Fatalf("metric %q: want a-z, 0-9 and _", name)
	}
	if _, old := s.h.Metrics[name]; !old && len(s.h.Metrics) == maxMetrics {
		s.h.t.Fatalf("metric %s is the %dth; a relay counts no more than %d", name, maxMetrics+1, maxMetrics)
	}
	if kind == abi.MetricGauge {
		s.h.Metrics[name] = value
		return
	}
	if value < 0 {
		s.h.t.Fatalf("metric %s: a counter cannot go down by %v", name, value)
	}
	s.h.Metrics[name] += value
}

func (s host) GitHas(repo, object string) int32 {
	s.need(abi.CapGitHas)
	if _, here := s.h.Git[repo]; here && object == "" {
		return 1
	}
	object, commit := strings.CutSuffix(object, abi.OfCommit)
	if slices.Contains(s.h.Git[repo].Objects, object) || !commit && slices.Contains(s.h.Git[repo].Others, object) {
		return 1
	}
	return 0
}

func (s host) GitRef(repo, ref string, out []byte) int32 {
	s.need(abi.CapGitRef)
	object, ok := s.h.Git[repo].Refs[ref]
	if !ok {
		return abi.NotFound
	}
	return deliver(out, []byte(object))
}

func (s host) UsageGet(name string, out []byte) int32 {
	s.need(abi.CapUsageGet)
	if s.h.Failing {
		return abi.Unavailable
	}
	if len(name) == 32 {
		name = hex.EncodeToString([]byte(name))
	}
	copy(out, abi.AppendUsage(nil, s.h.Usage[name]))
	return abi.UsageBytes
}

func (s host) SetsContains(name, member string) int32 {
	s.need(abi.CapSetsContains)
	set, ok := s.h.Sets[name]
	if !ok {
		return abi.NotFound
	}
	if len(member) == 32 {
		if slices.Contains(set, hex.EncodeToString([]byte(member))) {
			return 1
		}
	}
	if slices.Contains(set, member) {
		return 1
	}
	return 0
}

func deliver(out, answer []byte) int32 {
	if len(answer) <= len(out) {
		copy(out, answer)
	}
	return int32(len(answer))
}

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
