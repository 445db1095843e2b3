package layers

import (
	"slices"

	"talon/sdk/abi"
	"talon/sdk/strategy"
)

// A relay without NIP-77 sends an event once for each fetch that matches it: a comment comes by
// e and by E. One REQ for all filters of a chunk brings it once, where the relay does not
// repeat events within an answer. That needs a limit that the relay states. An answer with
// fewer events is complete; else the filters are fetched one by one, page by page.
//
// Other relays ignore the letter of a tag (khatru with badger), and send everything for each
// filter. There the filter for q comes first. It has few events at other relays. If the host
// reports events that only another letter explains, that answer was the one to all filters.

// At the others a comment on a root event comes by e and by E. An answer to that comment has another event
// in e. By NIP-22 it has the kind of that event in k. So fetches ask by E only for what has such a k. An event
// with E alone and without k waits for the daily sync, which asks for all of them.
//
// A comparison lists the ids that Talon lacks, and a comment would be in the lists of e and E.
// With [Settings.Apart] the one by E comes first. Then the events that it found are here.

// Parts that come before the others.
const (
	upperPart parts = 1 << 1 // E
	quotePart parts = 1 << 2 // q

	// Of layer 1. A relay may have no NIP-77, and few of these events are here: the request that shows it is short.
	secondLevelPart parts = 1 << 1
)

// nested reports whether a fetch of pages asks by E only for what answers something else than a root event.
func (b *batch) nested(method uint32) bool {
	return method == strategy.MethodREQ && (b.fetch.Purpose == strategy.PurposeStartup || b.fetch.Purpose == strategy.PurposeReconnect)
}

// first returns the part to be fetched before the others, 0 if there is none.
func (p *Peer) first(b *batch, method uint32) parts {
	part := upperPart
	if b.content.Announcements && p.driver.set.Apart && method != strategy.MethodREQ && p.Caps.Negentropy == strategy.SupportUnknown && b.todo == 3 {
		return secondLevelPart
	}
	switch {
	case method == strategy.MethodREQ || p.Caps.Negentropy == strategy.SupportUnknown:
		part = quotePart
	case !p.driver.set.Apart || b.content.Items.Roots.Empty():
		return 0
	}
	if b.apart || b.content.All || b.content.Announcements || b.todo&part == 0 || b.todo == part {
		return 0
	}
	return part
}

// sameUntil reports whether all parts are fetched from the same date back.
func (b *batch) sameUntil() bool { return b.until[0] == b.until[2] && b.until[1] == b.until[2] }

// AnswersOnce reports whether one subscription brings what is stored about items, and each event once. If it
// did not, an answer would have to be fetched page by page.
func (p *Peer) AnswersOnce() bool {
	return p.Caps.MaxLimit > 0 && p.Caps.MaxValues == 0 && p.shape().filters >= 3
}

// FitsOnce reports whether subscriptions that bring what is stored about items, and those that are open, use up to half
// of the subscriptions that the relay allows, without the one to announcements. Subscriptions to all wanted root events
// would do so, too. One that brings what is stored has fewer filters than one that brings only what is new, and can
// give no room before its answer is here.
func (p *Peer) FitsOnce(items Items) bool {
	s := p.shape()
	size := sizeOf(Of(items))
	subs := len(p.subs) + len(p.openings) + s.subsFor(size, false)
	size.roots = max(size.roots, p.roots)
	return p.AnswersOnce() && p.unheard.empty() && 2*max(subs-1, s.subsFor(size, false)) <= p.maxSubs()
}

// joins reports whether one REQ fetches what is left of a batch. Page by page, the last event would come twice.
func (p *Peer) joins(b *batch) bool {
	limits := &p.driver.budget.limits
	return p.AnswersOnce() && !b.apart && b.busy == 0 && !b.content.All && b.fetch.Limit == 0 &&
		len(p.subs)+len(p.stale)+len(p.asks) < int(limits.Subscriptions)
}

