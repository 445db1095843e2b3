package plugin

import (
	"context"

	"talon/host"
	"talon/host/plugin/guest"
)

// ask asks one plugin, unless its breaker is against it. It asks once more if the reads took
// too long: the machine may be less busy now. It sets the fuel of the answer, and the ruling if
// there is no error.
func (g *generation) ask(ctx context.Context, q *question, facts *host.FactReader, a *answer) (err error) {
	if g.absent {
		return errMissing
	}
	if !g.breaker.admitsAll() {
		causes := q.causes()
		if by, ok := g.breaker.admits(&causes); !ok {
			g.meters.refuse(g.name, by)
			if by == byAll {
				return errBreakerOpen
			}
			return errRefused
		}
	}
	g.counters.calls.Add(1)
	facts.Asking(g.name)
	if g.program != nil {
		q.ended = 0
		a.ruling, err = g.askProgram(ctx, q, facts)
	} else {
		asked := guest.Question{
			Function: q.function, Request: q.request, Facts: facts, Now: q.now, Source: q.source, Ended: q.ended,
		}
		if a.fuel, err = g.module.Ask(ctx, &asked, &a.ruling); timedOut(err) {
			g.busy.met(g.name)
			a.fuel, err = g.module.Ask(ctx, &asked, &a.ruling)
		}
		q.ended = asked.Ended
	}
	if err == nil {
		g.breaker.worked()
	} else if failure := failure(err); failure != nil {
		causes := q.causes()
		g.breaker.failed(&causes, kindOf(failure))
		g.counters.failed(failure)
	}
	return err
}
