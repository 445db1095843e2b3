package loop

import (
	"net/netip"
	"net/url"
	"strings"

	"talon/host"
	"talon/host/netguard"
	"talon/host/relaysync/session"
	"talon/internal/heap"
	"talon/sdk/abi"
)

// carryOut does what a strategy answered. An answer that can not be read is passed over
// as a whole.
func (s *Loop) carryOut(answer []byte) {
	l := &s.cfg.Limits
	if len(answer) > l.AnswerBytes {
		s.refuse(RefusedLimit)
		s.log(session.Error, "the strategy's answer is too long", "bytes", len(answer), "limit", l.AnswerBytes)
		return
	}
	actions, err := abi.DecodeActions(answer, abi.ActionLimits{Actions: l.Actions, Filters: l.Filters, Values: l.Values, AllValues: l.AllValues})
	if err != nil {
		s.refuse(RefusedMalformed)
		s.log(session.Error, "the strategy's answer is not carried out", "err", err)
		return
	}
	for i := range actions {
		s.act(&actions[i])
	}
}

func (s *Loop) refuse(why Refusal) { s.stats.Refused[why]++ }

func (s *Loop) act(a *abi.StepAction) {
	if a.Do == abi.DoSetTimer {
		s.setTimer(a)
		return
	}
	u, ok := Normalise(a.Relay)
	if !ok {
		u = ""
	}
	switch a.Do {
	case abi.DoConnect:
		s.connect(a, u)
	case abi.DoDisconnect:
		s.disconnect(a, u)
	case abi.DoSubscribe:
		s.subscribe(a, u)
	case abi.DoHistoric:
		s.backfill(a, u)
	case abi.DoUncovered:
		if r := s.relays[u]; r != nil && r.up {
			s.setUncovered(r, a.Repositories, a.Roots, a.Authors)
		}
	case abi.DoProgress:
		if r := s.relays[u]; r != nil && r.up {
			s.setProgress(r, a)
		}
	case abi.DoUnsubscribe:
		if r := s.relays[u]; r != nil && r.up {
			r.forgetSub(a.ID)
			delete(r.hists, a.ID)
			s.progress(r)
			s.perform(Execute{r.conn, session.Unsubscribe{ID: a.ID}})
		}
	}
}

func (s *Loop) setTimer(a *abi.StepAction) {
	if a.At != 0 && s.timers.byID[a.ID] == nil && s.timers.len() >= s.cfg.Limits.Timers {
		s.refuse(RefusedLimit)
		return
	}
	s.timers.set(a.ID, a.At)
}

func (s *Loop) connect(a *abi.StepAction, u string) {
	refuse := func(why Refusal, class uint32, reason string) {
		s.refuse(why)
		s.answer(&abi.RelayDisconnected{Relay: a.Relay, Class: class, Reason: reason})
	}
	switch {
	case u == "":
		refuse(RefusedForbidden, abi.ClassForbidden, "this is no URL of a relay")
		return
	case s.own.has(u):
		refuse(RefusedForbidden, abi.ClassForbidden, "this is our own relay")
		return
	case !s.cfg.AllowPrivate && isPrivate(u):
		refuse(RefusedForbidden, abi.ClassForbidden, "this address is private (option allow-private)")
		return
	}
	r := s.relay(u)
	if r == nil {
		refuse(RefusedLimit, abi.ClassLimit, "too many relays are wanted")
		return
	}
	r.wanted, r.priority, r.reason = true, a.Priority, session.Quote(a.Reason)
	s.update(r)
}

// isPrivate reports whether a URL names an address that is not public. It does not resolve
// names: the dialer checks their addresses.
func isPrivate(u string) bool {
	parsed, err := url.Parse(u)
	if err != nil {
		return true
	}
	hostname := parsed.Hostname()
	if hostname == "localhost" || strings.HasSuffix(hostname, ".localhost") || strings.HasSuffix(hostname, ".local") || strings.HasSuffix(hostname, ".internal") {
		return true
	}
	ip, err := netip.ParseAddr(hostname)
	return err == nil && !netguard.Public(ip)
}

func (s *Loop) disconnect(a *abi.StepAction, u string) {
	r := s.relays[u]
	if r == nil {
		return
	}
	r.wanted, r.priority, r.reason = false, 0, session.Quote(a.Reason)
	s.update(r)
	if r.bootstrap {
		s.refuse(RefusedBootstrap)
		return
	}
	s.disconnectRelay(r, "a relay is not needed any more")
}

