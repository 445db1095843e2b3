package main

import (
	"strings"
	"testing"

	"talon/sdk/abi"
	"talon/sdk/throttle"
	"talon/sdk/throttle/throttletest"
)

func TestVectors(t *testing.T) { throttletest.Vectors(t, manifest, new(polite)) }

func start(t testing.TB, values map[string]any) *throttletest.Harness {
	return throttletest.New(t, manifest, new(polite), values)
}

func domain() abi.Subject { return abi.Subject{Kind: throttle.Domain, Name: "git.example.com"} }

func relay() abi.Subject { return abi.Subject{Kind: throttle.Relay, Name: "wss://relay.example.com"} }

func TestFirstSearch(t *testing.T) {
	h := start(t, nil)
	repository := abi.Subject{Kind: throttle.Repository, Name: "30617:ab:x"}
	for name, test := range map[string]struct {
		request abi.DelayRequest
		want    throttle.DelayAnswer
	}{
		"an imported event": {abi.DelayRequest{Subject: repository, Origin: throttle.FromImport}, throttle.DelayAnswer{Delay: 500, Expiry: 1_800_000}},
		"a relay":           {abi.DelayRequest{Subject: relay(), Origin: throttle.FromClient}, throttle.DelayAnswer{}},
	} {
		if got := h.Delay(test.request); got != test.want {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
	}
}

func TestRounds(t *testing.T) {
	h := start(t, nil)
	for i, want := range []int64{20, 40, 80, 120, 120, 120} {
		got := h.After(abi.AfterRequest{Subject: abi.Subject{Kind: throttle.Repository}, Outcome: throttle.NotFound, Attempts: uint32(i + 1)})
		if got.Delay != want*1000 || got.GiveUp {
			t.Errorf("after round %d: %+v, want %d s", i+1, got, want)
		}
	}
}

func TestDomainLimits(t *testing.T) {
	h := start(t, map[string]any{"domains": []any{"big.example.com=10,60", "own.example.com:8080=2,0"}})
	busy := func(name string, inFlight uint32, starts int, age uint32) abi.Subject {
		s := abi.Subject{Kind: throttle.Domain, Name: name, InFlight: inFlight}
		for range starts {
			s.Ages = append(s.Ages, age)
		}
		return s
	}
	resting := domain()
	resting.NotBefore = h.Now + 7
	for name, test := range map[string]struct {
		subject abi.Subject
		want    throttle.AdmitAnswer
	}{
		"idle":                        {domain(), throttle.Start()},
		"the 30th in a minute":        {busy("x", 0, 29, 10), throttle.Start()},
		"the 31st in a minute":        {busy("x", 0, 30, 31_000), throttle.Wait(30_000)},
		"the minute is over":          {busy("x", 0, 30, 61_000), throttle.Start()},
		"it rests":                    {resting, throttle.Wait(7)},
		"the tenth of its own limit":  {busy("big.example.com", 9, 59, 10), throttle.Start()},
		"over its own limit":          {busy("big.example.com", 10, 0, 0), throttle.WaitForEnd()},
		"over its own rate":           {busy("big.example.com", 0, 60, 1_000), throttle.Wait(60_000)},
		"no rate":                     {busy("own.example.com:8080", 1, 256, 0), throttle.Start()},
		"another port is another one": {busy("own.example.com", 2, 0, 0), throttle.Start()},
	} {
		if got := h.Admit(abi.ThrottleAdmitRequest{Subject: test.subject}); got != test.want {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
	}
	h.WantNoAllocations(abi.ThrottleAdmitRequest{Subject: busy("big.example.com", 9, 59, 10)})
}

func TestDomainAfter(t *testing.T) {
	h := start(t, nil)
	failed := func(failures uint32, since int64) abi.Subject {
		s := domain()
		s.Failures, s.FailingSince = failures, h.Now-since
		return s
	}
	for name, test := range map[string]struct {
		request abi.AfterRequest
		delay   int64
		health  uint32
	}{
		"everything":         {abi.AfterRequest{Subject: domain(), Outcome: throttle.OK}, 0, throttle.Healthy},
		"some of it":         {abi.AfterRequest{Subject: domain(), Outcome: throttle.Partial}, 0, throttle.Healthy},
		"refused":            {abi.AfterRequest{Subject: failed(9, 1), Outcome: throttle.Refused}, 0, throttle.Healthy},
		"a broken page":      {abi.AfterRequest{Subject: failed(9, 1), Outcome: throttle.Server, Status: 500}, 0, throttle.Degraded},
		"503, and says when": {abi.AfterRequest{Subject: failed(9, 1), Outcome: throttle.Server, Status: 503, RetryAfter: 9_000}, 9_000, throttle.Degraded},
		"429, and says when": {abi.AfterRequest{Subject: failed(1, 1), Outcome: throttle.RateLimited, RetryAfter: 5_000}, 5_000, throttle.Degraded},
		"429 for a year":     {abi.AfterRequest{Subject: failed(1, 1), Outcome: throttle.RateLimited, RetryAfter: 1 << 50}, 3_600_000, throttle.Degraded},
		"no answer":          {abi.AfterRequest{Subject: failed(1, 1), Outcome: throttle.Timeout}, 20_000, throttle.Degraded},
		"no answer again":    {abi.AfterRequest{Subject: failed(2, 1), Outcome: throttle.Unreachable}, 40_000, throttle.Degraded},
		"no answer for ever": {abi.AfterRequest{Subject: failed(99, throttle.Day), Outcome: throttle.DNS}, 120_000, throttle.Dead},
	} {
		if got := h.After(test.request); got.Delay != test.delay || got.Health != test.health || got.GiveUp {
			t.Errorf("%s: %+v, want %d ms and health %d", name, got, test.delay, test.health)
		}
	}
}

// TestRelayHealth is the life of a relay that goes away, by the numbers of the sync
// documents.
func TestRelayHealth(t *testing.T) {
	h := start(t, nil)
	after := func(q abi.AfterRequest, delay int64, health uint32) {
		t.Helper()
		if got := h.After(q); got.Delay != delay || got.Health != health || got.GiveUp {
			t.Errorf("%+v, want %d ms and health %d", got, delay, health)
		}
	}
	after(abi.AfterRequest{Subject: relay(), Outcome: throttle.OK}, 0, throttle.Healthy)
	after(abi.AfterRequest{Subject: relay(), Outcome: throttle.Disconnected, Since: h.Now - throttle.Hour}, 0, throttle.Healthy)
	down := relay()
	down.FailingSince = h.Now
	for i, want := range []int64{5, 10, 20, 40, 80, 160, 320, 640, 1280, 2560, 3600, 3600} {
		down.Failures = uint32(i + 1)
		after(abi.AfterRequest{Subject: down, Outcome: throttle.Unreachable}, want*1000, throttle.Degraded)
	}
	h.Now += throttle.Day - 1
	after(abi.AfterRequest{Subject: down, Outcome: throttle.Timeout}, throttle.Hour, throttle.Degraded)
	h.Now++
	after(abi.AfterRequest{Subject: down, Outcome: throttle.Timeout}, throttle.Day, throttle.Dead)
	after(abi.AfterRequest{Subject: down, Outcome: throttle.RateLimited}, 65_000, throttle.Degraded)
	// A wrong name, certificate or protocol bars after several failures, for as long as they last.
	for _, outcome := range []uint32{throttle.DNS, throttle.TLS, throttle.Protocol} {
		for _, test := range []struct {
			faults    uint32
			lasting   int64
			bootstrap bool
			delay     int64
			health    uint32
		}{
			{1, 0, false, 5_000, throttle.Degraded},
			{3, throttle.Hour, false, 20_000, throttle.Degraded},
			{4, throttle.Minute, false, 40_000, throttle.Degraded},
			{8, 10 * throttle.Minute, false, 640_000, throttle.Barred},
			{9, 2 * throttle.Hour, false, 2 * throttle.Hour, throttle.Barred},
			{9, 20 * throttle.Hour, false, 12 * throttle.Hour, throttle.Barred},
			{9, 20 * throttle.Hour, true, 1280_000, throttle.Degraded},
			{30, throttle.Day, false, throttle.Day, throttle.Dead},
		} {
			s := relay()
			s.Failures, s.Faults, s.Bootstrap = test.faults, test.faults, test.bootstrap
			s.FailingSince, s.FaultySince = h.Now-test.lasting, h.Now-test.lasting
			after(abi.AfterRequest{Subject: s, Outcome: outcome}, test.delay, test.health)
		}
	}
	// One that takes every connection and ends it immediately is not healthy.
	down.Failures, down.FailingSince = 3, h.Now-1
	after(abi.AfterRequest{Subject: down, Outcome: throttle.Disconnected, Since: h.Now - 100}, 20_000, throttle.Degraded)
}

func TestRelayAttempts(t *testing.T) {
	h := start(t, nil)
	trying, resting := relay(), relay()
	trying.InFlight, resting.NotBefore = 1, h.Now+9
	for name, test := range map[string]struct {
		request abi.ThrottleAdmitRequest
		want    throttle.AdmitAnswer
	}{
		"first":           {abi.ThrottleAdmitRequest{Subject: relay(), AllInFlight: 9}, throttle.Start()},
		"tried already":   {abi.ThrottleAdmitRequest{Subject: trying}, throttle.WaitForEnd()},
		"too many others": {abi.ThrottleAdmitRequest{Subject: relay(), AllInFlight: 10}, throttle.WaitForEnd()},
		"backing off":     {abi.ThrottleAdmitRequest{Subject: resting}, throttle.Wait(9)},
	} {
		if got := h.Admit(test.request); got != test.want {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
	}
}

func TestWrongDomains(t *testing.T) {
	for _, entry := range []string{
		"git.example.com", "git.example.com=5", "git.example.com=0,30", "git.example.com=5,257", "git.example.com=5,-1", "=5,30",
		"https://git.example.com=5,30", "git.example.com=5,30,7", "",
	} {
		_, err := throttletest.Configure(t, manifest, new(polite), map[string]any{"domains": []any{entry}})
		if err == nil || !strings.Contains(err.Error(), "config domains") {
			t.Errorf("%q: %v, want an error that names the key", entry, err)
		}
	}
	_, err := throttletest.Configure(t, manifest, new(polite), map[string]any{"domains": []any{"a.com=1,1", "A.com.=2,2"}})
	if err == nil || !strings.Contains(err.Error(), "each domain once") {
		t.Errorf("a domain twice: %v", err)
	}
}
