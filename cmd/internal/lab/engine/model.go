package engine

import (
	"slices"

	"talon/cmd/internal/lab/world"
	"talon/host"
	"talon/host/relaysync"
	"talon/host/relaysync/match"
	"talon/host/relaysync/session"
	"talon/sdk/abi"
)

// model plays a session and its relay without messages: it takes the loop's commands, and
// tells after as long, and for as many bytes, as messages would take. It knows the relay's
// limits from the first connection on, as a session that has learnt them.
//
// What it leaves out: the relay's manners, its lies, authentication, and what a session does
// about a relay that breaks the rules.
type model struct {
	l       *line
	caps    abi.Capabilities
	subs    map[string]*modelSub
	order   []*modelSub // in the order of their opening
	waiting []*modelOp  // fetches that wait for their turn
	running map[string]*modelOp
	open    map[uint64]*modelOp // by ticket
	events  map[uint64]*host.Event
	tickets uint64
	pace    int64 // when the next request may be sent
	free    int64 // when what is being sent has arrived
	known   int64 // events that came and were here
}

// modelSub is a subscription that is open.
type modelSub struct {
	id       string
	matchers []match.Matcher
	purpose  uint32
}

// modelOp is something that was asked for.
type modelOp struct {
	id       string
	serial   uint64
	fetch    *session.Fetch // nil: it is a subscription
	purpose  uint32
	left     int // events that are not answered
	sent     bool
	gone     bool
	fresh    int
	kept     int
	first    host.ID
	done     abi.HistoricDone
	finished func(*modelOp)
}

func newModel(l *line, caps *abi.Capabilities) *model {
	p := &l.r.Profile.Limits
	least := func(to *uint32, most int) {
		if most > 0 && (*to == 0 || uint32(most) < *to) {
			*to = uint32(most)
		}
	}
	least(&caps.MaxSubscriptions, p.Subscriptions)
	least(&caps.MaxFilters, p.Filters)
	least(&caps.MaxLimit, p.Limit)
	least(&caps.MaxMessage, p.MessageBytes)
	caps.Negentropy = abi.SupportNo
	if l.r.Profile.Negentropy.Supported {
		caps.Negentropy = abi.SupportYes
	}
	return &model{
		l: l, caps: *caps, subs: map[string]*modelSub{}, running: map[string]*modelOp{}, open: map[uint64]*modelOp{}, events: map[uint64]*host.Event{},
	}
}

func (m *model) e() *engine { return m.l.t.e }

// do carries out a command.
func (m *model) do(c session.Command) {
	switch c := c.(type) {
	case *session.Subscribe:
		m.subscribe(c)
	case *session.Fetch:
		m.unsubscribe(c.ID)
		m.waiting = append(m.waiting, &modelOp{id: c.ID, serial: c.Serial, fetch: c, purpose: c.Purpose})
		m.begin()
	case session.Unsubscribe:
		m.unsubscribe(c.ID)
	case session.CoolDown:
		m.pace = max(m.pace, c.Until-m.l.t.skew-m.e().w.Start)
	}
}

func (m *model) unsubscribe(id string) {
	if sub := m.subs[id]; sub != nil {
		delete(m.subs, id)
		m.order = slices.DeleteFunc(m.order, func(s *modelSub) bool { return s == sub })
		m.l.count(20, 0)
	}
	if op := m.running[id]; op != nil {
		op.gone = true
		delete(m.running, id)
	}
	m.waiting = slices.DeleteFunc(m.waiting, func(op *modelOp) bool { return op.id == id })
	m.begin()
}

// begin starts fetches that have their turn.
func (m *model) begin() {
	for len(m.waiting) > 0 && len(m.running) < m.l.t.limits.Historics {
		op := m.waiting[0]
		m.waiting = m.waiting[1:]
		m.running[op.id] = op
		m.start(op)
	}
}

