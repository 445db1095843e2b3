package sample

import (
	"bytes"
	"maps"
	"sync"

	"talon/host"
)

// Bounds of what is under way.
const (
	maxLine    = 1 << 20 // bytes of one line
	maxWaiting = 8 << 20 // bytes of lines that nobody has fetched
)

// Options says what is taken.
type Options struct {
	// Plugin is the one whose questions and answers are taken. Empty: those of the
	// chain, as clients get them.
	Plugin string

	Max     int   // lines
	Bytes   int64 // of all lines
	Redact  Redaction
	Service host.Service // how the relay is reached, as plugins have it
}

// Counts is the result of a sample.
type Counts struct {
	Lines     int            `json:"lines"`
	Functions map[string]int `json:"functions"` // lines by function
	Bytes     int64          `json:"bytes"`
	Dropped   int            `json:"dropped"`   // decisions that came faster than lines were fetched
	TooLarge  int            `json:"too_large"` // decisions whose line would be larger than 1 MiB
	Unseen    int            `json:"unseen"`    // lines whose answer rests on what no line can say
}

// Sample is lines of decisions. Its methods may be called by many goroutines.
type Sample struct {
	o    Options
	mask *mask
	wake chan struct{} // holds a value if there is something for Next

	mu     sync.Mutex // guards the fields below
	over   bool
	full   string // what the sample is full of: count or bytes
	queue  [][]byte
	queued int // bytes of queue
	counts Counts
}

// New returns an empty sample.
func New(o Options) *Sample {
	return &Sample{o: o, mask: newMask(o.Redact), wake: make(chan struct{}, 1), counts: Counts{Functions: map[string]int{}}}
}

// Begin takes part in a decision, unless the sample is over or lines wait.
func (s *Sample) Begin() *Take {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.over:
		return nil
	case s.queued >= maxWaiting:
		s.counts.Dropped++
		return nil
	}
	return &Take{sample: s}
}

// add appends a line, if there is room.
func (s *Sample) add(function string, line []byte, unseen bool) {
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
	case s.counts.Bytes+int64(len(line)) > s.o.Bytes:
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
func (s *Sample) tooLarge() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.over {
		s.counts.TooLarge++
	}
}

// End takes no more lines.
func (s *Sample) End() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endLocked("")
}

func (s *Sample) endLocked(full string) {
	if !s.over {
		s.over, s.full = true, full
		s.ring()
	}
}

// ring wakes the one who fetches.
func (s *Sample) ring() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Next waits for lines and returns them, each with its line feed; none when the sample
// is over and all have been fetched. It is for one goroutine.
func (s *Sample) Next() []byte {
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

// Counts returns the result so far, and what the sample is full of: count or bytes, or
// nothing.
func (s *Sample) Counts() (c Counts, full string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c = s.counts
	c.Functions = maps.Clone(c.Functions)
	return c, s.full
}
