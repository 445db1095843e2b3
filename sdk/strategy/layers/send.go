package layers

import (
	"slices"

	"talon/sdk/abi"
	"talon/sdk/strategy"
)

// work writes the actions for the relay, as far as the answer holds them, and reports whether those
// were all. It opens the replacement before it closes a subscription.
func (p *Peer) work(t *stepBudget) bool {
	if !p.connected {
		return true
	}
	done := p.close(t) && p.open(t) && p.retire(t) && p.fetch(t, p.turns+1) && p.report(t) && p.reportProgress(t)
	p.setTimer(t)
	return done
}

// unsubscribe closes one id.
func (p *Peer) unsubscribe(t *stepBudget, id string) bool {
	if !t.room(1, len(p.URL)) {
		return false
	}
	t.left -= workDo
	t.out.Unsubscribe(p.URL, id)
	return true
}

func (p *Peer) close(t *stepBudget) bool {
	for len(p.closing) > 0 {
		if !p.unsubscribe(t, p.closing[0]) {
			return false
		}
		p.closing = p.closing[1:]
	}
	p.closing = nil
	return true
}

func (p *Peer) open(t *stepBudget) bool {
	for len(p.openings) > 0 {
		o := p.openings[0]
		if !p.fetch(t, o.turn) {
			return false
		}
		for !o.content.empty() {
			if !p.openSome(t, o) {
				return false
			}
		}
		p.openings = p.openings[1:]
	}
	p.openings = nil
	return true
}

// openSome opens one subscription, or one for each part where a subscription
// holds less than three filters.
func (p *Peer) openSome(t *stepBudget, o *opening) bool {
	s := p.shape()
	if !s.possible() {
		o.content = Content{}
		return true
	}
	if o.content.Items.onlyAuthors() && !o.content.Announcements {
		return p.openAuthors(t, o, s)
	}
	needed := 1
	if s.filters < 3 && !o.content.Announcements && o.which == allParts {
		needed = 3
	}
	switch free := p.maxSubs() - len(p.subs) - len(p.stale); {
	case free < needed:
		return p.makeRoom(t, o, s)
	case free == needed && p.join(o, s):
		return true
	}
	c := p.driver.Index.chunk(&o.content, s)
	which := p.parts(c, o.which)
	if c.Announcements && s.filters < 2 {
		which = 1
	}
	w := &p.driver.writer
	w.reset(p.SecondLevel, o.Live)
	w.add(&p.driver.Index, c, which, o.Since, [3]int64{})
	if o.Live && !c.Announcements && s.filters >= 3 {
		// Addresses of repositories may be longer than ids: the next chunk may be as large as the first.
		// A chunk for which the relay has no room does not keep the first from being opened.
		next := func() int { return w.count + len(w.filters) + 3*(1+min(s.values, o.content.Items.inLayers())) }
		for n, first := 1, w.size; n < s.chunks && w.size+first <= s.bytes && o.content.Items.inLayers() > 0 && p.fits(next()); n++ {
			more := p.driver.Index.chunk(&o.content, s)
			w.add(&p.driver.Index, more, o.which, o.Since, [3]int64{})
			c.Items.AddItems(more.Items)
		}
	}
	if len(w.filters) == 0 || c.empty() {
		return true
	}
	if tooMany, full := !p.fits(w.count+len(w.filters)), !t.room(needed, w.size+needed*(len(p.URL)+40)); tooMany || full {
		o.content.Announcements = o.content.Announcements || c.Announcements
		o.content.Items.AddItems(c.Items)
		return tooMany && p.makeRoom(t, o, s)
	}
	t.left -= w.count + workDo
	p.groups++
	if needed == 1 {
		p.subscribe(t, o, c, which, w.filters)
		return true
	}
	for i := range w.filters {
		p.subscribe(t, o, c, 1<<i, w.filters[i:i+1])
	}
	return true
}

