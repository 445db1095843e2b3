package relaymodel

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"talon/host"
	"talon/host/wire"
)

// subscription is a REQ that is open.
type subscription struct {
	id      string
	text    string // the whole message
	filters []host.Filter
	number  uint64 // of all that the relay has opened
}

// matches returns how many of its filters an event matches.
func (s *subscription) matches(e *host.Event) (n int) {
	for i := range s.filters {
		if s.filters[i].Matches(e) {
			n++
		}
	}
	return n
}

// request answers a REQ, and opens the subscription.
func (r *Relay) request(c *conn, m *wire.Message, frame []byte) {
	p := r.profile
	r.stats.Requests++
	r.stats.Filters += uint64(len(m.Filters))
	if !r.mayAsk(c, m, false) {
		return
	}
	others := len(c.subs)
	for _, s := range c.subs {
		switch {
		case s.id != m.SubID:
		case p.Refuse.Repeated.By != "" && s.text == string(frame):
			r.refuse(c, m.SubID, p.Refuse.Repeated, 0, 0)
			return
		case !p.Live.Adds:
			others--
		}
	}
	over := p.Limits.Subscriptions > 0 && others >= p.Limits.Subscriptions
	if over && !p.Limits.SubscriptionsAnswered {
		r.refuse(c, m.SubID, p.Refuse.Subscriptions, others+1, p.Limits.Subscriptions)
		return
	}
	if limit := p.Limits.SubscriptionValues; limit > 0 {
		values := host.FilterValues(m.Filters...)
		for _, s := range c.subs {
			if s.id != m.SubID || p.Live.Adds {
				values += host.FilterValues(s.filters...)
			}
		}
		if values > limit {
			r.refuse(c, m.SubID, p.Refuse.SubValues, values, limit)
			return
		}
	}
	if !p.Live.Adds {
		r.unsubscribe(c, m.SubID)
	}
	a := r.answer(c, m)
	switch {
	case over:
		a.last = func() { r.refuse(c, m.SubID, p.Refuse.Subscriptions, others+1, p.Limits.Subscriptions) }
	case p.Answer.ClosedByFound && allFound(m.Filters, len(a.events)):
		a.last = func() { r.send(c, wire.AppendClosed(nil, m.SubID, "")) }
	default:
		r.subscribed++
		c.subs = append(c.subs, &subscription{m.SubID, string(frame), m.Filters, r.subscribed})
	}
	c.answers = append(c.answers, a)
	switch {
	case p.Answer.PerSecond == 0:
		r.sendAnswers(c, len(a.events))
	case !c.sending:
		c.sending = true
		r.clock.After(0, func() { r.goOn(c) })
	}
}

// allFound reports whether every filter has ids, and all of them were found.
func allFound(filters []host.Filter, found int) bool {
	ids := map[host.ID]bool{}
	for i := range filters {
		if filters[i].IDs == nil {
			return false
		}
		for _, id := range filters[i].IDs {
			ids[id] = true
		}
	}
	return found == len(ids)
}

// mayAsk checks a REQ or a COUNT against the limits, and refuses what breaks one.
func (r *Relay) mayAsk(c *conn, m *wire.Message, neg bool) bool {
	p := r.profile
	refuse := func(a Answer, size, limit int) bool {
		if neg && a.By == "closed" {
			r.stats.Refused++
			r.send(c, wire.AppendNegErr(nil, m.SubID, a.Text))
			return false
		}
		r.refuse(c, m.SubID, a, size, limit)
		return false
	}
	if !c.requests.allow(&p.Rate.Requests, r.clock.Now()) {
		return refuse(p.Rate.Requests.answer(), 0, 0)
	}
	if p.Refuse.Every.By != "" {
		return refuse(p.Refuse.Every, 0, 0)
	}
	if r.needsProof(c, m.Filters) {
		r.challenge(c)
		text := p.Auth.ReadText
		if neg && p.Auth.NegText != "" {
			text = p.Auth.NegText
		}
		return refuse(Answer{By: "closed", Text: text}, 0, 0)
	}
	l := &p.Limits
	if n := utf8.RuneCountInString(m.SubID); l.SubscriptionID > 0 && n > l.SubscriptionID {
		return refuse(p.Refuse.SubscriptionID, n, l.SubscriptionID)
	}
	if l.Filters > 0 && len(m.Filters) > l.Filters {
		return refuse(p.Refuse.Filters, len(m.Filters), l.Filters)
	}
	for i := range m.Filters {
		f := &m.Filters[i]
		if l.Tags > 0 && len(f.Tags) > l.Tags {
			return refuse(p.Refuse.Values, len(f.Tags), l.Tags)
		}
		if n := longestList(f); l.Values > 0 && n > l.Values {
			return refuse(p.Refuse.Values, n, l.Values)
		}
		if l.Limit > 0 && l.OverLimit == "refuse" && f.Limit > l.Limit {
			return refuse(p.Refuse.Limit, f.Limit, l.Limit)
		}
	}
	return true
}

