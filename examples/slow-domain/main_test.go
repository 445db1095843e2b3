package main

import (
	"testing"

	"talon/sdk/abi"
	"talon/sdk/throttle"
	"talon/sdk/throttle/throttletest"
)

func start(t *testing.T) *throttletest.Harness {
	return throttletest.New(t, manifest, new(slow), map[string]any{"domain": "Git.Example.com."})
}

func domain(name string) abi.Subject { return abi.Subject{Kind: throttle.Domain, Name: name} }

// TestOneAtOnce: the slow one gets the next request when the one before has ended and
// the pause is over; another domain gets five at once.
func TestOneAtOnce(t *testing.T) {
	h := start(t)
	for name, test := range map[string]struct {
		domain   string
		inFlight uint32
		wait     int64
		want     throttle.AdmitAnswer
	}{
		"idle":             {"git.example.com", 0, 0, throttle.Start()},
		"one is under way": {"git.example.com", 1, 0, throttle.WaitForEnd()},
		"the pause":        {"git.example.com", 0, 30_000, throttle.Wait(30_000)},
		"the fifth":        {"other.example.com", 4, 0, throttle.Start()},
		"the sixth":        {"other.example.com", 5, 0, throttle.WaitForEnd()},
	} {
		s := domain(test.domain)
		s.InFlight = test.inFlight
		if test.wait > 0 {
			s.NotBefore = h.Now + test.wait
		}
		if got := h.Admit(abi.ThrottleAdmitRequest{Subject: s}); got != test.want {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
	}
	h.WantNoAllocations(abi.ThrottleAdmitRequest{Subject: domain("git.example.com")})
}

func TestAfter(t *testing.T) {
	h := start(t)
	gone := func(name string) abi.Subject {
		s := domain(name)
		s.Failures, s.FailingSince = 9, h.Now-2*throttle.Day
		return s
	}
	for name, test := range map[string]struct {
		request abi.AfterRequest
		delay   int64
		health  uint32
	}{
		"it answered":         {abi.AfterRequest{Subject: domain("git.example.com"), Outcome: throttle.OK}, 30_000, throttle.Healthy},
		"it asks for more":    {abi.AfterRequest{Subject: domain("git.example.com"), Outcome: throttle.RateLimited, RetryAfter: 90_000}, 90_000, throttle.Degraded},
		"it is slow for days": {abi.AfterRequest{Subject: gone("git.example.com"), Outcome: throttle.Timeout}, 120_000, throttle.Degraded},
		"it is gone":          {abi.AfterRequest{Subject: gone("git.example.com"), Outcome: throttle.Unreachable}, 120_000, throttle.Dead},
		"another answered":    {abi.AfterRequest{Subject: domain("other.example.com"), Outcome: throttle.OK}, 0, throttle.Healthy},
		"another is slow":     {abi.AfterRequest{Subject: gone("other.example.com"), Outcome: throttle.Timeout}, 120_000, throttle.Dead},
		"a second round":      {abi.AfterRequest{Subject: abi.Subject{Kind: throttle.Repository}, Attempts: 2}, 40_000, throttle.Unchanged},
	} {
		if got := h.After(test.request); got.Delay != test.delay || got.Health != test.health || got.GiveUp {
			t.Errorf("%s: %+v, want %d ms and health %d", name, got, test.delay, test.health)
		}
	}
}

func TestAPathIsNoDomain(t *testing.T) {
	if _, err := throttletest.Configure(t, manifest, new(slow), map[string]any{"domain": "https://git.example.com"}); err == nil {
		t.Error("a URL was taken for a domain")
	}
}
