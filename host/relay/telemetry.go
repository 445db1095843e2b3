package relay

import (
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"talon/host/wire"
)

// Telemetry has measurements of the relay over an interval.
type Telemetry struct {
	Interval      time.Duration // since it was asked for last
	Connections   int
	Subscriptions int
	Events        float64       // EVENTs that came, in a second
	Queries       float64       // REQs, COUNTs and NEG-OPENs that came, in a second
	BytesIn       float64       // in a second
	BytesOut      float64       // in a second
	InFlight      int           // EVENTs submitted and not answered
	AnswerTime    time.Duration // from EVENT to OK, of 99 in 100; 0 if there was none
	SlowClients   int           // that have half a queue to read, or were cut off with a full one
}

// counted are the counters that Telemetry compares with what they were.
type counted struct{ events, queries, in, out, slow uint64 }

// watcher remembers what Telemetry saw last.
type watcher struct {
	mu   sync.Mutex // guards the fields below
	at   time.Time
	then counted
}

// Telemetry returns the measurements since the last call, or since New.
func (r *Relay) Telemetry() Telemetry {
	r.watcher.mu.Lock()
	defer r.watcher.mu.Unlock()
	m := r.metrics
	now := counted{
		events:  m.in[wire.Event].Load(),
		queries: m.in[wire.Req].Load() + m.in[wire.Count].Load() + m.in[wire.NegOpen].Load(),
		in:      m.bytesIn.Load(),
		out:     m.bytesOut.Load(),
		slow:    m.disconnects[cutSlow].Load(),
	}
	then, began, at := r.watcher.then, r.watcher.at, r.cfg.Now()
	r.watcher.then, r.watcher.at = now, at

	t := Telemetry{
		Interval:    max(at.Sub(began), 0),
		InFlight:    int(m.inFlight.Load()),
		AnswerTime:  m.answers.drain(),
		SlowClients: int(now.slow - then.slow),
	}
	if seconds := t.Interval.Seconds(); seconds > 0 {
		t.Events = float64(now.events-then.events) / seconds
		t.Queries = float64(now.queries-then.queries) / seconds
		t.BytesIn = float64(now.in-then.in) / seconds
		t.BytesOut = float64(now.out-then.out) / seconds
	}
	r.index.mu.RLock()
	t.Subscriptions = r.index.subs
	r.index.mu.RUnlock()
	all := r.all()
	t.Connections = len(all)
	for _, c := range all {
		c.mu.Lock()
		if !c.out.paced && c.out.load() > r.cfg.Limits.QueueBytes/2 {
			t.SlowClients++
		}
		c.mu.Unlock()
	}
	return t
}

// times counts lengths of time, in classes that differ by a quarter at most: four for
// each power of two of microseconds.
type times [4 * 40]atomic.Uint64

func (t *times) add(d time.Duration) {
	t[min(class(d), len(t)-1)].Add(1)
}

// drain returns the 99th percentile of the times, and resets them.
func (t *times) drain() time.Duration {
	var counts [len(t)]uint64
	var all uint64
	for i := range t {
		counts[i] = t[i].Swap(0)
		all += counts[i]
	}
	if all == 0 {
		return 0
	}
	more := all / 100 // may take longer
	last := len(counts) - 1
	for ; counts[last] <= more; last-- {
		more -= counts[last]
	}
	return longest(last)
}

func class(d time.Duration) int {
	us := uint64(max(d, 0) / time.Microsecond)
	if us < 4 {
		return int(us)
	}
	n := bits.Len64(us) // at least 3: the two bits below the first one tell four classes
	return 4*(n-2) + int(us>>(n-3)&3)
}

// longest is the end of a class.
func longest(class int) time.Duration {
	if class < 4 {
		return time.Duration(class+1) * time.Microsecond
	}
	n := class/4 + 2
	return time.Duration(4+class%4+1) << (n - 3) * time.Microsecond
}