// wait is how long a request has to wait because of our pace and the relay's rate.
func (m *model) wait() int64 {
	now := m.e().now
	every := int64(1000 / m.l.t.limits.Requests)
	burst := int64(m.l.t.limits.Burst) * every
	if rate := m.l.r.Profile.Rate.Requests.PerMinute; rate > 0 {
		if slow := int64(60_000 / rate); slow > every {
			every, burst = slow, 60_000
		}
	}
	m.pace = max(m.pace, now-burst) + every
	wait := max(0, m.pace-now)
	if wait > 0 && m.l.r.Profile.Rate.Requests.PerMinute > 0 {
		m.l.r.counts.limited++
	}
	return wait
}

// after has something come of a request, when its answer of so many bytes has arrived.
func (m *model) after(trips, up, down int64, do func()) {
	l := m.l
	l.count(up, down)
	now := m.e().now
	m.free = max(m.free, now+m.wait()+2*trips*l.r.latency())
	if b := int64(l.r.Bandwidth); b > 0 {
		m.free += down * 1000 / b
	}
	m.e().queue.at(m.free, func() {
		if !l.down && !l.broken {
			do()
			l.t.turn()
		}
	})
}

// stored is what the relay answers to a filter, within its limits.
func (m *model) stored(f host.Filter, paged bool) []*host.Event {
	p := &m.l.r.Profile.Limits
	if most := p.Limit; !paged && most > 0 && (f.Limit < 0 || f.Limit > most) {
		f.Limit = most
	}
	if most := p.DefaultLimit; !paged && most > 0 && f.Limit < 0 {
		f.Limit = most
	}
	return m.l.r.relay.Store().Query(&f)
}

func (m *model) subscribe(c *session.Subscribe) {
	m.unsubscribe(c.ID)
	t := m.l.t
	op := &modelOp{id: c.ID, serial: c.Serial, purpose: c.Purpose, finished: func(op *modelOp) {
		t.report(m.l, &session.Eose{Serial: op.serial, Input: abi.Eose{Relay: m.l.r.URL, ID: op.id}, Gap: gap(op)})
	}}
	sub := &modelSub{id: c.ID, matchers: t.hash.Matchers(c.Filters), purpose: c.Purpose}
	m.subs[c.ID] = sub
	m.order = append(m.order, sub)
	var list []*host.Event
	up := int64(20)
	for i := range c.Filters {
		up += filterBytes(&c.Filters[i])
		if !c.Live {
			list = append(list, m.stored(c.Filters[i], false)...)
		}
	}
	m.l.r.counts.reqs++
	m.l.t.e.watch.check.asked(m.l)
	m.after(1, up, eventBytes(list)+eoseBytes, func() {
		if m.subs[c.ID] != sub {
			return
		}
		m.arrive(op, list)
		op.sent = true
		m.complete(op)
	})
}

const eoseBytes = 16

// start begins a fetch.
func (m *model) start(op *modelOp) {
	op.finished = func(op *modelOp) {
		delete(m.running, op.id)
		op.done.Relay, op.done.ID, op.done.New, op.done.Kept = m.l.r.URL, op.id, uint32(op.fresh), uint32(op.kept)
		m.l.t.report(m.l, &session.Done{Serial: op.serial, Input: op.done, Gap: gap(op)})
		m.begin()
	}
	f := op.fetch.Filter
	op.done.Complete = true
	theirs := m.stored(f, true)
	for _, e := range theirs {
		if op.done.MinCreatedAt == 0 || e.CreatedAt < op.done.MinCreatedAt {
			op.done.MinCreatedAt = e.CreatedAt
		}
	}
	if op.fetch.Method == abi.MethodREQ || f.Limit >= 0 || m.caps.Negentropy != abi.SupportYes {
		m.page(op, theirs)
		return
	}
	m.compare(op, theirs)
}

