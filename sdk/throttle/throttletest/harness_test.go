package throttletest

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"talon/sdk/abi"
	"talon/sdk/throttle"
)

const manifestText = `{
  "talon_manifest": 1, "name": "x", "worlds": ["throttle"], "capabilities": ["log"],
  "config": [{"key": "wait", "type": "int", "default": 5}]
}`

// probe answers with what it was asked, where that fits.
type probe struct {
	cfg  throttle.Config
	fail error
}

func (p *probe) Configure(cfg throttle.Config) error {
	p.cfg = cfg
	return p.fail
}

func (p *probe) Delay(in throttle.DelayInput) throttle.DelayAnswer {
	return throttle.DelayAnswer{Delay: in.Now - Start, Expiry: in.Planned + int64(in.Origin)}
}

func (p *probe) Admit(in throttle.AdmitInput) throttle.AdmitAnswer {
	if in.Repository == "start" {
		return throttle.Start()
	}
	if wait := throttle.UntilFree(&in.Subject, 2, throttle.Minute); wait > 0 {
		return throttle.Wait(wait)
	}
	return throttle.WaitForEnd()
}

func (p *probe) After(in throttle.AfterInput) throttle.AfterAnswer {
	in.Log(throttle.Info, in.Reason)
	return throttle.AfterAnswer{Delay: in.RetryAfter, GiveUp: in.Missing == 0, Health: throttle.Barred, Reason: in.Reason}
}

func (p *probe) Pick(in throttle.PickInput) throttle.PickAnswer {
	i := 0
	for it := in.Waiting(); it.Next(); i++ {
		if it.Waiting().Repository == "me" {
			return throttle.Next(i)
		}
	}
	return throttle.Nobody()
}

func (p *probe) Tick(in throttle.TickInput) throttle.TickAnswer {
	if in.Telemetry.CPU < 0.5 {
		return throttle.Keep()
	}
	return throttle.Limit(in.Most)
}

func TestConfiguration(t *testing.T) {
	p := &probe{}
	New(t, manifestText, p, map[string]any{"wait": int64(7)})
	if p.cfg.Int("wait") != 7 {
		t.Errorf("wait is %d, want 7", p.cfg.Int("wait"))
	}
	p.fail = throttle.WrongValue("wait", "7", "an even number")
	if _, err := Configure(t, manifestText, p, nil); !errors.Is(err, p.fail) {
		t.Errorf("%v, want %v", err, p.fail)
	}
	if _, err := Configure(t, manifestText, p, map[string]any{"wait": "x"}); err == nil || !strings.Contains(err.Error(), "wait") {
		t.Errorf("%v, want an error that names wait", err)
	}
}

func TestFunctions(t *testing.T) {
	h := New(t, manifestText, &probe{}, nil)
	h.Now += 9
	if got := h.Delay(abi.DelayRequest{Origin: throttle.FromSync, Planned: 5}); got != (throttle.DelayAnswer{Delay: 9, Expiry: 8}) {
		t.Errorf("delay: %+v", got)
	}
	if got := h.Delay(abi.DelayRequest{Now: Start + 1}); got.Delay != 1 {
		t.Errorf("delay of a request with a time of its own: %+v", got)
	}
	for want, q := range map[throttle.AdmitAnswer]abi.ThrottleAdmitRequest{
		{Start: true}: {Repository: "start"}, {}: {Subject: abi.Subject{Ages: []uint32{5}}}, {Wait: 59_000}: {Subject: abi.Subject{Ages: []uint32{5, 1000}}},
	} {
		if got := h.Admit(q); got != want {
			t.Errorf("admit: %+v, want %+v", got, want)
		}
	}
	got := h.After(abi.AfterRequest{RetryAfter: 5, Missing: 1, Reason: strings.Repeat("é", 200)})
	if got != (throttle.AfterAnswer{Delay: 5, Health: throttle.Barred, Reason: strings.Repeat("é", 128)}) {
		t.Errorf("after: %+v", got)
	}
	if !slices.Equal(h.Logged, []string{strings.Repeat("é", 200)}) {
		t.Errorf("logged %q", h.Logged)
	}
	if got := h.Pick(abi.PickRequest{Waiting: []abi.Waiting{{}, {Repository: "me"}}}); got != throttle.Next(1) {
		t.Errorf("pick: %+v", got)
	}
	if got := h.Pick(abi.PickRequest{Waiting: []abi.Waiting{{}}}); got != throttle.Nobody() {
		t.Errorf("pick of none: %+v", got)
	}
	if got := h.Tick(abi.TickRequest{}); got != throttle.Keep() {
		t.Errorf("tick: %+v", got)
	}
	if got := h.Tick(abi.TickRequest{Telemetry: abi.Telemetry{CPU: 1}, Most: abi.ClientLimits{Events: 5}}); got != throttle.Limit(abi.ClientLimits{Events: 5}) {
		t.Errorf("tick under load: %+v", got)
	}
	h.WantNoAllocations(abi.ThrottleAdmitRequest{Subject: abi.Subject{Ages: []uint32{1, 2}}})
}
