package grasp

import (
	"strings"
	"testing"
)

func TestParsePath(t *testing.T) {
	n := npub(1)
	for path, want := range map[string]Path{
		"/" + n + "/repo.git":                             {Repo: Repo{key(1), "repo"}},
		"/" + n + "/repo.git/":                            {Repo: Repo{key(1), "repo"}},
		"/" + n + "/repo.git/info/refs":                   {Repo: Repo{key(1), "repo"}, Rest: "info/refs"},
		"/" + n + "/repo.git/git-upload-pack":             {Repo: Repo{key(1), "repo"}, Rest: "git-upload-pack"},
		"/" + n + "/.git.git":                             {Repo: Repo{key(1), ".git"}},
		"/" + n + "/a%20b%3Ac.git":                        {Repo: Repo{key(1), "a b:c"}},
		"/" + n + "/a b:c.git":                            {Repo: Repo{key(1), "a b:c"}},
		"/" + n + "/%F0%9F%A6%85.git":                     {Repo: Repo{key(1), "🦅"}},
		"/" + n + "/%252e%252e.git":                       {Repo: Repo{key(1), "%2e%2e"}}, // decoded once
		"/" + n + "/a+b.git":                              {Repo: Repo{key(1), "a+b"}},
		"/" + n + "/" + strings.Repeat("x", 200) + ".git": {Repo: Repo{key(1), strings.Repeat("x", 200)}},
		"/prs/" + n + "/repo.git":                         {Repo: Repo{key(1), "repo"}, PRs: true},
		"/prs/" + n + "/repo.git/info/refs":               {Repo: Repo{key(1), "repo"}, PRs: true, Rest: "info/refs"},
	} {
		if got, err := ParsePath(path); err != nil || got != want {
			t.Errorf("ParsePath(%q) = %+v, %v", path, got, err)
		}
	}
	for _, wrong := range []string{
		"", "/", "//", "/" + n, "/" + n + "/", "/" + n + "/repo", "/" + n + "/.git", n + "/repo.git", "//" + n + "/repo.git", "/x/" + n + "/repo.git",
		"/" + n + "/..git", "/" + n + "/...git", "/" + n + "/%2e%2e.git", "/" + n + "/%2E.git", "/" + n + "/a%2Fb.git", "/" + n + "/a%2fb.git", "/" + n + "/..%2F..%2Fetc.git",
		"/" + n + "/a%5Cb.git", `/` + n + `/a\b.git`, "/" + n + "/a%00.git", "/" + n + "/a%0a.git", "/" + n + "/%.git", "/" + n + "/%4.git", "/" + n + "/%zz.git", "/" + n + "/a.git%",
		"/" + n + "/%ff.git", "/" + n + "/%c0%ae%c0%ae.git", "/" + n + "/../" + n + "/repo.git", "/../" + n + "/repo.git", "/./" + n + "/repo.git",
		"/" + n + "//repo.git", "/" + n + "/repo.git/../x", "/" + n + "/repo.git/./x", "/" + n + "/repo.git//x", "/" + n + "/repo.git/%2e%2e/x", "/" + n + "/repo.git/x%2F..",
		"/" + n + `/repo.git/..\x`, "/" + n + "/repo.git/.git/config", "/" + n + "/repo.git/x\x00", "/" + n + "/repo.git/info/refs//",
		"/" + strings.ToUpper(n) + "/repo.git", "/" + n[:62] + "/repo.git", "/" + n[:62] + "x/repo.git", "/npub1/repo.git", "/" + hexString(key(1)) + "/repo.git",
		"/%6Epub1" + n[5:] + "/repo.git", "/nprofile1x/repo.git", "/nsec1" + n[5:] + "/repo.git",
		"/prs", "/prs/", "/prs/prs/" + n + "/repo.git", "/PRS/" + n + "/repo.git", "/prs//" + n + "/repo.git", "/prs/../" + n + "/repo.git", "/prs%2F" + n + "/repo.git",
	} {
		if got, err := ParsePath(wrong); err == nil {
			t.Errorf("ParsePath(%q) = %+v", wrong, got)
		}
	}
}

func TestRepoPath(t *testing.T) {
	for _, identifier := range []string{"repo", "a b", "a:b", "🦅", "%2F", ".git", "...", "~x", "a?b#c", strings.Repeat("é", 200)} {
		r := Repo{key(3), identifier}
		if p, err := ParsePath(r.Path()); err != nil || p != (Path{Repo: r}) {
			t.Errorf("%q: %s is read as %+v, %v", identifier, r.Path(), p, err)
		}
	}
	if got, want := (Repo{key(3), "a b/é"}).Path(), "/"+npub(3)+"/a%20b%2F%C3%A9.git"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