// page fetches all that the relay has, page by page.
func (m *model) page(op *modelOp, theirs []*host.Event) {
	size := m.l.t.limits.Page
	if most := int(m.caps.MaxLimit); most > 0 {
		size = min(size, most)
	}
	pages := int64(len(theirs)/size + 1)
	op.done.Method, op.done.Rounds, op.done.Need = abi.MethodREQ, uint32(pages), uint32(len(theirs))
	op.done.Bytes = eventBytes(theirs) + pages*eoseBytes
	m.l.r.counts.reqs += pages
	m.l.t.e.watch.check.asked(m.l)
	m.after(pages, pages*(filterBytes(&op.fetch.Filter)+50), op.done.Bytes, func() {
		if !op.gone {
			m.arrive(op, theirs)
			op.sent = true
			m.complete(op)
		}
	})
}

// compare fetches what is not here (NIP-77).
func (m *model) compare(op *modelOp, theirs []*host.Event) {
	t, l := m.l.t, m.l
	f := op.fetch.Filter
	ours := map[host.ID]bool{}
	for _, e := range t.store().Query(&f) {
		ours[e.ID] = true
	}
	for _, e := range t.heldBy(&f) {
		ours[e.ID] = true
	}
	matchers := t.hash.Matchers([]host.Filter{f})
	for i := range matchers {
		t.known.EachRefused(&matchers[i], t.now()/1000, func(_ int64, id host.ID) { ours[id] = true })
	}
	var need []*host.Event
	for _, e := range theirs {
		if !ours[e.ID] {
			need = append(need, e)
		}
	}
	op.done.Method, op.done.Need = abi.MethodNegentropy, uint32(len(need))
	op.done.Have = uint32(len(ours) - (len(theirs) - len(need)))
	offered := len(ours)
	if op.fetch.Holdings {
		// What the relay is believed to lack is left out.
		offered, op.done.Have = offered-int(op.done.Have), 0
	}
	rounds, up, down := comparison(offered, len(theirs), len(need)+int(op.done.Have))
	chunks := int64((len(need) + t.limits.Chunk - 1) / t.limits.Chunk)
	op.done.Rounds = uint32(rounds)
	op.done.Bytes = down + eventBytes(need) + chunks*eoseBytes
	l.r.counts.negOpens++
	l.r.counts.reqs += chunks
	l.t.e.watch.check.asked(l)
	up += filterBytes(&f) + 60 + int64(67*len(need)) + 60*chunks
	m.after(rounds+min(chunks, 1), up, op.done.Bytes, func() {
		if !op.gone {
			m.arrive(op, need)
			op.sent = true
			m.complete(op)
		}
	})
}

// comparison is what a comparison of sets of these sizes costs that differ in so many: ids
// are listed where a part is small, and fingerprints of sixteen parts compared elsewhere.
func comparison(ours, theirs, differ int) (rounds, up, down int64) {
	const (
		list  = 66      // bytes of an id, in hex
		parts = 16 * 46 // of sixteen fingerprints with their bounds
		frame = 30      // of a message
		small = 32      // events that are listed
	)
	if ours <= small {
		if differ == 0 {
			return 1, frame + int64(list*ours), frame
		}
		return 1, frame + int64(list*ours), frame + int64(min(list*theirs, list*differ+parts))
	}
	up, down = frame+parts, frame+8
	rounds = 1
	if differ == 0 {
		return rounds, up, down
	}
	reached := min(16, differ) // parts that differ
	for size := max(ours, theirs) / 16; ; size /= 16 {
		rounds++
		if size <= small {
			up += int64(reached*size*list)/2 + frame
			down += int64(reached*size*list) + frame
			return rounds, up, down
		}
		up += int64(reached * parts)
		down += int64(reached * parts)
		reached = min(reached*16, differ)
	}
}

