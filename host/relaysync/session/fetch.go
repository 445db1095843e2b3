package session

import (
	"talon/host"
	"talon/host/relaysync/match"
	"talon/sdk/abi"
)

// fetch carries out a Fetch: by comparison (NIP-77), or page by page.
type fetch struct {
	cmd      *Fetch
	number   int // in the order of commands
	matchers []match.Matcher
	started  bool
	gone     bool

	method         uint32 // that is asked for; then the one that is used
	limit          int    // events of one page
	reconciliation *reconciliation
	pages          *pages
	result         result
}

// result is what a fetch reports.
type result struct {
	events, fresh, kept, rounds int
	bytes, sent                 int64
	oldest                      int64
	first                       host.ID
	lacking                     int // ids that the relay lacks
	missing                     *MissingAtRelay
	partial                     bool // something is missing
	class                       uint32
	reason                      string
}

// fetch queues a fetch, in place of what has the same id.
func (s *Session) fetch(cmd *Fetch) {
	s.unsubscribe(cmd.ID)
	if cmd.Holdings {
		s.cfg.Holdings.Keep()
	}
	s.pace.prune(s.limits)
	if len(s.pace.waiting) >= s.limits.Waiting {
		s.tell(&Done{Serial: cmd.Serial, Input: abi.HistoricDone{
			Relay: s.relay, ID: cmd.ID, Method: cmd.Method, Class: abi.ClassLimit, Reason: "too many historics wait for this relay",
		}})
		return
	}
	s.ordered++
	h := &fetch{cmd: cmd, number: s.ordered, method: cmd.Method}
	s.fetches[cmd.ID] = h
	s.pace.waiting = append(s.pace.waiting, h)
}

func (h *fetch) start(s *Session) {
	l := s.limits
	h.started = true
	h.matchers = s.cfg.Hash.Matchers([]host.Filter{h.cmd.Filter})
	if h.limit = h.cmd.Page; h.limit <= 0 {
		h.limit = l.Page
	}
	h.limit = min(h.limit, l.PageEvents/2)
	if most := int(s.caps.MaxLimit); most > 0 {
		h.limit = min(h.limit, most)
	}
	switch {
	case h.method == abi.MethodREQ || h.cmd.Filter.Limit >= 0:
		// Which of the events a limit means, two relays may see differently.
		h.page(s)
	case s.caps.Negentropy == abi.SupportNo:
		h.noNegentropy(s, abi.ClassUnsupported, "the relay has no negentropy", false)
	default:
		h.reconciliation = &reconciliation{fetch: h, heard: s.now}
		h.reconciliation.open(s)
	}
}

// proceed goes on after a cooldown.
func (h *fetch) proceed(s *Session) {
	if h.pages != nil {
		h.page(s)
	} else if h.reconciliation != nil {
		h.reconciliation.more(s)
	}
}

func (h *fetch) timeOut(s *Session) {
	if n := h.reconciliation; n != nil {
		n.timeOut(s)
	}
}

// noNegentropy goes on without it, if the strategy allows that. never says that the
// relay has none.
func (h *fetch) noNegentropy(s *Session, class uint32, reason string, never bool) {
	if h.gone {
		return
	}
	if n := h.reconciliation; n != nil {
		if never {
			n.forget(s) // there is nothing to close
		}
		n.stop(s)
	}
	if never {
		s.learnNegentropy(abi.SupportNo)
	}
	if h.method == abi.MethodAuto && class != abi.ClassRateLimited && class != abi.ClassAuthRequired {
		s.debug("no negentropy, asking page by page", "relay", s.relay, "reason", reason)
		h.page(s)
		return
	}
	h.method = abi.MethodNegentropy
	h.result.lack(class, reason)
	h.finish(s)
}

// learnNegentropy notes whether the relay has it.
func (s *Session) learnNegentropy(support uint32) {
	if s.caps.Negentropy != support {
		s.caps.Negentropy = support
		s.learnt()
	}
}

// lack notes that the relay may have more. The first reason counts.
func (r *result) lack(class uint32, reason string) {
	if !r.partial {
		r.partial, r.class, r.reason = true, class, reason
	}
}

// add counts what a request brought.
func (r *result) add(req *request) {
	r.events += req.events
	r.fresh += req.fresh
	r.bytes += req.received
	r.sent += int64(req.bytes)
	if req.kept > 0 && r.kept == 0 {
		r.first = req.first
	}
	r.kept += req.kept
	if req.oldest > 0 && (r.oldest == 0 || req.oldest < r.oldest) {
		r.oldest = req.oldest
	}
	if req.failed {
		r.lack(abi.ClassError, "the host was too busy to decide")
	}
}

// abandon ends a fetch that nobody wants any more.
func (h *fetch) abandon(s *Session) {
	if h.gone {
		return
	}
	h.gone = true
	if s.fetches[h.cmd.ID] == h {
		delete(s.fetches, h.cmd.ID)
	}
	if n := h.reconciliation; n != nil {
		n.abandon(s)
	}
	if h.pages != nil && h.pages.request != nil {
		s.hangUp(h.pages.request)
	}
	if h.started {
		s.pace.running--
	}
}

// finish reports and makes room for the next.
func (h *fetch) finish(s *Session) {
	if h.gone {
		return
	}
	h.abandon(s)
	method := h.method
	if method == abi.MethodAuto {
		method = abi.MethodNegentropy
	}
	r := &h.result
	s.debug("past events fetched", "relay", s.relay, "id", h.cmd.ID, "source", SourceOf(h.cmd.Purpose), "events", r.events, "new", r.fresh,
		"stored", r.kept, "rounds", r.rounds, "complete", !r.partial, "reason", r.reason)
	s.tell(&Done{
		Serial: h.cmd.Serial,
		Input: abi.HistoricDone{
			Relay: s.relay, ID: h.cmd.ID, Method: method, Complete: !r.partial, Class: r.class, Reason: r.reason,
			Have: uint32(r.lacking), Need: uint32(r.events), New: uint32(r.fresh), Bytes: r.bytes, Rounds: uint32(r.rounds),
			MinCreatedAt: r.oldest, Kept: uint32(r.kept), Sent: r.sent,
		},
		Gap: gapOf(h.cmd.Purpose, r.kept, r.first), Missing: r.missing,
	})
}
