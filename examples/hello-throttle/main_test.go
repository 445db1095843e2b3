package main

import (
	"testing"

	"talon/sdk/abi"
	"talon/sdk/throttle"
	"talon/sdk/throttle/throttletest"
)

func TestVectors(t *testing.T) { throttletest.Vectors(t, manifest, new(hello)) }

func start(t *testing.T) *throttletest.Harness {
	return throttletest.New(t, manifest, new(hello), map[string]any{"per_minute": int64(3), "in_flight": int64(2)})
}

func domain() abi.Subject { return abi.Subject{Kind: throttle.Domain, Name: "git.example.com"} }

func TestDelay(t *testing.T) {
	if got := start(t).Delay(abi.DelayRequest{Subject: abi.Subject{Kind: throttle.Repository}}); got.Delay != 1000 {
		t.Errorf("%+v, want a second", got)
	}
}

func TestAdmit(t *testing.T) {
	h := start(t)
	for name, test := range map[string]struct {
		subject abi.Subject
		want    throttle.AdmitAnswer
	}{
		"idle":            {abi.Subject{}, throttle.Start()},
		"a slot is free":  {abi.Subject{InFlight: 1, Ages: []uint32{5, 59_999}}, throttle.Start()},
		"no slot":         {abi.Subject{InFlight: 2}, throttle.WaitForEnd()},
		"too many":        {abi.Subject{Ages: []uint32{5, 100, 20_000, 30_000}}, throttle.Wait(40_000)},
		"the window went": {abi.Subject{Ages: []uint32{5, 100, 60_000}}, throttle.Start()},
		"backing off":     {abi.Subject{NotBefore: h.Now + 7}, throttle.Wait(7)},
		"backed off":      {abi.Subject{NotBefore: h.Now}, throttle.Start()},
	} {
		if got := h.Admit(abi.ThrottleAdmitRequest{Subject: test.subject}); got != test.want {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
	}
	h.WantNoAllocations(abi.ThrottleAdmitRequest{Subject: abi.Subject{Ages: []uint32{1, 2, 3}}})
}

func TestAfter(t *testing.T) {
	h := start(t)
	failed := func(failures uint32) abi.Subject {
		s := domain()
		s.Failures, s.FailingSince = failures, h.Now-1000
		return s
	}
	dead := failed(50)
	dead.FailingSince = h.Now - throttle.Day - 1
	for name, test := range map[string]struct {
		request abi.AfterRequest
		delay   int64
		health  uint32
	}{
		"fine":         {abi.AfterRequest{Subject: domain(), Outcome: throttle.OK}, 0, throttle.Healthy},
		"not there":    {abi.AfterRequest{Subject: domain(), Outcome: throttle.NotFound}, 0, throttle.Healthy},
		"first":        {abi.AfterRequest{Subject: failed(1), Outcome: throttle.Timeout}, 5_000, throttle.Degraded},
		"third":        {abi.AfterRequest{Subject: failed(3), Outcome: throttle.Timeout}, 20_000, throttle.Degraded},
		"many":         {abi.AfterRequest{Subject: failed(30), Outcome: throttle.Timeout}, 3_600_000, throttle.Degraded},
		"asked for":    {abi.AfterRequest{Subject: failed(1), Outcome: throttle.RateLimited, RetryAfter: 90_000}, 90_000, throttle.Degraded},
		"asks a lot":   {abi.AfterRequest{Subject: failed(1), Outcome: throttle.RateLimited, RetryAfter: 1 << 60}, throttle.Day, throttle.Degraded},
		"for a day":    {abi.AfterRequest{Subject: dead, Outcome: throttle.DNS}, throttle.Day, throttle.Dead},
		"second round": {abi.AfterRequest{Subject: abi.Subject{Kind: throttle.Repository}, Outcome: throttle.Partial, Attempts: 2}, 10_000, throttle.Unchanged},
	} {
		if got := h.After(test.request); got.Delay != test.delay || got.Health != test.health || got.GiveUp {
			t.Errorf("%s: %+v, want a delay of %d and health %d", name, got, test.delay, test.health)
		}
	}
}

// TestEverybodyInTurn serves whom the throttle picks, and expects that nobody is
// served twice before all are served once.
func TestEverybodyInTurn(t *testing.T) {
	h := start(t)
	waiting := make([]abi.Waiting, 5)
	served := make([]int, len(waiting))
	for round := 1; round <= 3; round++ {
		for range waiting {
			h.Now++
			got := h.Pick(abi.PickRequest{Subject: domain(), Waiting: waiting})
			waiting[got.Index].LastTried = h.Now
			served[got.Index]++
		}
		for i, n := range served {
			if n != round {
				t.Fatalf("repository %d was served %d times in %d rounds", i, n, round)
			}
		}
	}
}

func TestTick(t *testing.T) {
	h := start(t)
	current := abi.ClientLimits{Events: 600, Subscriptions: 20}
	for name, test := range map[string]struct {
		request abi.TickRequest
		events  uint32 // 0: nothing changes
	}{
		"calm":          {abi.TickRequest{Current: current, Telemetry: abi.Telemetry{CPU: 0.5}}, 0},
		"busy":          {abi.TickRequest{Current: current, Least: abi.ClientLimits{Events: 100}, Telemetry: abi.Telemetry{CPU: 0.75}}, 350},
		"a full queue":  {abi.TickRequest{Current: current, Least: abi.ClientLimits{Events: 100}, Telemetry: abi.Telemetry{Queue: 9, QueueLimit: 9}}, 100},
		"little memory": {abi.TickRequest{Current: current, Telemetry: abi.Telemetry{Memory: 9, MemoryLimit: 8}}, 1},
		"clamped":       {abi.TickRequest{Current: current, Most: abi.ClientLimits{Events: 60}}, 60},
		"calm again":    {abi.TickRequest{Current: abi.ClientLimits{Events: 100, Subscriptions: 20}}, 600},
	} {
		got := h.Tick(test.request)
		want := throttle.TickAnswer{}
		if test.events != 0 {
			want = throttle.TickAnswer{Set: true, Limits: abi.ClientLimits{Events: test.events, Subscriptions: 20}}
		}
		if got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
}
