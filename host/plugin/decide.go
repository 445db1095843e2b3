package plugin

import (
	"context"
	"sync"

	"talon/host"
	"talon/host/plugin/guest"
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
		return noneRefuses, r.others.notCurrent()
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
	if err := r.others.notCurrent(); err != nil {
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
	answer := l.chains[q.function].decide
	if q.function == guest.Audience {
		answer = l.chains[q.function].restrict
	}
	if err := answer(ctx, q, t); err != nil {
		return host.Ruling{}, err
	}
	if t.ruling.Action == host.Pass {
		t.ruling, t.by = none, nil
	}
	t.limit()
	askShadows(ctx, t)
	switch {
	case q.function == guest.Audience:
		r.journal.addAudience(t)
	case q.item != nil:
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
