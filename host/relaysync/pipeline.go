package relaysync

import (
	"context"
	"sync"

	"talon/host"
	"talon/host/relaysync/loop"
	"talon/host/relaysync/session"
)

// changeQueue is what happened here and the loop has not heard of. Putting something in never
// waits.
type changeQueue struct {
	mu      sync.Mutex // guards the fields below
	pending pending
	signal  chan struct{}
}

// pending is the content of the queue.
type pending struct {
	changes []loop.Change
	retries []loop.Retry
	missed  bool // changes had no room
	anew    bool // other policies decide
}

// maxChanges bounds the changes that wait. Above it the loop reads all repositories again.
const maxChanges = 1 << 16

func newChangeQueue() *changeQueue { return &changeQueue{signal: make(chan struct{}, 1)} }

// put changes what is pending.
func (b *changeQueue) put(f func(p *pending)) {
	func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		f(&b.pending)
	}()
	select {
	case b.signal <- struct{}{}:
	default:
	}
}

func (b *changeQueue) changed(list []loop.Change) {
	if len(list) == 0 {
		return
	}
	b.put(func(p *pending) {
		if len(p.changes)+len(list) > maxChanges {
			p.missed = true
		} else {
			p.changes = append(p.changes, list...)
		}
	})
}

func (b *changeQueue) retried(r loop.Retry) {
	b.put(func(p *pending) { p.retries = append(p.retries, r) }) // as many as were given out
}

func (b *changeQueue) dequeue() pending {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.pending
	b.pending = pending{}
	return p
}

// Publish queues the events of a commit for the loop (ingest.Follower). It does not
// wait.
func (v *Sync) Publish(events []host.Published) {
	v.changed(loop.Published(v.known, v.cfg.Now().Unix(), events))
}

// Follow queues what a commit removed and what it changed in purgatory (ingest.Follower).
// It does not wait.
func (v *Sync) Follow(removed []*host.Event, held []host.HeldChange) {
	v.changed(loop.Followed(v.known, v.cfg.Now().Unix(), removed, held))
}

// changed counts what clients sent, each event once, and hands changes to the loop.
func (v *Sync) changed(list []loop.Change) {
	for i := range list {
		if list[i].First && !list[i].Synced {
			v.metrics.events.WithLabelValues(direct).Inc()
		}
	}
	v.changes.changed(list)
}

// Forget forgets which events were refused: another policy decides. Those that are
// kept for another try are tried immediately, the rest is fetched with the next
// comparison. It may be called by any goroutine.
func (v *Sync) Forget() {
	v.refusals.forget()
	v.changes.put(func(p *pending) { p.anew = true })
}

// local tells the loop what happened here.
func (v *Sync) local(now int64) {
	p := v.changes.dequeue()
	v.loop.Retried(now, p.retries...)
	if p.anew {
		v.loop.PoliciesChanged(now)
	}
	for len(p.changes) > 0 {
		n := min(len(p.changes), changesAtOnce)
		v.loop.Changed(now, p.changes[:n])
		v.position.Store(v.loop.Position())
		p.changes = p.changes[n:]
		v.perform()
	}
	if p.missed {
		v.loop.Missed(now)
	}
}

// changesAtOnce is how many changes go to the loop before its effects are carried out.
const changesAtOnce = 64

// submit hands events to the pipeline that are not stored yet. It waits for it.
func (l *line) submit(batch []session.ReceivedEvent) error {
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
		l.session.Answered(v.now(), session.Answer{Ticket: a.Ticket, Outcome: fate})
	}
	return nil
}

func (l *line) submitOne(a session.ReceivedEvent) error {
	v := l.sync
	answer := session.Answer{Ticket: a.Ticket, Position: v.position.Load(), Generation: v.known.MarkInFlight(a.Event.ID, l.relay)}
	return v.deps.Ingest.Submit(l.ctx, &host.Item{Event: a.Event, Source: l.source, Done: func(verdict host.Verdict, err error) {
		defer v.contain(l.cancel) // the session would wait for the answer
		v.decided(a.Event, verdict, err, a.Purpose)
		if answer.Verdict = verdict; err != nil {
			answer.Outcome = session.Failed
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
		case a = <-v.resubmissions:
		}
		if len(sources) > v.cfg.Limits.Relays {
			clear(sources)
		}
		if sources[a.Relay] == nil {
			sources[a.Relay] = &host.Source{Origin: host.FromSync, Relay: a.Relay}
		}
		mark := v.position.Load()
		v.known.MarkInFlight(a.Event.ID, a.Relay)
		err := v.deps.Ingest.Submit(ctx, &host.Item{Event: a.Event, Source: sources[a.Relay], Done: func(verdict host.Verdict, err error) {
			defer v.contain(func() { v.fail(errAnswer) }) // the loop would wait for it
			v.decided(a.Event, verdict, err, 0)
			v.changes.retried(loop.Retry{
				Event: a.Event, Relay: a.Relay, Position: mark, Refused: err == nil && verdict.Code == host.Rejected, Failed: err != nil || verdict.Code == host.Busy,
			})
		}})
		if err != nil {
			return
		}
	}
}
