package main

import (
	"reflect"
	"strings"
	"testing"

	"talon/sdk/policy"
	"talon/sdk/policy/policytest"
)

func TestVectors(t *testing.T) { policytest.Vectors(t, manifest, new(service)) }

// A wrong entry names its setting and itself.
func TestWrongConfig(t *testing.T) {
	for name, test := range map[string]struct {
		at     policy.Service
		config map[string]any
		want   []string
	}{
		"npub":        {policytest.Service, map[string]any{"deny": []any{"talon", "npub1xyz"}}, []string{`config deny has "npub1xyz"`, "right checksum"}},
		"hex":         {policytest.Service, map[string]any{"allow": []any{strings.Repeat("ab", 32)}}, []string{`config allow has "abab`, "write an author as npub"}},
		"identifier":  {policytest.Service, map[string]any{"archive": []any{npub(olivia) + "/.."}}, []string{"config archive has ", "one dot or two"}},
		"service":     {policytest.Service, map[string]any{"archive_services": []any{"https://gitnostr.com"}}, []string{`config archive_services has "https://gitnostr.com"`, "without scheme"}},
		"quota":       {policytest.Service, map[string]any{"max_repositories_per_author": 101}, []string{"max_repositories_per_author", "101"}},
		"own address": {policy.Service{}, nil, []string{`the relay is reached at ""`, "a service is a domain"}},
	} {
		_, err := policytest.ConfigureAt(t, test.at, manifest, new(service), test.config)
		if err == nil {
			t.Errorf("%s: accepted", name)
			continue
		}
		for _, want := range test.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v; want %s", name, err, want)
			}
		}
	}
}

// What the relay says of itself follows from the settings.
func TestDescribe(t *testing.T) {
	for name, test := range map[string]struct {
		prs    bool
		config map[string]any
		want   policy.Description
	}{
		"all defaults": {true, nil, policy.Description{
			Grasps: []string{"GRASP-01", "GRASP-06"},
			Criteria: "Git repositories whose announcement lists relay.example.com in both its clone and its relays tags; " +
				"pull requests for repositories elsewhere, pushed to /prs/; and events about what is accepted here.",
		}},
		"chosen repositories": {false, map[string]any{"allow": []any{"talon"}, "max_repositories_per_author": 3}, policy.Description{
			Grasps: []string{"GRASP-01"},
			Criteria: "Git repositories whose announcement lists relay.example.com in both its clone and its relays tags, " +
				"if the operator has chosen them, at most 3 of one author; and events about what is accepted here.",
			Curation: "New repositories are hosted if they are on the operator's list.",
		}},
		"an archive of everything": {false, map[string]any{"archive_all": true, "archive": []any{"x"}, "archive_services": []any{"a.com"}, "read_only": true}, policy.Description{
			Grasps: []string{"GRASP-01", "GRASP-05"},
			Criteria: "Git repositories whose announcement lists relay.example.com in both its clone and its relays tags; " +
				"all other repositories, as read-only archives; and events about what is accepted here. " +
				"Nothing can be pushed: every repository here is a read-only archive.",
		}},
		"an archive of some": {false, map[string]any{
			"archive": []any{"x"}, "archive_services": []any{"a.com", "b.com", "c.com", "d.com", "e.com", "f.com"},
		}, policy.Description{
			Grasps: []string{"GRASP-01", "GRASP-05"},
			Criteria: "Git repositories whose announcement lists relay.example.com in both its clone and its relays tags; " +
				"some other repositories, as read-only archives; and events about what is accepted here.",
			Curation: "Repositories on the operator's list are archived. Repositories that list a.com, b.com, c.com, d.com, e.com, and others are archived.",
		}},
	} {
		h, err := policytest.ConfigureAt(t, policy.Service{Domain: here, PRs: test.prs}, manifest, new(service), test.config)
		if err != nil {
			t.Fatal(err)
		}
		test.want.Writes = policy.WritesRestricted
		if !reflect.DeepEqual(h.About, test.want) {
			t.Errorf("%s:\n%+v, want\n%+v", name, h.About, test.want)
		}
	}
}

// A push that is not to a repository, and one to a repository of no possible name.
func TestPushToNothing(t *testing.T) {
	w := newWorld(t, map[string]any{"read_only": true})
	for _, repo := range []string{"", "30617", "30617:xyz:talon", "30618" + address(olivia)[5:], address(olivia)[:71], address(olivia)[:71] + "../x"} {
		if v := w.Push(policytest.Push{Repo: repo}); v.Action != policy.ActionPass {
			t.Errorf("%q: %v", repo, v)
		}
	}
}
