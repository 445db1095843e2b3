package engine

import (
	"slices"

	"talon/cmd/internal/lab/world"
	"talon/host"
	"talon/host/negentropy"
	"talon/host/relaysync"
	"talon/host/relaysync/match"
	"talon/host/relaysync/session"
	"talon/sdk/abi"
)

// model plays a session and its relay without messages. It takes the loop's commands, and
// reports after the time, and with the bytes, that messages would take. It knows the
// relay's limits from the first connection on, as a session that has learnt them.
//
// It leaves out the relay's manners, its lies, authentication, and the reaction of a session
// to a relay that breaks the rules.
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
	pace    int64       // when the next request may be sent
	free    int64       // when what is being sent has arrived
	known   int64       // events that came and were here
	repeats abi.Repeats // of them, new ones that came from another relay first, since the latest report

	repeatsAt int64 // when that was
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
	live     bool
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
	p := &l.r.profile.Limits
	low := func(to *uint32, limit int) {
		if limit > 0 && (*to == 0 || uint32(limit) < *to) {
			*to = uint32(limit)
		}
	}
	low(&caps.MaxSubscriptions, p.Subscriptions)
	low(&caps.MaxFilters, p.Filters)
	low(&caps.MaxMessage, p.MessageBytes)
	caps.Negentropy = abi.SupportNo
	if l.r.profile.Negentropy.Supported {
		caps.Negentropy = abi.SupportYes
	}
	m := &model{
		l: l, caps: *caps, subs: map[string]*modelSub{}, running: map[string]*modelOp{}, open: map[uint64]*modelOp{}, events: map[uint64]*host.Event{},
	}
	m.ping()
	return m
}

// pings are counted in batches: each as an event of its own would be most of the events.
const pings = 40

// ping counts the pings of a line on which little is said, and their answers.
func (m *model) ping() {
	m.e().After(pings*m.l.t.limits.Session().PingAfter, func() {
		if !m.l.down && !m.l.broken {
			m.l.count(6*pings, 2*pings)
			m.ping()
		}
	})
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
	for len(m.waiting) > 0 && len(m.running) < m.l.t.limits.Fetches {
		op := m.waiting[0]
		m.waiting = m.waiting[1:]
		m.running[op.id] = op
		m.start(op)
	}
}

// wait is how long a request has to wait because of our pace and the relay's rate.
func (m *model) wait() int64 {
	now := m.e().Now()
	every := int64(1000 / m.l.t.limits.Requests)
	burst := int64(m.l.t.limits.Burst) * every
	if rate := m.l.r.profile.Rate.Requests.PerMinute; rate > 0 {
		if slow := int64(60_000 / rate); slow > every {
			every, burst = slow, 60_000
		}
	}
	m.pace = max(m.pace, now-burst) + every
	wait := max(0, m.pace-now)
	if wait > 0 && m.l.r.profile.Rate.Requests.PerMinute > 0 {
		m.l.r.counts.limited++
	}
	return wait
}

// after calls a function when the answers of requests, with their size in bytes, have
// arrived. The requests follow one another if that takes more than one trip.
func (m *model) after(requests, trips, up, down int64, do func()) {
	l := m.l
	l.count(up, down)
	now := m.e().Now()
	sent, trip := now+m.wait(), 2*l.r.latency()
	for i := range requests {
		l.r.counts.request(now, sent+i*min(trip, trip*(trips-1)))
	}
	m.free = max(m.free, sent+trips*trip)
	if b := int64(l.r.Bandwidth); b > 0 {
		m.free += down * 1000 / b
	}
	m.e().At(m.free, func() {
		if !l.down && !l.broken {
			do()
			l.t.turn()
		}
	})
}

// stored is what the relay answers to a filter, within its limits.
func (m *model) stored(f host.Filter, paged bool) []*host.Event {
	p := &m.l.r.profile.Limits
	if limit := p.Limit; !paged && limit > 0 && (f.Limit < 0 || f.Limit > limit) {
		f.Limit = limit
	}
	if limit := p.DefaultLimit; !paged && limit > 0 && f.Limit < 0 {
		f.Limit = limit
	}
	return m.l.r.relay.Query(&f)
}

