package grasp

import (
	"reflect"
	"strings"
	"testing"
)

func TestIdentifier(t *testing.T) {
	for _, right := range []string{
		"talon", ".git", "...", "a.b", "-x", "with space", "a:b:c", "🦅", "%2F", "a?b#c", strings.Repeat("é", 200), "\u2028",
	} {
		if err := CheckIdentifier(right); err != nil {
			t.Errorf("CheckIdentifier(%q) = %v", right, err)
		}
	}
	for wrong, want := range map[string]error{
		"": errIdentifierEmpty, ".": errIdentifierDots, "..": errIdentifierDots,
		"a/b": errIdentifierSlash, "../x": errIdentifierSlash, `a\b`: errIdentifierSlash, "/": errIdentifierSlash,
		"a\x00b": errIdentifierControl, "a\nb": errIdentifierControl, "\x7f": errIdentifierControl, "\u0085": errIdentifierControl,
		"\xff": errIdentifierUTF8,
	} {
		if err := CheckIdentifier(wrong); err != want {
			t.Errorf("CheckIdentifier(%q) = %v, want %v", wrong, err, want)
		}
	}
}

func TestParseAnnouncement(t *testing.T) {
	a, b := hexString(key(7)), hexString(key(8))
	e := event(KindAnnouncement, 1, 5, "d one:two", "d other", "name Talon", "name no", "description x", "description",
		"clone https://a/x https://b/y", "clone git@c:z", "relays wss://a", "relays wss://b wss://c", "web https://w", "clone",
		"maintainers "+a+" nonsense "+strings.ToUpper(b), "maintainers "+a+" "+npub(9)+" "+a[:62], "maintainers "+b+"00",
		"r "+oid(1), "r xyz euc", "r "+strings.ToUpper(oid(2))+" euc", "r "+oid(3)+" euc", "t personal-fork", "t git")
	e.Tags = append(e.Tags, []string{}, []string{"clone", ""})
	got, err := ParseAnnouncement(e)
	if err != nil {
		t.Fatal(err)
	}
	want := &Announcement{
		Stamp: e.Stamp, Identifier: "one:two", Name: "Talon", Description: "x",
		Clone:  []string{"https://a/x", "https://b/y", "git@c:z"},
		Relays: []string{"wss://a", "wss://b", "wss://c"}, Web: []string{"https://w"},
		Maintainers: []PubKey{key(7), key(8)}, EarliestCommit: oid(2), PersonalFork: true,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if got.Repo().Address() != "30617:"+hexString(key(1))+":one:two" {
		t.Errorf("address %s", got.Repo().Address())
	}
}

func TestAnnouncementRefused(t *testing.T) {
	for name, test := range map[string]struct {
		e    *Event
		want string
	}{
		"kind":        {event(1, 1, 1, "d x"), "invalid: not a repository announcement (kind 30617)"},
		"no d":        {event(KindAnnouncement, 1, 1), "invalid: the repository identifier is empty (d tag)"},
		"d alone":     {event(KindAnnouncement, 1, 1, "d", "d x"), "invalid: the repository identifier is empty (d tag)"},
		"traversal":   {event(KindAnnouncement, 1, 1, "d .."), "invalid: the repository identifier must not be one dot or two (d tag)"},
		"slash":       {event(KindAnnouncement, 1, 1, "d a/b"), `invalid: the repository identifier must not contain / or \ (d tag)`},
		"line ending": {event(KindAnnouncement, 1, 1, "d a\r"), "invalid: the repository identifier must not contain control characters (d tag)"},
	} {
		if got, err := ParseAnnouncement(test.e); err == nil || err.Error() != test.want {
			t.Errorf("%s: %+v, %v, want %s", name, got, err, test.want)
		}
	}
}

func TestAnnouncementWithManyMaintainers(t *testing.T) {
	var values []string
	for i := range maxMaintainers + 10 {
		values = append(values, hexString(key(i)), "junk", hexString(key(0)))
	}
	a := announcement(t, 1, 1, "maintainers "+strings.Join(values, " "))
	if len(a.Maintainers) != maxMaintainers || a.Maintainers[maxMaintainers-1] != key(maxMaintainers-1) {
		t.Errorf("%d maintainers, the last %x", len(a.Maintainers), a.Maintainers[len(a.Maintainers)-1])
	}
}

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
