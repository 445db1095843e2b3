package session

import (
	"slices"

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
	done     func() // nil: the strategy asked for it, and hears of its end

	method         uint32 // that is asked for; then the one that is used
	limit          int    // events of one page
	reconciliation *reconciliation
	pages          *pages
	result         result
}

// result is what a fetch reports.
type result struct {
	events, fresh, kept, rounds int
	otherLetter                 int // events that match only under another letter of the tag
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
	s.pace.prune(s.limits)
	if len(s.pace.waiting) >= s.limits.Waiting {
		s.notify(&Done{Serial: cmd.Serial, Input: abi.HistoricDone{
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
	if maximum := int(s.caps.MaxLimit); maximum > 0 {
		h.limit = min(h.limit, maximum)
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

// noNegentropy continues page by page, if the strategy allows that. Otherwise the fetch
// ends as incomplete. never marks the relay as one without negentropy.
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
	r.otherLetter += req.otherLetter
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
		s.closeRequest(h.pages.request)
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
	if h.done != nil {
		h.done()
		return
	}
	method := h.method
	if method == abi.MethodAuto {
		method = abi.MethodNegentropy
	}
	if h.reconciliation != nil {
		h.reconciliation.lacking()
	}
	r := &h.result
	s.debug("past events fetched", "relay", s.relay, "id", h.cmd.ID, "source", SourceOf(h.cmd.Purpose), "events", r.events, "new", r.fresh,
		"stored", r.kept, "rounds", r.rounds, "complete", !r.partial, "reason", r.reason)
	s.notify(&Done{
		Serial: h.cmd.Serial,
		Input: abi.HistoricDone{
			Relay: s.relay, ID: h.cmd.ID, Method: method, Complete: !r.partial, Class: r.class, Reason: r.reason,
			Have: uint32(r.lacking), Need: uint32(r.events), New: uint32(r.fresh), Bytes: r.bytes, Rounds: uint32(r.rounds),
			MinCreatedAt: r.oldest, Kept: uint32(r.kept), Sent: r.sent, OtherLetter: uint32(r.otherLetter),
		},
		Gap: GapOf(h.cmd.Purpose, r.kept, r.first), Missing: r.missing,
	})
}

// pages is where a fetch that asks page by page stands.
//
// A page ends where the relay's own limit, which may be smaller than ours, cuts it: in
// the middle of a second. So the next page begins with that second once more, and the
// end is a page with nothing that was not seen. A page of one second alone may not be
// all of that second, which is then asked for with a larger limit, and in parts,
// by the values of the filter. A small page of one second is taken for all there is, unless
// another page shows that the relay gives no more in one answer.
type pages struct {
	request     *request             // that is open; nil: none is
	until       *int64               // of the next page
	boundary    map[host.ID]struct{} // seen events of that second
	biggest     int                  // events of the largest answer so far: the relay can give that many
	last        int                  // events of the page before
	answerLimit int                  // events of a page after which more came: the relay's limit of an answer; 0: there was none
	total       int                  // events so far, for a filter with a limit

	dense          []host.Filter // parts of one second that are still to be asked for
	second         int64         // that they are of
	inSecond       int           // events of it that a page had
	maybeTruncated bool          // that second was not asked for in parts: if there is more before it, it was cut
}

// page is one REQ of these.
type page struct {
	fetch  *fetch
	filter host.Filter
	seen   map[host.ID]struct{}
	unseen int       // of them, those that were not at the boundary
	low    []host.ID // those with the oldest created_at
	lowAt  int64
	dense  bool   // it is a part of a second
	errors uint64 // that the relay had reported when it was sent
}

// page asks for the next page.
func (h *fetch) page(s *Session) {
	h.method = abi.MethodREQ
	if h.pages == nil {
		h.pages = &pages{}
	}
	if s.cools(h) {
		return
	}
	ps := h.pages
	p := &page{fetch: h, seen: make(map[host.ID]struct{}), errors: s.errors}
	if n := len(ps.dense); n > 0 {
		p.filter, p.dense = ps.dense[n-1], true
		ps.dense = ps.dense[:n-1]
	} else if !ps.next(h, p) {
		h.finish(s)
		return
	}
	if h.result.rounds++; h.result.rounds > s.limits.Rounds {
		h.result.lack(abi.ClassTooMuch, "too many pages")
		h.finish(s)
		return
	}
	filters := []host.Filter{p.filter}
	ps.request = &request{owner: p, purpose: h.cmd.Purpose, filters: filters, matchers: s.cfg.Hash.Matchers(filters)}
	s.ask(ps.request)
}

// next sets the filter of the next page, and reports whether there is one.
func (ps *pages) next(h *fetch, p *page) bool {
	p.filter = h.cmd.Filter
	p.filter.Limit = h.limit
	if ps.until != nil {
		p.filter.Until = ps.until
	}
	if maximum := h.cmd.Filter.Limit; maximum >= 0 {
		left := maximum - ps.total
		p.filter.Limit = min(h.limit, left+len(ps.boundary))
		if left <= 0 {
			return false
		}
	}
	return !p.filter.Empty() && (ps.until == nil || *ps.until >= 0)
}

func (p *page) saw(_ *request, d *match.Digest) bool {
	if _, ok := p.seen[d.ID]; ok {
		return false
	}
	p.seen[d.ID] = struct{}{}
	if _, ok := p.fetch.pages.boundary[d.ID]; !ok {
		p.unseen++
	}
	if len(p.low) == 0 || d.CreatedAt < p.lowAt {
		p.lowAt, p.low = d.CreatedAt, p.low[:0]
	}
	if d.CreatedAt == p.lowAt {
		p.low = append(p.low, d.ID)
	}
	return true
}

func (p *page) complete(s *Session, r *request) {
	h, ps := p.fetch, p.fetch.pages
	s.closeRequest(r)
	ps.request = nil
	h.result.add(r)
	n := len(p.seen)
	if n == 0 && s.errors > p.errors {
		// A relay that fails sends a NOTICE, and then EOSE as if there were nothing
		// (khatru).
		h.result.lack(abi.ClassError, "the relay reports an error and sends nothing")
	}
	if n == 0 && len(r.outside) > 0 {
		h.result.lack(abi.ClassError, "the relay sends what was not asked for") // it may ignore until
	}
	ps.total += p.unseen
	limit := h.cmd.Filter.Limit
	switch {
	case limit >= 0 && ps.total >= limit:
		h.finish(s) // no more is asked for, however many there are of that second
		return
	case p.dense:
		p.parts(s)
		if len(ps.dense) == 0 {
			ps.before(ps.second)
		}
	case n == 0 || p.unseen == 0 && n < ps.biggest:
		h.finish(s)
		return
	default:
		if ps.last > 0 && p.unseen > 0 {
			ps.answerLimit = ps.last
		}
		if ps.maybeTruncated {
			ps.maybeTruncated = false
			if one, two, ok := split(within(h.cmd.Filter, &ps.second)); ok {
				ps.dense = []host.Filter{one, two} // and this page is asked for after it
				ps.total -= p.unseen
				break
			}
			h.result.lack(abi.ClassOther, tooDense)
		}
		ps.last, ps.biggest = n, max(ps.biggest, n)
		if len(p.low) == n {
			p.oneSecond()
			break
		}
		until := p.lowAt
		ps.until = &until
		ps.boundary = make(map[host.ID]struct{}, len(p.low))
		for _, id := range p.low {
			ps.boundary[id] = struct{}{}
		}
	}
	h.page(s)
}

// tooDense says why a historic is not complete.
const tooDense = "one second has more events than the relay gives at once"

// before goes on with what is older than a second.
func (ps *pages) before(second int64) {
	until := second - 1
	ps.until, ps.boundary = &until, nil
}

// A second may hold more events than a page. denseLimit is the limit of a request for such
// a second. denseFrom is a number of events of one second: from there on, the relay's own
// limit may have cut the answer.
const (
	denseLimit = 5000
	denseFrom  = 10
)

// oneSecond looks at a page that is of one second alone.
func (p *page) oneSecond() {
	ps := p.fetch.pages
	n := len(p.seen)
	ps.second, ps.inSecond = p.lowAt, n
	f := within(p.filter, &ps.second)
	if n >= p.filter.Limit {
		ps.dense = []host.Filter{f}
		return
	}
	if one, two, ok := split(f); ok && (n >= denseFrom || ps.answerLimit > 1 && n >= ps.answerLimit) {
		ps.dense = []host.Filter{one, two}
		return
	}
	ps.maybeTruncated = n > 1
	ps.before(ps.second)
}

// within returns what of a filter is of one second.
func within(f host.Filter, second *int64) host.Filter {
	f.Since, f.Until, f.Limit = second, second, denseLimit
	return f
}

// parts asks once more, in two parts, if the answer about a second, or a part of it, may
// have been cut.
func (p *page) parts(s *Session) {
	n, ps := len(p.seen), p.fetch.pages
	limit := int(s.caps.MaxLimit)
	whole := ps.inSecond
	ps.inSecond = 0
	switch {
	case n < whole && len(ps.dense) == 0 && p.filter.Limit > whole:
		// A page had more of this second than this answer with a larger limit: the relay
		// takes the limit for too high, and gives less (khatru gives a quarter of its
		// own).
		ps.biggest = max(n, 1)
	case n < ps.biggest || n < p.filter.Limit && n < limit:
		return
	}
	grew := n > ps.biggest
	ps.biggest = n
	if one, two, ok := split(p.filter); ok {
		ps.dense = append(ps.dense, one, two)
		return
	}
	if !grew || n == limit || n%100 == 0 { // relays have round limits
		p.fetch.result.lack(abi.ClassOther, tooDense)
	}
}

// split divides the values of the longest list of a filter.
func split(f host.Filter) (one, two host.Filter, ok bool) {
	one, two = f, f
	one.Tags, two.Tags = slices.Clone(f.Tags), slices.Clone(f.Tags)
	longest, tag := max(len(f.IDs), len(f.Authors), len(f.Kinds)), -1
	for i := range f.Tags {
		if n := len(f.Tags[i].Values); n > longest {
			longest, tag = n, i
		}
	}
	half := longest / 2
	switch {
	case longest < 2:
		return one, two, false
	case tag >= 0:
		one.Tags[tag].Values, two.Tags[tag].Values = f.Tags[tag].Values[:half], f.Tags[tag].Values[half:]
	case len(f.IDs) == longest:
		one.IDs, two.IDs = f.IDs[:half], f.IDs[half:]
	case len(f.Authors) == longest:
		one.Authors, two.Authors = f.Authors[:half], f.Authors[half:]
	default:
		one.Kinds, two.Kinds = f.Kinds[:half], f.Kinds[half:]
	}
	return one, two, true
}

func (p *page) refused(s *Session, r *request, class uint32, reason string) {
	p.fetch.pages.request = nil
	p.fetch.result.add(r)
	p.fetch.result.lack(class, reason)
	p.fetch.finish(s)
}