func longestList(f *host.Filter) int {
	n := max(len(f.IDs), len(f.Authors), len(f.Kinds))
	for i := range f.Tags {
		n = max(n, len(f.Tags[i].Values))
	}
	return n
}

// answer returns the messages to send: the stored events, and EOSE.
func (r *Relay) answer(c *conn, m *wire.Message) *answering {
	p := &r.profile.Answer
	list := r.stored(c, m.Filters)
	a := &answering{sub: m.SubID, events: list, eose: p.Eose == "always"}
	if p.Duplicates > 0 {
		a.events = nil
		for _, e := range list {
			a.events = append(a.events, e)
			if r.draw(drawTwice, e.ID) < p.Duplicates {
				a.events = append(a.events, e)
			}
		}
	}
	a.events = append(a.events, r.unasked(m)...)
	if p.Eose == "not-for-limit-zero" {
		a.eose = slices.ContainsFunc(m.Filters, func(f host.Filter) bool { return f.Limit != 0 })
	}
	if p.EoseLost > 0 {
		r.rounds++
		a.eose = a.eose && r.draw(drawEose+r.rounds<<8, host.ID{}) >= p.EoseLost
	}
	return a
}

// answering is an answer that is being sent.
type answering struct {
	sub    string
	events []*host.Event // that are still to be sent
	eose   bool
	last   func() // what follows EOSE; nil: nothing
}

// answerStep is the time between two parts of an answer, in milliseconds.
const answerStep = 100

// goOn sends a part of the answers that are being sent, one after the other.
func (r *Relay) goOn(c *conn) {
	if c.gone {
		return
	}
	r.sendAnswers(c, max(1, r.profile.Answer.PerSecond*answerStep/1000))
	if c.sending = len(c.answers) > 0; c.sending {
		r.clock.After(answerStep, func() { r.goOn(c) })
	}
}

// sendAnswers sends up to limit events, and what ends their answers.
func (r *Relay) sendAnswers(c *conn, limit int) {
	for len(c.answers) > 0 {
		a := c.answers[0]
		for len(a.events) > 0 {
			if limit == 0 {
				return
			}
			limit--
			r.sendEvent(c, a.sub, a.events[0])
			a.events = a.events[1:]
		}
		if a.eose {
			r.send(c, wire.AppendEOSE(nil, a.sub, ""))
		}
		if a.last != nil {
			a.last()
		}
		c.answers = c.answers[1:]
	}
}

// unasked returns events that a REQ is not about, the newest ones.
func (r *Relay) unasked(m *wire.Message) (list []*host.Event) {
	limit := r.profile.Lies.Unasked
	if limit == 0 {
		return nil
	}
	s := subscription{filters: m.Filters}
	for _, e := range r.store.Query(&host.Filter{Limit: -1}) {
		if s.matches(e) == 0 {
			list = append(list, e)
		}
	}
	return list[:min(len(list), limit)]
}

// unsubscribe ends a subscription.
func (r *Relay) unsubscribe(c *conn, id string) {
	c.subs = slices.DeleteFunc(c.subs, func(s *subscription) bool { return s.id == id })
	if r.profile.Answer.CloseStops {
		c.answers = slices.DeleteFunc(c.answers, func(a *answering) bool { return a.sub == id })
	}
}

// count answers a COUNT (NIP-45).
func (r *Relay) count(c *conn, m *wire.Message) {
	if !r.mayAsk(c, m, false) {
		return
	}
	ids := map[host.ID]bool{}
	for i := range m.Filters {
		f := m.Filters[i]
		f.Limit = -1
		for _, e := range r.visible(c, &f) {
			ids[e.ID] = true
		}
	}
	r.send(c, wire.AppendCount(nil, m.SubID, int64(len(ids)), nil))
}

// visible returns what matches a filter and is not withheld.
func (r *Relay) visible(c *conn, f *host.Filter) []*entry {
	list := r.store.matching(f, r.profile.Answer.AnyLetter)
	if omits := r.profile.Lies.Omits; omits > 0 {
		list = slices.DeleteFunc(list, func(e *entry) bool { return r.draw(drawOmitted, e.ID) < omits })
	}
	if r.withholds(c) {
		list = slices.DeleteFunc(list, func(e *entry) bool { return slices.Contains(r.profile.Auth.Kinds, int(e.Kind)) })
	}
	return list
}

// stored returns the answer to filters, in its order.
func (r *Relay) stored(c *conn, filters []host.Filter) []*host.Event {
	p := &r.profile.Answer
	if p.Filters == "union" && len(filters) > 1 {
		return r.union(c, filters)
	}
	lists := make([][]*entry, len(filters))
	for i := range filters {
		f := &filters[i]
		lists[i] = r.visible(c, f)
		slices.SortFunc(lists[i], r.order(f))
		if maximum := r.limit(f); maximum >= 0 && len(lists[i]) > maximum {
			lists[i] = lists[i][:maximum]
		}
	}
	var all []*entry
	switch {
	case p.Filters == "interleaved":
		for i, more := 0, true; more; i++ {
			more = false
			for _, list := range lists {
				if i < len(list) {
					all, more = append(all, list[i]), true
				}
			}
		}
	default:
		all = slices.Concat(lists...)
		if p.Filters == "merged" && len(lists) > 1 {
			slices.SortStableFunc(all, r.order(&filters[0]))
		}
	}
	if !p.Repeats && len(lists) > 1 {
		all = once(all)
	}
	return events(all)
}

