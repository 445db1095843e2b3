package relaysync

import (
	"slices"
	"strings"
	"time"

	"talon/host"
	"talon/host/negentropy"
	"talon/host/wire"
	"talon/sdk/abi"
)

// historic fetches what a relay has stored for one filter and we have not: by
// comparison (NIP-77), or page by page.
type historic struct {
	id      string
	serial  uint64
	filter  host.Filter
	matcher []matcher // of the filter, one
	method  uint32    // that is asked for; then the one that is used
	purpose uint32
	limit   int // events of one page
	push    bool

	started bool
	gone    bool
	heard   time.Time

	// Negentropy.
	wire     string // id of the session, empty if there is none
	client   *negentropy.Client
	taken    int       // of client.Need
	need     []host.ID // to be fetched
	sessions int
	fruit    int  // events and spared when this session began
	again    bool // the session found more than it could hold
	repeats  int  // sessions that were begun anew, for the relay had lost the one before
	compared bool
	chunks   int       // in flight
	awaits   int       // ids that others' chunks ask for
	spared   int       // ids that were here when they were to be asked for
	have     []host.ID // that the relay lacks
	pushing  int       // events sent and not answered
	sentAll  bool
	lacking  int // ids that it lacked in all
	lacks    *absence

	// Pages.
	pages pages

	// For the report.
	events, fresh, kept, rounds int
	bytes                       int64
	oldest                      int64
	first                       host.ID
	partial                     bool // something is missing
	class                       uint32
	reason                      string
}

// fetch queues a historic, in place of what has the same id.
func (c *conn) fetch(h *historic) {
	c.unsubscribe(h.id)
	if len(c.waiting) >= c.env.cfg.Limits.Waiting {
		c.waiting = slices.DeleteFunc(c.waiting, func(h *historic) bool { return h.gone })
	}
	if len(c.waiting) >= c.env.cfg.Limits.Waiting {
		c.tell(report{serial: h.serial, input: &abi.HistoricDone{Relay: c.url, ID: h.id, Method: h.method, Class: abi.ClassLimit, Reason: "too many historics wait for this relay"}})
		return
	}
	c.hists[h.id] = h
	c.waiting = append(c.waiting, h)
}

func (h *historic) start(c *conn) {
	h.started = true
	h.heard = time.Now()
	h.matcher = newMatchers([]host.Filter{h.filter})
	if h.limit <= 0 {
		h.limit = c.env.cfg.Limits.Page
	}
	h.limit = min(h.limit, c.env.cfg.Limits.PageEvents/2)
	if most := int(c.caps.MaxLimit); most > 0 {
		h.limit = min(h.limit, most)
	}
	switch {
	case h.method == abi.MethodREQ || h.filter.Limit >= 0:
		// Which of the events a limit means, two relays may see differently.
		h.page(c)
	case c.caps.Negentropy == abi.SupportNo:
		h.noNegentropy(c, abi.ClassUnsupported, "the relay has no negentropy", false)
	default:
		h.open(c)
	}
}

// open compares: first with what is here, which a helper reads.
func (h *historic) open(c *conn) {
	h.sessions++
	h.fruit = h.events + h.spared
	h.again, h.compared = false, false
	ctx, v, f, m := c.ctx, c.env, h.filter, &h.matcher[0]
	v.helpers.Go(func() {
		set, err := v.localSet(ctx, f, m)
		c.do(func() { h.built(c, set, err) })
	})
}

// clientFrame bounds the messages of negentropy that we send: relays bound theirs, and
// hex doubles it.
const clientFrame = 30 << 10

func (h *historic) built(c *conn, set *negentropy.Set, err error) {
	if h.gone {
		return
	}
	h.heard = time.Now()
	if err != nil {
		h.noNegentropy(c, abi.ClassLimit, "what is stored here can not be compared: "+err.Error(), false)
		return
	}
	l := &c.env.cfg.Limits
	frame := clientFrame
	if most := int(c.caps.MaxMessage); most > 0 {
		frame = max(negentropy.MinFrame, min(frame, most/2-1024))
	}
	h.client, err = negentropy.NewClient(set, negentropy.ClientLimits{Frame: frame, IDs: max(l.Need, set.Len()), Rounds: l.Rounds})
	if err != nil {
		h.noNegentropy(c, abi.ClassError, err.Error(), false)
		return
	}
	h.taken = 0
	msg, err := h.client.Initiate()
	if err != nil {
		h.noNegentropy(c, abi.ClassError, err.Error(), false)
		return
	}
	h.wire = c.wireID('n')
	c.negs[h.wire] = h
	h.send(c, appendNegOpen(nil, h.wire, &h.filter, msg))
}

func (h *historic) send(c *conn, text []byte) {
	h.heard = time.Now()
	c.out.push(text)
}

// message takes a NEG-MSG.
func (h *historic) message(c *conn, msg []byte) error {
	if h.rounds == 0 && c.caps.Negentropy != abi.SupportYes {
		c.learn(abi.SupportYes)
	}
	h.rounds++
	h.heard = time.Now()
	reply, done, err := h.client.Reconcile(msg)
	need := h.client.Need()
	h.need = append(h.need, need[h.taken:]...)
	h.taken = len(need)
	switch {
	case err == nil && !done:
		h.send(c, wire.AppendNegMsg(nil, h.wire, reply))
		h.more(c)
		return nil
	case err == nil:
		h.have = c.env.known.kept(h.client.Have(), c.env.now())
		h.lacking = len(h.have)
		if h.lacking > 0 {
			h.lacks = &absence{repos: reposOf(&h.filter), event: h.have[0]}
		}
	case err == negentropy.ErrTooManyIDs && len(need) > 0:
		// What it found is fetched, then it is compared again.
		h.again = true
	default:
		h.noNegentropy(c, abi.ClassError, "negentropy: "+err.Error(), false)
		return c.strike(dropNonsense, 5)
	}
	h.compared = true
	h.hangUp(c)
	h.more(c)
	return nil
}

