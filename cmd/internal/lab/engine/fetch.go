package engine

import (
	"log/slog"
	"maps"
	"slices"

	"talon/cmd/internal/lab/world"
	"talon/host"
	"talon/host/gitfetch"
	"talon/host/gitfetch/queue"
	"talon/host/throttle"
	"talon/internal/simclock"
	"talon/sdk/abi"
)

// fetcher hunts for the git data of what is held at a Talon, from one start to the next:
// the queue of production, which asks the throttle, and git servers that are played.
type fetcher struct {
	t       *talon
	queue   *queue.Queue
	waits   map[string][]*world.Event // that are held, by the identifier of their repository
	flights map[queue.Ticket]*gitFlight
	starts  map[*gitServer][]int64 // of requests in the last minute
	turning simclock.Alarm
}

// gitFlight is a request that is under way.
type gitFlight struct {
	f      *fetcher
	ticket queue.Ticket
	key    string
	server *gitServer
	reply  gitReply
}

func newFetcher(t *talon) *fetcher {
	f := &fetcher{t: t, waits: map[string][]*world.Event{}, flights: map[queue.Ticket]*gitFlight{}, starts: map[*gitServer][]int64{}}
	module := throttle.New(t.e.ctx, throttleModule{t}, "git servers", slog.New(slog.DiscardHandler), func(throttle.Function) {})
	f.queue = queue.New(gitfetch.NewThrottle(module), queue.DefaultClamps)
	f.queue.Restore(t.now(), t.domains)
	f.turning = t.e.NewAlarm(f.work)
	for _, ev := range t.heldInOrder() {
		f.add(ev)
	}
	return f
}

// hold begins the search for what an event waits for.
func (f *fetcher) hold(ev *world.Event) {
	f.add(ev)
	f.work()
}

func (f *fetcher) add(ev *world.Event) {
	f.waits[ev.Repo.D] = append(f.waits[ev.Repo.D], ev)
	origin := uint32(abi.OriginSync)
	if f.t.direct[ev.ID] {
		origin = abi.OriginClient
	}
	f.queue.Add(f.t.now(), queue.Event{Key: ev.Repo.D, Name: ev.Repo.Address, Origin: origin, Kind: uint32(ev.Kind)})
}

// released ends the search for what an event waited for.
func (f *fetcher) released(ev *world.Event, how queue.Outcome) {
	d := ev.Repo.D
	f.waits[d] = slices.DeleteFunc(f.waits[d], func(o *world.Event) bool { return o == ev })
	f.queue.Released(d, how)
	f.turning.Set(f.t.e.Now())
}

// stop ends everything. With crash set nothing is saved that was not before.
func (f *fetcher) stop(crash bool) {
	for _, flight := range f.flights {
		flight.f = nil
	}
	if !crash {
		f.save()
	}
}

// save keeps what is known of domains.
func (f *fetcher) save() {
	maps.Copy(f.t.domains, f.queue.Changed())
	maps.DeleteFunc(f.t.domains, func(_ string, r *queue.Record) bool { return r == nil })
}

// work does what the queue wants now.
func (f *fetcher) work() {
	if f.t.fetcher != f {
		return // it was of an earlier start
	}
	for {
		list := f.queue.Work(f.t.now())
		f.queue.Ended()
		f.queue.Paused()
		if len(list) == 0 {
			break
		}
		if slices.ContainsFunc(list, func(w queue.Work) bool { return w.Kind == queue.Fetch }) {
			f.save()
		}
		for _, w := range list {
			f.do(w)
		}
	}
	if due, ok := f.queue.Due(); ok {
		f.turning.Set(f.t.sinceBegin(due))
	}
}

func (f *fetcher) do(w queue.Work) {
	now := f.t.now()
	switch w.Kind {
	case queue.Look:
		f.queue.Looked(now, w.Ticket, f.plan(w.Key))
	case queue.Check:
		f.queue.Looked(now, w.Ticket, queue.Plan{Missing: len(f.waits[w.Key])})
	case queue.Stop:
		f.flights[w.Ticket].abort(abi.OutcomeTimeout)
	case queue.Fetch:
		f.fetch(w)
	}
}

// plan returns where the data of a repository may be: the other Talons first, as its
// announcement has them.
func (f *fetcher) plan(key string) queue.Plan {
	wants := f.waits[key]
	p := queue.Plan{Missing: len(wants)}
	if len(wants) == 0 {
		return p
	}
	repo := wants[0].Repo
	add := func(domain string) {
		p.URLs = append(p.URLs, queue.URL{Text: "https://" + domain + "/x/" + repo.D + ".git", Domain: domain})
	}
	for _, t := range repo.Talons {
		if t != f.t.Number {
			add(f.t.e.w.Talons[t].Domain)
		}
	}
	for _, g := range repo.Git {
		add(f.t.e.w.Git[g].Domain)
	}
	return p
}

