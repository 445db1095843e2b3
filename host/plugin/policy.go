package plugin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"talon/host"
	"talon/host/plugin/guest"
	"talon/host/plugin/sidecar"
	"talon/sdk/abi/manifest"
	"talon/sdk/grasp"
)

// noneAccepts is the ruling about an event where every plugin passes.
var noneAccepts = host.Ruling{
	Action: host.Reject, Rule: "default", Reason: "blocked: no policy accepts this event",
}

// requests are buffers that requests are encoded into.
var requests = sync.Pool{New: func() any { return new(guest.Request) }}

// Admit decides about an item whose event has been verified, with the facts as
// they are now; now is in unix seconds. If all plugins pass, the event is
// rejected. An error means that ctx was done, or that facts could not be read:
// nothing was decided.
func (r *Registry) Admit(ctx context.Context, it *host.Item, facts host.Facts, now int64) (host.Ruling, error) {
	if err := r.notCurrent(); err != nil {
		return host.Ruling{}, err
	}
	l := r.acquireSet()
	defer l.release()
	q := requests.Get().(*guest.Request)
	defer requests.Put(q)
	c := question{
		chain: &l.chains[guest.Admit], function: guest.Admit, request: q.Admit(it, now), facts: facts, now: now,
		source: origin(it), fallback: l.fallback, record: r.record(), held: r.o.Held, item: it,
	}
	if err := c.ask(ctx); err != nil {
		return host.Ruling{}, err
	}
	if c.ruling.Action == host.Pass {
		c.ruling, c.by = noneAccepts, nil
	}
	var opinions []opinion
	if c.shadows > 0 {
		opinions = c.runShadow(ctx, &it.Event.ID)
	}
	r.journal.add(&it.Event.ID, &c, opinions)
	if c.record != nil {
		c.record.chained(c.names())
		c.record.admit(it, now, c.ruling)
	}
	return c.ruling, nil
}

// Query decides whether a client may ask for what its filters select. If all
// plugins pass, it may.
func (r *Registry) Query(ctx context.Context, q *host.Query) (host.Ruling, error) {
	return r.allow(ctx, guest.Query, q.Client, func(b *guest.Request, now int64) []byte { return b.Query(q, now) },
		func(t *decisionRecord, now int64, ruling host.Ruling) { t.query(q, now, ruling) })
}

// Connect decides whether a client may connect. If all plugins pass, it may.
func (r *Registry) Connect(ctx context.Context, c *host.Connection) (host.Ruling, error) {
	return r.allow(ctx, guest.Connect, &c.Client, func(b *guest.Request, now int64) []byte { return b.Connect(c, now) },
		func(t *decisionRecord, now int64, ruling host.Ruling) { t.connect(c, now, ruling) })
}

// Push decides whether ref updates that GRASP's own rules allow may happen. If
// all plugins pass, they may.
func (r *Registry) Push(ctx context.Context, p *host.Push) (host.Ruling, error) {
	return r.allow(ctx, guest.Push, p.Client, func(b *guest.Request, now int64) []byte { return b.Push(p, now) },
		func(t *decisionRecord, now int64, ruling host.Ruling) { t.push(p, now, ruling) })
}

func (r *Registry) allow(ctx context.Context, f guest.Func, client *host.Client, encode func(*guest.Request, int64) []byte,
	record func(*decisionRecord, int64, host.Ruling)) (host.Ruling, error) {
	if err := r.notCurrent(); err != nil {
		return host.Ruling{}, err
	}
	// Who records wants to know of questions too that no plugin is asked yet.
	if len(r.current.Load().chains[f].links) == 0 && r.recording.Load() == nil {
		return host.Ruling{Action: host.Pass}, nil
	}
	l := r.acquireSet()
	defer l.release()
	q := requests.Get().(*guest.Request)
	defer requests.Put(q)
	now := r.o.Now().Unix()
	c := question{
		chain: &l.chains[f], function: f, request: encode(q, now), facts: r.o.Facts, now: now,
		source: "client", client: client, fallback: l.fallback, record: r.record(), held: r.o.Held,
	}
	if err := c.ask(ctx); err != nil {
		return host.Ruling{}, err
	}
	if c.shadows > 0 {
		c.runShadow(ctx, nil)
	}
	if c.record != nil {
		c.record.chained(c.chain.names, c.asked)
		record(c.record, now, c.ruling)
	}
	return c.ruling, nil
}

