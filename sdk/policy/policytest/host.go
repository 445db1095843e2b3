package policytest

import (
	"encoding/hex"
	"slices"
	"strconv"

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
	for i := range s.h.Stored {
		if e := &s.h.Stored[i]; e.id() == id {
			wire := e.encoded(s.h.Now)
			return deliver(out, abi.AppendEvent(nil, &wire))
		}
	}
	return abi.NotFound
}

func (s host) StoreQuery(filter, out []byte) int32 {
	s.need(abi.CapStoreQuery)
	f, err := abi.DecodeFilter(filter, 10_000)
	if err != nil {
		s.h.t.Fatalf("decode the filter: %v", err)
	}
	var list []byte
	n := 0
	for i := range s.h.Stored {
		e := &s.h.Stored[i]
		if f.Limit > 0 && n == int(f.Limit) {
			break
		}
		if matches(&f, e) {
			wire := e.encoded(s.h.Now)
			list = abi.AppendEventOf(list, &wire)
			n++
		}
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
		if !slices.ContainsFunc(e.Tags, func(tag []string) bool {
			return len(tag) > 1 && tag[0] == want.Name && slices.Contains(want.Values, tag[1])
		}) {
			return false
		}
	}
	return true
}

// Hex returns the id of e as hex digits, for tags that name it.
func (e Event) Hex() string {
	id := e.id()
	return hex.EncodeToString(id[:])
}
