package guest

import (
	"strings"

	"talon/sdk/abi"
	"talon/sdk/abi/manifest"
)

// stepLimits are what the probes of a strategy say that the host carries out.
var stepLimits = abi.StepLimits{
	Connections: 100, Subscriptions: 20, Filters: 10, Values: 500, Historics: 4, Timers: 100, Actions: 1000,
	Bytes: defaultReducerOut,
}

// reducerProbes are those of strategies and throttles.
func reducerProbes(list *[functions][]probe) {
	const now = int64(manifest.VectorNow) * 1000
	one := func(f Func, name string, request []byte, decode func([]byte) error) {
		list[f] = append(list[f], probe{name, request, decode})
	}
	repository := "30617:" + strings.Repeat("ab", 32) + ":probe"

	step := func(name string, input abi.Input) {
		one(Step, name, abi.AppendStep(nil, now, input), func(b []byte) error {
			_, err := abi.DecodeActions(b, abi.ActionLimits{
				Actions: int(stepLimits.Actions), Filters: int(stepLimits.Filters), Values: int(stepLimits.Values), AllValues: 100_000,
			})
			return err
		})
	}
	step("the world as it is", &abi.StepInit{
		Seed: 1, Limits: stepLimits, Own: []string{"wss://own.example.com"},
		Relays: []abi.RelayState{{URL: "wss://relay.example.com", Bootstrap: true, Wanted: true, Connected: true, LastConnected: now - 1000}},
		Repositories: []abi.KnownRepository{{
			Address: repository, Level: abi.SyncLevelFull, Relays: []string{"wss://relay.example.com"}, Roots: [][32]byte{{1}},
		}},
	})
	step("a timer", &abi.TimerFired{ID: "probe", At: now})

	domain := abi.Subject{Kind: abi.SubjectDomain, Name: "git.example.com", Ages: []uint32{100, 2000}}
	one(ThrottleDelay, "a first delay", abi.AppendDelayRequest(nil, &abi.DelayRequest{
		Now: now, Subject: abi.Subject{Kind: abi.SubjectRepository, Name: repository}, Origin: abi.OriginClient, EventKind: announcement,
	}), func(b []byte) error { _, err := abi.DecodeDelayAnswer(b); return err })
	one(ThrottleAdmit, "a start", abi.AppendThrottleAdmitRequest(nil, &abi.ThrottleAdmitRequest{
		Now: now, Subject: domain, Repository: repository, AllInFlight: 3,
	}), func(b []byte) error { _, err := abi.DecodeThrottleAdmitAnswer(b); return err })
	failing := domain
	failing.Failures, failing.FailingSince = 3, now-60_000
	one(ThrottleAfter, "a failure", abi.AppendAfterRequest(nil, &abi.AfterRequest{
		Now: now, Subject: failing, Outcome: abi.OutcomeRateLimited, Repository: repository, Status: 429, RetryAfter: 30_000, Took: 120,
	}), func(b []byte) error { _, err := abi.DecodeAfterAnswer(b); return err })
	waiting := []abi.Waiting{{Repository: repository, Since: now - 5000, Missing: 2, URLs: 1}}
	one(ThrottlePick, "a choice", abi.AppendPickRequest(nil, &abi.PickRequest{Now: now, Subject: domain, Waiting: waiting}),
		func(b []byte) error { _, err := abi.DecodePickAnswer(b, len(waiting)); return err })
	one(ThrottleTick, "a tick", abi.AppendTickRequest(nil, &abi.TickRequest{
		Now: now, Telemetry: abi.Telemetry{Interval: 5000, CPU: 0.5, Memory: 1 << 30, Connections: 100, Queue: 10, QueueLimit: 1000},
	}), func(b []byte) error { _, err := abi.DecodeTickAnswer(b); return err })
}
