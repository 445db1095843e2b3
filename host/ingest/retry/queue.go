// Package retry submits refused events again, if the policy refused them only because it
// did not know their author yet. An example is the profile of a person whose first issue
// comes right after it. The package is a pipeline in front of package ingest.
//
// A refusal states for how long the event may be tried again ([host.Verdict].Retry). The
// client gets its answer immediately. It sees a later outcome when it queries the event.
//
// Invariants:
//
//  1. An event that is submitted again is treated as a new one: it is verified, and all
//     policies decide about it with the current facts, in a lane of its own.
//  2. The number and bytes of kept events are bounded, for each client's network and in
//     all. The time counts from the first refusal, also after further ones. When there is
//     no room, the oldest event of the network with the most gives way.
//  3. When an event of an author is accepted, the kept events of that author are
//     submitted again once.
//
// It keeps nothing over a restart, and no events from other relays.
package retry

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"talon/host"
	"talon/host/bound"
)

const (
	maxBytes   = 8 << 10 // of one event
	maxNetwork = 50      // events of clients of one network
	maxEvents  = 2000

	// expireEvery is how often what is too old is removed. It is never submitted, but
	// takes room.
	expireEvery = 10 * time.Second
)

// Pipeline is what events and release requests go to.
type Pipeline interface {
	Submit(ctx context.Context, it *host.Item) error
	SubmitRelease(ctx context.Context, r *host.ReleaseRequest) error
}

// Queue is a pipeline in front of another. It keeps events to try again.
type Queue struct {
	next Pipeline

	mu       sync.Mutex // guards the fields below
	authors  map[host.PubKey][]*entry
	places   *bound.Pot               // of entries
	accepted map[host.PubKey]struct{} // authors with entries, one of whose events was accepted
	wake     chan struct{}            // says that there are some; holds one token

	waiting prometheus.GaugeFunc
	outcome *prometheus.CounterVec
}

// entry is a refused event.
type entry struct {
	event  *host.Event
	source host.Source
	authed []host.PubKey
	until  time.Time
	place  *bound.Hold
}

// New returns a queue in front of a pipeline. Run submits what it keeps.
func New(next Pipeline) *Queue {
	q := &Queue{
		next:     next,
		authors:  make(map[host.PubKey][]*entry),
		accepted: make(map[host.PubKey]struct{}),
		wake:     make(chan struct{}, 1),
		places: bound.NewPot(bound.Spec{
			Name: "refused events that are decided once more", Unit: "events", Total: maxEvents, Network: maxNetwork,
			Yields: "the oldest event of the network that has most; its sender may send it again",
		}),
	}
	q.waiting = prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "talon_retry_events", Help: "Refused events that are decided about once more when another of their author is accepted.",
	}, func() float64 {
		return float64(q.places.Used())
	})
	q.outcome = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "talon_retried_total", Help: "Refused events that were decided once more, by outcome.",
	}, []string{"outcome"})
	return q
}

// Bounds returns the rows of the table of bounds.
func (q *Queue) Bounds() []bound.Spec { return []bound.Spec{q.places.Spec()} }

// Collectors returns the metrics.
func (q *Queue) Collectors() []prometheus.Collector {
	return []prometheus.Collector{q.waiting, q.outcome}
}

// Submit hands an item on. It blocks and returns as the pipeline does.
func (q *Queue) Submit(ctx context.Context, it *host.Item) error {
	watched := *it
	watched.Done = func(v host.Verdict, err error) {
		defer it.Done(v, err) // also after a panic here
		q.decided(it, v, err)
	}
	return q.next.Submit(ctx, &watched)
}

// SubmitRelease passes a release request on. It blocks and returns as the pipeline does.
func (q *Queue) SubmitRelease(ctx context.Context, r *host.ReleaseRequest) error {
	watched := *r
	watched.Done = func(released []host.Released, err error) {
		defer r.Done(released, err) // also after a panic here
		q.acceptReleased(released)
	}
	return q.next.SubmitRelease(ctx, &watched)
}

