package plugin

import (
	"bytes"
	"maps"
	"sync"
	"time"

	"talon/host"
)

// Bounds of a recording, whatever is asked for.
const (
	MaxRecordTime  = 10 * time.Minute
	MaxRecordLines = 100_000
	maxRecordBytes = 256 << 20

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

// recording is the lines of a recording. Its methods may be called by many goroutines.
//
// It is asked before a decision whether it takes part (begin). After the decision it makes a
// line of the trace (add). The one who records fetches the lines with next.
//
//  1. A decision never waits for the one who fetches lines: what does not fit into a
//     bounded queue is dropped and counted.
//  2. Lines, bytes and the size of one line are bounded, whatever is asked for.
//  3. A line holds nothing that the decision still changes.
//  4. No line holds a redacted text, also not among the facts.
type recording struct {
	o        Recording
	maxBytes int64 // of all lines
	lines    liner
	wake     chan struct{} // holds a value if there is something for next

	mu     sync.Mutex // guards the fields below
	over   bool
	queue  [][]byte
	queued int      // bytes of queue
	counts Recorded // so far; Ended says what the sample is full of: count or bytes
}

func newRecording(o Recording, maxBytes int64, service host.Service) *recording {
	return &recording{
		o: o, maxBytes: maxBytes, lines: liner{o.Plugin, service, newMask(o.Redact)}, wake: make(chan struct{}, 1), counts: Recorded{Functions: map[string]int{}},
	}
}

// begin reports whether the decision that is made with these facts is recorded: the recording
// is not over, and no lines wait. If so, the facts keep their answers. There may be no recording.
func (s *recording) begin(facts *host.FactReader) bool {
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.over:
		return false
	case s.queued >= maxWaiting:
		s.counts.Dropped++
		return false
	}
	facts.KeepAnswers()
	return true
}

// add appends the line of a decision.
func (s *recording) add(t *trace) {
	l, fits := s.lines.line(t)
	switch {
	case l == nil:
	case !fits:
		s.tooLarge()
	default:
		if text, err := l.Line(); err == nil {
			s.append(l.Function, text, l.Unseen != nil)
		}
	}
}

// append appends a line, if there is room.
func (s *recording) append(function string, line []byte, unseen bool) {
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
		s.closeLocked("bytes")
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
		s.closeLocked("count")
	}
	s.ring()
}

// tooLarge counts a decision that read more than a line may hold.
func (s *recording) tooLarge() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.over {
		s.counts.TooLarge++
	}
}

// close ends the recording: it takes no more lines.
func (s *recording) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closeLocked("")
}

func (s *recording) closeLocked(full string) {
	if !s.over {
		s.over, s.counts.Ended = true, full
		s.ring()
	}
}

// ring wakes the one who fetches.
func (s *recording) ring() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// next waits for lines and returns them, each with its line feed; none when the sample
// is over and all have been fetched. It is for one goroutine.
func (s *recording) next() []byte {
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
func (s *recording) result() Recorded {
	s.mu.Lock()
	defer s.mu.Unlock()
	result := s.counts
	result.Functions = maps.Clone(result.Functions)
	return result
}
