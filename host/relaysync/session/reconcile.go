package session

import (
	"slices"
	"strings"

	"talon/host"
	"talon/host/negentropy"
	"talon/host/relaysync/match"
	"talon/host/wire"
	"talon/sdk/abi"
)

// reconciliation compares the local events with those of the relay (NIP-77). It fetches the
// events that it finds by id, in chunks. If it finds more ids than it can hold, another
// session of the protocol follows this one.
type reconciliation struct {
	fetch *fetch
	ended bool // the fetch goes on without it

	wire           string // id of the protocol's session, empty if there is none
	number         int    // the wire id's: in the order of sending
	build          uint64 // ticket of the set that is being built; 0: none is
	client         *negentropy.Client
	set            *negentropy.Set // that the relay is offered
	within         bool            // it is what the relay is believed to hold, not most that is here
	outside        Outside         // the rest of what is here
	missingAtRelay *host.ID        // one event that the relay lacks
	taken          int             // of client.Need
	bytes          int             // of NEG-OPEN
	heard          int64           // when the relay last said something, or was asked
	rounds         int
	sessions       int
	repeats        int // sessions begun again, for the relay had lost the one before
	limited        int // of them, those after a NOTICE that says "rate limited"
	before         int // events that were here, or had come, when this session began
	compared       bool
	incomplete     bool // it found more than it could hold

	need         []host.ID // to be fetched
	chunks       []*chunk  // in flight
	awaits       int       // ids that others' chunks ask for
	chunkLimit   int       // ids of a chunk that the relay takes; 0: any
	alreadyLocal int       // ids that were here when they were to be asked for

	push push
}

// open begins a comparison. It first asks for the set of local events, which has to be
// looked up.
func (n *reconciliation) open(s *Session) {
	n.sessions++
	n.before = n.fetch.result.events + n.alreadyLocal
	n.incomplete, n.compared = false, false
	n.build = s.ticket()
	s.builds[n.build] = n
	build := Build{Ticket: n.build, Filter: n.fetch.cmd.Filter, Matcher: &n.fetch.matchers[0]}
	s.cfg.Holdings.Keep()
	n.within = build.Offer(s.cfg.Holdings, n.fetch.cmd.Push)
	s.perform(build)
}

// clientFrame bounds the messages of negentropy that we send: relays bound theirs, and
// hex doubles it.
const clientFrame = 30 << 10

// Built handles the answer to a Build: the set of local events, and what it leaves out.
func (s *Session) Built(now int64, ticket uint64, set *negentropy.Set, outside Outside, err error) {
	n := s.builds[ticket]
	delete(s.builds, ticket)
	if n == nil || !s.at(now) || n.build != ticket {
		return
	}
	n.build, n.outside = 0, outside
	if err == nil {
		err = n.begin(s, set)
	} else {
		n.fetch.noNegentropy(s, abi.ClassLimit, "what is stored here can not be compared: "+err.Error(), false)
		return
	}
	if err != nil {
		n.fetch.noNegentropy(s, abi.ClassError, err.Error(), false)
	}
}

// begin sends the first message.
func (n *reconciliation) begin(s *Session, set *negentropy.Set) error {
	frame := clientFrame
	if limit := int(s.caps.MaxMessage); limit > 0 {
		frame = max(negentropy.MinFrame, min(frame, limit/2-1024))
	}
	client, err := negentropy.NewClient(set, negentropy.ClientLimits{Frame: frame, IDs: max(s.limits.Need, set.Len()), Rounds: s.limits.Rounds})
	if err != nil {
		return err
	}
	initiate := client.Initiate
	if HoldsAll(s.cfg.Holdings, set) {
		initiate = client.InitiateAlike
	}
	msg, err := initiate()
	if err != nil {
		return err
	}
	n.client, n.set, n.taken = client, set, 0
	n.wire = s.wireID('n')
	n.number = s.serial
	s.negs[n.wire] = n
	text := wire.AppendNegOpen(nil, n.wire, &n.fetch.cmd.Filter, msg)
	n.bytes = len(text)
	n.send(s, text)
	s.checkNoLater(n.barrierDue(s))
	return nil
}

