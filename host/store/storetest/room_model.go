package storetest

import (
	"strings"

	"talon/host"
	"talon/host/bound"
	"talon/host/store/semantics"
)

// room makes room for an event, and returns the start of the reason why there is none.
func (m *heldModel) room(fates *[]string, e, old *modelHeld) string {
	limits, network, full := m.limits, semantics.ReasonNetwork, semantics.ReasonFull
	if e.wake != "" {
		limits.Events, limits.Bytes, limits.ByAuthor = limits.Verdicts, limits.VerdictBytes, limits.VerdictsByAuthor
		network, full = semantics.ReasonNetworkAwaiting, semantics.ReasonFullAwaiting
	}
	own := func(h *modelHeld) bool { return h.PubKey == e.PubKey && e.shares(h) }
	dormant := func(h *modelHeld) bool { return h.dormant }
	depends := func(h *modelHeld) bool { return h.parent != "" }
	if n, _ := m.weigh(old, own); old == nil && n >= limits.ByAuthor {
		if e.wake != "" || !m.evict(fates, old, func(h *modelHeld) bool { return own(h) && h.dormant }) {
			return "restricted"
		}
	}
	if e.known && m.fitsKnown(e, old, limits) {
		return ""
	}
	e.known = false
	if depends(e) && !m.roomForDependent(fates, e, old) {
		return semantics.ReasonParentFull
	}
	size := int64(len(e.JSON))
	if strings.HasPrefix(e.network, "n") {
		n, bytes := m.weigh(old, func(h *modelHeld) bool { return !h.known && h.network == e.network && e.shares(h) })
		if n+1 > bound.Share(limits.Events) || bytes+size > bound.Share(limits.Bytes) {
			return network
		}
	}
	strangers := func(cond func(*modelHeld) bool) func(*modelHeld) bool {
		return func(h *modelHeld) bool { return !h.known && e.shares(h) && cond(h) }
	}
	events, bytes := limits.Events-limits.Events/4, limits.Bytes-limits.Bytes/4
	for {
		n, used := m.weigh(old, strangers(func(*modelHeld) bool { return true }))
		if n < events && used+size <= bytes {
			return ""
		}
		if depends(e) || !m.evict(fates, old, strangers(depends)) && !m.evict(fates, old, strangers(dormant)) && !m.evictHeaviest(fates, e, old, n < events) {
			return full
		}
	}
}

// shares reports whether both rows are in the same quota.
func (e *modelHeld) shares(h *modelHeld) bool { return (e.wake != "") == (h.wake != "") }

// weigh counts the rows for which cond holds, and the bytes of their JSON, without one row.
func (m *heldModel) weigh(except *modelHeld, cond func(*modelHeld) bool) (n, size int64) {
	for _, h := range m.held {
		if h != except && cond(h) {
			n++
			size += int64(len(h.JSON))
		}
	}
	return n, size
}

// evict drops the row for which cond holds that is due first.
func (m *heldModel) evict(fates *[]string, except *modelHeld, cond func(*modelHeld) bool) bool {
	var first *modelHeld
	for _, h := range m.held {
		if h != except && cond(h) && (first == nil || h.due() < first.due()) {
			first = h
		}
	}
	m.drop(fates, host.StatusExpired, func(h *modelHeld) bool { return h == first })
	return first != nil
}

func (m *heldModel) fitsKnown(e, old *modelHeld, limits semantics.HeldLimits) bool {
	events, bytes := limits.Events/4, limits.Bytes/4
	for _, part := range []struct {
		cond          func(*modelHeld) bool
		events, bytes int64
	}{
		{func(*modelHeld) bool { return true }, events, bytes},
		{func(h *modelHeld) bool { return h.PubKey == e.PubKey }, bound.Share(events), bound.Share(bytes)},
		{func(h *modelHeld) bool { return e.network != "" && h.network == e.network }, bound.Share(events), bound.Share(bytes)},
	} {
		n, size := m.weigh(old, func(h *modelHeld) bool { return h.known && e.shares(h) && part.cond(h) })
		if n+1 > part.events || size+int64(len(e.JSON)) > part.bytes {
			return false
		}
	}
	return true
}

