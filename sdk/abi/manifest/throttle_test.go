package manifest

import (
	"reflect"
	"strings"
	"testing"

	"talon/sdk/abi"
)

func withThrottleVector(v string) string {
	return `{"talon_manifest": 1, "name": "x", "worlds": ["throttle"], "config": [{"key": "n", "type": "int", "default": 1, "max": 5}], "vectors": [` + v + `]}`
}

func throttleVector(t *testing.T, function, request, want string) *Vector {
	t.Helper()
	return &parse(t, withThrottleVector(`{"name": "a", "function": "`+function+`", "now": 7, "request": `+request+`, "want": `+want+`}`)).Vectors[0]
}

const fullSubject = `{"kind": "relay", "name": "wss://r", "in_flight": 1, "ages": [2, 3], "failures": 4, "failing_since": 5, "last_success": 6,
	"not_before": 7, "health": "barred"}`

// TestThrottleVectors gives each field a value of its own and reads the request as a
// module does.
func TestThrottleVectors(t *testing.T) {
	subject := func(s *abi.SubjectView) {
		t.Helper()
		first, _ := s.Age(0)
		second, more := s.Age(1)
		if s.Kind != abi.SubjectRelay || s.Name != "wss://r" || s.InFlight != 1 || first != 2 || second != 3 || !more || s.Failures != 4 ||
			s.FailingSince != 5 || s.LastSuccess != 6 || s.NotBefore != 7 || s.Health != abi.HealthBarred {
			t.Errorf("%+v", s)
		}
	}
	var delay abi.DelayRequestView
	v := throttleVector(t, "throttle_delay", `{"subject": `+fullSubject+`, "origin": "sync", "event_kind": 8, "planned": 9}`, `{"delay": 1}`)
	if err := delay.Decode(encode(t, v)); err != nil || delay.Now != 7000 || delay.Origin != abi.OriginSync || delay.EventKind != 8 || delay.Planned != 9 {
		t.Errorf("%+v, %v", delay, err)
	}
	subject(&delay.Subject)
	var admit abi.ThrottleAdmitRequestView
	v = throttleVector(t, "throttle_admit", `{"subject": `+fullSubject+`, "repository": "r", "all_in_flight": 8}`, `{"start": true}`)
	if err := admit.Decode(encode(t, v)); err != nil || admit.Now != 7000 || admit.Repository != "r" || admit.AllInFlight != 8 {
		t.Errorf("%+v, %v", admit, err)
	}
	subject(&admit.Subject)
	var after abi.AfterRequestView
	v = throttleVector(t, "throttle_after", `{"subject": `+fullSubject+`, "outcome": "too-large", "repository": "r", "status": 8, "retry_after": 9, "took": 10,
		"bytes": 11, "found": 12, "missing": 13, "attempts": 14, "since": 15, "reason": "x"}`, `{"health": "dead"}`)
	if err := after.Decode(encode(t, v)); err != nil {
		t.Fatal(err)
	}
	subject(&after.Subject)
	after.Subject = abi.SubjectView{}
	if want := (abi.AfterRequestView{
		Now: 7000, Outcome: abi.OutcomeTooLarge, Repository: "r", Status: 8, RetryAfter: 9, Took: 10, Bytes: 11, Found: 12, Missing: 13,
		Attempts: 14, Since: 15, Reason: "x",
	}); !reflect.DeepEqual(after, want) {
		t.Errorf("%+v, want %+v", after, want)
	}
	var pick abi.PickRequestView
	v = throttleVector(t, "throttle_pick", `{"subject": `+fullSubject+`, "waiting": [{}, {"repository": "r", "since": 1, "last_tried": 2, "attempts": 3, "missing": 4,
		"urls": 5}]}`, `{"index": 1}`)
	if err := pick.Decode(encode(t, v)); err != nil || pick.Now != 7000 {
		t.Errorf("%+v, %v", pick, err)
	}
	subject(&pick.Subject)
	it := pick.Waiting()
	if !it.Next() || it.Waiting() != (abi.Waiting{}) || !it.Next() ||
		it.Waiting() != (abi.Waiting{Repository: "r", Since: 1, LastTried: 2, Attempts: 3, Missing: 4, URLs: 5}) || it.Next() {
		t.Errorf("%+v", it.Waiting())
	}
	var tick abi.TickRequest
	limits := `{"connections": 1, "subscriptions": 2, "filters": 3, "events": 4, "queries": 5, "bytes_in": 6, "bytes_out": 7}`
	v = throttleVector(t, "throttle_tick", `{"telemetry": {"interval": 1, "cpu": 0.5, "memory": 2, "memory_limit": 3, "connections": 4, "subscriptions": 5,
		"events": 6.5, "queries": 7.5, "bytes_in": 8.5, "bytes_out": 9.5, "queue": 10, "queue_limit": 11, "answer_time": 12, "slow_clients": 13},
		"current": `+limits+`, "least": {"events": 8}, "most": {"events": 9}}`, `{"limits": null}`)
	if err := tick.Decode(encode(t, v)); err != nil {
		t.Fatal(err)
	}
	if want := (abi.TickRequest{
		Now: 7000, Telemetry: abi.Telemetry{
			Interval: 1, CPU: 0.5, Memory: 2, MemoryLimit: 3, Connections: 4, Subscriptions: 5, Events: 6.5, Queries: 7.5, BytesIn: 8.5,
			BytesOut: 9.5, Queue: 10, QueueLimit: 11, AnswerTime: 12, SlowClients: 13,
		},
		Current: abi.ClientLimits{Connections: 1, Subscriptions: 2, Filters: 3, Events: 4, Queries: 5, BytesIn: 6, BytesOut: 7},
		Least:   abi.ClientLimits{Events: 8}, Most: abi.ClientLimits{Events: 9},
	}); tick != want {
		t.Errorf("%+v, want %+v", tick, want)
	}
}

