package main

import (
	"strings"
	"testing"

	"talon/sdk/policy"
	"talon/sdk/policy/policytest"
)

func TestVectors(t *testing.T) { policytest.Vectors(t, manifest, new(rate)) }

// want fails the test unless v is a pass (reason "") or a refusal with the reason.
func want(t *testing.T, v policy.Verdict, reason string) {
	t.Helper()
	action := policy.ActionPass
	if reason != "" {
		action = policy.ActionReject
	}
	if v.Action != action || v.Reason() != reason {
		t.Errorf("%v %q, want %v %q", v.Action, v.Reason(), action, reason)
	}
}

func TestEventsOfAnAddress(t *testing.T) {
	h := policytest.New(t, manifest, new(rate), map[string]any{"per_address_events_per_minute": 6, "per_address_events_burst": 2})
	const refusal = "rate-limited: too many events from your address, try again in "
	from := func(address string, author byte, reason string) {
		t.Helper()
		h.Address = address
		want(t, h.Admit(policytest.Event{PubKey: policy.PubKey{author}}), reason)
	}
	from("192.0.2.1", 1, "")
	from("192.0.2.1", 2, "")
	from("192.0.2.1", 3, refusal+"10 seconds")
	from("::ffff:192.0.2.1", 3, refusal+"10 seconds")
	from("192.0.2.2", 3, "")
	h.Now += 9
	from("192.0.2.1", 3, refusal+"1 second")
	h.Now++
	from("192.0.2.1", 3, "")
	from("192.0.2.1", 3, refusal+"10 seconds")

	from("2001:db8::1", 1, "")
	from("2001:db8::2", 1, "")
	from("2001:db8::3:4", 1, refusal+"10 seconds")
	from("2001:db8:0:1::1", 1, "")
	for range 10 {
		from("", 1, "")
	}
}

func TestEventsOfAnAuthor(t *testing.T) {
	h := policytest.New(t, manifest, new(rate), map[string]any{"per_author_events_per_minute": 2})
	author := policytest.Event{PubKey: policy.PubKey{1}}
	h.Address = "192.0.2.1"
	want(t, h.Admit(author), "")
	h.Address = "192.0.2.2"
	want(t, h.Admit(author), "")
	want(t, h.Admit(author), "rate-limited: too many events of this author, try again in 30 seconds")
	want(t, h.Admit(policytest.Event{PubKey: policy.PubKey{2}}), "")
	h.Origin = policy.FromSync
	want(t, h.Admit(author), "")
}

func TestEventsOfAClass(t *testing.T) {
	h := policytest.New(t, manifest, new(rate), map[string]any{
		"per_address_class_events_per_minute": []any{"ephemeral:6", "git:60"}, "per_address_class_events_burst": []any{"ephemeral:2"},
		"per_author_class_events_per_minute": []any{"git:1", "replaceable:0"}, "per_author_class_events_burst": []any{"git:3"},
		"per_author_events_per_minute": 100,
	})
	from := func(address string, author byte, kind int, reason string) {
		t.Helper()
		h.Address = address
		want(t, h.Admit(policytest.Event{PubKey: policy.PubKey{author}, Kind: kind}), reason)
	}
	for _, kind := range []int{1617, 30617, 1621} {
		from("192.0.2.1", 1, kind, "")
	}
	from("192.0.2.1", 1, 1618, "rate-limited: too many git events of this author, try again in 60 seconds")
	from("192.0.2.1", 2, 1618, "")
	for range 2 {
		from("192.0.2.1", 1, 20001, "")
	}
	from("192.0.2.1", 2, 29999, "rate-limited: too many ephemeral events from your address, try again in 10 seconds")
	from("192.0.2.2", 2, 29999, "")
	for range 20 {
		for _, kind := range []int{0, 1, 30023, 10002} {
			from("192.0.2.1", 1, kind, "")
		}
	}
	h.Address = "192.0.2.1"
	if v := h.Admit(policytest.Event{PubKey: policy.PubKey{1}, Kind: 30618}); v.Rule != "author-events-git" {
		t.Errorf("by %q", v.Rule)
	}
	h.WantNoAllocations(policytest.Event{PubKey: policy.PubKey{1}, Kind: 30618})
}

func TestLimitsOfOneClassAreNotIdle(t *testing.T) {
	for _, key := range []string{"per_address_class_events_per_minute", "per_author_class_events_per_minute"} {
		h := policytest.New(t, manifest, new(rate), map[string]any{key: []any{"git:1"}})
		h.Address = "192.0.2.1"
		h.Admit(policytest.Event{Kind: 1617})
		if v := h.Admit(policytest.Event{Kind: 1617}); v.Action != policy.ActionReject {
			t.Errorf("%s: %+v", key, v)
		}
		for _, wrong := range []string{"git", "note:1", "git:6001", "git:-1", "git:1:", "git:1:1000001", "git:1:2:3"} {
			if _, err := policytest.Configure(t, manifest, new(rate), map[string]any{key: []any{wrong}}); err == nil || !strings.Contains(err.Error(), "config "+key+` has "`+wrong+`": want class:number`) {
				t.Errorf("%s: %v", wrong, err)
			}
		}
	}
}