// hangUp ends the session.
func (h *historic) hangUp(c *conn) {
	if h.wire == "" {
		return
	}
	c.out.push([]byte(`["NEG-CLOSE","` + h.wire + `"]`))
	h.forget(c)
}

func (h *historic) forget(c *conn) {
	delete(c.negs, h.wire)
	delete(c.auth.blocked, h.wire)
	h.wire, h.client = "", nil
}

// refused takes a NEG-ERR, or the CLOSED that some relays send for it.
func (h *historic) refused(c *conn, class uint32, reason string) {
	if class == abi.ClassAuthRequired && c.auth.need(c, h.wire, func() { h.reopen(c) }) {
		return
	}
	if h.rounds > 0 && h.repeats < mostRepeats && sessionLost(reason) {
		h.repeat(c)
		return
	}
	h.noNegentropy(c, class, said(reason), class == abi.ClassUnsupported && h.rounds == 0)
}

// unanswered ends a session that the relay has not answered in time. If it answers
// others, it is asked once more: pages would bring all that is here already.
func (h *historic) unanswered(c *conn) {
	if c.caps.Negentropy == abi.SupportYes && h.repeats == 0 {
		h.repeat(c)
		return
	}
	h.noNegentropy(c, abi.ClassError, "no answer to NEG-OPEN in time", h.rounds == 0)
}

// mostRepeats is how often a session is begun anew, for a relay that says that it has
// none: khatru keeps one only after it has sent its first answer, and may then have got
// ours already.
const mostRepeats = 5

func (h *historic) repeat(c *conn) {
	h.repeats++
	h.hangUp(c)
	h.open(c)
}

// sessionLost reports whether a relay says that it does not know the session (NIP-77:
// "closed").
func sessionLost(reason string) bool {
	return len(reason) >= 6 && strings.EqualFold(reason[:6], "closed")
}

// reopen begins anew: the relay has forgotten the session.
func (h *historic) reopen(c *conn) {
	if !h.gone {
		h.forget(c)
		h.open(c)
	}
}

// noNegentropy goes on without it, if the strategy allows that. never says that the
// relay has none.
func (h *historic) noNegentropy(c *conn, class uint32, reason string, never bool) {
	if h.gone {
		return
	}
	h.hangUp(c)
	h.need, h.have = nil, nil
	if never {
		c.learn(abi.SupportNo)
	}
	if h.method == abi.MethodAuto && class != abi.ClassRateLimited && class != abi.ClassAuthRequired {
		c.env.cfg.Log.Debug("no negentropy, asking page by page", "relay", c.url, "reason", reason)
		h.method = abi.MethodREQ
		h.page(c)
		return
	}
	h.method = abi.MethodNegentropy
	h.lack(class, reason)
	h.finish(c)
}

// learn notes whether the relay has negentropy.
func (c *conn) learn(support uint32) {
	if c.caps.Negentropy != support {
		c.caps.Negentropy = support
		caps := c.caps
		c.tell(report{learnt: &caps})
	}
}

// lack notes that the relay may have more. The first reason counts.
func (h *historic) lack(class uint32, reason string) {
	if !h.partial {
		h.partial, h.class, h.reason = true, class, reason
	}
}

// add counts what a request brought.
func (h *historic) add(r *request) {
	h.events += r.events
	h.fresh += r.fresh
	h.bytes += r.bytes
	if r.kept > 0 && h.kept == 0 {
		h.first = r.first
	}
	h.kept += r.kept
	if r.oldest > 0 && (h.oldest == 0 || r.oldest < h.oldest) {
		h.oldest = r.oldest
	}
	if r.failed {
		h.lack(abi.ClassError, "the host was too busy to decide")
	}
}

// abandon ends a historic that nobody wants any more.
func (h *historic) abandon(c *conn) {
	if h.gone {
		return
	}
	h.gone = true
	delete(c.hists, h.id)
	h.hangUp(c)
	for _, r := range c.requests {
		if o, ok := r.owner.(interface{ of() *historic }); ok && o.of() == h {
			c.hangUp(r)
			if k, ok := r.owner.(*chunk); ok {
				k.end(c)()
			}
		}
	}
	for id, other := range c.pushes {
		if other == h {
			delete(c.pushes, id)
		}
	}
	if h.started {
		c.running--
	}
}

// finish reports and makes room for the next.
func (h *historic) finish(c *conn) {
	if h.gone {
		return
	}
	h.abandon(c)
	c.count(time.Now())
	method := h.method
	if method == abi.MethodAuto {
		method = abi.MethodNegentropy
	}
	gaps := gapsOf(h.purpose, h.kept)
	c.env.cfg.Log.Debug("past events fetched", "relay", c.url, "id", h.id, "source", sources[h.purpose], "events", h.events, "new", h.fresh,
		"stored", h.kept, "rounds", h.rounds, "complete", !h.partial, "reason", h.reason)
	c.tell(report{
		serial: h.serial,
		input: &abi.HistoricDone{
			Relay: c.url, ID: h.id, Method: method, Complete: !h.partial, Class: h.class, Reason: h.reason,
			Have: uint32(h.lacking), Need: uint32(h.events), New: uint32(h.fresh), Bytes: h.bytes, Rounds: uint32(h.rounds),
			MinCreatedAt: h.oldest,
		},
		gaps: gaps, first: h.first, lacks: h.lacks,
	})
}