// withoutSub does what can be done if there is no room for a subscription: it fetches stored
// events now, and new ones from time to time. Subscriptions to other letters of the same chunk
// end, since they bring only a part of it.
func (p *Peer) withoutSub(o *opening) {
	p.fetchApart(o)
	if o.which != allParts {
		o.content.Items = p.closeChunk(o.group, o.content.Items)
	}
	p.polls(o.content)
	o.content = Content{}
}

// poll fetches new events since the last time, unless the last fetch still runs.
func (p *Peer) poll(now int64) {
	if p.unheard.empty() {
		return
	}
	p.driver.After(p, poll, p.pollEvery())
	polls := func(f *Fetching) bool { return f.Purpose == strategy.PurposeLive && !f.Track }
	if slices.ContainsFunc(p.jobs, func(j *job) bool { return polls(&j.Fetching) }) ||
		slices.ContainsFunc(p.batches, func(b *batch) bool { return polls(&b.fetch) && !b.stored }) {
		return
	}
	p.fetches(&job{
		content: p.unheard.clone(), which: allParts,
		Fetching: Fetching{Method: p.driver.set.Method, Since: p.driver.since(p.polled), Purpose: strategy.PurposeLive},
	})
	p.polled = now
	p.driver.ready(p)
}

func (p *Peer) subscribe(t *stepBudget, o *opening, c Content, which parts, filters []strategy.Filter) {
	group := p.groups
	if o.which != allParts && o.group > 0 {
		group = o.group
	}
	s := &sub{id: p.next, content: c, open: o.Opening, which: which, filters: len(filters), group: group, opened: t.now, tries: o.tries, narrow: p.narrow}
	p.next++
	for i := range filters {
		s.values += 1 + len(filters[i].Kinds) + len(filters[i].Authors)
		for _, tag := range filters[i].Tags {
			s.values += len(tag.Values)
		}
	}
	prefix := liveID
	if !o.Live {
		prefix = reqID
		s.batch = &batch{
			content: c, todo: which, stored: true,
			fetch: Fetching{Method: strategy.MethodREQ, Since: o.Since, Purpose: o.Purpose, Track: o.Track},
		}
		p.batches = append(p.batches, s.batch)
	}
	p.subs = append(p.subs, s)
	t.out.Subscribe(strategy.Subscription{Relay: p.URL, ID: id(prefix, s.id), Filters: filters, Live: o.Live, Purpose: o.Purpose})
}

// retire closes old subscriptions after their replacements are open.
func (p *Peer) retire(t *stepBudget) bool {
	for len(p.stale) > 0 || slices.ContainsFunc(p.subs, func(s *sub) bool { return s.old }) {
		if !p.retireOne(t, false) {
			return false
		}
	}
	if p.gap {
		p.gap = false
		missed := Content{Announcements: p.Announced, Items: p.Covered()}
		p.Fetch(missed, Fetching{Method: p.driver.set.Method, Since: p.driver.since(t.now), Purpose: strategy.PurposeReconnect})
	}
	if p.missed != nil {
		p.fetches(p.missed)
		p.missed = nil
	}
	return true
}

// retireOne closes one old subscription. Those whose replacements are open, or that are polled,
// come first. With early set, the others close before their replacements are open.
func (p *Peer) retireOne(t *stepBudget, early bool) bool {
	i := slices.IndexFunc(p.subs, func(s *sub) bool { return s.old && s.replaced })
	if i < 0 {
		p.gap = p.gap || early
	}
	if i < 0 && len(p.stale) > 0 {
		if !p.unsubscribe(t, p.stale[0]) {
			return false
		}
		p.stale = p.stale[1:]
		return true
	}
	if i < 0 {
		i = slices.IndexFunc(p.subs, func(s *sub) bool { return s.old })
	}
	if !p.unsubscribe(t, p.subs[i].name()) {
		return false
	}
	p.subs = slices.Delete(p.subs, i, i+1)
	return true
}

