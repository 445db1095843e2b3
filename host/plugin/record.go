package plugin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"talon/host"
)

// ErrRecording says that another recording is under way.
var ErrRecording = errors.New("another recording is under way, try again later")

// Bounds of a recording, whatever is asked for.
const (
	MaxRecordTime  = 10 * time.Minute
	MaxRecordLines = 100_000
	maxRecordBytes = 256 << 20

	maxLine    = 1 << 20 // bytes of one line
	maxWaiting = 8 << 20 // bytes of lines that nobody has fetched
)

// Recording says what is recorded.
type Recording struct {
	// Plugin is the one whose requests and answers are recorded, also in shadow mode.
	// Empty: those of the chain.
	Plugin string

	For    time.Duration // at most MaxRecordTime
	Max    int           // lines, at most MaxRecordLines
	Redact Redaction
}

// Recorded is the result of a recording.
type Recorded struct {
	Lines     int            `json:"lines"`
	Functions map[string]int `json:"functions"` // lines by function
	Bytes     int64          `json:"bytes"`
	Dropped   int            `json:"dropped"`   // decisions that came faster than lines were fetched
	TooLarge  int            `json:"too_large"` // decisions whose line would be larger than 1 MiB
	Unseen    int            `json:"unseen"`    // lines whose answer rests on what no line can say

	// Ended is why it ended: time, count, bytes, or stopped.
	Ended string `json:"ended"`
}

// Record passes lines of decisions to write as they are taken, until the time is up,
// there are enough, or ctx ends; at first none, when it has begun. Each is a vector with
// the verdict that was given, as talon plugin test, run and replay read them. No decision waits for write.
func (r *Registry) Record(ctx context.Context, o Recording, write func(lines []byte) error) (Recorded, error) {
	if o.Plugin != "" {
		r.inspecting.Lock()
		known := r.slots[o.Plugin] != nil
		r.inspecting.Unlock()
		if !known {
			return Recorded{}, fmt.Errorf("%w: %.80q", ErrUnknown, o.Plugin)
		}
	}
	o.Max = min(o.Max, MaxRecordLines)
	s := newSample(o, maxRecordBytes, r.o.Service)
	if !r.recording.CompareAndSwap(nil, s) {
		return Recorded{}, ErrRecording
	}
	stop := func() {
		if r.recording.CompareAndSwap(s, nil) {
			s.end()
		}
	}
	defer stop()
	timed, cancel := context.WithTimeout(ctx, min(o.For, MaxRecordTime))
	defer cancel()
	// What has been taken is fetched, also when the time is up.
	defer context.AfterFunc(timed, stop)()
	var lines []byte
	for {
		if err := write(lines); err != nil {
			return Recorded{}, fmt.Errorf("write the recording: %w", err)
		}
		if lines = s.next(); len(lines) == 0 {
			break
		}
	}
	result := s.result()
	switch {
	case result.Ended != "":
	case ctx.Err() != nil:
		result.Ended = "stopped"
	default:
		result.Ended = "time"
	}
	return result, nil
}

// record takes part in the decision, if somebody records; nil if not.
func (r *Registry) record() *take {
	if s := r.recording.Load(); s != nil {
		return s.begin()
	}
	return nil
}

// witnessed are the facts that a plugin reads, noted if they are recorded.
func (q *question) witnessed(g *generation, facts host.Facts) host.Facts {
	if q.record == nil {
		return facts
	}
	return q.record.facts(g.name, g.shadow(), facts, q.held)
}

// heard notes what counts as the answer of a plugin, if it is recorded.
func (q *question) heard(plugin string, ruling host.Ruling) {
	if q.record != nil {
		q.record.heard(plugin, ruling)
	}
}

// sample is the lines of a recording. Its methods may be called by many goroutines.
//
// It is asked before a decision, and gives a take, or nil. The take hands on the facts and
// notes what they said; in the end it receives the answer, and writes the line. Whoever
// records fetches the lines with next.
//
//  1. A decision never waits for the one who fetches lines: what does not fit into a
//     bounded queue is dropped and counted.
//  2. Lines, bytes and the size of one line are bounded, whatever is asked for.
//  3. A line holds nothing that the decision still changes.
//  4. What is to be redacted is in no line, also not among the facts.
type sample struct {
	o        Recording
	maxBytes int64        // of all lines
	service  host.Service // how the relay is reached, as plugins have it
	mask     *mask
	wake     chan struct{} // holds a value if there is something for next

	mu     sync.Mutex // guards the fields below
	over   bool
	queue  [][]byte
	queued int      // bytes of queue
	counts Recorded // so far; Ended says what the sample is full of: count or bytes
}

func newSample(o Recording, maxBytes int64, service host.Service) *sample {
	return &sample{
		o: o, maxBytes: maxBytes, service: service, mask: newMask(o.Redact), wake: make(chan struct{}, 1), counts: Recorded{Functions: map[string]int{}},
	}
}

// begin takes part in a decision, unless the sample is over or lines wait.
func (s *sample) begin() *take {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.over:
		return nil
	case s.queued >= maxWaiting:
		s.counts.Dropped++
		return nil
	}
	return &take{sample: s}
}

// add appends a line, if there is room.
func (s *sample) add(function string, line []byte, unseen bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.over:
		return
	case len(line) > maxLine:
		s.counts.TooLarge++
		return
	case s.queued+len(line) > maxWaiting:
		s.counts.Dropped++
		return
	case s.counts.Bytes+int64(len(line)) > s.maxBytes:
		s.endLocked("bytes")
		return
	}
	s.queue = append(s.queue, line)
	s.queued += len(line)
	s.counts.Lines++
	s.counts.Bytes += int64(len(line))
	s.counts.Functions[function]++
	if unseen {
		s.counts.Unseen++
	}
	if s.counts.Lines >= s.o.Max {
		s.endLocked("count")
	}
	s.ring()
}

// tooLarge counts a decision that read more than a line may hold.
func (s *sample) tooLarge() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.over {
		s.counts.TooLarge++
	}
}

// end takes no more lines.
func (s *sample) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endLocked("")
}

func (s *sample) endLocked(full string) {
	if !s.over {
		s.over, s.counts.Ended = true, full
		s.ring()
	}
}

// ring wakes the one who fetches.
func (s *sample) ring() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// next waits for lines and returns them, each with its line feed; none when the sample
// is over and all have been fetched. It is for one goroutine.
func (s *sample) next() []byte {
	for {
		s.mu.Lock()
		lines, over := s.queue, s.over
		s.queue, s.queued = nil, 0
		s.mu.Unlock()
		if len(lines) > 0 || over {
			return bytes.Join(lines, nil)
		}
		<-s.wake
	}
}

// result returns what came of it so far.
func (s *sample) result() Recorded {
	s.mu.Lock()
	defer s.mu.Unlock()
	result := s.counts
	result.Functions = maps.Clone(result.Functions)
	return result
}