// ready returns the relay of an action if it is connected. The reason says why not.
func (s *Loop) ready(u string) (r *relay, class uint32, reason string) {
	r = s.relays[u]
	switch {
	case u == "" || s.own.has(u):
		return nil, abi.ClassForbidden, "this relay is not contacted"
	case r == nil || !r.up:
		return nil, abi.ClassLost, "the relay is not connected"
	}
	return r, 0, ""
}

// notNamed answers a request that would name nothing but private repositories to a relay.
const notNamed = "the announcement of a private repository does not name this relay"

// smallFilter is the number of values up to which filters are kept for a strategy that
// takes over. Others it learns of without them: with all their values they would fill
// memory many times over.
const smallFilter = 16

// keep returns the filters if they are small.
func keep(filters []abi.Filter) []abi.Filter {
	n := 0
	for i := range filters {
		f := &filters[i]
		n += len(f.IDs) + len(f.Authors) + len(f.Kinds)
		for j := range f.Tags {
			n += len(f.Tags[j].Values)
		}
	}
	if n > smallFilter {
		return nil
	}
	return filters
}

func (s *Loop) subscribe(a *abi.StepAction, u string) {
	refuse := func(why Refusal, class uint32, reason string) {
		s.refuse(why)
		s.answer(&abi.Closed{Relay: a.Relay, ID: a.ID, Class: class, Reason: reason})
	}
	r, class, reason := s.ready(u)
	if r == nil {
		refuse(RefusedOffline, class, reason)
		return
	}
	if r.subs[a.ID] == nil && len(r.subs) >= s.cfg.Limits.Subscriptions {
		refuse(RefusedLimit, abi.ClassLimit, "too many subscriptions on this relay")
		return
	}
	s.serial++
	sub := &session.Subscribe{ID: a.ID, Serial: s.serial, Live: a.Live, Purpose: a.Purpose}
	if a.Live {
		sub.Purpose = abi.PurposeLive
	}
	for i := range a.Filters {
		f, ok := filterOf(&a.Filters[i])
		if !ok {
			refuse(RefusedMalformed, abi.ClassUnsupported, "a filter that matches nothing, or that no relay understands")
			return
		}
		if a.Live {
			f.Limit = 0
		}
		if s.withoutPrivate(u, &f) {
			sub.Filters = append(sub.Filters, f)
		}
	}
	if len(sub.Filters) == 0 {
		refuse(RefusedForbidden, abi.ClassForbidden, notNamed)
		return
	}
	delete(r.hists, a.ID)
	r.forgetSub(a.ID)
	record := &subRecord{serial: s.serial, filters: keep(a.Filters), count: len(a.Filters), live: a.Live, purpose: sub.Purpose}
	record.repos, record.wide = s.heardBy(a.Filters)
	r.subs[a.ID] = record
	s.progress(r)
	s.perform(Execute{r.conn, sub})
}

func (s *Loop) backfill(a *abi.StepAction, u string) {
	refuse := func(why Refusal, class uint32, reason string) {
		s.refuse(why)
		s.answer(&abi.HistoricDone{Relay: a.Relay, ID: a.ID, Method: a.Method, Class: class, Reason: reason})
	}
	r, class, reason := s.ready(u)
	if r == nil {
		refuse(RefusedOffline, class, reason)
		return
	}
	f, ok := filterOf(&a.Filters[0])
	if !ok {
		refuse(RefusedMalformed, abi.ClassUnsupported, "a filter that matches nothing, or that no relay understands")
		return
	}
	if !s.withoutPrivate(u, &f) {
		refuse(RefusedForbidden, abi.ClassForbidden, notNamed)
		return
	}
	if r.hists[a.ID] == nil && len(r.hists) >= s.cfg.Limits.Waiting {
		refuse(RefusedLimit, abi.ClassLimit, "too many historics on this relay")
		return
	}
	if a.Purpose == abi.PurposeLive {
		s.polled(r)
	}
	s.serial++
	r.forgetSub(a.ID)
	record := &histRecord{serial: s.serial, method: a.Method, purpose: a.Purpose}
	if small := keep(a.Filters); small != nil {
		record.filter = small[0]
	}
	r.hists[a.ID] = record
	s.progress(r)
	s.perform(Execute{r.conn, &session.Fetch{
		ID: a.ID, Serial: s.serial, Filter: f, Method: a.Method, Purpose: a.Purpose, Page: int(min(a.Page, 1<<20)), Push: a.Push && s.cfg.AllowPush,
		Holdings: a.Holdings,
	}})
}

