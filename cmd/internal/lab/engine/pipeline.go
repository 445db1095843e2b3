package engine

import (
	"maps"
	"net"
	"slices"

	"talon/cmd/internal/lab/world"
	"talon/host"
	"talon/host/gitfetch/queue"
	"talon/host/relaysync/loop"
	"talon/host/relaysync/session"
	"talon/sdk/grasp"
)

var errNoName = &net.DNSError{Err: "no such host", IsNotFound: true}

// pipeline is the one way in of a Talon: what comes is decided in commits, in order.
type pipeline struct {
	waiting []submitted
	free    int64 // when the commit before is on disk
	planned bool
}

// submitted is an event that waits for its commit.
type submitted struct {
	event  *host.Event
	answer func(host.Verdict)
	line   *line // whose session is to have its turn; nil: none
}

// maxCommit is how many events one commit has.
const maxCommit = 256

// submit hands events of a relay to the pipeline that are not stored yet.
func (t *talon) submit(l *line, batch []session.ReceivedEvent) {
	copies := map[host.ID]bool{} // of events of this batch that are not stored
	for i := range batch {
		a := batch[i]
		id := a.Event.ID
		seen := copies[id]
		first := !seen && t.store().Get(id) == nil
		if first {
			copies[id] = true
			answer := session.Answer{Ticket: a.Ticket, Position: t.loop.Position(), Generation: t.known.MarkInFlight(id, l.r.URL)}
			t.enqueue(submitted{a.Event, func(v host.Verdict) {
				answer.Verdict = v
				l.answered(answer)
			}, l})
			continue
		}
		fate := session.Copied
		if !seen {
			t.known.Add(id)
			fate = session.Here
		}
		l.answered(session.Answer{Ticket: a.Ticket, Outcome: fate})
	}
}

// resubmit has an event decided again.
func (t *talon) resubmit(a loop.Resubmit) {
	mark := t.loop.Position()
	t.known.MarkInFlight(a.Event.ID, a.Relay)
	t.enqueue(submitted{event: a.Event, answer: func(v host.Verdict) {
		t.loop.Retried(t.now(), loop.Retry{Event: a.Event, Relay: a.Relay, Position: mark, Refused: v.Code == host.Rejected, Failed: v.Code == host.Busy})
	}})
}

// fromClient takes an event of a user. One that comes while the Talon is down is lost.
func (t *talon) fromClient(ev *world.Event) {
	if t.runs == 0 {
		t.remote.relay.Add(ev.Event, t.e.unix()) // of before the begin
		t.note(ev.Event)
		return
	}
	if t.up {
		t.direct[ev.ID] = true
		t.enqueue(submitted{event: ev.Event, answer: func(host.Verdict) {}})
	}
}

func (t *talon) enqueue(s submitted) {
	p := &t.pipeline
	p.waiting = append(p.waiting, s)
	t.planCommit()
}

func (t *talon) planCommit() {
	p := &t.pipeline
	if p.planned || len(p.waiting) == 0 {
		return
	}
	p.planned = true
	s := &t.e.w.Scenario.Talon
	n := min(len(p.waiting), maxCommit)
	cost := (s.CommitMS + float64(s.EventMS*float64(n))) * t.disk
	runs := t.runs
	t.e.At(max(t.e.Now(), p.free)+max(1, int64(cost)), func() {
		if t.up && t.runs == runs {
			t.commit(n)
		}
	})
}

// commit decides what has come, and tells everybody.
func (t *talon) commit(n int) {
	p := &t.pipeline
	p.planned = false
	p.free = t.e.Now()
	batch := p.waiting[:n:n]
	p.waiting = p.waiting[n:]
	lines := map[loop.ConnID]*line{}
	for _, s := range batch {
		v, changes := t.decide(s.event)
		t.known.Decided(s.event.ID, v, nil)
		if len(changes) > 0 {
			t.loop.Changed(t.now(), changes)
		}
		s.answer(v)
		if s.line != nil && !s.line.down {
			lines[s.line.id] = s.line
		}
	}
	for _, id := range slices.Sorted(maps.Keys(lines)) {
		lines[id].serve()
	}
	t.turn()
	t.planCommit()
}

// decide is the policy: announcements that list this Talon, and what is about something
// that is here.
func (t *talon) decide(e *host.Event) (host.Verdict, []loop.Change) {
	if old := t.store().Newer(e); old != nil {
		if old.ID == e.ID {
			return host.Verdict{Code: host.Duplicate}, nil
		}
		return host.Verdict{Code: host.Replaced, Reason: "replaced: have newer event"}, nil
	}
	if world.Verify(e) != nil {
		return host.Verdict{Code: host.Rejected, Reason: "invalid: forged"}, nil
	}
	ev := t.e.w.ByID[e.ID]
	if !t.takes(e, ev) {
		return host.Verdict{Code: host.Rejected, Reason: "blocked: not about anything here"}, nil
	}
	if t.held[e.ID] != nil {
		return host.Verdict{Code: host.Duplicate, Reason: host.ReasonHeld}, nil
	}
	if ev != nil && (ev.Held > 0 && t.heldUntil[e.ID] == 0 || ev.Data != nil && !t.data[ev.Number]) {
		return t.hold(ev)
	}
	return t.put(e)
}