// roomForDependent makes room for an event that depends on another.
func (m *heldModel) roomForDependent(fates *[]string, e, old *modelHeld) bool {
	count := func(cond func(*modelHeld) bool) int64 {
		n, _ := m.weigh(nil, cond)
		return n
	}
	client := strings.HasPrefix(e.network, "n")
	ofParent := count(func(h *modelHeld) bool { return h.parent == e.parent })
	mine := count(func(h *modelHeld) bool { return h.parent == e.parent && h.network == e.network })
	if ofParent >= m.limits.ByParent || client && mine >= bound.Share(m.limits.ByParent) {
		return false
	}
	stranger := func(network string) int64 {
		return count(func(h *modelHeld) bool { return !h.known && h.parent != "" && h.network == network })
	}
	mine = 0
	if e.network != "" {
		mine = stranger(e.network)
	}
	if client && mine >= bound.Share(m.limits.Dependents) {
		return false
	}
	if count(func(h *modelHeld) bool { return !h.known && h.parent != "" }) < m.limits.Dependents {
		return true
	}
	heaviest := m.heaviest(func(h *modelHeld) (string, int64) {
		if h.known || h.parent == "" {
			return "", 0
		}
		return h.network, 1
	})
	return heaviest != "" && stranger(heaviest) >= mine+2 && m.evictNewest(fates, old, func(h *modelHeld) bool {
		return !h.known && h.parent != "" && h.network == heaviest
	})
}

// heaviest returns the key that weighs most, "" for none. A key that weighs as much as another
// is heavier if it comes after it.
func (m *heldModel) heaviest(weigh func(*modelHeld) (key string, weight int64)) (heaviest string) {
	weights := make(map[string]int64)
	for _, h := range m.held {
		if key, weight := weigh(h); key != "" {
			weights[key] += weight
		}
	}
	for key, weight := range weights {
		if heaviest == "" || weight > weights[heaviest] || weight == weights[heaviest] && key > heaviest {
			heaviest = key
		}
	}
	return heaviest
}

// evictHeaviest drops the newest event of the network that has most, or else of the author.
func (m *heldModel) evictHeaviest(fates *[]string, e, old *modelHeld, byBytes bool) bool {
	for _, key := range []func(*modelHeld) string{
		func(h *modelHeld) string { return h.network },
		func(h *modelHeld) string { return string(h.PubKey[:]) },
	} {
		weigh := func(h *modelHeld) (string, int64) {
			switch {
			case h.known || !e.shares(h):
				return "", 0
			case byBytes:
				return key(h), int64(len(h.JSON))
			}
			return key(h), 1
		}
		heaviest := m.heaviest(weigh)
		if heaviest == "" || heaviest == key(e) {
			continue
		}
		weight := func(name string, except *modelHeld) (sum int64) {
			for _, h := range m.held {
				if of, w := weigh(h); of == name && h != except {
					sum += w
				}
			}
			return sum
		}
		mine := int64(0)
		if key(e) != "" {
			mine = weight(key(e), old)
		}
		more := int64(2)
		if byBytes {
			more = int64(len(e.JSON)) + 1
		}
		if weight(heaviest, nil) < mine+more {
			continue
		}
		if m.evictNewest(fates, old, func(h *modelHeld) bool { return !h.known && e.shares(h) && key(h) == heaviest }) {
			return true
		}
	}
	return false
}

// evictNewest drops the row for which cond holds that came last.
func (m *heldModel) evictNewest(fates *[]string, except *modelHeld, cond func(*modelHeld) bool) bool {
	var newest *modelHeld
	for _, h := range m.held {
		if h != except && cond(h) {
			newest = h
		}
	}
	m.drop(fates, host.StatusExpired, func(h *modelHeld) bool { return h == newest })
	return newest != nil
}
