package abi

import (
	"errors"
	"reflect"
	"strings"
	"testing"
)

func sampleSubject() Subject {
	return Subject{
		Kind: SubjectDomain, Name: "git.example.com", InFlight: 2, Ages: []uint32{0, 300, 70_000}, Failures: 3, FailingSince: 4,
		LastSuccess: 5, NotBefore: 6, Health: HealthDead, Bootstrap: true, Uptime: 8, Faults: 9, FaultySince: 10,
	}
}

func sampleTick() *TickRequest {
	return &TickRequest{
		Now: 77,
		Telemetry: Telemetry{
			Interval: 1, CPU: 0.5, Memory: 3, MemoryLimit: 4, Connections: 5, Subscriptions: 6, Events: 7.5, Queries: 8.5, BytesIn: 9.5,
			BytesOut: 10.5, Queue: 11, QueueLimit: 12, AnswerTime: 13, SlowClients: 14,
		},
		Current: ClientLimits{1, 2, 3, 4, 5, 6, 7}, Least: ClientLimits{Events: 1}, Most: ClientLimits{BytesOut: 1 << 40},
	}
}

func sampleAfter() *AfterRequest {
	return &AfterRequest{
		Now: 77, Subject: sampleSubject(), Outcome: OutcomeRateLimited, Repository: "30617:ab:x", Status: 429, RetryAfter: 1, Took: 2, Bytes: 3,
		Found: 4, Missing: 5, Attempts: 6, Since: 7, Reason: "slow down",
	}
}

func samplePick() *PickRequest {
	return &PickRequest{Now: 77, Subject: sampleSubject(), Waiting: []Waiting{{"30617:ab:x", 1, 2, 3, 4, 5}, {}}}
}

func readSubject(v SubjectView) Subject {
	m := Subject{
		Kind: v.Kind, Name: v.Name, InFlight: v.InFlight, Failures: v.Failures, FailingSince: v.FailingSince,
		LastSuccess: v.LastSuccess, NotBefore: v.NotBefore, Health: v.Health,
		Bootstrap: v.Bootstrap, Uptime: v.Uptime, Faults: v.Faults, FaultySince: v.FaultySince,
	}
	for it := v.Ages(); it.Next(); {
		m.Ages = append(m.Ages, it.Age())
	}
	return m
}

// checkAges expects that each age is the same one by one and in turn.
func checkAges(t *testing.T, v *SubjectView) {
	t.Helper()
	ages := readSubject(*v).Ages
	for i, want := range ages {
		if got, ok := v.Age(i); !ok || got != want {
			t.Errorf("age %d of %d is %d, %v", i, ages, got, ok)
		}
	}
	if got, ok := v.Age(len(ages)); ok {
		t.Errorf("after the ages %d there is %d", ages, got)
	}
}

func readAfter(v *AfterRequestView) *AfterRequest {
	return &AfterRequest{
		Now: v.Now, Subject: readSubject(v.Subject), Outcome: v.Outcome, Repository: v.Repository, Status: v.Status, RetryAfter: v.RetryAfter,
		Took: v.Took, Bytes: v.Bytes, Found: v.Found, Missing: v.Missing, Attempts: v.Attempts, Since: v.Since, Reason: v.Reason,
	}
}

func readPick(v *PickRequestView) *PickRequest {
	m := &PickRequest{Now: v.Now, Subject: readSubject(v.Subject)}
	for it := v.Waiting(); it.Next(); {
		m.Waiting = append(m.Waiting, it.Waiting())
	}
	return m
}

func TestThrottleRequestsRoundTrip(t *testing.T) {
	same := func(got, want any, err error) {
		t.Helper()
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%+v, %v; want %+v", got, err, want)
		}
	}
	var delay DelayRequestView
	err := delay.Decode(AppendDelayRequest(nil, &DelayRequest{77, sampleSubject(), OriginSync, 30618, 9}))
	same(DelayRequest{delay.Now, readSubject(delay.Subject), delay.Origin, delay.EventKind, delay.Planned},
		DelayRequest{77, sampleSubject(), OriginSync, 30618, 9}, err)
	var admit ThrottleAdmitRequestView
	err = admit.Decode(AppendThrottleAdmitRequest(nil, &ThrottleAdmitRequest{77, sampleSubject(), "30617:ab:x", 9}))
	same(ThrottleAdmitRequest{admit.Now, readSubject(admit.Subject), admit.Repository, admit.AllInFlight},
		ThrottleAdmitRequest{77, sampleSubject(), "30617:ab:x", 9}, err)
	var after AfterRequestView
	err = after.Decode(AppendAfterRequest(nil, sampleAfter()))
	same(readAfter(&after), sampleAfter(), err)
	checkAges(t, &after.Subject)
	var pick PickRequestView
	err = pick.Decode(AppendPickRequest(nil, samplePick()))
	same(readPick(&pick), samplePick(), err)
	var tick TickRequest
	err = tick.Decode(AppendTickRequest(nil, sampleTick()))
	same(&tick, sampleTick(), err)
}

