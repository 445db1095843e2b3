package relaysync

import (
	"net/netip"
	"net/url"
	"strings"

	"talon/host/netguard"
	"talon/sdk/abi"
)

// Reasons why an action is not carried out, for metrics.
const (
	refusedLimit     = "limit"
	refusedForbidden = "forbidden"
	refusedMalformed = "malformed"
	refusedBootstrap = "bootstrap"
	refusedOffline   = "offline"
)

var refusals = []string{refusedLimit, refusedForbidden, refusedMalformed, refusedBootstrap, refusedOffline}

// carryOut does what a strategy answered. An answer that can not be read is passed over
// as a whole.
func (s *Sync) carryOut(answer []byte) {
	l := &s.cfg.Limits
	if len(answer) > l.AnswerBytes {
		s.refuse(refusedLimit)
		s.cfg.Log.Error("the strategy's answer is too long", "bytes", len(answer), "limit", l.AnswerBytes)
		return
	}
	actions, err := abi.DecodeActions(answer, abi.ActionLimits{Actions: l.Actions, Filters: l.Filters, Values: l.Values, AllValues: l.AllValues})
	if err != nil {
		s.refuse(refusedMalformed)
		s.cfg.Log.Error("the strategy's answer is not carried out", "err", err)
		return
	}
	for i := range actions {
		s.act(&actions[i])
	}
}

func (s *Sync) refuse(why string) { s.metrics.refused.WithLabelValues(why).Inc() }

func (s *Sync) act(a *abi.StepAction) {
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
		s.historic(a, u)
	case abi.DoUnsubscribe:
		if r := s.relays[u]; r != nil && r.up {
			delete(r.subs, a.ID)
			delete(r.hists, a.ID)
			c := r.conn
			c.do(func() { c.unsubscribe(a.ID) })
		}
	}
}

func (s *Sync) setTimer(a *abi.StepAction) {
	if a.At != 0 && s.timers.byID[a.ID] == nil && s.timers.len() >= s.cfg.Limits.Timers {
		s.refuse(refusedLimit)
		return
	}
	s.timers.set(a.ID, a.At)
}

func (s *Sync) connect(a *abi.StepAction, u string) {
	refuse := func(why string, class uint32, reason string) {
		s.refuse(why)
		s.answer(&abi.RelayDisconnected{Relay: a.Relay, Class: class, Reason: reason})
	}
	switch {
	case u == "":
		refuse(refusedForbidden, abi.ClassForbidden, "this is no URL of a relay")
		return
	case s.own.has(u):
		refuse(refusedForbidden, abi.ClassForbidden, "this is our own relay")
		return
	case !s.cfg.AllowPrivate && isPrivate(u):
		refuse(refusedForbidden, abi.ClassForbidden, "this address is private (option allow-private)")
		return
	}
	r := s.get(u)
	if r == nil {
		refuse(refusedLimit, abi.ClassLimit, "too many relays are wanted")
		return
	}
	r.wanted, r.priority, r.reason = true, a.Priority, said(a.Reason)
}

// isPrivate reports whether a URL names an address that is not reached from everywhere.
// What a name leads to is looked at when it is connected to.
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

func (s *Sync) disconnect(a *abi.StepAction, u string) {
	r := s.relays[u]
	if r == nil {
		return
	}
	r.wanted, r.priority, r.reason = false, 0, said(a.Reason)
	if r.bootstrap {
		s.refuse(refusedBootstrap)
		return
	}
	s.hangUp(r)
}

// ready returns the relay of an action if it is connected. The reason says why not.
func (s *Sync) ready(u string) (r *relay, class uint32, reason string) {
	r = s.relays[u]
	switch {
	case u == "" || s.own.has(u):
		return nil, abi.ClassForbidden, "this relay is not contacted"
	case r == nil || !r.up:
		return nil, abi.ClassLost, "the relay is not connected"
	}
	return r, 0, ""
}

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

func (s *Sync) subscribe(a *abi.StepAction, u string) {
	refuse := func(why string, class uint32, reason string) {
		s.refuse(why)
		s.answer(&abi.Closed{Relay: a.Relay, ID: a.ID, Class: class, Reason: reason})
	}
	r, class, reason := s.ready(u)
	if r == nil {
		refuse(refusedOffline, class, reason)
		return
	}
	if r.subs[a.ID] == nil && len(r.subs) >= s.cfg.Limits.Subscriptions {
		refuse(refusedLimit, abi.ClassLimit, "too many subscriptions on this relay")
		return
	}
	s.serial++
	sub := &subscription{id: a.ID, serial: s.serial, live: a.Live, purpose: a.Purpose}
	if a.Live {
		sub.purpose = abi.PurposeLive
	}
	for i := range a.Filters {
		f, ok := filterOf(&a.Filters[i])
		if !ok {
			refuse(refusedMalformed, abi.ClassUnsupported, "a filter that matches nothing, or that no relay understands")
			return
		}
		if a.Live {
			f.Limit = 0
		}
		sub.filters = append(sub.filters, f)
	}
	delete(r.hists, a.ID)
	r.subs[a.ID] = &subRecord{serial: s.serial, filters: keep(a.Filters), live: a.Live, purpose: sub.purpose}
	c := r.conn
	c.do(func() { c.subscribe(sub) })
}

func (s *Sync) historic(a *abi.StepAction, u string) {
	refuse := func(why string, class uint32, reason string) {
		s.refuse(why)
		s.answer(&abi.HistoricDone{Relay: a.Relay, ID: a.ID, Method: a.Method, Class: class, Reason: reason})
	}
	r, class, reason := s.ready(u)
	if r == nil {
		refuse(refusedOffline, class, reason)
		return
	}
	f, ok := filterOf(&a.Filters[0])
	if !ok {
		refuse(refusedMalformed, abi.ClassUnsupported, "a filter that matches nothing, or that no relay understands")
		return
	}
	if r.hists[a.ID] == nil && len(r.hists) >= s.cfg.Limits.Waiting {
		refuse(refusedLimit, abi.ClassLimit, "too many historics on this relay")
		return
	}
	s.serial++
	h := &historic{id: a.ID, serial: s.serial, filter: f, method: a.Method, purpose: a.Purpose, limit: int(min(a.Page, 1<<20)), push: a.Push && s.cfg.AllowPush}
	delete(r.subs, a.ID)
	record := &histRecord{serial: s.serial, method: a.Method, purpose: a.Purpose}
	if small := keep(a.Filters); small != nil {
		record.filter = small[0]
	}
	r.hists[a.ID] = record
	c := r.conn
	c.do(func() { c.fetch(h) })
}
