package main

import (
	"strings"
	"testing"
	"time"

	"talon/host/gitfetch"
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
