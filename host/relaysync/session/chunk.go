package session

import (
	"slices"

	"talon/host"
	"talon/host/relaysync/match"
	"talon/sdk/abi"
)

// chunk asks for events by their ids: it looks up which of them are here, and asks the
// relay for the others.
type chunk struct {
	by      *reconciliation
	ids     []host.ID
	missing map[host.ID]struct{} // that have not come
	request *request             // nil while the ids are looked up
	awaited []awaiting
}

// awaiting are ids that one reconciliation needs, and the chunk of another one asks for:
// an event that tags a root twice, by E and by e, comes once.
type awaiting struct {
	by  *reconciliation
	ids []host.ID
}

// bytesOfID is what an id takes in a filter.
const bytesOfID = 67

// more fetches what is needed, compares again, sends what the relay lacks, or ends,
// whichever is next.
func (n *reconciliation) more(s *Session) {
	l, h := s.limits, n.fetch
	for len(n.chunks) < l.Chunks && len(n.need) > 0 {
		if s.cools(h) {
			return
		}
		count := min(n.chunkSize(s), len(n.need))
		if count > 1 && len(n.need) == count && !n.compared {
			break // wait for a whole chunk, or for the end
		}
		ids := n.need[:count:count]
		n.need = n.need[count:]
		n.lookUp(s, n.unasked(s, ids))
	}
	if len(n.chunks) > 0 || n.awaits > 0 || len(n.need) > 0 || !n.compared || n.ended {
		return
	}
	switch {
	case n.incomplete && n.sessions < l.Rounds && h.result.events+n.alreadyLocal > n.before:
		n.open(s)
	case n.incomplete:
		h.result.lack(abi.ClassTooMuch, "the relay names events that it does not have")
		h.finish(s)
	case h.cmd.Push && len(n.push.have) > 0:
		n.push.more(s, n)
	case n.push.idle():
		h.finish(s)
	}
}

// chunkSize returns how many ids one request asks for.
func (n *reconciliation) chunkSize(s *Session) int {
	size := s.limits.Chunk
	if limit := int(s.caps.MaxLimit); limit > 0 {
		size = min(size, limit)
	}
	if limit := int(s.caps.MaxMessage); limit > 0 {
		size = min(size, max(1, (limit-100)/bytesOfID))
	}
	if n.chunkLimit > 0 {
		size = min(size, n.chunkLimit)
	}
	return size
}

// unasked returns those of the ids that no chunk asks the relay for. The others are
// needed again when their chunk ends, if they are still not here then.
func (n *reconciliation) unasked(s *Session, ids []host.ID) (rest []host.ID) {
	for _, id := range ids {
		k := s.wanted[id]
		if k == nil {
			rest = append(rest, id)
			continue
		}
		n.awaits++
		if last := len(k.awaited) - 1; last >= 0 && k.awaited[last].by == n {
			k.awaited[last].ids = append(k.awaited[last].ids, id)
		} else {
			k.awaited = append(k.awaited, awaiting{n, []host.ID{id}})
		}
	}
	return rest
}

// lookUp begins a chunk: it finds out which of the ids are still not here.
func (n *reconciliation) lookUp(s *Session, ids []host.ID) {
	s.cfg.Holdings.Add(ids...) // it says so
	all := len(ids)
	ids = s.cfg.Known.Unknown(ids, s.seconds())
	n.alreadyLocal += all - len(ids)
	if len(ids) == 0 {
		return
	}
	k := &chunk{by: n, ids: ids}
	for _, id := range ids {
		s.wanted[id] = k
	}
	n.chunks = append(n.chunks, k)
	t := s.ticket()
	s.lookups[t] = k
	s.perform(Lookup{t, ids})
}

// Missing handles the answer to a Lookup: those of its ids that are not stored here. If
// ok is false it is not known, and all are asked for.
func (s *Session) Missing(now int64, ticket uint64, missing []host.ID, ok bool) {
	k := s.lookups[ticket]
	delete(s.lookups, ticket)
	if k == nil || !s.at(now) || !slices.Contains(k.by.chunks, k) {
		return
	}
	if ok {
		k.by.alreadyLocal += len(k.ids) - len(missing)
		k.forget(s)
		k.ids = missing
		for _, id := range missing {
			s.wanted[id] = k
		}
	}
	if len(k.ids) == 0 {
		k.finish(s)
		k.by.more(s)
		k.wake(s)
		return
	}
	k.missing = make(map[host.ID]struct{}, len(k.ids))
	for _, id := range k.ids {
		k.missing[id] = struct{}{}
	}
	// The filter's own conditions hold for these events too: a relay could name any
	// ids, to have us fetch what nobody asked for.
	k.request = &request{
		owner: k, purpose: k.by.fetch.cmd.Purpose, filters: []host.Filter{{IDs: k.ids, Limit: len(k.ids)}}, matchers: k.by.fetch.matchers,
	}
	s.ask(k.request)
}

func (k *chunk) saw(_ *request, d *match.Digest) bool {
	if _, ok := k.missing[d.ID]; !ok {
		return false
	}
	delete(k.missing, d.ID)
	return true
}

func (k *chunk) complete(s *Session, r *request) {
	n := k.by
	s.closeRequest(r)
	n.fetch.result.add(r)
	k.finish(s)
	if len(k.missing) > 0 && len(k.missing) < len(k.ids) {
		// The relay gives fewer in one answer than it was asked for.
		n.need = append(n.need, k.remaining()...)
	}
	n.more(s)
	k.wake(s)
}

// remaining returns the ids that have not come, in the order in which they were asked
// for.
func (k *chunk) remaining() (ids []host.ID) {
	for _, id := range k.ids {
		if _, ok := k.missing[id]; ok {
			ids = append(ids, id)
		}
	}
	return ids
}

// forget frees the ids for others.
func (k *chunk) forget(s *Session) {
	for _, id := range k.ids {
		if s.wanted[id] == k {
			delete(s.wanted, id)
		}
	}
}

// finish takes the chunk out of those in flight.
func (k *chunk) finish(s *Session) {
	k.forget(s)
	k.by.chunks = slices.DeleteFunc(k.by.chunks, func(o *chunk) bool { return o == k })
}

// wake has those go on who waited for ids of the chunk.
func (k *chunk) wake(s *Session) {
	list := k.awaited
	k.awaited = nil
	for _, a := range list {
		a.by.awaits -= len(a.ids)
		if !a.by.ended {
			a.by.need = append(a.by.need, a.ids...)
			a.by.more(s)
		}
	}
}

// abandon ends a chunk whose fetch has ended.
func (k *chunk) abandon(s *Session) {
	k.finish(s)
	if k.request != nil {
		s.closeRequest(k.request)
	}
	k.wake(s)
}

func (k *chunk) refused(s *Session, r *request, class uint32, reason string) {
	n := k.by
	n.fetch.result.add(r)
	k.finish(s)
	if left := k.remaining(); class == abi.ClassTooMuch && len(left) > 1 && len(left) == len(k.ids) && !n.ended {
		// The message was too large.
		n.chunkLimit = max(1, len(left)/2)
		n.need = append(left, n.need...)
		n.more(s)
		k.wake(s)
		return
	}
	n.fetch.result.lack(class, reason)
	n.need, n.incomplete, n.compared = nil, false, true
	n.closeRequest(s)
	if len(n.chunks) == 0 && !n.ended {
		n.fetch.finish(s)
	}
	k.wake(s)
}