// askJointly opens a subscription with the written filters, until their stored events have arrived.
func (p *Peer) askJointly(t *stepBudget, b *batch, which parts) bool {
	w := &p.driver.writer
	if !t.room(1, w.size+len(p.URL)) {
		return false
	}
	t.left -= w.count + workDo
	a := ask{id: p.next, batch: b, joint: which, method: strategy.MethodREQ}
	p.next++
	p.asks = append(p.asks, a)
	b.busy |= which
	t.out.Subscribe(strategy.Subscription{Relay: p.URL, ID: a.name(), Filters: w.filters, Purpose: b.fetch.Purpose})
	return true
}

// name returns the id of the historic or subscription.
func (a *ask) name() string {
	if a.joint != 0 {
		return id(onceID, a.id)
	}
	return id(pastID, a.id)
}

// takeJoint removes and returns the ask behind a subscription, if it is one for several parts.
func (p *Peer) takeJoint(id string) (a ask, ok bool) {
	i := slices.IndexFunc(p.asks, func(a ask) bool { return a.joint != 0 && a.name() == id })
	if i < 0 {
		return ask{}, false
	}
	a = p.asks[i]
	p.asks = slices.Delete(p.asks, i, i+1)
	a.batch.busy &^= a.joint
	p.driver.ready(p)
	return a, true
}

// jointEnded handles the end of stored events. It reports whether the subscription was one for
// several parts.
func (p *Peer) jointEnded(e abi.Eose) bool {
	a, ok := p.takeJoint(e.ID)
	if !ok {
		return false
	}
	p.closing = append(p.closing, a.name())
	b := a.batch
	p.driver.fetched(p, b.content, abi.HistoricDone{Complete: e.Events < p.Caps.MaxLimit, Need: e.Events, New: e.New, Kept: e.New, MinCreatedAt: e.MinCreatedAt})
	if e.Events >= p.Caps.MaxLimit {
		b.apart = true // nobody knows which of the filters is cut
		return true
	}
	if b.todo &^= a.joint; b.todo == 0 {
		p.finishBatch(b)
	}
	return true
}

// maxJointTries is how often a relay without room is asked for all parts together.
const maxJointTries = 3

// jointRefused takes the end of a subscription that the relay refused. It reports whether that
// was one for several parts.
func (p *Peer) jointRefused(c abi.Closed, now int64) bool {
	a, ok := p.takeJoint(c.ID)
	if !ok {
		return false
	}
	b := a.batch
	switch c.Class {
	case strategy.ClassRateLimited, strategy.ClassLimit:
		b.tries++ // each filter by itself would be more requests
		b.retryAt = max(b.retryAt, now+backoff(b.tries, c.Class))
		b.apart = b.apart || b.tries > maxJointTries
	default:
		b.apart = true
	}
	return true
}

// A subscription without a since brings new events of any date. After an absence the missed ones come with it, too:
// it asks for the newest few stored events. A fetch by since would send the values once more. If the few reach
// back to the absence, nothing is missing. Else the fetch follows.
//
// Some relays give that many events for each filter, others for all of them together (nostream). If an answer
// has more than that many, one of its filters may be cut, although another one reaches further back.
const (
	newestFrom  = 3200 // bytes of values that it is worth it for
	newestBytes = 4800 // of values, for each of the newest events
)

// newest returns the number of stored events that the subscription which was written asks for; 0: none.
func (p *Peer) newest() uint32 {
	size := p.driver.writer.size
	if size < newestFrom || !p.AnswersOnce() {
		return 0
	}
	return min(max(uint32(size/newestBytes), 2), p.Caps.MaxLimit)
}

// hasMissed reports whether the stored events of a subscription are all that were missed.
func (s *sub) hasMissed(e abi.Eose) bool {
	return e.Events < s.newest || e.Events == s.newest && e.MinCreatedAt < s.open.Missed
}