// arrive takes events of an answer.
func (m *model) arrive(op *modelOp, list []*host.Event) {
	t := m.l.t
	now := t.now() / 1000
	m.l.r.counts.events += int64(len(list))
	var batch []session.Arrival
	for _, e := range list {
		if t.known.Has(e.ID, now) {
			m.known++
			continue
		}
		m.tickets++
		m.open[m.tickets], m.events[m.tickets] = op, e
		op.left++
		batch = append(batch, session.Arrival{Ticket: m.tickets, Event: e, Purpose: op.purpose})
	}
	if len(batch) > 0 {
		t.submit(m.l, batch)
	}
}

// live takes an event that is published at the relay.
func (m *model) live(e *host.Event) {
	if m.l.down || m.l.broken || !m.l.up || m.l.r.Profile.Live.Off {
		return
	}
	digest := m.l.t.hash.Digest(e)
	matched := 0
	var purpose uint32
	for _, sub := range m.order {
		for i := range sub.matchers {
			if sub.matchers[i].Matches(&digest) {
				matched++
				purpose = sub.purpose
				break
			}
		}
	}
	if matched == 0 {
		return
	}
	l := m.l
	m.e().queue.at(m.e().now+l.r.latency(), func() {
		if l.down || l.broken {
			return
		}
		l.count(0, int64(matched)*eventBytes([]*host.Event{e}))
		m.known += int64(matched - 1)
		m.arrive(&modelOp{purpose: purpose, finished: func(*modelOp) {}}, []*host.Event{e})
		l.t.turn()
	})
}

// answered takes what became of an event.
func (m *model) answered(a session.Answer) {
	op, e := m.open[a.Ticket], m.events[a.Ticket]
	if op == nil {
		return
	}
	delete(m.open, a.Ticket)
	delete(m.events, a.Ticket)
	t := m.l.t
	switch {
	case a.Fate != session.Decided:
		m.known++
	default:
		op.fresh++
		switch a.Verdict.Code {
		case host.Stored, host.Held:
			if op.kept == 0 {
				op.first = e.ID
			}
			op.kept++
		case host.Duplicate, host.Replaced:
			if c := e.Kind.Class(); c == host.Replaceable || c == host.Addressable {
				t.known.Outdate(e, t.now()/1000)
			}
		default:
			if world.Verify(e) == nil {
				t.known.Refuse(e, t.now()/1000, a.Generation)
				t.report(m.l, &session.Refused{Event: e, Mark: a.Mark})
			}
		}
	}
	op.left--
	m.complete(op)
}

// complete tells that an answer is whole, and that all of it was decided.
func (m *model) complete(op *modelOp) {
	if op.sent && op.left == 0 && !op.gone {
		op.gone = true
		op.finished(op)
	}
}

// silent ends a line that brings nothing any more, when pings would have shown it.
func (m *model) silent() {
	l := m.l
	m.e().queue.at(m.e().now+l.t.limits.PingAfter.Milliseconds()+l.t.limits.PongTime.Milliseconds(), func() {
		l.fail(relaysync.EndError(session.EndSilent))
	})
}

// gap is what live sync should have brought.
func gap(op *modelOp) session.Gap {
	if op.purpose == abi.PurposeReconnect || op.purpose == abi.PurposeDaily {
		return session.Gap{Events: op.kept, First: op.first}
	}
	return session.Gap{}
}

// report tells the loop.
func (t *talon) report(l *line, r session.Report) {
	t.e.watch.report(l, r)
	t.loop.Report(t.now(), l.r.URL, l.id, r)
}

// eventBytes is how long EVENT messages are.
func eventBytes(list []*host.Event) (n int64) {
	for _, e := range list {
		n += int64(len(e.JSON)) + 20
	}
	return n
}

// filterBytes is how long a filter is, as JSON.
func filterBytes(f *host.Filter) int64 {
	n := 30 + 67*len(f.IDs) + 67*len(f.Authors) + 6*len(f.Kinds)
	for i := range f.Tags {
		n += 8
		for _, v := range f.Tags[i].Values {
			n += len(v) + 3
		}
	}
	return int64(n)
}
