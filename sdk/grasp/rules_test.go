package grasp

import (
	"strings"
	"testing"
)

func TestList(t *testing.T) {
	l := list(t, npub(1), npub(2)+"/repo", "shared", "a:b", "npub")
	for repo, want := range map[Repo]bool{
		{key(1), "anything"}: true, {key(2), "repo"}: true, {key(2), "other"}: false, {key(3), "repo"}: false, {key(3), "shared"}: true, {key(3), "a:b"}: true, {key(3), "a"}: false,
		{key(3), "npub"}: true, {key(3), npub(1)}: false,
	} {
		if l.Has(repo) != want {
			t.Errorf("%v: %v", repo, !want)
		}
	}
	if !l.HasAuthor(key(1)) || l.HasAuthor(key(2)) || l.Empty() || !(List{}).Empty() || !list(t).Empty() || (List{}).Has(Repo{key(1), "x"}) {
		t.Error("HasAuthor or Empty is wrong")
	}
	for _, wrong := range []string{
		"", "..", "a\n", "npub1", npub(1)[:62] + "q", "npub1x/y", npub(1) + "/", npub(1) + "/..", npub(1) + "/a/b", "a/b", "/x", hexString(key(1)), strings.ToUpper(hexString(key(1))) + "/x", hexString(key(1)) + "/x",
	} {
		if _, err := ParseList([]string{"right", wrong}); err == nil {
			t.Errorf("%q is taken", wrong)
		}
	}
	if _, err := ParseList([]string{"a/b"}); err == nil || err.Error() != `"a/b": an author is written as npub, with a right checksum` {
		t.Errorf("the error does not say what to do: %v", err)
	}
}

func TestRules(t *testing.T) {
	ours := []string{"clone https://us.example/x.git", "relays wss://us.example"}
	theirs := []string{"clone https://them.example/x.git", "relays wss://them.example"}
	us, them := service(t, "us.example"), service(t, "them.example")
	plain := Rules{Service: us}
	curated := Rules{Service: us, Allow: list(t, npub(1))}
	denying := Rules{Service: us, Archive: Archive{All: true}, Deny: list(t, npub(1), "repo2")}
	for name, test := range map[string]struct {
		rules      Rules
		author     int
		tags       []string
		maintained bool
		want       Standing
		reason     string
	}{
		"lists us":                          {plain, 1, ours, false, Hosted, ""},
		"lists others":                      {plain, 1, theirs, false, Refused, ReasonNotListed},
		"in clone only":                     {plain, 1, []string{ours[0], theirs[1]}, false, Refused, ReasonNotListed},
		"in relays only":                    {plain, 1, []string{theirs[0], ours[1]}, false, Refused, ReasonNotListed},
		"a maintainer's":                    {plain, 1, theirs, true, Member, ""},
		"a maintainer's that lists us":      {plain, 1, ours, true, Hosted, ""},
		"archive all":                       {Rules{Service: us, Archive: Archive{All: true}}, 1, theirs, false, Archived, ""},
		"archive all, lists us":             {Rules{Service: us, Archive: Archive{All: true}}, 1, ours, false, Hosted, ""},
		"archive list, author":              {Rules{Service: us, Archive: Archive{List: list(t, npub(1))}}, 1, theirs, false, Archived, ""},
		"archive list, other author":        {Rules{Service: us, Archive: Archive{List: list(t, npub(1))}}, 2, theirs, false, Refused, ReasonNotListed},
		"archive list, repository":          {Rules{Service: us, Archive: Archive{List: list(t, npub(1)+"/repo")}}, 1, theirs, false, Archived, ""},
		"archive list, other repository":    {Rules{Service: us, Archive: Archive{List: list(t, npub(1)+"/other")}}, 1, theirs, false, Refused, ReasonNotListed},
		"archive list, identifier":          {Rules{Service: us, Archive: Archive{List: list(t, "repo")}}, 2, theirs, false, Archived, ""},
		"archive service":                   {Rules{Service: us, Archive: Archive{Services: []Service{service(t, "x.example"), them}}}, 1, theirs, false, Archived, ""},
		"archive service, in clone only":    {Rules{Service: us, Archive: Archive{Services: []Service{them}}}, 1, theirs[:1], false, Refused, ReasonNotListed},
		"archive other service":             {Rules{Service: us, Archive: Archive{Services: []Service{service(t, "em.example")}}}, 1, theirs, false, Refused, ReasonNotListed},
		"a maintainer's, archived":          {Rules{Service: us, Archive: Archive{All: true}}, 1, theirs, true, Archived, ""},
		"chosen":                            {curated, 1, ours, false, Hosted, ""},
		"not chosen":                        {curated, 2, ours, false, Refused, ReasonCurated},
		"not chosen, but a maintainer's":    {curated, 2, ours, true, Member, ""},
		"not chosen, and an archive of all": {Rules{Service: us, Allow: list(t, npub(1)), Archive: Archive{All: true}}, 2, ours, false, Refused, ReasonCurated},
		"chosen, but lists others":          {curated, 1, theirs, false, Refused, ReasonNotListed},
		"denied":                            {denying, 1, ours, true, Refused, ReasonDenied},
		"denied for the archive":            {denying, 1, theirs, false, Refused, ReasonDenied},
		"not denied":                        {denying, 2, ours, false, Hosted, ""},
	} {
		got, reason := test.rules.Announcement(announcement(t, test.author, 1, test.tags...), test.maintained)
		if got != test.want || reason != test.reason {
			t.Errorf("%s: %v, %q", name, got, reason)
		}
	}
}