func (s *sub) name() string {
	if s.open.Live {
		return id(liveID, s.id)
	}
	return id(reqID, s.id)
}

// fetch keeps as many historics running as the limits allow. Failed ones come first, then the next
// chunks of jobs whose turn comes before one.
func (p *Peer) fetch(t *stepBudget, before uint64) bool {
	limit := p.maxAsks()
	for _, b := range p.batches {
		if !p.askFor(t, b, limit) {
			return false
		}
	}
	for len(p.jobs) > 0 && p.jobs[0].turn < before && len(p.asks) < limit && p.fetchAt <= t.now {
		j := p.jobs[0]
		s := p.shape()
		if !s.possible() || j.content.empty() {
			p.jobs = p.jobs[1:]
			continue
		}
		c := p.driver.Index.chunk(&j.content, s)
		if c.empty() {
			continue
		}
		since := p.sinceOfAuthors(j, &c)
		b := &batch{content: c, todo: p.parts(c, j.which), fetch: j.Fetching, until: [3]int64{j.until, j.until, j.until}, apart: j.apart, narrow: p.narrow}
		if since > 0 {
			b.fetch.Since, b.dated = since, true
		}
		p.batches = append(p.batches, b)
		if j.Apart > 0 {
			p.fetchAt = t.now + j.Apart
		}
		if !p.askFor(t, b, limit) {
			return false
		}
	}
	if len(p.jobs) == 0 {
		p.jobs = nil
	}
	p.batches = deleteFunc(p.batches, func(b *batch) bool { return b.todo == 0 })
	return true
}

// askFor asks for the parts of a batch whose time has come.
func (p *Peer) askFor(t *stepBudget, b *batch, limit int) bool {
	if b.stored || b.retryAt > t.now {
		return true
	}
	if b.content.empty() {
		b.todo = 0
	}
	which := b.todo &^ b.busy
	if which == 0 || len(p.asks) >= limit {
		return true
	}
	method, since := b.fetch.Method, b.fetch.Since
	if method == strategy.MethodAuto && p.Caps.Negentropy == strategy.SupportNo {
		method = strategy.MethodREQ
	}
	// A comparison covers the events that the relay is believed to hold, so all of it costs no more
	// than a part.
	whole := since > 0 && method != strategy.MethodREQ && p.Caps.Negentropy == strategy.SupportYes && !b.dated
	if whole {
		method, since = strategy.MethodNegentropy, 0
	}
	w := &p.driver.writer
	w.reset(p.SecondLevel, false)
	if method == strategy.MethodREQ && p.joins(b, which) {
		w.add(&p.driver.Index, b.content, which, since, b.until)
		return p.askJointly(t, b, which)
	}
	nested := b.nested(method)
	if first := p.first(b, method); first != 0 {
		if which &= first; which == 0 {
			return true
		}
	}
	w.nested = nested
	w.add(&p.driver.Index, b.content, which, since, b.until)
	filters := w.filters
	for i := range filters {
		filters[i].Limit = b.fetch.Limit
	}
	for part := range 3 {
		if which&(1<<part) == 0 {
			continue
		}
		if len(p.asks) >= limit {
			return true
		}
		if !t.room(1, w.size/len(w.filters)+len(p.URL)) {
			return false
		}
		t.left -= w.count/len(w.filters) + workDo
		a := ask{id: p.next, batch: b, part: part, method: method, whole: whole}
		p.next++
		p.asks = append(p.asks, a)
		b.busy |= 1 << part
		t.out.Historic(strategy.Catchup{
			Relay: p.URL, ID: id(pastID, a.id), Filter: filters[0], Method: a.method, Purpose: b.fetch.Purpose,
			Page: p.driver.set.Page, Push: p.driver.set.Push && a.method != strategy.MethodREQ, Holdings: (b.fetch.Holdings || whole) && a.method != strategy.MethodREQ,
		})
		filters = filters[1:]
	}
	return true
}

