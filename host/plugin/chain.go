package plugin

import (
	"context"
	"fmt"

	"talon/host"
	"talon/host/plugin/guest"
	"talon/host/plugin/sidecar"
	"talon/sdk/abi/manifest"
)

// chain is the plugins of one function, in the order in which they are asked.
type chain struct {
	links []link
	names []string // of those that enforce, for the journal
	hosts int      // links up to the last that hosts; 0: none does

	fallback *generation // what on-failure = "bundled" asks; nil if nothing does
}

type link struct {
	*generation
	shadow bool
	hosts  bool // it makes repositories for announcements, or may, since it is missing
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
	t.question, t.chain, t.ruling = q, c.names, host.Ruling{Action: host.Pass}
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
			t.shadows = append(t.shadows, l.generation)
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

// instead sets the answer of a plugin that could not decide. A source for which
// it failed before is refused, also if the side-car fails open.
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
