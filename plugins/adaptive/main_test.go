package main

import (
	"fmt"
	"strings"
	"testing"

	"talon/sdk/abi"
	"talon/sdk/throttle"
	"talon/sdk/throttle/throttletest"
)

func TestVectors(t *testing.T) { throttletest.Vectors(t, manifest, new(adaptive)) }

func start(t testing.TB, values map[string]any) *throttletest.Harness {
	return throttletest.New(t, manifest, new(adaptive), values)
}

func subject(name string) abi.Subject { return abi.Subject{Kind: throttle.Domain, Name: name} }

// atOnce is how many requests in flight the throttle allows now.
func atOnce(h *throttletest.Harness, name string) uint32 {
	for n := uint32(0); ; n++ {
		s := subject(name)
		s.InFlight = n
		if !h.Admit(abi.ThrottleAdmitRequest{Subject: s}).Start {
			return n
		}
	}
}

// perMinute is how many starts in a minute it allows.
func perMinute(h *throttletest.Harness, name string) int {
	s := subject(name)
	for h.Admit(abi.ThrottleAdmitRequest{Subject: s}).Start {
		s.Ages = append(s.Ages, 1)
	}
	return len(s.Ages)
}

// answers tells of n answers that each took so long.
func answers(h *throttletest.Harness, name string, n int, took int64) {
	for range n {
		h.Now += took
		h.After(abi.AfterRequest{Subject: subject(name), Outcome: throttle.NotFound, Took: took})
	}
}

func TestADomainEarnsMore(t *testing.T) {
	h := start(t, nil)
	if a, p := atOnce(h, "fast"), perMinute(h, "fast"); a != 2 || p != 30 {
		t.Fatalf("a new domain gets %d at once and %d a minute, want 2 and 30", a, p)
	}
	answers(h, "fast", 20, 100)
	if a, p := atOnce(h, "fast"), perMinute(h, "fast"); a < 4 || a > 8 || p != 40 {
		t.Errorf("after 20 answers %d at once and %d a minute", a, p)
	}
	answers(h, "fast", 1000, 100)
	if a, p := atOnce(h, "fast"), perMinute(h, "fast"); a != 20 || p != 240 {
		t.Errorf("after many answers %d at once and %d a minute, want the most: 20 and 240", a, p)
	}
	if a := atOnce(h, "other"); a != 2 {
		t.Errorf("another domain gets %d at once, want 2", a)
	}
}

func TestADomainThatAsksForLess(t *testing.T) {
	for name, q := range map[string]abi.AfterRequest{
		"429":         {Outcome: throttle.RateLimited, Status: 429},
		"503":         {Outcome: throttle.Server, Status: 503},
		"no answer":   {Outcome: throttle.Timeout},
		"unreachable": {Outcome: throttle.Unreachable},
		"slow":        {Outcome: throttle.OK, Took: 5000},
	} {
		t.Run(name, func(t *testing.T) {
			h := start(t, nil)
			answers(h, "x", 1000, 100)
			q.Subject = subject("x")
			q.Subject.Failures = 1
			// Failures of requests that ran at the same time count once.
			for range 10 {
				h.Now += 100
				h.After(q)
			}
			if a, p := atOnce(h, "x"), perMinute(h, "x"); a != 10 || p != 120 {
				t.Errorf("%d at once and %d a minute, want half: 10 and 120", a, p)
			}
			h.Now += calm
			h.After(q)
			if a := atOnce(h, "x"); a != 5 {
				t.Errorf("%d at once, want half again: 5", a)
			}
			for range 20 {
				h.Now += calm
				h.After(q)
			}
			if a, p := atOnce(h, "x"), perMinute(h, "x"); a < 1 || a > 2 && name != "slow" || p < 2 {
				t.Errorf("%d at once and %d a minute, want one at least", a, p)
			}
		})
	}
}

// TestWhatIsNoSign has answers that say nothing of how busy a domain is.
func TestWhatIsNoSign(t *testing.T) {
	for name, q := range map[string]abi.AfterRequest{
		"a repository that fails": {Outcome: throttle.Server, Status: 500},
		"a large pack":            {Outcome: throttle.OK, Took: 60_000, Bytes: 100 << 20},
		"a private repository":    {Outcome: throttle.Refused, Status: 401, Took: 100},
		"garbage":                 {Outcome: throttle.Protocol},
	} {
		h := start(t, nil)
		answers(h, "x", 1000, 100)
		q.Subject = subject("x")
		h.After(q)
		if a := atOnce(h, "x"); a != 20 {
			t.Errorf("%s: %d at once, want 20 as before", name, a)
		}
	}
}