// acquireSet returns the current active set; the caller releases it.
func (r *Registry) acquireSet() *activeSet {
	for {
		// An active set that has ended is not current any more.
		if l := r.current.Load(); l.acquire() {
			return l
		}
	}
}

func origin(it *host.Item) string {
	if it.Source == nil {
		return host.FromClient.String()
	}
	return it.Source.Origin.String()
}

// question is one request on its way along a chain.
type question struct {
	chain    *chain
	function guest.Func
	request  []byte
	facts    host.Facts
	now      int64
	source   string
	fallback *generation
	record   *decisionRecord // nil: nobody records
	held     host.HeldFacts  // what plugins see of purgatory, if facts have none
	item     *host.Item      // nil unless admit is asked
	client   *host.Client    // nil if admit is asked

	ended time.Duration // of guest.Question

	// What came of it.
	ruling  host.Ruling
	by      *generation // nil if none had an opinion
	fuel    int64       // that the one that decided spent
	asked   int         // of those that enforce
	hosts   []string    // asked after another had accepted
	shadows int         // of those in shadow mode whose turn came
}

// causes returns who is to blame if a plugin fails at the question.
func (q *question) causes() (c causes) {
	switch {
	case q.item != nil:
		return causesOf(q.item)
	case q.function == guest.Connect:
		c.network(q.client.Addr)
		return c
	}
	return causesOfClient(q.client)
}

// ask asks the plugins in order until one has an opinion, and after an accept those that
// host repositories.
func (q *question) ask(ctx context.Context) error {
	q.ruling = host.Ruling{Action: host.Pass}
	var a answer
	for i := range q.chain.links {
		g := q.chain.links[i].generation
		if q.chain.links[i].shadow {
			q.shadows++
			continue
		}
		q.asked++
		if err := q.askOne(ctx, g, &a); err != nil {
			return err
		}
		if a.ruling.Action != host.Pass {
			q.ruling, q.by, q.fuel = a.ruling, a.by, a.fuel
			if a.ruling.Action == host.Accept && i+1 < q.chain.hosts && !q.chain.links[i].hosts && q.ofRepository() {
				return q.askHosts(ctx, i+1)
			}
			return nil
		}
	}
	return nil
}

// answer is what came of asking one plugin.
type answer struct {
	by     *generation // it, or who decided instead
	ruling host.Ruling
	fuel   int64
	failed bool // it could not decide, and that counts as a refusal
}

// askOne asks one plugin, or who decides instead if it fails, and sets the answer.
func (q *question) askOne(ctx context.Context, g *generation, a *answer) error {
	a.by, a.failed = g, false
	var err error
	a.fuel, err = g.ask(ctx, q, q.facts, &a.ruling)
	if f := failure(err); f != nil {
		a.by, a.ruling, a.fuel, err = q.failed(ctx, g, a.fuel, f)
		if a.failed = a.ruling == g.refusal; a.failed && timedOut(f) {
			a.ruling.Reason = "error: policy " + g.name + " could not read in time, since this relay is busy: try again"
		}
	}
	if err != nil {
		return fmt.Errorf("policy %s: %w", a.by.name, err)
	}
	q.heard(g.name, a.ruling)
	return nil
}

// ofRepository reports whether the question is about an event that a policy that hosts
// repositories may hold for their git data.
func (q *question) ofRepository() bool {
	if q.item == nil {
		return false
	}
	switch q.item.Event.Kind {
	case grasp.KindAnnouncement, grasp.KindState, grasp.KindPullRequest, grasp.KindPRUpdate:
		return true
	}
	return false
}

// askHosts asks the policies that host repositories, from a link on, about an event that
// another has accepted: one of them may hold it, so that there is a repository, or its
// data is awaited. Else the event stays accepted, unless one of them cannot decide: an
// announcement that is stored now would have no repository when it comes again.
func (q *question) askHosts(ctx context.Context, from int) error {
	for _, l := range q.chain.links[from:q.chain.hosts] {
		if !l.hosts {
			continue
		}
		q.hosts = append(q.hosts, l.name)
		var a answer
		if err := q.askOne(ctx, l.generation, &a); err != nil {
			return err
		}
		if a.ruling.Action == host.Hold && a.ruling.Parent != "" {
			return nil // what accepted the event justifies it
		}
		if a.ruling.Action == host.Hold || a.failed {
			q.ruling, q.by, q.fuel = a.ruling, a.by, a.fuel
			return nil
		}
		if a.ruling.Action == host.Accept {
			return nil
		}
	}
	return nil
}