// takes reports whether the policy takes an event.
func (t *talon) takes(e *host.Event, ev *world.Event) bool {
	if ev != nil && ev.Refused {
		return false
	}
	switch e.Kind {
	case grasp.KindAnnouncement:
		for _, tag := range e.Tags {
			if len(tag) > 1 && tag[0] == "relays" && slices.Contains(tag[1:], t.URL) {
				return true
			}
		}
		return false
	case grasp.KindState:
		return t.named[host.Address{Kind: grasp.KindAnnouncement, PubKey: e.PubKey, D: e.D()}.String()]
	}
	for _, tag := range e.Tags {
		if len(tag) > 1 && t.named[tag[1]] {
			return true
		}
	}
	return false
}

// put stores an event, which is what the outside sees.
func (t *talon) put(e *host.Event) (host.Verdict, []loop.Change) {
	var before []*host.Event
	if a, ok := e.Address(); ok {
		if old := t.store().At(a); old != nil {
			before = append(before, old)
		}
	}
	if e.Kind == host.KindDeletion {
		for _, tag := range e.Tags {
			var id host.ID
			switch {
			case len(tag) < 2:
			case tag[0] == "e" && host.ParseHex(id[:], tag[1]):
				if old := t.store().Get(id); old != nil {
					before = append(before, old)
				}
			case tag[0] == "a":
				if a, ok := host.ParseAddress(tag[1]); ok {
					if old := t.store().At(a); old != nil {
						before = append(before, old)
					}
				}
			}
		}
	}
	t.remote.add(e)
	if t.store().Get(e.ID) == nil {
		return host.Verdict{Code: host.Rejected, Reason: "blocked: this event was deleted"}, nil
	}
	t.note(e)
	changes := loop.Published(t.known, t.now()/1000, []host.Published{{Event: e, Seq: 1}})
	removed := slices.DeleteFunc(before, func(old *host.Event) bool { return t.store().Get(old.ID) != nil })
	changes = append(changes, loop.Followed(t.known, t.now()/1000, removed, nil)...)
	t.e.watch.stored(t, e)
	for _, old := range removed {
		if a, ok := old.Address(); ok && t.store().At(a) == nil {
			for _, name := range maintained(old) {
				delete(t.named, name)
			}
			t.e.watch.check.gone(t, a.String())
		}
		t.e.watch.removed(t, old)
	}
	return host.Verdict{Code: host.Stored}, changes
}

// note remembers what an event makes known.
func (t *talon) note(e *host.Event) {
	t.named[e.ID.String()] = true
	for _, name := range maintained(e) {
		t.named[name] = true
	}
}

// maintained returns the address of an event. Of an announcement it also returns the addresses that it
// has for the maintainers, whose states belong to it.
func maintained(e *host.Event) (names []string) {
	a, ok := e.Address()
	if !ok {
		return nil
	}
	names = append(names, a.String())
	for _, tag := range e.Tags {
		if a.Kind != grasp.KindAnnouncement || tag[0] != "maintainers" {
			continue
		}
		for _, text := range tag[1:] {
			var key host.PubKey
			if host.ParseHex(key[:], text) {
				names = append(names, host.Address{Kind: a.Kind, PubKey: key, D: a.D}.String())
			}
		}
	}
	return names
}

// hold puts an event into purgatory until its git data come, or its time is up.
func (t *talon) hold(ev *world.Event) (host.Verdict, []loop.Change) {
	id, long := ev.ID, min(ev.Held, world.MaxHeld)
	var change []host.HeldChange
	if ev.Data != nil {
		long = world.MaxHeld
		var ok bool
		if change, ok = t.replaceHeld(ev); !ok {
			return host.Verdict{Code: host.Replaced, Reason: "replaced: have newer event"}, nil
		}
	}
	until := t.e.Now() + long
	t.held[id], t.heldUntil[id] = ev, until
	change = append(change, host.HeldChange{Event: ev.Event, Status: host.StatusHeld, Synced: true})
	changes := loop.Followed(t.known, t.now()/1000, nil, change)
	t.e.At(until, func() { t.release(ev, until) })
	if ev.Data != nil {
		t.e.watch.git.held(t, ev)
		t.fetcher.hold(ev)
	}
	return host.Verdict{Code: host.Held, Reason: host.ReasonHeld}, changes
}

// release ends the time of an event in purgatory.
func (t *talon) release(ev *world.Event, until int64) {
	switch {
	case t.held[ev.ID] == nil || t.heldUntil[ev.ID] != until:
		return // its git data came, or it was replaced
	case !t.up:
		// The data are found when it runs again.
		t.e.After(60_000, func() { t.release(ev, until) })
		return
	case ev.Data != nil:
		t.unhold(ev, queue.Forgotten)
		t.expire(ev)
	case ev.Held > world.MaxHeld:
		delete(t.held, ev.ID)
		delete(t.heldUntil, ev.ID)
		t.expire(ev)
	default:
		delete(t.held, ev.ID)
		t.publish(ev)
	}
	t.turn()
}

// expire tells the loop that an event has left purgatory, and is not stored.
func (t *talon) expire(ev *world.Event) {
	t.loop.Changed(t.now(), loop.Followed(t.known, t.now()/1000, nil, []host.HeldChange{{Event: ev.Event, Status: host.StatusExpired}}))
}

// publish stores what has left purgatory, unless something newer came.
func (t *talon) publish(ev *world.Event) {
	if t.store().Newer(ev.Event) == nil {
		if _, changes := t.put(ev.Event); len(changes) > 0 {
			t.loop.Changed(t.now(), changes)
		}
	}
}