// polled notes that a strategy fetches what is new: it has no subscription for it.
func (s *Loop) polled(r *relay) {
	s.stats.Polls++
	if !r.polled {
		r.polled = true
		s.log(session.Debug, "what is new is fetched from a relay, there is no subscription for it", "relay", r.url, "subscriptions", len(r.subs))
	}
}

// setUncovered takes what a strategy says to have no subscription at a relay, for want of room.
func (s *Loop) setUncovered(r *relay, repositories, roots, authors uint32) {
	was := r.uncovered
	r.uncovered.repositories, r.uncovered.roots, r.uncovered.authors = repositories, roots, authors
	switch {
	case !r.uncovered.any():
		if was.any() {
			s.log(session.Info, "a relay has room for everything again", "relay", r.url, "after", Duration(s.clock-was.since))
		}
		r.uncovered = uncovered{}
	case was.since == 0:
		r.uncovered.since = s.clock
		message := "a relay has no room for subscriptions to everything: the rest is fetched from time to time"
		if r.caps.MaxSubscriptions == 0 && r.caps.MaxValues == 0 {
			message = "sync-subscriptions leaves no room for subscriptions to everything at a relay: the rest is fetched from time to time"
		}
		s.log(session.Warn, message, "relay", r.url, "repositories", repositories, "roots", roots, "authors", authors, "subscriptions", len(r.subs),
			"max_subscriptions", r.caps.MaxSubscriptions, "max_values", r.caps.MaxValues)
	}
	s.progress(r)
}

// filterOf returns a strategy's filter, and false for one that no relay would
// understand, or that matches nothing.
func filterOf(f *abi.Filter) (host.Filter, bool) {
	out := host.Filter{Since: f.Since, Until: f.Until, Limit: -1}
	if f.Limit > 0 {
		out.Limit = int(f.Limit)
	}
	for i := range f.IDs {
		out.IDs = append(out.IDs, f.IDs[i])
	}
	for i := range f.Authors {
		out.Authors = append(out.Authors, f.Authors[i])
	}
	for _, k := range f.Kinds {
		if k > 0xffff {
			return out, false
		}
		out.Kinds = append(out.Kinds, host.Kind(k))
	}
	names := map[string]bool{}
	for _, t := range f.Tags {
		if len(t.Name) != 1 || !isLetter(t.Name[0]) || len(t.Values) == 0 || names[t.Name] {
			return out, false
		}
		names[t.Name] = true
		out.Tags = append(out.Tags, host.TagFilter{Name: t.Name[0], Values: t.Values})
	}
	bad := func(at *int64) bool { return at != nil && *at < 0 }
	return out, !out.Empty() && !bad(f.Since) && !bad(f.Until)
}

func isLetter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

// timers are those of the strategy, the next one first. The loop owns them.
type timers struct {
	byID map[string]*timer
	heap heap.Heap[*timer]
}

type timer struct {
	id    string
	at    int64 // unix milliseconds
	index int
}

func newTimers() *timers {
	before := func(a, b *timer) bool { return a.at < b.at || a.at == b.at && a.id < b.id }
	return &timers{make(map[string]*timer), heap.New(before, func(t *timer, place int) { t.index = place })}
}

func (t *timers) len() int { return t.heap.Len() }

// set sets a timer, in place of one with the same id. At 0 there is none afterwards.
func (t *timers) set(id string, at int64) {
	old := t.byID[id]
	switch {
	case old != nil && at == 0:
		t.heap.Remove(old.index)
		delete(t.byID, id)
	case old != nil:
		old.at = at
		t.heap.Fix(old.index)
	case at != 0:
		n := &timer{id: id, at: at}
		t.byID[id] = n
		t.heap.Push(n)
	}
}

// due removes and returns the next timer whose time has come, nil if none has.
func (t *timers) due(now int64) *timer {
	if t.heap.Len() == 0 || t.heap.Top().at > now {
		return nil
	}
	n := t.heap.Pop()
	delete(t.byID, n.id)
	return n
}

// next returns when the next timer is due, and false if there is none.
func (t *timers) next() (int64, bool) {
	if t.heap.Len() == 0 {
		return 0, false
	}
	return t.heap.Top().at, true
}
