package relaymodel

import (
	"talon/host"
	"talon/host/wire"
)

func (r *Relay) ok(c *conn, id string, ok bool, text string) {
	if !ok {
		r.stats.Refused++
	}
	r.send(c, wire.AppendOK(nil, id, ok, text))
}

// publish answers an EVENT.
func (r *Relay) publish(c *conn, e *host.Event) {
	p, id := r.profile, e.ID.String()
	r.stats.Published++
	if rate := &p.Rate.Events; !c.events.allow(rate, r.clock.Now()) {
		if rate.By == "ok" {
			r.ok(c, id, false, rate.Text)
			return
		}
		r.refuse(c, "", rate.answer(), 0, 0)
		return
	}
	v := &p.Event
	fate, _ := p.Fate(r.seed, e, r.clock.Now())
	switch old := r.store.Newer(e); {
	case e.CheckID() != nil:
		r.ok(c, id, false, "invalid: bad event id")
	case p.Auth.Write && !c.proven:
		r.challenge(c)
		r.ok(c, id, false, p.Auth.WriteText)
	case v.RefusedText != "":
		r.ok(c, id, false, v.RefusedText)
	case r.tooLarge(e):
		switch v.TooLargeBy {
		case "ok":
			r.ok(c, id, false, v.TooLargeText)
		case "notice":
			r.refuse(c, "", Answer{By: "notice", Text: v.TooLargeText}, 0, 0)
		}
	case v.FutureS > 0 && e.CreatedAt > r.clock.Now()/1000+int64(v.FutureS):
		r.ok(c, id, false, v.FutureText)
	case v.PastS > 0 && e.CreatedAt < r.clock.Now()/1000-int64(v.PastS):
		r.ok(c, id, false, v.PastText)
	case old != nil && old.ID == e.ID:
		r.ok(c, id, true, v.DuplicateText)
	case r.isDeleted(e):
		r.ok(c, id, v.DeletedOK, v.DeletedText)
	case old != nil:
		r.ok(c, id, v.ReplacedOK, v.ReplacedText)
	case fate == TooOld:
		r.ok(c, id, false, v.PastText)
	case fate == Refused:
		r.ok(c, id, false, p.Keep.Text)
	default:
		r.ok(c, id, true, "")
		r.accept(e)
	}
}

func (r *Relay) tooLarge(e *host.Event) bool {
	l := &r.profile.Limits
	if l.EventBytes > 0 && len(e.JSON) > l.EventBytes || l.ContentBytes > 0 && len(e.Content) > l.ContentBytes || l.EventTags > 0 && len(e.Tags) > l.EventTags {
		return true
	}
	for _, tag := range e.Tags {
		for i, v := range tag {
			if i > 0 && l.TagValue > 0 && len(v) > l.TagValue {
				return true
			}
		}
	}
	return false
}

// accept stores an event and sends it to the matching subscriptions, as far as the relay takes and
// keeps it.
func (r *Relay) accept(e *host.Event) {
	if r.isDeleted(e) {
		return
	}
	fate, until := r.profile.Fate(r.seed, e, r.clock.Now())
	if fate == TooOld || fate == Refused {
		return
	}
	if e.Kind.Class() != host.Ephemeral && fate == Stored {
		if !r.store.Put(e) {
			return
		}
		r.expireAt(e.ID, until)
	}
	if e.Kind == host.KindDeletion {
		r.erase(e)
	}
	if r.profile.Live.Off {
		return
	}
	if wait := millis(r.profile.Live.DelayS); wait > 0 {
		before := r.subscribed
		r.clock.After(wait, func() { r.sendLive(e, before) })
		return
	}
	r.sendLive(e, r.subscribed)
}

// sendLive sends a new event to the subscriptions that it matches. before is how many had been opened
// when it came.
func (r *Relay) sendLive(e *host.Event, before uint64) {
	p := r.profile
	if p.Lies.Omits > 0 && r.draw(drawOmitted, e.ID) < p.Lies.Omits {
		return
	}
	// Sending may end a connection, which leaves the list: those behind it are sent it too.
	for _, c := range append([]*conn(nil), r.conns...) {
		if r.withholds(c) && r.isWithheld(e) {
			continue
		}
		if p.Live.Lost > 0 && r.draw(drawLost+c.id<<8, e.ID) < p.Live.Lost {
			continue
		}
		for _, s := range c.subs {
			if p.Live.Older && s.number > before {
				continue
			}
			n := s.matches(e)
			if n > 1 && !p.Live.Twice {
				n = 1
			}
			for range n {
				r.sendEvent(c, s.id, e)
			}
		}
	}
}

// erase does what a deletion asks for (NIP-09).
func (r *Relay) erase(d *host.Event) {
	how := r.profile.Event.Deletes
	if how == "never" {
		return
	}
	for _, tag := range d.Tags {
		switch {
		case len(tag) < 2:
		case tag[0] == "e":
			var id host.ID
			if !host.ParseHex(id[:], tag[1]) {
				continue
			}
			r.deleted[id] = d.PubKey
			if e := r.store.Get(id); e != nil && e.PubKey == d.PubKey && e.Kind != host.KindDeletion {
				r.store.Delete(id)
			}
		case tag[0] == "a" && how == "by-id-and-address":
			a, ok := host.ParseAddress(tag[1])
			if !ok || a.PubKey != d.PubKey {
				continue
			}
			r.erased[a] = max(r.erased[a], d.CreatedAt)
			if e := r.store.At(a); e != nil && e.CreatedAt <= d.CreatedAt {
				r.store.Delete(e.ID)
			}
		}
	}
}

// isDeleted reports whether the event's author has deleted it.
func (r *Relay) isDeleted(e *host.Event) bool {
	if by, ok := r.deleted[e.ID]; ok && by == e.PubKey {
		return true
	}
	a, ok := e.Address()
	if !ok {
		return false
	}
	at, ok := r.erased[a]
	return ok && e.CreatedAt <= at
}