// union is the answer of a relay that makes one query of all filters.
func (r *Relay) union(c *conn, filters []host.Filter) []*host.Event {
	var all []*entry
	for i := range filters {
		all = append(all, r.visible(c, &filters[i])...)
	}
	all = once(all)
	slices.SortFunc(all, r.order(&filters[0]))
	if maximum := r.limit(&filters[0]); maximum >= 0 && len(all) > maximum {
		all = all[:maximum]
	}
	return events(all)
}

// once returns a list with the first of equal entries.
func once(list []*entry) []*entry {
	seen := make(map[*entry]struct{}, len(list))
	return slices.DeleteFunc(list, func(e *entry) bool {
		_, ok := seen[e]
		seen[e] = struct{}{}
		return ok
	})
}

func (r *Relay) order(f *host.Filter) func(a, b *entry) int {
	p := &r.profile.Answer
	switch {
	case p.Order == "oldest", f.Limit < 0 && p.OrderNoLimit == "oldest":
		return oldestFirst
	case p.Order == "newest-arrival":
		return newestArrivalFirst
	}
	return newestFirst
}

// limit returns how many events a filter gets, -1 for all.
func (r *Relay) limit(f *host.Filter) int {
	l := &r.profile.Limits
	switch {
	case f.IDs != nil && l.IDsUnlimited && f.Limit != 0:
		return len(f.IDs)
	case f.Limit < 0 && l.DefaultLimit > 0:
		return l.DefaultLimit
	case f.Limit < 0 && l.Limit > 0:
		return l.Limit
	case l.Limit > 0 && f.Limit > l.Limit && l.OverLimit == "quarter":
		return l.Limit / 4
	case l.Limit > 0:
		return min(f.Limit, l.Limit)
	}
	return f.Limit
}

// sendEvent sends an event, or a false version of it if the profile lies.
func (r *Relay) sendEvent(c *conn, id string, e *host.Event) {
	p := &r.profile.Lies
	text := e.JSON
	if p.ForgedIDs > 0 && r.draw(drawForgedID, e.ID) < p.ForgedIDs {
		other := *e
		other.ID[0] ^= 1
		text = other.AppendJSON(nil)
	} else if p.ForgedSigs > 0 && r.draw(drawForgedSig, e.ID) < p.ForgedSigs {
		other := *e
		other.Sig[63] ^= 1
		text = other.AppendJSON(nil)
	}
	frame := wire.AppendEventPrefix(make([]byte, 0, len(text)+len(id)+16), id)
	r.stats.SentEvents++
	r.send(c, append(append(frame, text...), ']'))
}

// bucket holds what a client may still do. It begins full.
type bucket struct {
	tokens float64
	at     int64 // when it was last refilled
	used   bool
}

// size is what a bucket holds.
func (r *Rate) size() float64 {
	if r.Burst > 0 {
		return float64(r.Burst)
	}
	return max(1, r.PerMinute)
}

// allow takes one, and reports whether there was one.
func (b *bucket) allow(r *Rate, now int64) bool {
	if r.PerMinute <= 0 {
		return true
	}
	if !b.used {
		b.tokens, b.used = r.size(), true
	} else {
		b.tokens = min(r.size(), b.tokens+float64(now-b.at)*r.PerMinute/60_000)
	}
	b.at = now
	if b.tokens < 1 && r.By != "delay" {
		return false
	}
	b.tokens--
	return b.tokens >= 0
}

// wait returns the milliseconds until what was taken and was not there is there.
func (b *bucket) wait(r *Rate) int64 {
	return int64(max(0, -b.tokens) * 60_000 / r.PerMinute)
}

// answer is how more than the rate is refused.
func (r *Rate) answer() Answer { return Answer{By: r.By, Text: r.Text, Code: r.Code} }

// refuse answers what is refused. Without a subscription's id a CLOSED is a NOTICE.
func (r *Relay) refuse(c *conn, id string, a Answer, size, limit int) {
	r.stats.Refused++
	text := a.Text
	if strings.Contains(text, "{") {
		text = strings.NewReplacer("{id}", id, "{size}", strconv.Itoa(size), "{max}", strconv.Itoa(limit)).Replace(text)
	}
	switch a.By {
	case "closed", "ok":
		if id != "" {
			r.send(c, wire.AppendClosed(nil, id, text))
			return
		}
		r.send(c, wire.AppendNotice(nil, text))
	case "notice":
		r.send(c, wire.AppendNotice(nil, text))
	case "drop":
		r.closeConn(c, 0, "")
	case "close":
		code := a.Code
		if code == 0 {
			code = 1008
		}
		r.closeConn(c, code, text)
	}
}