// TestRefused has a domain that refuses quickly: it is a firewall, or has nothing for
// strangers, and earns no more requests by that.
func TestRefused(t *testing.T) {
	h := start(t, nil)
	for range 1000 {
		h.Now += 100
		h.After(abi.AfterRequest{Subject: subject("x"), Outcome: throttle.Refused, Status: 403, Took: 100})
	}
	if a, p := atOnce(h, "x"), perMinute(h, "x"); a != 2 || p != 30 {
		t.Errorf("%d at once and %d a minute, want 2 and 30 as in the beginning", a, p)
	}
}

func TestRetryAfter(t *testing.T) {
	h := start(t, nil)
	failed := subject("x")
	failed.Failures = 2
	for name, test := range map[string]struct {
		request abi.AfterRequest
		want    int64
	}{
		"429":          {abi.AfterRequest{Outcome: throttle.RateLimited, RetryAfter: 7000}, 7000},
		"429, silent":  {abi.AfterRequest{Outcome: throttle.RateLimited}, 40_000},
		"503":          {abi.AfterRequest{Outcome: throttle.Server, Status: 503, RetryAfter: 7000}, 7000},
		"far too long": {abi.AfterRequest{Outcome: throttle.RateLimited, RetryAfter: 1 << 50}, 3_600_000},
		"no answer":    {abi.AfterRequest{Outcome: throttle.Timeout}, 40_000},
	} {
		test.request.Subject = failed
		if got := h.After(test.request); got.Delay != test.want || got.Health != throttle.Degraded {
			t.Errorf("%s: %+v, want %d ms", name, got, test.want)
		}
	}
}

// TestConvergence asks a server that answers fast up to 8 requests at the same time,
// and 429 beyond that: the limit must stay around 8.
func TestConvergence(t *testing.T) {
	h := start(t, nil)
	const capacity = 8
	highest, sum, rounds := uint32(0), 0, 0
	for range 500 {
		n := atOnce(h, "x")
		h.Now += 200
		for i := range n {
			q := abi.AfterRequest{Subject: subject("x"), Outcome: throttle.OK, Took: 200}
			if i >= capacity {
				q.Outcome, q.Status = throttle.RateLimited, 429
			}
			h.After(q)
		}
		highest = max(highest, n)
		sum += int(n)
		rounds++
	}
	if mean := float64(sum) / float64(rounds); highest > capacity+1 || mean < capacity/2 {
		t.Errorf("at most %d at once, %.1f in the mean; the server takes %d", highest, mean, capacity)
	}
}

func TestMemoryIsBounded(t *testing.T) {
	a := new(adaptive)
	h := throttletest.New(t, manifest, a, map[string]any{"domains_max": int64(10)})
	answers(h, "first", 1000, 1)
	for i := range 100 {
		h.Now++
		h.After(abi.AfterRequest{Subject: subject(fmt.Sprint("d", i)), Outcome: throttle.OK, Took: 1})
		if i%5 == 0 {
			answers(h, "first", 1, 1)
		}
	}
	if len(a.known.list) != 10 {
		t.Errorf("%d domains are remembered, want 10", len(a.known.list))
	}
	if n := atOnce(h, "first"); n != 20 {
		t.Errorf("a domain that is asked often was forgotten: %d at once", n)
	}
}

func TestRoundsAndClients(t *testing.T) {
	h := start(t, map[string]any{"limit_clients": true})
	repository := abi.Subject{Kind: throttle.Repository}
	if got := h.Delay(abi.DelayRequest{Subject: repository, Origin: throttle.FromSync}); got.Delay != 500 {
		t.Errorf("%+v", got)
	}
	if got := h.Delay(abi.DelayRequest{Subject: repository, Origin: throttle.FromClient}); got.Delay != 180_000 {
		t.Errorf("%+v", got)
	}
	if got := h.After(abi.AfterRequest{Subject: repository, Attempts: 3}); got.Delay != 80_000 {
		t.Errorf("%+v", got)
	}
	if got := h.Tick(abi.TickRequest{Telemetry: abi.Telemetry{CPU: 1}}); !got.Set || got.Limits.Events != 30 {
		t.Errorf("%+v", got)
	}
	if got := start(t, nil).Tick(abi.TickRequest{Telemetry: abi.Telemetry{CPU: 1}}); got.Set {
		t.Errorf("nobody asked for it: %+v", got)
	}
	h.WantNoAllocations(abi.ThrottleAdmitRequest{Subject: subject("x")})
}

func TestWrongConfiguration(t *testing.T) {
	for key, values := range map[string]map[string]any{
		"at_once_start":    {"at_once_start": int64(30)},
		"per_minute_start": {"per_minute_start": int64(200), "per_minute_max": int64(100)},
	} {
		if _, err := throttletest.Configure(t, manifest, new(adaptive), values); err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%v, want an error that names %s", err, key)
		}
	}
}
