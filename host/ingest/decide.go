package ingest

import (
	"context"

	"talon/host"
)

// decision is what was decided about an entry. The zero value stores
// the event.
type decision struct {
	verdict *host.Verdict     // set if the item ends without being written
	hold    *host.HoldOptions // set if the item goes into purgatory

	vanish  *host.VanishRequest // set if the item is a request to vanish that counts here
	note    string              // for the sender of what is stored or held
	event   *host.Event         // with its audience; nil if it is for everybody
	asked   uint64              // version of the audiences
	allowed bool                // the policy accepts it
	quota   authorQuota         // that the writer checks again
	end     bool                // the connection of the client is to end
	err     error               // the host failed
	reads   host.Reads          // what the decision rests on
	waited  string              // the module that it waited for longest
}

// decide is the way of an event to its decision, from start to end:
//
//  1. verify: the protocol's rules, the id and the signature;
//  2. vanish: a request to vanish ends here, whatever the log and the modules say;
//  3. barred: the operator's moderation log;
//  4. refuseEarly: purgatory has room, if the event may have to wait there;
//  5. Policy.Admit: the modules;
//  6. withinLimits: the bytes that the author may have, if a module limits them;
//  7. hold: how the event waits, if a module holds it;
//  8. audience: who may receive the event;
//  9. stateNote: what the answer says of the refs of a state.
//
// All of them read facts through one reader, which notes the reads: the decision holds as
// long as the facts do. decide is called again for an entry whose facts have changed. It
// changes nothing but the entry's decision.
func (p *Pipeline) decide(ctx context.Context, e *entry) {
	e.decision = decision{}
	now := p.cfg.Now()
	if !e.atTurn {
		// The version is read before any fact: a commit in between makes the
		// decision look older than it is, never newer.
		e.version = p.version.Load()
	}
	v := &view{stored: p.cfg.Facts, held: p.cfg.Held, open: e.open}
	facts := v.reader(p.schedule)
	defer func() { e.reads, e.waited = facts.Reads, facts.Waited() }()

	if e.release != nil {
		if e.release.release, e.err = e.release.Plan(ctx, facts, now.Unix()); e.err == nil {
			e.err = p.withoutBarred(ctx, &e.release.release, facts, now.Unix())
		}
		return
	}
	if !e.verified {
		if e.verdict = p.verify(e, facts, now.Unix()); e.verdict != nil {
			return
		}
		e.verified = true
		if e.deferred = e.verifyOnly && !e.atTurn; e.deferred {
			return
		}
	}
	if e.item.Event.Kind == host.KindVanish {
		e.vanish, e.verdict, e.err = p.vanish(ctx, e.item, facts)
		return
	}
	if e.verdict = p.barred(e.item.Event, now.Unix()); e.verdict != nil {
		return
	}
	if e.item.Woken {
		// It is in purgatory, and its store says whether it may wait for something else there.
	} else if e.verdict, e.err = p.refuseEarly(ctx, e.item, facts, v); e.verdict != nil || e.err != nil {
		return
	}
	ruling, err := p.cfg.Policy.Admit(ctx, e.item, facts, now.Unix())
	facts.Asking("")
	p.metrics.decision.Observe(p.cfg.Now().Sub(now).Seconds())
	if err != nil {
		e.err = err
		return
	}
	e.end = ruling.End
	e.allowed = ruling.Action == host.Accept || ruling.Action == host.Hold
	if e.verdict, e.err = p.withinLimits(ctx, e, &ruling, facts); e.verdict != nil || e.err != nil {
		return
	}
	switch ruling.Action {
	case host.Accept:
	case host.Hold:
		e.hold, e.verdict, e.err = p.hold(ctx, e.item, &ruling, facts, v)
	case host.ShadowReject:
		e.verdict = &host.Verdict{Code: host.ShadowRejected}
	case host.RequireAuth:
		e.verdict = &host.Verdict{Code: host.AuthRequired, Reason: ruling.Reason}
	default:
		e.verdict = &host.Verdict{Code: host.Rejected, Reason: ruling.Reason, Retry: ruling.Retry}
	}
	if e.verdict == nil && e.err == nil {
		e.err = p.audience(ctx, e, facts, now.Unix())
	}
	if e.verdict == nil && e.err == nil {
		e.note, e.err = stateNote(ctx, e.item, facts)
	}
}
