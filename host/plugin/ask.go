package plugin

import (
	"context"
	"errors"

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

// failure is what a plugin did wrong, nil if the error is the host's.
func failure(err error) error {
	switch {
	case err == nil:
		return nil
	case err == errRefused, err == errBreakerOpen, err == errMissing:
		return err
	}
	if f := guest.AsFailure(err); f != nil {
		return f
	}
	if f := asProgramFailure(err); f != nil {
		return f
	}
	return nil
}

// kindOf returns what a failure says about who caused it. Reads that take too long say nothing:
// others may use the machine. The schedule of decisions charges those who do.
func kindOf(f error) failureKind {
	switch f := f.(type) {
	case *guest.Failure:
		switch f.Cause {
		case guest.CauseTime:
			return ofNobody
		case guest.CauseStart:
			return ofPlugin
		}
	case *programFailure:
		switch f.cause {
		case programCauseStart:
			return ofPlugin
		case programCauseBusy:
			return ofNobody
		}
	}
	return ofSource
}
