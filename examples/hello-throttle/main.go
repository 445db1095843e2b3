// Command hello-throttle is the smallest useful throttle: a fixed delay, a few
// requests at once, twice the wait after each failure, everybody in turn, and
// lower limits for clients when the server is busy.
package main

import (
	_ "embed"

	"talon/sdk/throttle"
)

//go:embed manifest.json
var manifest string

var _ = throttle.Register(manifest, new(hello))

func main() {}

type hello struct {
	delay, backoff, longest int64 // milliseconds
	inFlight                uint32
	perMinute               int
	events                  uint32
}

func (h *hello) Configure(cfg throttle.Config) error {
	h.delay, h.backoff, h.longest = cfg.Int("delay_ms"), cfg.Int("backoff_ms"), cfg.Int("backoff_max_ms")
	h.inFlight, h.perMinute = uint32(cfg.Int("in_flight")), int(cfg.Int("per_minute"))
	h.events = uint32(cfg.Int("events"))
	return nil
}

func (h *hello) Delay(throttle.DelayInput) throttle.DelayAnswer {
	return throttle.DelayAnswer{Delay: h.delay}
}

func (h *hello) Admit(in throttle.AdmitInput) throttle.AdmitAnswer {
	if left := in.Subject.NotBefore - in.Now; left > 0 {
		return throttle.Wait(left)
	}
	if in.Subject.InFlight >= h.inFlight {
		return throttle.WaitForEnd()
	}
	if wait := throttle.UntilFree(&in.Subject, h.perMinute, throttle.Minute); wait > 0 {
		return throttle.Wait(wait)
	}
	return throttle.Start()
}

func (h *hello) After(in throttle.AfterInput) throttle.AfterAnswer {
	if in.Subject.Kind == throttle.Repository {
		return throttle.AfterAnswer{Delay: throttle.Backoff(h.backoff, h.longest, in.Attempts)}
	}
	switch in.Outcome {
	case throttle.OK, throttle.Partial, throttle.NotFound:
		return throttle.AfterAnswer{Health: throttle.Healthy}
	}
	if since := in.Subject.FailingSince; since != 0 && in.Now-since > throttle.Day {
		return throttle.AfterAnswer{Delay: throttle.Day, Health: throttle.Dead}
	}
	delay := max(throttle.Backoff(h.backoff, h.longest, in.Subject.Failures), in.RetryAfter)
	return throttle.AfterAnswer{Delay: min(delay, throttle.Day), Health: throttle.Degraded}
}

// Pick picks the repository that was served longest ago, so that all get their turn.
func (h *hello) Pick(in throttle.PickInput) throttle.PickAnswer {
	best, oldest := 0, int64(-1)
	i := 0
	for it := in.Waiting(); it.Next(); i++ {
		if last := it.Waiting().LastTried; oldest < 0 || last < oldest {
			best, oldest = i, last
		}
	}
	return throttle.Next(best)
}

// Tick lowers the limit for events from a load of a half on, down to the
// operator's least at full load.
func (h *hello) Tick(in throttle.TickInput) throttle.TickAnswer {
	t := &in.Telemetry
	load := t.CPU
	if t.QueueLimit > 0 {
		load = max(load, float64(t.Queue)/float64(t.QueueLimit))
	}
	if t.MemoryLimit > 0 {
		load = max(load, float64(t.Memory)/float64(t.MemoryLimit))
	}
	top := h.events
	if in.Most.Events > 0 {
		top = min(top, in.Most.Events)
	}
	low := min(max(in.Least.Events, 1), top)
	busy := min(max(2*load-1, 0), 1)
	limits := in.Current
	limits.Events = top - uint32(busy*float64(top-low))
	if limits == in.Current {
		return throttle.Keep()
	}
	return throttle.Limit(limits)
}
