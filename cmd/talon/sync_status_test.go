package main

import (
	"strings"
	"testing"
	"time"

	"talon/host/relaysync"
)

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
		},
		Coverage: []relaysync.RepositorySnapshot{{Repository: "30617:ab:evil\x1b[2J", Held: true, Relays: 5, Connected: 4, Complete: 2}},
	}, now)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"1 of 2 relays connected, at most 200 at once; 1 complete; 1 repository followed\n", "wss://a (bootstrap)", "3 (1 filter)", "5m ago, a fetch was cut short", "3 MiB",
		"negentropy yes, 500 events, authentication", "barred", "in 1m0s", `gone \x1b[2J`, `evil\x1b[2J`, "waits for git data",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "\x1b") {
		t.Error("a terminal would obey what a relay says")
	}
	if strings.Contains(out.String(), "what ended it before") {
		t.Error("a relay that is connected stands among those that are not")
	}
}
