package ingest

import (
	"context"
	"errors"
	"time"

	"talon/host"
)

// decide fills in the entry's decision. It is called again for an entry whose
// facts have changed.
func (p *Pipeline) decide(ctx context.Context, e *entry) {
	e.verdict, e.holding, e.err, e.facts = nil, nil, nil, facts{}
	now := p.cfg.Now()
	if !e.atTurn {
		// The version is read before any fact: a commit in between makes the
		// decision look older than it is, never newer.
		e.version = p.version.Load()
	}
	if e.arrival != nil {
		p.plan(ctx, e, now.Unix())
		return
	}
	if !e.verified {
		if !e.atTurn && p.known(e.item.Event) {
			// What is stored may be deleted before the turn of this copy.
			e.verdict = &host.Verdict{Code: host.Duplicate, Reason: "duplicate: already have this event"}
			e.facts.stored = []host.Filter{{IDs: []host.ID{e.item.Event.ID}}}
			return
		}
		if e.verdict = p.verify(e.item, now.Unix()); e.verdict != nil {
			return
		}
		e.verified = true
		if e.deferred = e.verifyOnly && !e.atTurn; e.deferred {
			return
		}
	}
	r := p.recorder(e)
	if e.verdict, e.err = p.refuseEarly(ctx, e.item, &r); e.verdict != nil || e.err != nil {
		e.facts = r.notes
		return
	}
	ruling, err := p.cfg.Policy.Admit(ctx, e.item, &r, now.Unix())
	p.metrics.decision.Observe(p.cfg.Now().Sub(now).Seconds())
	var over limit
	var waiting int64
	if err == nil && ruling.Action == host.Hold {
		over, waiting = p.quotas.reached(e.item, &r.view)
	}
	switch {
	case err != nil:
	case ruling.Action == host.Hold && p.cfg.Held == nil:
		e.verdict = &host.Verdict{Code: host.Rejected, Reason: "blocked: this relay does not hold events back"}
	case over == ofNetwork:
		p.metrics.overQuota.WithLabelValues(string(over)).Inc()
		e.verdict = over.verdict(waiting)
	case ruling.Action == host.Hold && e.item.Event.Kind.Class() != host.Ephemeral:
		e.holding, err = holding(ctx, e.item, ruling.Reason, &r)
	default:
		e.verdict = verdictOf(ruling)
	}
	e.facts, e.err = r.notes, err
}

// verdictOf returns nil for a ruling that the event is to be written.
func verdictOf(r host.Ruling) *host.Verdict {
	switch r.Action {
	case host.Accept:
		return nil
	case host.ShadowReject:
		return &host.Verdict{Code: host.ShadowRejected}
	case host.RequireAuth:
		return &host.Verdict{Code: host.AuthRequired, Reason: r.Reason}
	case host.Hold:
		return &host.Verdict{Code: host.Rejected, Reason: "blocked: an ephemeral event cannot wait"}
	}
	return &host.Verdict{Code: host.Rejected, Reason: r.Reason, Retry: r.Retry}
}

// known reports whether this very event was stored lately. The id is only what the
// sender claims: if it is not the hash of this event, the event is not the one that
// is stored.
func (p *Pipeline) known(e *host.Event) bool {
	return p.recent.has(e.ID) && e.CheckID() == nil
}

// verify applies what no policy may bend: the protocol's rules, the id, the
// signature. It returns nil if the event passes.
func (p *Pipeline) verify(it *host.Item, now int64) *host.Verdict {
	if v := rule(it, now); v != nil {
		return v
	}
	start := time.Now()
	err := p.cfg.Verify(it.Event)
	p.metrics.verify.Observe(time.Since(start).Seconds())
	switch {
	case err == nil:
		return nil
	case errors.Is(err, host.ErrID):
		return &host.Verdict{Code: host.Rejected, Reason: "invalid: " + host.ErrID.Error()}
	}
	return &host.Verdict{Code: host.Rejected, Reason: "invalid: event signature is not valid"}
}
