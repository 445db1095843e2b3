package main

import (
	"strings"
	"testing"
	"time"

	"talon/host/gitfetch"
	"talon/host/relaysync"
	"talon/host/relaysync/loop"
)

func TestParseHunted(t *testing.T) {
	const hex = "3bf0c63fcb93463407af97a5e5ee64fa883d107ef9e558472c4eb9aaaefa459d"
	const npub = "npub180cvv07tjdrrgpa0j7j7tmnyl2yr6yr7l8j4s3evf6u64th6gkwsyjh6w6"
	for text, want := range map[string][2]string{
		"talon":                 {"", "talon"},
		"a:b":                   {"", "a:b"},
		npub + "/talon":         {"30617:" + hex + ":talon", "talon"},
		npub + "/talon.git":     {"30617:" + hex + ":talon", "talon"},
		"30617:" + hex + ":a:b": {"30617:" + hex + ":a:b", "a:b"},
	} {
		repository, identifier, err := parseHunted(text)
		if err != nil || [2]string{repository, identifier} != want {
			t.Errorf("%s: %q %q, %v", text, repository, identifier, err)
		}
	}
	for _, text := range []string{"", "a/b", npub + "/", "/x"} {
		if _, _, err := parseHunted(text); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}

func TestWriteHunt(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	var out strings.Builder
	err := writeHunt(&out, &gitfetch.Status{
		Waiting: 2, Requests: 1,
		Repositories: []gitfetch.RepositoryStatus{
			{Identifier: "evil\x1b[2J", Missing: 3, Rounds: 2, Expires: now.Add(time.Minute), Asking: []string{"https://a/x"},
				Refused: []gitfetch.Refused{{URL: "ssh://a/\x1bx", Reason: "no http"}}},
			{Identifier: "talon", Missing: 1, Next: now.Add(40 * time.Second), Expires: now.Add(time.Hour), WaitsFor: []string{"b"},
				Last: &gitfetch.Request{At: now.Add(-5 * time.Second), URL: "https://b/x", Outcome: "rate-limited", Reason: "the server answers 429"}},
		},
		Domains: []gitfetch.DomainStatus{{Domain: "b", Health: "degraded", LastMinute: 30, Requests: 99, Waiting: 1, NotBefore: now.Add(time.Minute)}},
	}, now)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"2 repositories waiting for git data, 1 request under way\n", `evil\x1b[2J`, "https://a/x", "in 40s", "rate-limited 5s ago: the server answers 429",
		"degraded", "in 1m0s", `ssh://a/\x1bx`, "no http",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "\x1b") {
		t.Error("a terminal would obey what an event says")
	}
	out.Reset()
	err = writeHunt(&out, &gitfetch.Status{Waiting: 1, Requests: 0, Repositories: []gitfetch.RepositoryStatus{{}}}, now)
	if want := "1 repository waiting for git data, 0 requests under way\n"; err != nil || !strings.HasPrefix(out.String(), want) {
		t.Errorf("%q, %v", out.String(), err)
	}
	out.Reset()
	if err := writeHunt(&out, &gitfetch.Status{}, now); err != nil || out.String() != "nothing waits for git data\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
}

func TestParseSynced(t *testing.T) {
	const hex = "3bf0c63fcb93463407af97a5e5ee64fa883d107ef9e558472c4eb9aaaefa459d"
	const npub = "npub180cvv07tjdrrgpa0j7j7tmnyl2yr6yr7l8j4s3evf6u64th6gkwsyjh6w6"
	for text, want := range map[string][2]string{
		"wss://relay.example.com/a": {"wss://relay.example.com/a", ""},
		npub + "/talon":             {"", "30617:" + hex + ":talon"},
		npub + "/talon.git":         {"", "30617:" + hex + ":talon"},
		"30617:" + hex + ":a:b":     {"", "30617:" + hex + ":a:b"},
	} {
		relay, repository, err := parseSynced(text)
		if err != nil || [2]string{relay, repository} != want {
			t.Errorf("%s: %q %q, %v", text, relay, repository, err)
		}
	}
	for _, text := range []string{"", "talon", "a/b", npub, npub + "/", "/x"} {
		if _, _, err := parseSynced(text); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}

func TestWriteSync(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	var out strings.Builder
	err := writeSync(&out, &relaysync.Snapshot{
		Connections: 1, MaxConnections: 200, Tracked: 2, Complete: 1, Repositories: 1,
		Relays: []relaysync.RelaySnapshot{
			{Relay: "wss://a", State: relaysync.StateConnected, Bootstrap: true, Health: "healthy", Subscriptions: 3, Filters: 1, Pending: 7, Bytes: 3 << 20,
				Complete: now.Add(-5 * time.Minute), Partial: true, Repositories: 40, Reason: "what ended it before", Limits: relaysync.Learnt{Negentropy: "yes", Limit: 500, Auth: true}},
			{Relay: "wss://b", State: relaysync.StateResting, Health: "barred", Failures: 3, Reason: "gone \x1b[2J", Next: now.Add(time.Minute), Limits: relaysync.Learnt{Negentropy: "unknown"}},
			{Relay: "wss://c", State: relaysync.StateConnected, Health: "healthy", Limits: relaysync.Learnt{Negentropy: "yes", Values: 20_000},
				Uncovered: &relaysync.Uncovered{Repositories: 1, Roots: 300, Authors: 20, Since: now.Add(-2 * time.Hour)}, NextCheck: now.Add(30 * time.Minute),
				Open: []relaysync.Open{
					{What: loop.IncompleteRoots.String(), Count: 300, Since: now.Add(-3 * time.Hour)},
					{What: loop.IncompleteRest.String(), Count: 1, Since: now.Add(-4 * time.Second), Until: now.Add(time.Minute)},
					{What: "a reason\x1b of another version", Count: 1, Since: now},
				}},
		},
		Coverage: []relaysync.RepositorySnapshot{{Repository: "30617:ab:evil\x1b[2J", Held: true, Relays: 5, Connected: 4, Complete: 2}},
	}, now)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"1 of 2 relays connected, at most 200 at once; 1 complete; 1 repository followed\n", "wss://a (bootstrap)", "3 (1 filter)", "5m ago", "3 MiB",
		"negentropy yes, 500 events, authentication", "barred", "attempt in 1m0s", "check in 30m0s", `gone \x1b[2J`, `evil\x1b[2J`, "waits for git data",
		"negentropy yes, 20000 values", "NO ROOM FOR SUBSCRIPTIONS", "1 repository and 300 root events and deletions by 20 authors", "2h ago",
		"NOT COMPLETE", "root events without a subscription there: 300", "3h ago", "and rests; that ends in 1m0s", `a reason\x1b of another version`,
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "\x1b") {
		t.Error("a terminal would obey what a relay says")
	}
	for reason := range loop.Reasons {
		if openTexts[loop.Incomplete(reason).String()] == "" {
			t.Errorf("there is no text for %q", loop.Incomplete(reason))
		}
	}
	if strings.Contains(out.String(), "what ended it before") {
		t.Error("a relay that is connected stands among those that are not")
	}
}
