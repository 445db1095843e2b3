package policytest

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"talon/sdk/abi"
	"talon/sdk/policy"
)

// host answers host functions from the fields of a Harness.
type host struct{ h *Harness }

// need ends the test if the manifest does not ask for what the policy uses: a
// relay would refuse the module.
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

// Metric ends the test where a relay would drop what it is given.
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

func matches(f *abi.Filter, e *Event) bool {
	id := e.id()
	if len(f.IDs) > 0 && !slices.Contains(f.IDs, [32]byte(id)) ||
		len(f.Authors) > 0 && !slices.Contains(f.Authors, [32]byte(e.PubKey)) ||
		len(f.Kinds) > 0 && !slices.Contains(f.Kinds, uint32(e.Kind)) ||
		f.Since != nil && e.CreatedAt < *f.Since || f.Until != nil && e.CreatedAt > *f.Until {
		return false
	}
	for _, want := range f.Tags {
		switch want.Name {
		case policy.ByAddress:
			if !slices.Contains(want.Values, e.address()) {
				return false
			}
			continue
		case policy.ByMaintainer:
			if !e.maintained(want.Values) {
				return false
			}
			continue
		}
		if !slices.ContainsFunc(e.Tags, func(tag []string) bool {
			return len(tag) > 1 && tag[0] == want.Name && slices.Contains(want.Values, tag[1])
		}) {
			return false
		}
	}
	return true
}

// d returns the value of the first d tag.
func (e *Event) d() string {
	for _, tag := range e.Tags {
		if len(tag) > 0 && tag[0] == "d" {
			return strings.Join(tag[1:min(len(tag), 2)], "")
		}
	}
	return ""
}

// address returns kind:pubkey:d, "" for a kind that has no address.
func (e *Event) address() string {
	switch {
	case e.Kind == 0, e.Kind == 3, e.Kind >= 10000 && e.Kind < 20000:
		return fmt.Sprintf("%d:%s:", e.Kind, hex.EncodeToString(e.PubKey[:]))
	case e.Kind >= 30000 && e.Kind < 40000:
		return fmt.Sprintf("%d:%s:%s", e.Kind, hex.EncodeToString(e.PubKey[:]), e.d())
	}
	return ""
}

// maintained reports whether e is an announcement that lists one of the maintainers,
// each as pubkey:identifier.
func (e *Event) maintained(by []string) bool {
	if e.Kind != 30617 {
		return false
	}
	for _, tag := range e.Tags {
		if len(tag) == 0 || tag[0] != "maintainers" {
			continue
		}
		for _, value := range tag[1:] {
			if len(value) == 64 && slices.Contains(by, strings.ToLower(value)+":"+e.d()) {
				return true
			}
		}
	}
	return false
}

// Hex returns the id of e as hex digits, for tags that name it.
func (e Event) Hex() string {
	id := e.id()
	return hex.EncodeToString(id[:])
}