func TestAgesNeedNotBePacked(t *testing.T) {
	var v SubjectView
	if err := v.decode([]byte{4<<3 | wireVarint, 5, 4<<3 | wireBytes, 2, 6, 7, 4<<3 | wireBytes, 0, 4<<3 | wireVarint, 8}); err != nil {
		t.Fatal(err)
	}
	if got := readSubject(v).Ages; !reflect.DeepEqual(got, []uint32{5, 6, 7, 8}) {
		t.Errorf("ages %d, want 5 6 7 8", got)
	}
	checkAges(t, &v)
}

func TestThrottleAnswersRoundTrip(t *testing.T) {
	if a, err := DecodeDelayAnswer(AppendDelayAnswer(nil, &DelayAnswer{5, MaxDelay})); err != nil || a != (DelayAnswer{5, MaxDelay}) {
		t.Errorf("%+v, %v", a, err)
	}
	for _, want := range []ThrottleAdmitAnswer{{Start: true}, {Wait: 5}, {}} {
		if a, err := DecodeThrottleAdmitAnswer(AppendThrottleAdmitAnswer(nil, &want)); err != nil || a != want {
			t.Errorf("%+v, %v; want %+v", a, err, want)
		}
	}
	after := AfterAnswer{5, true, HealthBarred, strings.Repeat("x", MaxActionReason)}
	if a, err := DecodeAfterAnswer(AppendAfterAnswer(nil, &after)); err != nil || a != after {
		t.Errorf("%+v, %v", a, err)
	}
	for _, want := range []PickAnswer{{Index: 3}, {}, {None: true}} {
		if a, err := DecodePickAnswer(AppendPickAnswer(nil, &want), 4); err != nil || a != want {
			t.Errorf("%+v, %v; want %+v", a, err, want)
		}
	}
	for _, want := range []TickAnswer{{}, {Set: true}, {Set: true, Limits: ClientLimits{1, 2, 3, 4, 5, 6, 7}}} {
		if a, err := DecodeTickAnswer(AppendTickAnswer(nil, &want)); err != nil || a != want {
			t.Errorf("%+v, %v; want %+v", a, err, want)
		}
	}
}

func TestWrongAnswersAreNamed(t *testing.T) {
	errOf := func(_ any, err error) error { return err }
	for _, test := range []struct {
		want string
		err  error
	}{
		{"delay is negative", errOf(DecodeDelayAnswer(AppendDelayAnswer(nil, &DelayAnswer{Delay: -1})))},
		{"expiry is longer than 366 days", errOf(DecodeDelayAnswer(AppendDelayAnswer(nil, &DelayAnswer{Expiry: MaxDelay + 1})))},
		{"wait is negative", errOf(DecodeThrottleAdmitAnswer(AppendThrottleAdmitAnswer(nil, &ThrottleAdmitAnswer{Wait: -1})))},
		{"start and wait exclude each other", errOf(DecodeThrottleAdmitAnswer(AppendThrottleAdmitAnswer(nil, &ThrottleAdmitAnswer{true, 1})))},
		{"delay is longer than 366 days", errOf(DecodeAfterAnswer(AppendAfterAnswer(nil, &AfterAnswer{Delay: MaxDelay + 1})))},
		{"health 5 is not one that this host knows", errOf(DecodeAfterAnswer(AppendAfterAnswer(nil, &AfterAnswer{Health: 5})))},
		{"reason has 257 bytes; the limit is 256", errOf(DecodeAfterAnswer(AppendAfterAnswer(nil, &AfterAnswer{Reason: strings.Repeat("x", 257)})))},
		{"index 4 of 4 that wait", errOf(DecodePickAnswer(AppendPickAnswer(nil, &PickAnswer{Index: 4}), 4))},
		{"index 0 of 0 that wait", errOf(DecodePickAnswer(nil, 0))},
		{"a limit is negative", errOf(DecodeTickAnswer(AppendTickAnswer(nil, &TickAnswer{Set: true, Limits: ClientLimits{BytesIn: -1}})))},
	} {
		var wrong *AnswerError
		if !errors.As(test.err, &wrong) || test.err.Error() != test.want {
			t.Errorf("%v, want %s", test.err, test.want)
		}
	}
	for name, err := range map[string]error{
		"delay": errOf(DecodeDelayAnswer([]byte{0xff})), "admit": errOf(DecodeThrottleAdmitAnswer([]byte{0xff})),
		"after": errOf(DecodeAfterAnswer([]byte{0xff})), "pick": errOf(DecodePickAnswer([]byte{0xff}, 9)),
		"tick": errOf(DecodeTickAnswer([]byte{0x0a, 1, 0xff})), "not UTF-8": errOf(DecodeAfterAnswer([]byte{0x22, 1, 0xff})),
	} {
		if !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v, want %v", name, err, ErrMalformed)
		}
	}
}

