package plugin

import (
	"context"
	"errors"
	"fmt"
	"time"

	"talon/host"
	"talon/host/plugin/sample"
)

// ErrRecording says that another recording is under way.
var ErrRecording = errors.New("another recording is under way, try again later")

// Bounds of a recording, whatever is asked for.
const (
	MaxRecordTime  = 10 * time.Minute
	MaxRecordLines = 100_000
	maxRecordBytes = 256 << 20
)

// Recording says what is recorded.
type Recording struct {
	// Plugin is the one whose requests and answers are recorded, also in shadow mode.
	// Empty: those of the chain.
	Plugin string

	For    time.Duration // at most MaxRecordTime
	Max    int           // lines, at most MaxRecordLines
	Redact sample.Redaction
}

// Recorded is the result of a recording.
type Recorded struct {
	sample.Counts

	// Ended is why it ended: time, count, bytes, or stopped.
	Ended string `json:"ended"`
}

// Record passes lines of decisions to write as they are taken, until the time is up,
// there are enough, or ctx ends; at first none, when it has begun. Each is a vector with
// the verdict that was given (package sample). No decision waits for write.
func (r *Registry) Record(ctx context.Context, o Recording, write func(lines []byte) error) (Recorded, error) {
	if o.Plugin != "" {
		r.inspecting.Lock()
		known := r.slots[o.Plugin] != nil
		r.inspecting.Unlock()
		if !known {
			return Recorded{}, fmt.Errorf("%w: %.80q", ErrUnknown, o.Plugin)
		}
	}
	s := sample.New(sample.Options{
		Plugin: o.Plugin, Max: min(o.Max, MaxRecordLines), Bytes: maxRecordBytes, Redact: o.Redact, Service: r.o.Service,
	})
	if !r.recording.CompareAndSwap(nil, s) {
		return Recorded{}, ErrRecording
	}
	stop := func() {
		if r.recording.CompareAndSwap(s, nil) {
			s.End()
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
		if lines = s.Next(); len(lines) == 0 {
			break
		}
	}
	counts, full := s.Counts()
	switch {
	case full != "":
	case ctx.Err() != nil:
		full = "stopped"
	default:
		full = "time"
	}
	return Recorded{counts, full}, nil
}

// record takes part in the decision, if somebody records; nil if not.
func (r *Registry) record() *sample.Take {
	if s := r.recording.Load(); s != nil {
		return s.Begin()
	}
	return nil
}

// witnessed are the facts that a plugin reads, noted if they are recorded.
func (q *question) witnessed(g *generation, facts host.Facts) host.Facts {
	if q.record == nil {
		return facts
	}
	return q.record.Facts(g.name, g.shadow(), facts, q.held)
}

// heard notes what counts as the answer of a plugin, if it is recorded.
func (q *question) heard(plugin string, ruling host.Ruling) {
	if q.record != nil {
		q.record.Heard(plugin, ruling)
	}
}
