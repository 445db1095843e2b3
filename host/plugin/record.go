package plugin

import (
	"context"
	"errors"
	"fmt"
)

// ErrRecording says that another recording is under way.
var ErrRecording = errors.New("another recording is under way, try again later")

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
	s := newRecording(o, maxRecordBytes, r.o.Service)
	if !r.recording.CompareAndSwap(nil, s) {
		return Recorded{}, ErrRecording
	}
	stop := func() {
		if r.recording.CompareAndSwap(s, nil) {
			s.close()
		}
	}
	defer stop()
	timed, cancel := context.WithTimeout(ctx, min(o.For, MaxRecordTime))
	defer cancel()
	// Fetch the remaining lines even after the time is up.
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