// names returns the plugins that decide, in order, and how many of the first were asked.
// Where some were passed over, it leaves out whoever was not asked.
func (q *question) names() (list []string, asked int) {
	if len(q.hosts) == 0 {
		return q.chain.names, q.asked
	}
	list = slices.Concat(q.chain.names[:q.asked], q.hosts)
	return list, len(list)
}

// failed is what happens to a request when a plugin could not decide, and who
// decided instead. fuel is what the plugin has spent. Who has made it fail before does
// not get past it so, whatever the side-car says.
func (q *question) failed(ctx context.Context, g *generation, fuel int64, f error) (*generation, host.Ruling, int64, error) {
	if f == errMissing || f == errBreakerOpen && g.required {
		return g, g.refusal, fuel, nil
	}
	switch g.file.Failure(manifest.WorldPolicy) {
	case sidecar.Open:
		if f == errRefused {
			break
		}
		return g, host.Ruling{Action: host.Pass}, fuel, nil
	case sidecar.Bundled:
		if !q.fallback.module.Calls(q.function) {
			return g, host.Ruling{Action: host.Pass}, fuel, nil
		}
		var ruling host.Ruling
		spent, err := q.fallback.ask(ctx, q, q.facts, &ruling)
		if guest.AsFailure(err) == nil {
			return q.fallback, ruling, spent, err
		}
	}
	return g, g.refusal, fuel, nil
}

// ask asks one plugin, unless its breaker is against it. It asks once more if the reads took
// too long: the machine may be less busy now. It returns the fuel that was spent, and sets
// the ruling if there is no error.
func (g *generation) ask(ctx context.Context, q *question, facts host.Facts, ruling *host.Ruling) (fuel int64, err error) {
	if g.absent {
		return 0, errMissing
	}
	if !g.breaker.admitsAll() {
		causes := q.causes()
		if by, ok := g.breaker.admits(&causes); !ok {
			g.meters.refuse(g.name, by)
			if by == byAll {
				return 0, errBreakerOpen
			}
			return 0, errRefused
		}
	}
	g.counters.calls.Add(1)
	if w, ok := facts.(host.Waiter); ok {
		w.Asking(g.name)
	}
	if g.program != nil {
		q.ended = 0
		*ruling, err = g.askProgram(ctx, q, facts)
	} else {
		fuel, err = g.askModule(ctx, q, facts, ruling)
		if timedOut(err) {
			g.busy.met(g.name)
			fuel, err = g.askModule(ctx, q, facts, ruling)
		}
	}
	if err == nil {
		g.breaker.worked()
	} else if failure := failure(err); failure != nil {
		causes := q.causes()
		g.breaker.failed(&causes, kindOf(failure))
		g.counters.failed(failure)
	}
	return fuel, err
}

// askModule asks the module of a generation that has one.
func (g *generation) askModule(ctx context.Context, q *question, facts host.Facts, ruling *host.Ruling) (fuel int64, err error) {
	asked := guest.Question{
		Function: q.function, Request: q.request, Facts: q.witnessed(g, facts), Now: q.now, Source: q.source, Ended: q.ended,
	}
	fuel, err = g.module.Ask(ctx, &asked, ruling)
	q.ended = asked.Ended
	return fuel, err
}

// timedOut reports whether the reads of a module took longer than its budget of time.
func timedOut(err error) bool {
	f := guest.AsFailure(err)
	return f != nil && f.Cause == guest.CauseTime
}

// Failures of a plugin that was not asked.
var (
	errRefused     = errors.New("it has failed for whom it is asked now, who is refused for a while")
	errBreakerOpen = errors.New("it has failed for many and rests")
	errMissing     = errors.New("it is required, and does not run")
)

// refusalOf returns the answer to a client when a plugin fails.
func refusalOf(name string) host.Ruling {
	return host.Ruling{
		Action: host.Reject, Rule: "failed", Module: name,
		Reason: "error: policy " + name + " failed, try again later",
	}
}
