package plugin

import (
	"context"
	"fmt"
	"sync"

	"talon/host"
	"talon/host/plugin/guest"
	"talon/host/plugin/sidecar"
	"talon/sdk/abi/manifest"
)

// noneAccepts is the ruling about an event where every plugin passes.
var noneAccepts = host.Ruling{
	Action: host.Reject, Rule: "default", Reason: "blocked: no policy accepts this event",
}

// noneRefuses is the ruling about anything else where every plugin passes.
var noneRefuses = host.Ruling{Action: host.Pass}

// Admit decides about an item whose event has been verified, with the facts as
// they are now; now is in unix seconds. If all plugins pass, the event is
// rejected. An error means that ctx was done, or that facts could not be read:
// nothing was decided.
func (r *Registry) Admit(ctx context.Context, it *host.Item, facts *host.FactReader, now int64) (host.Ruling, error) {
	w := workspaces.Get().(*workspace)
	defer w.free()
	source := host.FromClient
	if it.Source != nil {
		source = it.Source.Origin
	}
	w.question = question{function: guest.Admit, item: it, source: source.String(), facts: facts, now: now, request: w.request.Admit(it, now)}
	return r.decide(ctx, w, noneAccepts)
}

// Query decides whether a client may ask for what its filters select. If all
// plugins pass, it may.
func (r *Registry) Query(ctx context.Context, q *host.Query) (host.Ruling, error) {
	return r.allow(ctx, question{function: guest.Query, query: q, client: q.Client})
}

// Connect decides whether a client may connect. If all plugins pass, it may.
func (r *Registry) Connect(ctx context.Context, c *host.Connection) (host.Ruling, error) {
	return r.allow(ctx, question{function: guest.Connect, connection: c, client: &c.Client})
}

// Push decides whether ref updates that GRASP's own rules allow may happen. If
// all plugins pass, they may.
func (r *Registry) Push(ctx context.Context, p *host.Push) (host.Ruling, error) {
	return r.allow(ctx, question{function: guest.Push, push: p, client: p.Client})
}

// allow decides about a question of a client that is about no event.
func (r *Registry) allow(ctx context.Context, q question) (host.Ruling, error) {
	// A recording has questions too that no plugin is asked.
	if len(r.current.Load().chains[q.function].links) == 0 && r.recording.Load() == nil {
		return noneRefuses, r.notCurrent()
	}
	w := workspaces.Get().(*workspace)
	defer w.free()
	w.question = q
	w.question.source, w.question.now = "client", r.o.Now().Unix()
	w.question.request = w.question.encode(&w.request)
	return r.decide(ctx, w, noneRefuses)
}

// decide has the chain of the current active set decide. Then it hands the trace to all that
// want to know about decisions. none is the ruling if all plugins pass.
func (r *Registry) decide(ctx context.Context, w *workspace, none host.Ruling) (host.Ruling, error) {
	if err := r.notCurrent(); err != nil {
		return host.Ruling{}, err
	}
	q, t := &w.question, &w.trace
	if q.facts == nil {
		w.reader = *host.NewFactReader(r.o.Facts, r.o.Held, nil)
		q.facts = &w.reader
	}
	recording := r.recording.Load()
	recorded := recording.begin(q.facts)
	l := r.acquireSet()
	defer l.release()
	if err := l.chains[q.function].decide(ctx, q, t); err != nil {
		return host.Ruling{}, err
	}
	if t.ruling.Action == host.Pass {
		t.ruling, t.by = none, nil
	}
	askShadows(ctx, t)
	if q.item != nil {
		r.journal.add(t)
	}
	if recorded {
		recording.add(t)
	}
	return t.ruling, nil
}

// workspace is the memory of one decision, which others use after it.
type workspace struct {
	request  guest.Request
	reader   host.FactReader // of a question that comes without facts
	question question
	trace    trace
}

var workspaces = sync.Pool{New: func() any { return new(workspace) }}

func (w *workspace) free() {
	w.reader, w.question = host.FactReader{}, question{}
	w.trace.reset()
	workspaces.Put(w)
}

// decide is the step from a question and its facts to a ruling, with the trace of how it came
// about. It asks the plugins in order until one has an opinion. It changes nothing but the
// trace.
//
// If an event of a repository is accepted, it goes on and asks the policies that host
// repositories: one of them may hold the event, so that there is a repository, or since its
// data is awaited. Else the event stays accepted, unless one of them cannot decide: an
// announcement that is stored now would have no repository when it comes again.
func (c *chain) decide(ctx context.Context, q *question, t *trace) error {
	t.question, t.chain, t.ruling = q, c, host.Ruling{Action: host.Pass}
	for i := range c.links {
		l := &c.links[i]
		accepted := t.ruling.Action == host.Accept
		switch {
		case accepted && i >= c.hosts:
			return nil
		case accepted && !l.hosts:
			continue
		case accepted:
			t.hosts = append(t.hosts, l.name)
		case l.shadow:
			t.shadows++
			continue
		default:
			t.asked++
		}
		t.answers = append(t.answers, answer{plugin: l.generation, by: l.generation})
		a := &t.answers[len(t.answers)-1]
		err := l.ask(ctx, q, q.facts, a)
		if f := failure(err); f != nil {
			err = c.instead(ctx, f, q, a)
		}
		switch {
		case err != nil:
			return fmt.Errorf("policy %s: %w", a.by.name, err)
		case accepted && a.ruling.Action == host.Hold && a.ruling.Parent != "":
			return nil // what accepted the event justifies it
		case accepted && (a.ruling.Action == host.Hold || a.failed):
			t.settle(a)
			return nil
		case accepted && a.ruling.Action == host.Accept:
			return nil
		case accepted, a.ruling.Action == host.Pass:
			continue
		}
		t.settle(a)
		if a.ruling.Action != host.Accept || l.hosts || !q.ofRepository() {
			return nil
		}
	}
	return nil
}

// instead sets the answer of a plugin that could not decide. Those for whom it failed before
// are refused, whatever the side-car says.
func (c *chain) instead(ctx context.Context, f error, q *question, a *answer) error {
	g := a.plugin
	onFailure := g.file.Failure(manifest.WorldPolicy)
	if f == errMissing || f == errBreakerOpen && g.required || f == errRefused && onFailure == sidecar.Open {
		onFailure = sidecar.Closed
	}
	switch {
	case onFailure == sidecar.Open, onFailure == sidecar.Bundled && !c.fallback.module.Calls(q.function):
		a.ruling = host.Ruling{Action: host.Pass}
		return nil
	case onFailure == sidecar.Bundled:
		b := answer{plugin: g, by: c.fallback}
		if err := c.fallback.ask(ctx, q, q.facts, &b); guest.AsFailure(err) == nil {
			*a = b
			return err
		}
	}
	a.ruling, a.failed = g.refusal, true
	if timedOut(f) {
		a.ruling.Reason = "error: policy " + g.name + " could not read in time, since this relay is busy: try again"
	}
	return nil
}