func (n *reconciliation) send(s *Session, text []byte) {
	n.heard = s.now
	n.fetch.result.sent += int64(len(text))
	s.checkNoLater(n.heard + n.patience(s) + 1)
	s.send(text)
}

// message takes a NEG-MSG.
func (n *reconciliation) message(s *Session, msg []byte) {
	if n.rounds == 0 {
		s.size.fits(n.bytes)
		s.learnNegentropy(abi.SupportYes)
		s.compares = true
	}
	n.rounds++
	n.fetch.result.rounds++
	n.heard = s.now
	reply, done, err := n.client.Reconcile(msg)
	need := n.client.Need()
	n.need = append(n.need, need[n.taken:]...)
	n.taken = len(need)
	switch {
	case err == nil && !done:
		n.send(s, wire.AppendNegMsg(nil, n.wire, reply))
		n.more(s)
		return
	case err == nil:
		n.found(s)
	case err == negentropy.ErrTooManyIDs && len(need) > 0:
		n.incomplete = true // what it found is fetched, then it is compared again
	default:
		n.fetch.noNegentropy(s, abi.ClassError, "negentropy: "+err.Error(), false)
		s.violation(comparisonUnreadable)
		return
	}
	n.compared = true
	n.closeRequest(s)
	n.more(s)
}

// found records the events that the relay lacks, and so those that it has.
// [reconciliation.lacking] later subtracts the events that were not offered, but turn out to
// be at the relay.
func (n *reconciliation) found(s *Session) {
	n.learn(s)
	have := s.cfg.Known.NotRefused(n.client.Have(), s.seconds())
	r := &n.fetch.result
	r.lacking = len(have)
	if !n.fetch.cmd.Holdings {
		r.lacking += n.outside.Count
		switch {
		case len(have) > 0:
			n.missingAtRelay = &have[0]
		case n.outside.Count > 0:
			n.missingAtRelay = &n.outside.First
		}
	}
	n.push.have = have
}

// lacking notes what the relay lacks, when all that it has is here.
func (n *reconciliation) lacking() {
	r := &n.fetch.result
	if (n.within || n.outside.Count > 0) && !n.fetch.cmd.Holdings {
		r.lacking = max(0, r.lacking-n.alreadyLocal)
	}
	if n.missingAtRelay != nil && r.lacking > 0 {
		r.missing = &MissingAtRelay{Repositories: repositoriesOf(&n.fetch.cmd.Filter), Event: *n.missingAtRelay}
	}
}

// learn takes what a comparison that came to its end says of the relay.
func (n *reconciliation) learn(s *Session) {
	known := s.cfg.Holdings
	if known.Kept() && !n.within {
		n.set.Each(func(it negentropy.Item) { known.Add(it.ID) })
	}
	known.Remove(n.client.Have()...)
	known.Compared(&n.fetch.cmd.Filter)
}

// closeRequest ends the protocol's session.
func (n *reconciliation) closeRequest(s *Session) {
	if n.wire != "" {
		s.send([]byte(`["NEG-CLOSE","` + n.wire + `"]`))
		n.forget(s)
	}
}

func (n *reconciliation) forget(s *Session) {
	delete(s.negs, n.wire)
	s.auth.forget(n.wire)
	n.wire, n.client, n.set = "", nil, nil
}

// stop ends the reconciliation. The fetch goes on without it, and still takes the events of
// the chunks in flight.
func (n *reconciliation) stop(s *Session) {
	n.closeRequest(s)
	n.ended, n.build = true, 0
	n.need, n.push.have = nil, nil
}

// abandon ends it and all that it asked for.
func (n *reconciliation) abandon(s *Session) {
	n.stop(s)
	for _, k := range slices.Clone(n.chunks) {
		k.abandon(s)
	}
	n.push.abandon(s)
}