// setTimer sets the timer for requests that must wait.
func (p *Peer) setTimer(t *stepBudget) {
	var at int64
	later := func(when int64) {
		if when > t.now && (at == 0 || when < at) {
			at = when
		}
	}
	for _, o := range p.lost {
		later(o.retryAt)
	}
	for _, b := range p.batches {
		later(b.retryAt)
	}
	if len(p.jobs) > 0 {
		later(p.fetchAt)
	}
	if key := p.key(wake); at > 0 {
		p.driver.timers.Set(key, at)
	} else {
		p.driver.timers.Stop(key)
	}
}

// eose notes that the stored events of a subscription have arrived.
func (p *Peer) eose(e abi.Eose) {
	if p.jointEnded(e) {
		return
	}
	n, ok := number(e.ID)
	i := slices.IndexFunc(p.subs, func(s *sub) bool { return s.id == n })
	if !ok || i < 0 || p.subs[i].batch == nil || p.subs[i].name() != e.ID {
		return
	}
	s := p.subs[i]
	b := s.batch
	s.batch = nil
	p.driver.fetched(p, b.content, abi.HistoricDone{Complete: true, Need: e.Events, New: e.New, MinCreatedAt: e.MinCreatedAt})
	if e.Events > 0 && (p.Caps.MaxLimit == 0 || e.Events >= p.Caps.MaxLimit) {
		// The relay may have more than it returns in one answer. Where several
		// filters were answered together, nobody knows which of them is cut, and
		// how far back it went.
		j := &job{content: b.content.clone(), Fetching: b.fetch, which: s.which, apart: true}
		if s.filters == 1 {
			j.until = e.MinCreatedAt
		}
		b.cut = true
		p.fetches(j)
	}
	p.finishBatch(b)
}

// finishBatch ends a batch. It confirms content with no other request under way.
func (p *Peer) finishBatch(b *batch) {
	p.batches = deleteFunc(p.batches, func(o *batch) bool { return o == b })
	p.driver.ready(p)
	if b.fetch.Since == 0 && b.fetch.Limit == 0 && !b.cut {
		p.past.AddSet(b.content.Items.Authors)
	}
	if !b.fetch.Track {
		return
	}
	here, announced := b.content.Items, b.content.Announcements
	for c := range p.pending {
		here.RemoveItems(c.Items)
		announced = announced && !c.Announcements
	}
	p.Confirmed.AddItems(here)
	p.Announced = p.Announced || announced
}

// Sizes of requests to a relay that refused one as too much.
const (
	threeFilters = 1 // of a subscription at most; from there on, one; then fewer values
	oneFilter    = 2
	maxNarrow    = 6
)

// closed notes that the relay ended a subscription: it is opened again after a
// while.
func (p *Peer) closed(c abi.Closed, now int64) {
	if p.jointRefused(c, now) {
		return
	}
	n, ok := number(c.ID)
	i := slices.IndexFunc(p.subs, func(s *sub) bool { return s.id == n })
	if !ok || i < 0 || p.subs[i].name() != c.ID {
		p.stale = deleteFunc(p.stale, func(id string) bool { return id == c.ID })
		return
	}
	s := p.subs[i]
	p.subs = slices.Delete(p.subs, i, i+1)
	if s.old {
		// Those in its place may not be open yet.
		p.gap = true
		p.driver.ready(p)
		return
	}
	o := &opening{content: s.content.clone(), Opening: s.open, which: s.which, group: s.group, tries: s.tries + 1, at: now, class: c.Class}
	if now-s.opened > strategy.Hour {
		o.tries = 1
	}
	if s.batch != nil {
		b := s.batch
		p.batches = deleteFunc(p.batches, func(o *batch) bool { return o == b })
	} else if !o.Live {
		o.Track, o.Since, o.Purpose = false, p.driver.since(now), strategy.PurposeReconnect
	}
	if c.Class == strategy.ClassTooMuch && p.narrow == s.narrow && p.narrow < maxNarrow {
		p.narrow++
	}
	o.retryAt = now + backoff(o.tries, c.Class)
	p.lost = append(p.lost, o)
	p.driver.ready(p)
}