func (q *Queue) acceptReleased(released []host.Released) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, r := range released {
		if r.Status == host.StatusReleased {
			q.accept(r.Event.PubKey)
		}
	}
}

// decided notes what became of an item. The pipeline answers in the order in which
// decisions have taken effect: an event of the author that was accepted before this one
// was refused is not waited for in vain, for the policy has seen it.
func (q *Queue) decided(it *host.Item, v host.Verdict, err error) {
	if err != nil {
		return
	}
	retried := v.Code == host.Rejected && v.Retry > 0 && it.Source.Origin == host.FromClient
	if v.Code != host.Stored && v.Code != host.Held && !retried {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if retried {
		q.add(&entry{event: it.Event, source: *it.Source, authed: it.Authed, until: time.Now().Add(v.Retry)})
		return
	}
	q.accept(it.Event.PubKey)
}

// accept has an author's entries submitted again. REQUIRES: mu.
func (q *Queue) accept(author host.PubKey) {
	if q.authors[author] == nil {
		return
	}
	q.accepted[author] = struct{}{}
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// add adds an entry, if there is room. Of two of the same author and kind the newer
// stays. REQUIRES: mu.
func (q *Queue) add(e *entry) {
	event := e.event
	// A protected event is taken from its author only, whose connection may have gone.
	if event.Protected() || len(event.JSON) > maxBytes {
		return
	}
	for _, old := range q.authors[event.PubKey] {
		if old.event.Kind != event.Kind {
			continue
		}
		if old.event.CreatedAt > event.CreatedAt {
			return
		}
		q.remove(old)
		break
	}
	place, err := q.places.Acquire(bound.Holder{Addr: e.source.Addr}, 1, func() { q.remove(e) })
	if err != nil {
		return
	}
	e.place = place
	q.authors[event.PubKey] = append(q.authors[event.PubKey], e)
}

// remove forgets an entry. REQUIRES: mu.
func (q *Queue) remove(e *entry) {
	author := e.event.PubKey
	list := q.authors[author]
	for i, other := range list {
		if other != e {
			continue
		}
		e.place.Release()
		if len(list) == 1 {
			delete(q.authors, author)
			return
		}
		list[i] = list[len(list)-1]
		list[len(list)-1] = nil
		q.authors[author] = list[:len(list)-1]
		return
	}
}

// Run submits again what is due, until ctx ends.
func (q *Queue) Run(ctx context.Context) error {
	tick := time.NewTicker(expireEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			q.expire()
		case <-q.wake:
			for _, e := range q.due() {
				if err := q.resubmit(ctx, e); err != nil {
					return nil // it is stopping: whoever was refused sends again
				}
			}
		}
	}
}

// due takes the entries of authors of whom something was accepted.
func (q *Queue) due() (list []*entry) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	for author := range q.accepted {
		for len(q.authors[author]) > 0 {
			e := q.authors[author][0]
			q.remove(e)
			if now.Before(e.until) {
				list = append(list, e)
			}
		}
	}
	clear(q.accepted)
	return list
}

// resubmit submits an entry in a lane of its own. If it is refused for the same reason
// again, it is remembered as long as before.
func (q *Queue) resubmit(ctx context.Context, e *entry) error {
	source := e.source
	done := func(v host.Verdict, err error) {
		if err != nil {
			q.outcome.WithLabelValues("failed").Inc()
			return
		}
		q.outcome.WithLabelValues(v.Code.String()).Inc()
		q.mu.Lock()
		defer q.mu.Unlock()
		switch {
		case v.Code == host.Stored || v.Code == host.Held:
			q.accept(e.event.PubKey)
		case v.Code == host.Rejected && v.Retry > 0 && time.Now().Before(e.until):
			q.add(e)
		}
	}
	return q.next.Submit(ctx, &host.Item{Event: e.event, Source: &source, Authed: e.authed, Done: done})
}

// expire forgets what is too old.
func (q *Queue) expire() {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	for _, list := range q.authors {
		for i := len(list) - 1; i >= 0; i-- {
			if !now.Before(list[i].until) {
				q.remove(list[i])
			}
		}
	}
}
