package grasp

import (
	"reflect"
	"strings"
	"testing"
)

func pullRequest(t testing.TB, author int, tags ...string) *PullRequest {
	t.Helper()
	pr, err := ParsePullRequest(event(KindPullRequest, author, 1, tags...))
	if err != nil {
		t.Fatal(err)
	}
	return pr
}

func repoTag(author int, identifier string) string {
	return "a " + Repo{key(author), identifier}.Address()
}

func TestParsePullRequest(t *testing.T) {
	e := event(KindPullRequest, 1, 1, "c "+strings.ToUpper(oid(1)), "c "+oid(2), "clone https://a https://b", "clone https://c", repoTag(2, "x:y"), repoTag(3, "x:y"),
		repoTag(2, "x:y"), "a 30618:"+hexString(key(2))+":x", "a 30617:junk:x", "a 30617:"+hexString(key(2))+":..", "a", "merge-base "+oid(3), "branch-name feature")
	got, err := ParsePullRequest(e)
	want := &PullRequest{
		Stamp: e.Stamp, Commit: oid(1), Clone: []string{"https://a", "https://b", "https://c"},
		Repos: []Repo{{key(2), "x:y"}, {key(3), "x:y"}}, MergeBase: oid(3), Branch: "feature",
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v", got, err)
	}
	if got.Ref() != (Ref{nostrRefs + hexString(e.ID), oid(1)}) {
		t.Errorf("ref %v", got.Ref())
	}
	update, err := ParsePullRequest(event(KindPRUpdate, 1, 2, "c "+oid(4), "E "+hexString(key(9)), "P "+hexString(key(1)), "merge-base x"))
	if err != nil || !update.Update || update.Root != key(9) || update.Commit != oid(4) || update.MergeBase != "" {
		t.Errorf("got %+v, %v", update, err)
	}
	for name, e := range map[string]*Event{
		"kind": event(KindPatch, 1, 1, "c "+oid(1)), "no c": event(KindPullRequest, 1, 1), "short": event(KindPullRequest, 1, 1, "c abc", "c "+oid(1)),
		"option": event(KindPullRequest, 1, 1, "c --upload-pack=x"), "zeros": event(KindPRUpdate, 1, 1, "c "+none),
	} {
		if pr, err := ParsePullRequest(e); err == nil || !strings.HasPrefix(err.Error(), "invalid: ") {
			t.Errorf("%s: %+v, %v", name, pr, err)
		}
	}
}

// The clone URL names this service's /prs/<signer npub>/<identifier>.git exactly,
// scheme and host case-insensitive, no query.
func TestPRsRepo(t *testing.T) {
	s, n := service(t, "us.example"), npub(1)
	for url, want := range map[string]bool{
		"https://us.example/prs/" + n + "/repo.git":                  true,
		"HTTPS://US.Example:443/prs/" + n + "/repo.git":              true,
		"http://us.example/prs/" + n + "/repo.git":                   true,
		"https://us.example/prs/" + n + "/%72epo.git":                true,
		"https://us.example/prs/" + n + "/repo.git/":                 false,
		"https://us.example/prs/" + n + "/repo.git?x":                false,
		"https://us.example/prs/" + n + "/repo.git?":                 false,
		"https://us.example/prs/" + n + "/repo.git#x":                false,
		"https://us.example/prs/" + n + "/repo.git/info/refs":        false,
		"https://us.example/prs/" + n + "/repo":                      false,
		"https://us.example/prs/" + n + "/other.git":                 false,
		"https://us.example/prs/" + n + "/Repo.git":                  false,
		"https://us.example/prs/" + npub(2) + "/repo.git":            false,
		"https://us.example/PRS/" + n + "/repo.git":                  false,
		"https://us.example/prs/" + strings.ToUpper(n) + "/repo.git": false,
		"https://us.example//prs/" + n + "/repo.git":                 false,
		"https://us.example/x/prs/" + n + "/repo.git":                false,
		"https://us.example/" + n + "/repo.git":                      false,
		"https://us.example:8080/prs/" + n + "/repo.git":             false,
		"https://us.example.evil/prs/" + n + "/repo.git":             false,
		"https://x@us.example/prs/" + n + "/repo.git":                false,
		"wss://us.example/prs/" + n + "/repo.git":                    false,
		"https://us.example":                                         false,
	} {
		got, ok := pullRequest(t, 1, "c "+oid(1), repoTag(5, "repo"), "clone https://other/x.git "+url).PRsRepo(s)
		if ok != want || ok && got != (Repo{key(1), "repo"}) {
			t.Errorf("%s: %v, %v", url, got, ok)
		}
	}
	if _, ok := pullRequest(t, 1, "c "+oid(1), "clone https://us.example/prs/"+n+"/repo.git").PRsRepo(s); ok {
		t.Error("a pull request without an a tag is accepted")
	}
}

func TestPRsAuthorize(t *testing.T) {
	repo := Repo{key(1), "repo"}
	right := pullRequest(t, 1, "c "+oid(1), repoTag(5, "repo"))
	p := PRsPush{Repo: repo, Refs: []Ref{{nostrRef(1), oid(1)}}, PullRequest: func(id ID) (*PullRequest, bool) {
		switch id {
		case key(1):
			return right, true
		case key(2):
			return nil, true
		case key(3):
			return pullRequest(t, 2, "c "+oid(1), repoTag(5, "repo")), true
		case key(4):
			return pullRequest(t, 1, "c "+oid(1), repoTag(5, "other")), true
		}
		return nil, false
	}}
	for name, test := range map[string]struct {
		updates []Update
		refused string
	}{
		"known":              {[]Update{create(nostrRef(1), 1)}, ""},
		"not here yet":       {[]Update{create(nostrRef(9), 7)}, ""},
		"two":                {[]Update{create(nostrRef(1), 1), create(nostrRef(9), 7)}, ""},
		"another tip":        {[]Update{create(nostrRef(1), 2)}, "has its tip at"},
		"a note":             {[]Update{create(nostrRef(2), 2)}, "is not a pull request"},
		"somebody else":      {[]Update{create(nostrRef(3), 1)}, "signed by somebody else"},
		"another repository": {[]Update{create(nostrRef(4), 1)}, "for another repository"},
		"a branch":           {[]Update{create(mainRef, 1)}, "only refs/nostr/<event id> can be pushed here"},
		"a branch beside":    {[]Update{create(nostrRef(1), 1), create(mainRef, 1)}, "only refs/nostr/<event id> can be pushed here"},
		"no id":              {[]Update{create("refs/nostr/main", 1)}, "only refs/nostr/<event id> can be pushed here"},
		"delete":             {[]Update{remove(nostrRef(1), 1)}, "not deleted"},
		"deleted already":    {[]Update{remove(nostrRef(2), 1), {nostrRef(9), none, none}}, ""},
		"no object":          {[]Update{{nostrRef(1), none, "x"}}, "object name"},
		"twice":              {[]Update{create(nostrRef(1), 1), create(nostrRef(1), 1)}, "twice"},
		"nothing":            {nil, "without commands"},
	} {
		p.Updates = test.updates
		got := p.Authorize()
		if got.OK() != (test.refused == "") || !strings.Contains(got.Text(), test.refused) || strings.Contains(got.Text(), "not found") {
			t.Errorf("%s: %s", name, got.Text())
		}
	}
	p = PRsPush{Repo: repo, Updates: []Update{create(nostrRef(2), 1)}}
	if got := p.Authorize(); !got.OK() {
		t.Errorf("nothing is known: %s", got.Text())
	}
}
