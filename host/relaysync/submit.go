package relaysync

import (
	"context"

	"talon/host"
	"talon/host/relaysync/loop"
	"talon/host/relaysync/session"
)

// submit hands events to the pipeline that are not stored yet. It waits for it.
func (l *line) submit(batch []session.Arrival) error {
	v := l.sync
	ids := make([]host.ID, len(batch))
	for i := range batch {
		ids[i] = batch[i].Event.ID
	}
	missing, err := v.deps.Local.Missing(l.ctx, ids)
	if err != nil {
		if l.ctx.Err() == nil {
			v.cfg.Log.Error("look up events", "relay", l.relay, "err", err)
		}
		return err
	}
	wanted := make(map[host.ID]bool, len(missing))
	for _, id := range missing {
		wanted[id] = true
	}
	for i := range batch {
		a := batch[i]
		first, absent := wanted[a.Event.ID]
		if first {
			wanted[a.Event.ID] = false
			if err := l.submitOne(a); err != nil {
				return err
			}
			continue
		}
		fate := session.Copied // of one that is not decided yet, and may be forged
		if !absent {
			v.known.Add(a.Event.ID)
			fate = session.Here
		}
		l.session.Answered(v.now(), session.Answer{Ticket: a.Ticket, Fate: fate})
	}
	return nil
}

func (l *line) submitOne(a session.Arrival) error {
	v := l.sync
	answer := session.Answer{Ticket: a.Ticket, Mark: v.mark.Load(), Generation: v.known.MarkInFlight(a.Event.ID, l.relay)}
	return v.deps.Ingest.Submit(l.ctx, &host.Item{Event: a.Event, Source: l.source, Done: func(verdict host.Verdict, err error) {
		v.decided(a.Event, verdict, err, a.Purpose)
		if answer.Verdict = verdict; err != nil {
			answer.Fate = session.Failed
		}
		l.put(answer)
	}})
}

// decided notes what became of an event, before anybody else hears of it. It is called
// by the pipeline's goroutine.
func (v *Sync) decided(e *host.Event, verdict host.Verdict, err error, purpose uint32) {
	v.known.Decided(e.ID, verdict, err)
	if err == nil && (verdict.Code == host.Stored || verdict.Code == host.Held) {
		v.metrics.events.WithLabelValues(session.SourceOf(purpose)).Inc()
	}
}

// resubmit submits events again. It waits for the pipeline, so that the loop need not.
func (v *Sync) resubmit(ctx context.Context) {
	sources := map[string]*host.Source{}
	for {
		var a loop.Resubmit
		select {
		case <-ctx.Done():
			return
		case a = <-v.again:
		}
		if len(sources) > v.cfg.Limits.Relays {
			clear(sources)
		}
		if sources[a.Relay] == nil {
			sources[a.Relay] = &host.Source{Origin: host.FromSync, Relay: a.Relay}
		}
		mark := v.mark.Load()
		v.known.MarkInFlight(a.Event.ID, a.Relay)
		err := v.deps.Ingest.Submit(ctx, &host.Item{Event: a.Event, Source: sources[a.Relay], Done: func(verdict host.Verdict, err error) {
			v.decided(a.Event, verdict, err, 0)
			v.changes.retried(loop.Retry{
				Event: a.Event, Relay: a.Relay, Mark: mark, Refused: err == nil && verdict.Code == host.Rejected, Failed: err != nil || verdict.Code == host.Busy,
			})
		}})
		if err != nil {
			return
		}
	}
}