// refused takes a NEG-ERR, or the CLOSED that some relays send for it.
func (n *reconciliation) refused(s *Session, class uint32, reason string) {
	if class == abi.ClassAuthRequired && s.mustProve(n.wire) {
		return
	}
	if n.rounds > 0 && n.repeats < maxRepeats && sessionLost(reason) {
		n.repeat(s)
		return
	}
	never := class == abi.ClassUnsupported && n.rounds == 0
	n.fetch.noNegentropy(s, class, Quote(reason), never)
}

// patience is how long the relay has to answer.
func (n *reconciliation) patience(s *Session) int64 {
	if n.repeats == n.limited && (n.rounds == 0 || s.caps.Negentropy == abi.SupportYes) {
		return s.limits.AnswerTime / 5 // many relays pass over what they do not know, and some lose a message
	}
	return s.limits.AnswerTime
}

// timeOut ends a session that the relay has not answered in time. A relay that says that it
// compares is asked once more: pages would bring all that is here already. One that never
// did on this connection, and answers what was asked later, passes over NEG-OPEN. One that has said
// "rate limited" since may have lost the message: it is asked again after its rest.
func (n *reconciliation) timeOut(s *Session) {
	n.push.timeOut(s, n)
	if n.wire == "" || s.auth.waits(n.wire) {
		return
	}
	by := max(n.heard+n.patience(s), s.pace.cooldownUntil)
	lost := s.limitedAt >= n.heard && n.limited < maxRefusals
	switch {
	case s.now <= by:
		s.checkNoLater(by + 1)
		if !lost {
			n.sendBarrier(s)
		}
	case s.pace.waits():
		s.checkNoLater(s.now + s.pace.wait(s.limits))
	case lost:
		n.limited++
		n.repeat(s)
	case s.caps.Negentropy == abi.SupportYes && n.repeats == n.limited && (s.compares || s.lastAnswered < n.number):
		n.repeat(s)
	default:
		if n.rounds == 0 {
			s.strays++ // a NOTICE may still come
		}
		n.fetch.noNegentropy(s, abi.ClassError, "no answer to NEG-OPEN in time", n.rounds == 0)
	}
}

// barrier owns a request that no event matches. A relay that answers it has read all messages before it.
type barrier struct{}

func (barrier) saw(*request, *match.Digest) bool           { return true }
func (barrier) complete(s *Session, r *request)            { s.closeRequest(r) }
func (barrier) refused(*Session, *request, uint32, string) {}

// sendBarrier sends a request after a NEG-OPEN that has no answer, if nothing else was answered that was asked
// later. [reconciliation.timeOut] then tells a relay that passes over NEG-OPEN from a slow one. One
// barrier serves all comparisons that were opened before it.
func (n *reconciliation) sendBarrier(s *Session) {
	if s.caps.Negentropy != abi.SupportYes || s.compares || n.repeats > n.limited || s.lastAnswered > n.number || s.barrierAt > n.number {
		return
	}
	if at := n.barrierDue(s); s.now < at {
		s.checkNoLater(at)
		return
	}
	filters := []host.Filter{{IDs: []host.ID{{}}, Limit: 1}}
	r := &request{owner: barrier{}, purpose: n.fetch.cmd.Purpose, filters: filters, matchers: s.cfg.Hash.Matchers(filters)}
	s.ask(r)
	s.barrierAt = max(s.serial, n.number+1) // it may wait for room
}

func (n *reconciliation) barrierDue(s *Session) int64 { return n.heard + n.patience(s)/2 }

// maxRepeats is how often a session is begun again, for a relay that says that it has
// none: khatru keeps one only after it has sent its first answer, and may then have got
// ours already.
const maxRepeats = 5

func (n *reconciliation) repeat(s *Session) {
	n.repeats++
	n.closeRequest(s)
	n.open(s)
}

