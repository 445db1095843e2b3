package main

import (
	"testing"

	"talon/sdk/abi"
	"talon/sdk/throttle"
	"talon/sdk/throttle/throttletest"
)

func TestVectors(t *testing.T) { throttletest.Vectors(t, manifest, new(eager)) }

func start(t *testing.T) *throttletest.Harness {
	return throttletest.New(t, manifest, new(eager), nil)
}

func TestDelay(t *testing.T) {
	h := start(t)
	repository := abi.Subject{Kind: throttle.Repository}
	for origin, want := range map[uint32]int64{throttle.FromClient: 5000, throttle.FromSync: 100, throttle.FromImport: 100} {
		if got := h.Delay(abi.DelayRequest{Subject: repository, Origin: origin}); got != (throttle.DelayAnswer{Delay: want}) {
			t.Errorf("origin %d: %+v, want %d ms", origin, got, want)
		}
	}
}

func TestAdmit(t *testing.T) {
	h := start(t)
	many := make([]uint32, 256)
	for name, test := range map[string]struct {
		subject abi.Subject
		want    throttle.AdmitAnswer
	}{
		"many in a minute": {abi.Subject{Kind: throttle.Domain, Name: "a", InFlight: 31, Ages: many}, throttle.Start()},
		"it rests":         {abi.Subject{Kind: throttle.Domain, NotBefore: h.Now + 5}, throttle.Wait(5)},
		"a relay":          {abi.Subject{Kind: throttle.Relay}, throttle.Start()},
	} {
		if got := h.Admit(abi.ThrottleAdmitRequest{Subject: test.subject}); got != test.want {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
	}
	h.WantNoAllocations(abi.ThrottleAdmitRequest{Subject: abi.Subject{Kind: throttle.Domain, Ages: many}})
}

func TestAfter(t *testing.T) {
	h := start(t)
	failed := abi.Subject{Kind: throttle.Domain, Failures: 3}
	for name, test := range map[string]struct {
		request abi.AfterRequest
		delay   int64
	}{
		"the first round":    {abi.AfterRequest{Subject: abi.Subject{Kind: throttle.Repository}, Attempts: 1}, 1000},
		"nothing there":      {abi.AfterRequest{Subject: failed, Outcome: throttle.NotFound}, 0},
		"no answer":          {abi.AfterRequest{Subject: failed, Outcome: throttle.Timeout}, 4000},
		"429":                {abi.AfterRequest{Subject: failed, Outcome: throttle.RateLimited, RetryAfter: 60_000}, 60_000},
		"a broken page":      {abi.AfterRequest{Subject: failed, Outcome: throttle.Server}, 0},
		"a relay fails":      {abi.AfterRequest{Subject: abi.Subject{Kind: throttle.Relay, Failures: 9}, Outcome: throttle.Unreachable}, 60_000},
		"a relay was closed": {abi.AfterRequest{Subject: abi.Subject{Kind: throttle.Relay}, Outcome: throttle.Disconnected}, 0},
	} {
		if got := h.After(test.request); got.Delay != test.delay || got.GiveUp {
			t.Errorf("%s: %+v, want %d ms", name, got, test.delay)
		}
	}
}

func TestPickAndTick(t *testing.T) {
	h := start(t)
	if got := h.Pick(abi.PickRequest{Waiting: []abi.Waiting{{LastTried: 3}, {LastTried: 5}, {}}}); got != throttle.Next(0) {
		t.Errorf("%+v, want the one that was served longest ago", got)
	}
	limit := abi.ClientLimits{Events: 10}
	if got := h.Tick(abi.TickRequest{Most: limit, Current: limit}); got != throttle.Keep() {
		t.Errorf("%+v, want no change", got)
	}
}