// onWake reopens closed subscriptions when their time has come. It fetches the events that they
// missed.
func (p *Peer) onWake(now int64) {
	p.lost = deleteFunc(p.lost, func(o *opening) bool {
		if o.retryAt > now {
			return false
		}
		content := o.content.clone() // what is opened is taken off o
		p.opens(o)
		if o.Live {
			p.fetches(&job{
				content: content, which: o.which,
				Fetching: Fetching{Method: p.driver.set.Method, Since: p.driver.since(o.at), Purpose: strategy.PurposeReconnect},
			})
		}
		return true
	})
	p.driver.ready(p)
}

// historicDone notes that a fetch has ended. One that is not complete is made
// again, from where it stopped.
func (p *Peer) historicDone(h abi.HistoricDone, now int64) {
	n, ok := number(h.ID)
	i := slices.IndexFunc(p.asks, func(a ask) bool { return a.id == n })
	if !ok || i < 0 || h.ID != id(pastID, n) {
		p.stale = deleteFunc(p.stale, func(id string) bool { return id == h.ID })
		return
	}
	a := p.asks[i]
	p.asks = slices.Delete(p.asks, i, i+1)
	p.driver.ready(p)
	b, part := a.batch, parts(1)<<a.part
	b.busy &^= part
	p.driver.fetched(p, b.content, h)
	if a.method == strategy.MethodAuto && (h.Method == strategy.MethodREQ && h.Complete || h.Class == strategy.ClassUnsupported) {
		p.Caps.Negentropy = strategy.SupportNo
	}
	b.apart = b.apart || !h.Complete
	switch {
	case h.Complete:
		b.todo &^= part
		if h.OtherLetter > 0 && b.busy == 0 && b.sameUntil() {
			b.todo = 0 // the relay ignores the letter: this was the answer to all of them
		}
		if b.todo == 0 {
			p.finishBatch(b)
		}
		return
	case h.Class == strategy.ClassTooMuch && b.narrow < maxNarrow:
		// Cut again: the chunk is too large for the relay. A historic has one
		// filter: fewer of them in a message do not help.
		if p.narrow == b.narrow {
			p.narrow = max(p.narrow, oneFilter) + 1
		}
		b.cut = true
		p.fetches(&job{content: b.content.clone(), Fetching: b.fetch, which: part, until: b.until[a.part], apart: b.apart})
		if b.todo &^= part; b.todo == 0 {
			p.finishBatch(b)
		}
		return
	case h.Class == strategy.ClassUnsupported && a.method == strategy.MethodAuto:
		return
	case a.whole && h.Class != strategy.ClassRateLimited && h.Class != strategy.ClassLimit:
		b.dated = true // by since, and by pages if need be
		return
	}
	if h.Method == strategy.MethodREQ && h.MinCreatedAt > 0 && (b.until[a.part] == 0 || h.MinCreatedAt < b.until[a.part]) {
		b.until[a.part] = h.MinCreatedAt // pages go back in time: what is newer is here
		b.tries = 0
	}
	if b.retryAt <= now {
		b.tries++ // the parts of a batch fail together
	}
	b.retryAt = max(b.retryAt, now+backoff(b.tries, h.Class))
}

// backoff returns the time before a refused request is repeated: a minute, doubled each time, an
// hour at most.
func backoff(tries uint, class uint32) int64 {
	wait := min(strategy.Minute<<(min(max(tries, 1), 7)-1), strategy.Hour)
	if class == strategy.ClassRateLimited {
		wait = max(wait, 65*strategy.Second)
	}
	return wait
}