func TestThrottleAnswers(t *testing.T) {
	limits := abi.TickAnswer{Set: true, Limits: abi.ClientLimits{Events: 5, BytesOut: 6}}
	for _, test := range []struct {
		function, request, want string
		answer                  []byte
		problem                 string // empty: the answer is as the vector wants
	}{
		{"throttle_delay", `{}`, `{"delay": 5}`, abi.AppendDelayAnswer(nil, &abi.DelayAnswer{Delay: 5, Expiry: 6}), ""},
		{"throttle_delay", `{}`, `{"expiry": 0, "delay": 5}`, abi.AppendDelayAnswer(nil, &abi.DelayAnswer{Delay: 5, Expiry: 6}),
			`vector "a": the answer is {"delay":5,"expiry":6}, want {"expiry":0,"delay":5}`},
		{"throttle_delay", `{}`, `{"delay": 5}`, abi.AppendDelayAnswer(nil, &abi.DelayAnswer{Delay: -5}), `vector "a": a host refuses the answer: delay is negative`},
		{"throttle_admit", `{}`, `{"start": false, "wait": 0}`, nil, ""},
		{"throttle_admit", `{}`, `{"start": true}`, nil, `vector "a": the answer is {"start":false,"wait":0}, want {"start":true}`},
		{"throttle_after", `{}`, `{"health": "degraded", "give_up": false}`, abi.AppendAfterAnswer(nil, &abi.AfterAnswer{Delay: 1, Health: abi.HealthDegraded, Reason: "x"}), ""},
		{"throttle_after", `{}`, `{"health": "dead"}`, abi.AppendAfterAnswer(nil, &abi.AfterAnswer{Delay: 1, GiveUp: true, Reason: "x"}),
			`vector "a": the answer is {"delay":1,"give_up":true,"health":"unchanged","reason":"x"}, want {"health":"dead"}`},
		{"throttle_after", `{}`, `{"reason": "y"}`, abi.AppendAfterAnswer(nil, &abi.AfterAnswer{Reason: "x"}),
			`vector "a": the answer is {"delay":0,"give_up":false,"health":"unchanged","reason":"x"}, want {"reason":"y"}`},
		{"throttle_pick", `{"waiting": [{}, {}]}`, `{"index": 1}`, abi.AppendPickAnswer(nil, &abi.PickAnswer{Index: 1}), ""},
		{"throttle_pick", `{"waiting": [{}, {}]}`, `{"index": 1}`, abi.AppendPickAnswer(nil, &abi.PickAnswer{Index: 2}), `vector "a": a host refuses the answer: index 2 of 2 that wait`},
		{"throttle_pick", `{"waiting": [{}]}`, `{"none": true}`, nil, `vector "a": the answer is {"index":0,"none":false}, want {"none":true}`},
		{"throttle_tick", `{}`, `{"limits": null}`, nil, ""},
		{"throttle_tick", `{}`, `{"limits": {}}`, nil, `vector "a": the answer is {"limits":null}, want {"limits":{}}`},
		{"throttle_tick", `{}`, `{"limits": {"events": 5}}`, abi.AppendTickAnswer(nil, &limits), ""},
		{"throttle_tick", `{}`, `{"limits": {"events": 6}}`, abi.AppendTickAnswer(nil, &limits),
			`vector "a": the answer is {"limits":{"connections":0,"subscriptions":0,"filters":0,"events":5,"queries":0,"bytes_in":0,"bytes_out":6}}, want {"limits":{"events":6}}`},
		{"throttle_tick", `{}`, `{"limits": null}`, abi.AppendTickAnswer(nil, &limits), `vector "a": the answer is {"limits":{`},
		{"throttle_delay", `{}`, `{"delay": 0}`, []byte{0xff}, `vector "a": a host refuses the answer: `},
	} {
		err := throttleVector(t, test.function, test.request, test.want).CheckAnswer(test.answer)
		if (err == nil) != (test.problem == "") || err != nil && !strings.HasPrefix(err.Error(), test.problem) {
			t.Errorf("%s %s: %v, want %s", test.function, test.want, err, test.problem)
		}
	}
	if err := vector(t, `{"name": "a", "function": "admit", "event": {}, "want": {"action": "pass"}}`).CheckAnswer(nil); err == nil {
		t.Error("a vector of a policy has an answer of a throttle")
	}
}