func (m *model) subscribe(c *session.Subscribe) {
	m.unsubscribe(c.ID)
	t := m.l.t
	var list []*host.Event
	op := &modelOp{id: c.ID, serial: c.Serial, purpose: c.Purpose, finished: func(op *modelOp) {
		eose := abi.Eose{Relay: m.l.r.URL, ID: op.id, Events: uint32(len(list)), New: uint32(op.fresh)}
		if len(list) > 0 {
			eose.MinCreatedAt = oldest(list)
		}
		t.report(m.l, &session.Eose{Serial: op.serial, Input: eose, Gap: session.GapOf(op.purpose, op.kept, op.first)})
	}}
	sub := &modelSub{id: c.ID, matchers: t.hash.Matchers(c.Filters), purpose: c.Purpose}
	m.subs[c.ID] = sub
	m.order = append(m.order, sub)
	up, seen := int64(20), map[host.ID]bool{}
	for i := range c.Filters {
		up += filterBytes(&c.Filters[i])
		if !c.Live {
			for _, e := range m.stored(c.Filters[i], false) {
				if !seen[e.ID] || m.l.r.profile.Answer.Repeats {
					seen[e.ID] = true
					list = append(list, e)
				}
			}
		}
	}
	m.l.r.counts.reqs++
	m.l.t.e.watch.check.asked(m.l)
	m.after(1, 1, up, eventBytes(list)+eoseBytes, func() {
		if m.subs[c.ID] != sub {
			return
		}
		m.deliver(op, list)
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
		m.l.t.report(m.l, &session.Done{Serial: op.serial, Input: op.done, Gap: session.GapOf(op.purpose, op.kept, op.first)})
		m.begin()
	}
	f := op.fetch.Filter
	op.done.Complete = true
	theirs := m.stored(f, true)
	if len(theirs) > 0 {
		op.done.MinCreatedAt = oldest(theirs)
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
	for _, limit := range []int{int(m.caps.MaxLimit), m.l.r.profile.Limits.Limit} {
		if limit > 0 {
			size = min(size, limit)
		}
	}
	pages, again := pagesOf(theirs, size)
	op.done.Method, op.done.Rounds, op.done.Need = abi.MethodREQ, uint32(pages), uint32(len(theirs))
	matchers := m.l.t.hash.Matchers([]host.Filter{op.fetch.Filter})
	for _, e := range theirs {
		digest := m.l.t.hash.Digest(e)
		if matchers[0].MatchesByOtherLetter(&digest) {
			op.done.OtherLetter++
		}
	}
	op.done.Bytes = eventBytes(theirs) + again + pages*eoseBytes
	m.l.r.counts.reqs += pages
	m.l.t.e.watch.check.asked(m.l)
	op.done.Sent = pages * (filterBytes(&op.fetch.Filter) + 50)
	m.after(pages, pages, op.done.Sent, op.done.Bytes, func() { m.fetched(op, theirs) })
}

// pagesOf is in how many pages a relay sends events, and how many bytes of these come
// again: the page after a last one that has events begins with their oldest second.
func pagesOf(list []*host.Event, size int) (pages, again int64) {
	if len(list) == 0 {
		return 1, 0
	}
	first := oldest(list)
	var boundary []*host.Event
	for _, e := range list {
		if e.CreatedAt == first {
			boundary = append(boundary, e)
		}
	}
	pages = int64((len(list)+size-1)/size) + 1
	if len(boundary) < len(list) {
		again = eventBytes(boundary) * (pages - 1)
	}
	return pages, again
}

// oldest returns the least created_at of events.
func oldest(list []*host.Event) int64 {
	at := list[0].CreatedAt
	for _, e := range list {
		at = min(at, e.CreatedAt)
	}
	return at
}

// compare fetches what is not here (NIP-77). The two sides are those of production: what they say
// is said, but for the messages around it.
func (m *model) compare(op *modelOp, theirs []*host.Event) {
	t, l := m.l.t, m.l
	f := op.fetch.Filter
	matchers := t.hash.Matchers([]host.Filter{f})
	build := session.Build{Filter: f, Matcher: &matchers[0]}
	l.held.Keep()
	within := build.Offer(l.held, op.fetch.Push)
	ours, outside := t.localSet(build)
	var there negentropy.Builder
	byID := make(map[host.ID]*host.Event, len(theirs))
	for _, e := range theirs {
		there.Add(negentropy.Item{CreatedAt: uint64(e.CreatedAt), ID: e.ID})
		byID[e.ID] = e
	}
	c := compareSets(ours, there.Build(), session.HoldsAll(l.held, ours))
	if !within {
		ours.Each(func(it negentropy.Item) { l.held.Add(it.ID) })
	}
	l.held.Add(c.need...)
	l.held.Remove(c.have...)
	l.held.Compared(&f)
	var need []*host.Event
	known := 0
	for _, id := range c.need {
		if t.known.Has(id, t.now()/1000) || t.store().Get(id) != nil {
			known++
			continue
		}
		need = append(need, byID[id])
	}
	op.done.Method, op.done.Need = abi.MethodNegentropy, uint32(len(need))
	op.done.Have = uint32(len(t.known.NotRefused(c.have, t.now()/1000)))
	if !op.fetch.Holdings {
		op.done.Have += uint32(max(0, outside.Count-known))
	}
	op.done.Rounds = uint32(c.rounds)
	op.done.Bytes = c.down
	op.done.Sent = c.up + filterBytes(&f) + 60
	l.r.counts.negOpens++
	l.t.e.watch.check.asked(l)
	m.after(1, c.rounds, op.done.Sent, c.down, func() {
		if op.gone {
			return
		}
		// The model does not ask for events that have come from elsewhere since.
		now := t.now() / 1000
		need = slices.DeleteFunc(need, func(e *host.Event) bool { return t.known.Has(e.ID, now) })
		chunks := int64((len(need) + t.limits.Chunk - 1) / t.limits.Chunk)
		if chunks == 0 {
			m.fetched(op, nil)
			return
		}
		l.r.counts.reqs += chunks
		asked, bytes := int64(67*len(need))+60*chunks, eventBytes(need)+chunks*eoseBytes
		op.done.Sent += asked
		op.done.Bytes += bytes
		m.after(chunks, 1, asked, bytes, func() { m.fetched(op, need) })
	})
}

// fetched ends a fetch with what it brought.
func (m *model) fetched(op *modelOp, list []*host.Event) {
	if !op.gone {
		m.deliver(op, list)
		op.sent = true
		m.complete(op)
	}
}

// compared is what a comparison comes to.
type compared struct {
	have, need       []host.ID
	rounds, up, down int64
}

// compareSets compares what is here with what the relay has.
func compareSets(local, remote *negentropy.Set, tied bool) (c compared) {
	const (
		frame  = 30       // bytes of a message beside what it says in hex
		relays = 60_000   // bytes that a relay says at once
		here   = 30 << 10 // that we say
	)
	client, err := negentropy.NewClient(local, negentropy.ClientLimits{Frame: here, IDs: 1 + local.Len() + remote.Len(), Rounds: 1 << 20})
	if err != nil {
		panic(err) // the limits are wrong
	}
	server, err := negentropy.NewServer(remote, relays)
	if err != nil {
		panic(err)
	}
	initiate := client.Initiate
	if tied {
		initiate = client.InitiateAlike
	}
	msg, err := initiate()
	for done := false; err == nil && !done; {
		c.rounds++
		c.up += frame + 2*int64(len(msg))
		var reply []byte
		if reply, err = server.Reconcile(msg); err == nil {
			c.down += frame + 2*int64(len(reply))
			msg, done, err = client.Reconcile(reply)
		}
	}
	if err != nil {
		panic(err) // both sides are ours
	}
	c.have, c.need = client.Have(), client.Need()
	return c
}

// deliver takes events of an answer.
func (m *model) deliver(op *modelOp, list []*host.Event) {
	t := m.l.t
	now := t.now() / 1000
	m.l.r.counts.events += int64(len(list))
	var batch []session.ReceivedEvent
	for _, e := range list {
		m.l.held.Add(e.ID)
		if t.known.Has(e.ID, now) {
			m.inVain(op, e)
			continue
		}
		m.tickets++
		m.open[m.tickets], m.events[m.tickets] = op, e
		op.left++
		batch = append(batch, session.ReceivedEvent{Ticket: m.tickets, Event: e, Purpose: op.purpose})
	}
	if len(batch) > 0 {
		t.submit(m.l, batch)
	}
}

// live takes an event that is published at the relay.
func (m *model) live(e *host.Event) {
	if m.l.down || m.l.broken || !m.l.up || m.l.r.profile.Live.Off {
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
	m.e().After(l.r.latency(), func() {
		if l.down || l.broken {
			return
		}
		l.count(0, int64(matched)*eventBytes([]*host.Event{e}))
		m.known += int64(matched - 1)
		m.deliver(&modelOp{purpose: purpose, live: true, finished: func(*modelOp) {}}, []*host.Event{e})
		l.t.turn()
	})
}

// inVain counts an event that was here. New ones are reported, as by a session.
func (m *model) inVain(op *modelOp, e *host.Event) {
	m.known++
	if !op.live {
		return
	}
	if m.repeats.Events == 0 {
		m.e().After(max(1000, m.repeatsAt+10_000-m.e().Now()), func() {
			if !m.l.down && !m.l.broken {
				r := m.repeats
				m.repeatsAt, m.repeats = m.e().Now(), abi.Repeats{}
				m.l.t.report(m.l, &session.Repeats{Input: r})
				m.l.t.turn()
			}
		})
	}
	m.repeats = abi.Repeats{Relay: m.l.r.URL, Events: m.repeats.Events + 1, Bytes: m.repeats.Bytes + int64(len(e.JSON))}
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
	case a.Outcome != session.Decided:
		m.inVain(op, e)
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
				t.known.Exclude(e, t.now()/1000)
			}
		default:
			if world.Verify(e) == nil {
				t.known.Refuse(e, t.now()/1000, a.Generation)
				t.report(m.l, &session.Refused{Event: e, Position: a.Position})
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
	m.e().After(l.t.limits.PingAfter+l.t.limits.PongTime, func() {
		l.fail(relaysync.EndError(session.EndSilent))
	})
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