func TestThrottleAllocatesNothing(t *testing.T) {
	b, after, pick, tick := make([]byte, 0, 1<<12), sampleAfter(), samplePick(), sampleTick()
	var (
		afterView AfterRequestView
		pickView  PickRequestView
		tickView  TickRequest
	)
	if n := testing.AllocsPerRun(100, func() {
		afterView.Decode(AppendAfterRequest(b, after))
		for it := afterView.Subject.Ages(); it.Next(); {
			_ = it.Age()
		}
		pickView.Decode(AppendPickRequest(b, pick))
		for it := pickView.Waiting(); it.Next(); {
			_ = it.Waiting()
		}
		tickView.Decode(AppendTickRequest(b, tick))
		DecodeDelayAnswer(AppendDelayAnswer(b, &DelayAnswer{1, 2}))
		DecodeThrottleAdmitAnswer(AppendThrottleAdmitAnswer(b, &ThrottleAdmitAnswer{Wait: 5}))
		DecodePickAnswer(AppendPickAnswer(b, &PickAnswer{Index: 1}), 2)
	}); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

// wellFormedAges reports whether b is varints: of what is not, the two ways to
// read ages may make different things.
func wellFormedAges(b []byte) bool { return eachVarint(b, func(uint64) {}) }

func FuzzThrottleRequests(f *testing.F) {
	f.Add(AppendDelayRequest(nil, &DelayRequest{77, sampleSubject(), OriginSync, 30618, 9}))
	f.Add(AppendAfterRequest(nil, sampleAfter()))
	f.Add(AppendPickRequest(nil, samplePick()))
	f.Add([]byte{3<<3 | wireBytes, 14, 2 << 3, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 0x98, 0x80, 0, 5})
	// The waiting repository has a field of number 0, which protobuf does not allow.
	f.Add([]byte{3<<3 | wireBytes, 5, 0<<3 | wireBytes, 1, 'x', 6<<3 | wireVarint, 48})
	f.Add(AppendTickRequest(nil, sampleTick()))
	f.Fuzz(func(t *testing.T, b []byte) {
		var (
			delay DelayRequestView
			admit ThrottleAdmitRequestView
			after AfterRequestView
			pick  PickRequestView
			tick  TickRequest
		)
		for name, err := range map[string]error{
			"delay": delay.Decode(b), "admit": admit.Decode(b), "after": after.Decode(b), "pick": pick.Decode(b), "tick": tick.Decode(b),
		} {
			if err == nil && !wellFormed(b) {
				t.Errorf("%x is accepted as %s", b, name)
			}
		}
		if n := len(readSubject(admit.Subject).Ages); n > len(b) {
			t.Errorf("%x: %d ages", b, n)
		}
		if admit.Decode(b) == nil && wellFormedAges(admit.Subject.ages) {
			checkAges(t, &admit.Subject)
		}
		if after.Decode(b) == nil {
			first := readAfter(&after)
			var again AfterRequestView
			if err := again.Decode(AppendAfterRequest(nil, first)); err != nil || !reflect.DeepEqual(readAfter(&again), first) {
				t.Errorf("%x: %+v becomes %+v, %v", b, first, readAfter(&again), err)
			}
		}
		if pick.Decode(b) == nil {
			if n := len(readPick(&pick).Waiting); n > len(b) {
				t.Errorf("%x: %d that wait", b, n)
			}
			for it := pick.Waiting(); it.Next(); {
				if got, want := it.Waiting(), readWaiting(it.it.Bytes()); got != want {
					t.Errorf("%x: %+v one way, %+v the other", it.it.Bytes(), got, want)
				}
			}
		}
	})
}

func FuzzThrottleAnswers(f *testing.F) {
	f.Add(AppendDelayAnswer(nil, &DelayAnswer{5, 6}))
	f.Add(AppendAfterAnswer(nil, &AfterAnswer{5, true, HealthDead, "x"}))
	f.Add(AppendPickAnswer(nil, &PickAnswer{Index: 1}))
	f.Add(AppendTickAnswer(nil, &TickAnswer{Set: true, Limits: ClientLimits{1, 2, 3, 4, 5, 6, 7}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		if a, err := DecodeDelayAnswer(b); err == nil && (a.Delay < 0 || a.Delay > MaxDelay || a.Expiry < 0 || a.Expiry > MaxDelay) {
			t.Errorf("%x: %+v", b, a)
		}
		if a, err := DecodeThrottleAdmitAnswer(b); err == nil && (a.Wait < 0 || a.Wait > MaxDelay || a.Start && a.Wait != 0) {
			t.Errorf("%x: %+v", b, a)
		}
		if a, err := DecodeAfterAnswer(b); err == nil && (a.Delay < 0 || a.Delay > MaxDelay || a.Health > HealthBarred || len(a.Reason) > MaxActionReason) {
			t.Errorf("%x: %+v", b, a)
		}
		if a, err := DecodePickAnswer(b, 3); err == nil && (a.Index > 2 || a.None && a.Index != 0) {
			t.Errorf("%x: %+v", b, a)
		}
		if a, err := DecodeTickAnswer(b); err == nil {
			if again, err := DecodeTickAnswer(AppendTickAnswer(nil, &a)); err != nil || again != a {
				t.Errorf("%x: %+v becomes %+v, %v", b, a, again, err)
			}
		}
	})
}