func TestWhoIsTrusted(t *testing.T) {
	h := policytest.New(t, manifest, new(rate), map[string]any{
		"per_author_events_per_minute": 1, "per_address_events_per_minute": 1, "per_address_queries_per_minute": 1,
	})
	friend := policy.PubKey{7}
	h.Sets = map[string][]string{"trusted": {friend.String()}}
	h.Address = "192.0.2.1"
	for range 3 {
		want(t, h.Admit(policytest.Event{PubKey: friend}), "")
	}
	h.Authed = []policy.PubKey{{1}, friend}
	for range 3 {
		want(t, h.Admit(policytest.Event{PubKey: policy.PubKey{1}}), "")
		want(t, h.Query(policy.VerbReq, policy.Filter{}), "")
	}
	h.Authed = []policy.PubKey{{1}}
	want(t, h.Admit(policytest.Event{PubKey: policy.PubKey{1}}), "")
	want(t, h.Admit(policytest.Event{PubKey: policy.PubKey{1}}), "rate-limited: too many events from your address, try again in 60 seconds")
}

func TestQueries(t *testing.T) {
	h := policytest.New(t, manifest, new(rate), map[string]any{"per_address_queries_per_minute": 60, "per_address_queries_burst": 2})
	h.Address = "192.0.2.1"
	want(t, h.Query(policy.VerbReq, policy.Filter{}), "")
	want(t, h.Query(policy.VerbNeg, policy.Filter{}), "")
	want(t, h.Query(policy.VerbCount, policy.Filter{}), "rate-limited: too many queries from your address, try again in 1 second")
	h.Address = ""
	want(t, h.Query(policy.VerbReq, policy.Filter{}), "")
}

func TestBytesOfADay(t *testing.T) {
	h := policytest.New(t, manifest, new(rate), map[string]any{"per_author_bytes_per_day": 1000})
	h.Now = 1_700_006_400 + 20*3600 // 20:00 UTC
	note := func(author byte, size int) policytest.Event {
		return policytest.Event{PubKey: policy.PubKey{author}, Kind: 1, Content: strings.Repeat("x", size)}
	}
	const refusal = "rate-limited: this author has stored enough for today, try again in "
	want(t, h.Admit(note(1, 100)), "")
	want(t, h.Admit(note(1, 201)), refusal+"4 hours")
	want(t, h.Admit(note(1, 200)), "") // what was refused does not count
	want(t, h.Admit(note(1, 0)), refusal+"4 hours")
	want(t, h.Admit(note(2, 0)), "")
	h.Now += 3*3600 + 1
	want(t, h.Admit(note(1, 0)), refusal+"1 hour")
	h.Now += 3599
	want(t, h.Admit(note(1, 650)), "")
	want(t, h.Admit(note(1, 0)), refusal+"24 hours")
}

func TestDecisionAllocatesNothing(t *testing.T) {
	h := policytest.New(t, manifest, new(rate), map[string]any{
		"per_author_events_per_minute": 6000, "per_address_events_per_minute": 10, "per_author_bytes_per_day": 1 << 40,
	})
	h.Authed, h.Sets = []policy.PubKey{{9}}, map[string][]string{}
	h.WantNoAllocations(policytest.Event{PubKey: policy.PubKey{1}, Content: "hello"})
	h.Address = "2001:db8::1"
	h.WantNoAllocations(policytest.Event{PubKey: policy.PubKey{1}, Content: "hello"})
	if v := h.Admit(policytest.Event{PubKey: policy.PubKey{1}, Content: "hello"}); v.Rule != "address-events" {
		t.Errorf("%+v, want a refusal", v)
	}
}

// TestDefaults has every limit off, but for git events of an address.
func TestDefaults(t *testing.T) {
	h := policytest.New(t, manifest, new(rate), nil)
	const refusal = "rate-limited: too many git events from your address, try again in 1 second"
	from := func(address string, kind int, reason string) {
		t.Helper()
		h.Address = address
		want(t, h.Admit(policytest.Event{PubKey: policy.PubKey{1}, Kind: kind}), reason)
	}
	for i := range 500 {
		from("192.0.2.1", []int{30617, 30618, 1617, 1621, 1632}[i%5], "")
	}
	from("192.0.2.1", 30617, refusal)
	from("192.0.2.1", 1111, "") // a comment, on whatever it may be
	from("192.0.2.1", 1, "")
	from("192.0.2.2", 30617, "")
	for range 600 {
		for _, address := range []string{"127.0.0.1", "::1", "::ffff:127.0.0.1", ""} {
			from(address, 30617, "")
		}
	}
	h.Now += 10
	for range 10 {
		from("192.0.2.1", 1618, "")
	}
	from("192.0.2.1", 1618, refusal)
}

// TestKnownPeople has somebody use up what an address may send. A client with that address and a
// proven key of a known person has a bucket of its own. A signature alone does not open it: an
// event may be sent once more by anybody.
func TestKnownPeople(t *testing.T) {
	h := policytest.New(t, manifest, new(rate), map[string]any{"per_address_queries_per_minute": 1})
	alice, bob := policy.PubKey{7}, policy.PubKey{8}
	h.Sets = map[string][]string{"known": {alice.String(), bob.String()}}
	h.Address = "192.0.2.1"
	const refusal = "rate-limited: too many git events from your address, try again in 1 second"
	send := func(reason string) {
		t.Helper()
		want(t, h.Admit(policytest.Event{PubKey: alice, Kind: 30618}), reason)
	}
	for range 500 {
		send("")
	}
	send(refusal)
	h.Authed = []policy.PubKey{{1}}
	send(refusal)
	h.Authed = []policy.PubKey{{1}, alice}
	for range 500 {
		send("")
	}
	send(refusal)
	h.Address = "192.0.2.99" // the key counts, wherever the client is
	send(refusal)
	h.Authed = []policy.PubKey{bob}
	send("")
	want(t, h.Query(policy.VerbReq, policy.Filter{}), "")
	want(t, h.Query(policy.VerbReq, policy.Filter{}), "rate-limited: too many queries from your address, try again in 60 seconds")
}