// fetch begins a request.
func (f *fetcher) fetch(w queue.Work) {
	wants := f.waits[w.Key]
	if len(wants) == 0 {
		f.queue.Done(f.t.now(), w.Ticket, queue.Result{Skipped: true})
		return
	}
	e, g := f.t.e, f.t.e.git[w.URL.Domain]
	f.started(g)
	l := &gitFlight{f: f, ticket: w.Ticket, key: w.Key, server: g, reply: g.ask(f.t.Number, wants)}
	f.flights[w.Ticket] = l
	if l.reply.worked {
		g.flights = append(g.flights, l)
	}
	reply := l.reply
	e.At(reply.at, func() {
		if l.reply.at == reply.at {
			l.finish()
		}
	})
}

// started counts a request.
func (f *fetcher) started(g *gitServer) {
	now, c := f.t.e.Now(), &f.t.e.watch.check
	g.counts.Requests++
	starts := slices.DeleteFunc(f.starts[g], func(at int64) bool { return at <= now-60_000 })
	f.starts[g] = append(starts, now)
	if n, limit := len(starts)+1, queue.DefaultClamps.PerMinute; n > limit {
		c.broken("git-rate", g.Name, "%d requests in a minute, of %d", n, limit)
	}
	atOnce := 1
	for _, l := range f.flights {
		if l.server == g {
			atOnce++
		}
	}
	if limit := queue.DefaultClamps.AtOnce; atOnce > limit {
		c.broken("git-rate", g.Name, "%d requests at once, of %d", atOnce, limit)
	}
}

// abortAt has a request fail at a time.
func (l *gitFlight) abortAt(at int64, outcome uint32) {
	l.reply = gitReply{at: at, result: queue.Result{Outcome: outcome}}
	if l.f != nil {
		l.f.t.e.At(at, func() {
			if l.reply.at == at {
				l.finish()
			}
		})
	}
}

// abort has it fail now.
func (l *gitFlight) abort(outcome uint32) {
	l.reply = gitReply{at: l.f.t.e.Now(), result: queue.Result{Outcome: outcome}}
	l.finish()
}

// finish ends a request.
func (l *gitFlight) finish() {
	f := l.f
	if l.f = nil; l.server.flights != nil {
		l.server.flights = slices.DeleteFunc(l.server.flights, func(o *gitFlight) bool { return o == l })
	}
	if f == nil || !f.t.up {
		return
	}
	delete(f.flights, l.ticket)
	wanted, r := len(f.waits[l.key]), l.reply.result
	for _, ev := range l.reply.has {
		if f.t.held[ev.ID] == ev {
			r.Found++
			l.server.counts.Fetched++
			f.t.arrived(ev)
		}
	}
	r.Missing = len(f.waits[l.key])
	if l.reply.worked {
		switch {
		case r.Found == wanted:
			r.Outcome = abi.OutcomeOK
		case r.Found > 0:
			r.Outcome = abi.OutcomePartial
		default:
			r.Outcome = abi.OutcomeNotFound
		}
	}
	if r.Outcome != abi.OutcomeOK && r.Outcome != abi.OutcomePartial && r.Outcome != abi.OutcomeNotFound {
		l.server.counts.Refusals++
	}
	l.server.counts.Bytes += r.Bytes
	f.queue.Done(f.t.now(), l.ticket, r)
	f.work()
	f.t.turn()
}

// pushed takes git data that somebody pushes here.
func (t *talon) pushed(ev *world.Event) {
	if t.up {
		t.arrived(ev)
		t.turn()
	}
}

// arrived takes git data, and releases the event that waits for it.
func (t *talon) arrived(ev *world.Event) {
	t.data[ev.Number] = true
	t.e.watch.git.arrived(t, ev)
	if t.held[ev.ID] == ev {
		t.unhold(ev, queue.Complete)
		t.publish(ev)
	}
}

// heldInOrder returns what is held, in the order of its publishing.
func (t *talon) heldInOrder() []*world.Event {
	return slices.SortedFunc(maps.Values(t.held), func(a, b *world.Event) int { return int(a.Number) - int(b.Number) })
}

// unhold takes an event out of purgatory.
func (t *talon) unhold(ev *world.Event, how queue.Outcome) {
	delete(t.held, ev.ID)
	delete(t.heldUntil, ev.ID)
	t.fetcher.released(ev, how)
}

// replaceHeld has an event take the place of older versions that are held. It reports false
// if a newer one is held.
func (t *talon) replaceHeld(ev *world.Event) (changes []host.HeldChange, ok bool) {
	address, _ := ev.Address()
	for _, old := range t.heldInOrder() {
		if a, ok := old.Address(); !ok || a != address {
			continue
		}
		if !ev.Before(old.Event) {
			return nil, false
		}
		t.unhold(old, queue.Forgotten)
		changes = append(changes, host.HeldChange{Event: old.Event, Status: host.StatusReplaced})
	}
	return changes, true
}