func TestStory(t *testing.T) {
	vector := func(name, then string) string {
		return `{"name": "` + name + `", "then": ` + then + `, "function": "throttle_admit", "request": {}, "want": {"start": true}}`
	}
	m := parse(t, withThrottleVector(vector("a", "false")+","+vector("b", "false")+","+vector("c", "true")+","+vector("d", "true")))
	for i, want := range []string{"a", "b", "bc", "bcd"} {
		got := ""
		for _, v := range m.Story(i) {
			got += v.Name
		}
		if got != want {
			t.Errorf("the story of vector %d is %q, want %q", i, got, want)
		}
	}
}

func TestWrongThrottleVectors(t *testing.T) {
	delay := func(s string) string { return `{"name": "a", "function": "throttle_delay", ` + s + `}` }
	pick := func(s string) string { return `{"name": "a", "function": "throttle_pick", ` + s + `}` }
	for _, test := range []struct{ vector, want string }{
		{delay(`"want": {"delay": 1}`), `vector "a": request is missing`},
		{delay(`"request": null, "want": {"delay": 1}`), "request is missing"},
		{delay(`"request": {}`), "want: name at least one field of the answer"},
		{delay(`"request": {}, "want": {}`), "want: name at least one field of the answer"},
		{delay(`"request": {}, "want": {"action": "pass"}`), `want: there is no field "action"`},
		{delay(`"request": {"now": 5}, "want": {"delay": 1}`), `request: there is no field "now"`},
		{delay(`"request": {"subject": {"in_fligth": 5}}, "want": {"delay": 1}`), `request: there is no field "in_fligth"`},
		{delay(`"request": {"subject": {"kind": "moon"}}, "want": {"delay": 1}`), `request: "moon": want one of domain, relay, repository`},
		{delay(`"request": {"subject": {"kind": ""}}, "want": {"delay": 1}`), `request: "": want one of domain`},
		{delay(`"request": {"subject": {"kind": 1}}, "want": {"delay": 1}`), "request: subject.kind is number: want a name"},
		{delay(`"request": {"origin": "moon"}, "want": {"delay": 1}`), "want one of client, import, sync"},
		{delay(`"request": {"subject": {"failures": -1}}, "want": {"delay": 1}`), "request: subject.failures is number -1: want a whole number from 0"},
		{delay(`"request": {"subject": {"ages": [` + strings.Repeat("1,", 256) + `1]}}, "want": {"delay": 1}`), "request: ages has 257 entries; a host tells of 256"},
		{delay(`"request": 5, "want": {"delay": 1}`), "request: "},
		{delay(`"request": {}, "want": {"delay": -1}`), "want: delay is negative"},
		{delay(`"request": {}, "want": {"delay": "x"}`), "want: delay is string: want a whole number"},
		{delay(`"request": {}, "want": 5`), `vector "a": `},
		{delay(`"request": {}, "event": {}, "want": {"delay": 1}`), "event is not for the function throttle_delay"},
		{delay(`"request": {}, "stored": [], "want": {"delay": 1}`), "stored is not for the function throttle_delay"},
		{delay(`"request": {}, "config": {"n": 6}, "want": {"delay": 1}`), "config n = 6"},
		{pick(`"request": {}, "want": {"none": true}`), "request: waiting is empty"},
		{pick(`"request": {"waiting": [{}]}, "want": {"index": 1}`), "want: index 1 of 1 that wait"},
		{pick(`"request": {"waiting": [` + strings.Repeat("{},", 16) + `{}]}, "want": {"index": 1}`), "request: waiting has 17 entries; a host tells of 16"},
		{`{"name": "a", "function": "throttle_admit", "request": {}, "want": {"start": true, "wait": 1}}`, "want: start and wait exclude each other"},
		{`{"name": "a", "function": "throttle_after", "request": {"outcome": "fine"}, "want": {"delay": 1}}`, `"fine": want one of ok, partial`},
		{`{"name": "a", "function": "throttle_after", "request": {}, "want": {"health": "sick"}}`, `"sick": want one of unchanged, healthy`},
		{`{"name": "a", "function": "throttle_tick", "request": {}, "want": {"limits": {"event": 1}}}`, `want: there is no field "event"`},
		{`{"name": "a", "function": "admit", "event": {}, "want": {"action": "pass"}}`, "it tests admit, which functions does not name"},
	} {
		if _, err := Parse([]byte(withThrottleVector(test.vector))); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%.200s: %v, want %q", test.vector, err, test.want)
		}
	}
	first := `{"name": "a", "function": "throttle_admit", "request": {}, "want": {"start": true}},`
	for then, want := range map[string]string{
		`{"name": "b", "then": true, "function": "throttle_admit", "request": {}, "want": {"start": true}}`:                             `there is none`,
		first + `{"name": "b", "then": true, "function": "throttle_admit", "config": {"n": 1}, "request": {}, "want": {"start": true}}`: `vector "b": then goes on with config and service of the vector before`,
		first + `{"name": "b", "then": 1, "function": "throttle_admit", "request": {}, "want": {"start": true}}`:                        `vector "b": then is number: want true or false`,
	} {
		if _, err := Parse([]byte(withThrottleVector(then))); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", then, err, want)
		}
	}
	both := strings.Replace(withThrottleVector(first+`{"name": "b", "then": true, "function": "admit", "event": {}, "want": {"action": "pass"}}`),
		`["throttle"]`, `["throttle", "policy"]`, 1)
	if _, err := Parse([]byte(both)); err == nil || !strings.Contains(err.Error(), "that is of another world") {
		t.Errorf("a story of two worlds: %v", err)
	}
	const policy = `{"name": "a", "function": "admit", "event": {}, "request": {}, "want": {"action": "pass"}}`
	if _, err := Parse([]byte(withVector(policy))); err == nil || !strings.Contains(err.Error(), "request is not for the function admit") {
		t.Errorf("a policy with a request: %v", err)
	}
}