// sessionLost reports whether a relay says that it does not know the session (NIP-77:
// "closed").
func sessionLost(reason string) bool {
	return len(reason) >= 6 && strings.EqualFold(reason[:6], "closed")
}

// reopen begins again: the relay has forgotten the session.
func (n *reconciliation) reopen(s *Session) {
	n.forget(s)
	n.open(s)
}

// tooLarge begins again with shorter messages, if the filter leaves room for them.
func (n *reconciliation) tooLarge(s *Session, reason string) {
	filter := len(wire.AppendFilter(nil, &n.fetch.cmd.Filter))
	if int(s.caps.MaxMessage) >= filter+2*negentropy.MinFrame+100 && n.repeats < maxRepeats {
		n.repeat(s)
		return
	}
	n.stop(s)
	n.fetch.method = abi.MethodNegentropy
	n.fetch.result.lack(abi.ClassTooMuch, reason)
	n.fetch.finish(s)
}

// push sends the relay what it lacks.
type push struct {
	by       *reconciliation
	have     []host.ID // that are to be sent
	sent     int       // events that were sent
	inFlight int       // of them, those that are not answered
	reading  uint64    // ticket of texts that are being read; 0: none are
	heard    int64
}

// pushesAtOnce is how many events a relay is sent before it has answered.
const pushesAtOnce = 32

func (p *push) idle() bool { return p.inFlight == 0 && p.reading == 0 }

// more reads the next events, as many as may be in flight.
func (p *push) more(s *Session, n *reconciliation) {
	p.by = n
	if left := s.limits.Push - p.sent; len(p.have) > left {
		p.have = p.have[:left]
	}
	count := min(pushesAtOnce-p.inFlight, len(p.have))
	if p.reading != 0 || count <= 0 {
		if p.idle() {
			n.fetch.finish(s)
		}
		return
	}
	if s.cools(n.fetch) {
		return
	}
	p.sent += count
	p.reading = s.ticket()
	s.reads[p.reading] = p
	s.perform(Read{p.reading, p.have[:count:count]})
	p.have = p.have[count:]
}

// ReadDone handles the answer to a Read: the texts of those events that are stored here.
func (s *Session) ReadDone(now int64, ticket uint64, texts [][]byte) {
	p := s.reads[ticket]
	delete(s.reads, ticket)
	if p == nil || !s.at(now) || p.reading != ticket || p.by.fetch.gone {
		return
	}
	p.reading = 0
	for _, text := range texts {
		e, err := wire.ParseEvent(text)
		if err != nil || e.Protected() || s.pushes[e.ID] != nil {
			continue
		}
		s.pushes[e.ID] = p
		p.inFlight++
		p.heard = s.now
		s.checkNoLater(s.now + s.limits.AnswerTime + 1)
		s.send(append(append([]byte(`["EVENT",`), text...), ']'))
	}
	p.more(s, p.by)
}

// answered takes the relay's OK to one of the events.
func (p *push) answered(s *Session, ok bool, reason string) {
	if p.inFlight == 0 {
		return // of a fetch that has ended
	}
	p.inFlight--
	p.heard = s.now
	if !ok && classOf(reason) == abi.ClassRateLimited {
		s.limited(reason)
		p.have = nil
	}
	p.more(s, p.by)
}

// timeOut gives up on a relay that does not answer. By then its own events have been
// fetched.
func (p *push) timeOut(s *Session, n *reconciliation) {
	switch {
	case p.inFlight == 0:
	case s.now-p.heard > s.limits.AnswerTime:
		n.fetch.finish(s)
	default:
		s.checkNoLater(p.heard + s.limits.AnswerTime + 1)
	}
}

// abandon sends nothing more. The relay may still answer what is in flight.
func (p *push) abandon(s *Session) {
	if p.inFlight > 0 {
		for id, other := range s.pushes {
			if other == p {
				s.pushes[id] = &push{}
			}
		}
	}
	p.have, p.inFlight, p.reading = nil, 0, 0
}
