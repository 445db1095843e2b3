package grasp

import (
	"strings"
	"testing"
)

// Host and port are compared exactly after parsing, never by substring.
func TestServiceURLs(t *testing.T) {
	const host = "relay.example.com"
	for _, test := range []struct {
		service    string
		right      []string
		wrong      []string
		relay, not []string
	}{{
		service: host,
		right: []string{
			"https://relay.example.com/npub1x/y.git", "http://relay.example.com/x.git", "HTTPS://Relay.EXAMPLE.com/x",
			"https://relay.example.com", "https://relay.example.com:443/x", "http://relay.example.com:80/x",
			"https://relay.example.com:0443/x", "https://relay.example.com./x", "https://relay.example.com:/x",
			"https://relay.example.com?x", "https://relay.example.com#x", "https://relay.example.com//x",
		},
		wrong: []string{
			"", "relay.example.com", "relay.example.com/x.git", "//relay.example.com/x", "https:/relay.example.com/x", "https:relay.example.com/x",
			"https://evil.com/relay.example.com/x.git", "https://relay.example.com.evil.com/x", "https://xrelay.example.com/x",
			"https://evilrelay.example.com/x", "https://example.com/x", "https://evil.com?relay.example.com", "https://evil.com#https://relay.example.com/x",
			"https://relay.example.com@evil.com/x", "https://evil.com@relay.example.com/x", "https://u:p@relay.example.com/x",
			`https://relay.example.com\@evil.com/x`, `https://evil.com\relay.example.com/x`, "https://relay.example.com /x", " https://relay.example.com/x",
			"https://relay.example.com/x\n", "https://relay.example.com\x00/x", "https://relay.example.com:8080/x", "https://relay.example.com:80/x",
			"http://relay.example.com:443/x", "https://relay.example.com:443:443/x", "https://relay.example.com:x/", "https://relay.example.com:65536/",
			`https://relay.example.com/x\..\y`, "https://relay.example.com:0/", "https://relay.example.com:-1/", "https://relay.example.com:+443/", "https://relay.example.com../x",
			"https://.relay.example.com/x", "https://relay..example.com/x", "https://relay%2Eexample.com/x", "https://[relay.example.com]/x",
			"ssh://relay.example.com/x", "git://relay.example.com/x", "git@relay.example.com:x", "file://relay.example.com/x", "ext::https://relay.example.com/x",
			"wss://relay.example.com/x", "ftp://relay.example.com", "://relay.example.com", "https:///x", "https://", "https://:443/x",
			"https://relay。example。com/x", "https://relay.example.com\u200b/x", "https://\u212aelay.example.com/x",
			"https://relay.example.com/" + strings.Repeat("x", maxURL),
		},
		relay: []string{"wss://relay.example.com", "wss://relay.example.com/", "ws://RELAY.example.com:80", "WSS://relay.example.com:443/path?x"},
		not:   []string{"https://relay.example.com", "relay.example.com", "ws://relay.example.com:443", "wss://relay.example.com:7777", "wss://evil.com/relay.example.com"},
	}, {
		service: "Relay.example.com:8443",
		right:   []string{"https://relay.example.com:8443/x", "http://relay.example.com:08443/x"},
		wrong:   []string{"https://relay.example.com/x", "https://relay.example.com:84430/x", "https://relay.example.com:443/x", "https://relay.example.com/:8443"},
		relay:   []string{"wss://relay.example.com:8443/"},
		not:     []string{"wss://relay.example.com"},
	}, {
		service: "relay.example.com:443",
		right:   []string{"https://relay.example.com/x", "https://relay.example.com:443/x", "http://relay.example.com:443/x"},
		wrong:   []string{"http://relay.example.com/x"},
	}, {
		service: "[2001:DB8::1]:7777",
		right:   []string{"http://[2001:db8::1]:7777/x", "http://[2001:DB8::1]:7777/x"},
		wrong: []string{"http://[2001:db8::1]/x", "http://2001:db8::1:7777/x", "http://[2001:db8::1]7777/x", "http://[2001:db8::1%25eth0]:7777/x",
			"http://[2001:db8::1:7777/x", "http://2001:db8::1]:7777/x", "http://[]:7777/", "http://[:]:7777/"},
		relay: []string{"ws://[2001:db8::1]:7777"},
	}, {
		service: "[::1]",
		right:   []string{"http://[::1]/x", "https://[::1]:443/x"},
	}, {
		service: "127.0.0.1:7777",
		right:   []string{"http://127.0.0.1:7777/x"},
		wrong:   []string{"http://127.0.0.1/x", "http://127.0.0.10:7777/x", "http://127.1:7777/x"},
	}, {
		service: "böcker.example", // IDNA is taken as given, in either form
		right:   []string{"https://böcker.example/x"},
		wrong:   []string{"https://xn--bcker-jua.example/x", "https://bÖcker.example/x"},
	}} {
		s := service(t, test.service)
		for _, url := range test.right {
			if !s.ServesGit(url) {
				t.Errorf("%s: %q is not taken for git", s, url)
			}
		}
		for _, url := range test.wrong {
			if s.ServesGit(url) {
				t.Errorf("%s: %q is taken for git", s, url)
			}
		}
		for _, url := range test.relay {
			if !s.IsRelay(url) {
				t.Errorf("%s: %q is not taken for the relay", s, url)
			}
		}
		for _, url := range test.not {
			if s.IsRelay(url) {
				t.Errorf("%s: %q is taken for the relay", s, url)
			}
		}
	}
}

// TestZeroService checks that odd URLs do not match a zero Service.
func TestZeroService(t *testing.T) {
	for _, url := range []string{"https:///x", "https://:443/", "https://", ""} {
		if (Service{}).ServesGit(url) {
			t.Errorf("the zero service serves %q", url)
		}
	}
}

func TestParseService(t *testing.T) {
	for in, want := range map[string]string{
		"Example.COM": "example.com", "example.com.": "example.com", "localhost:07777": "localhost:7777", "[::A]:1": "[::a]:1",
	} {
		if got := service(t, in).String(); got != want {
			t.Errorf("ParseService(%q) = %s, want %s", in, got, want)
		}
	}
	for _, wrong := range []string{
		"", ".", ":", ":80", "example.com:", "https://example.com", "example.com/", "a b", "a@b", "::1", "[::1", "example.com:99999", "a\n", "a:1:2", "a:0", "[]", "[:]", "[1]", "[::1]x",
	} {
		if s, err := ParseService(wrong); err == nil {
			t.Errorf("ParseService(%q) = %v", wrong, s)
		}
	}
}

func TestListsService(t *testing.T) {
	s := service(t, "us.example")
	for _, test := range []struct {
		tags string
		want bool
	}{
		{"clone https://us.example/x.git|relays wss://us.example", true},
		{"clone https://other/x.git https://us.example/x.git|relays wss://other wss://us.example/", true},
		{"clone https://other/x.git|clone https://us.example/x.git|relays wss://other|relays wss://us.example", true},
		{"clone https://us.example/x.git", false},
		{"relays wss://us.example", false},
		{"clone https://us.example/x.git|relays wss://other", false},
		{"clone https://other/x.git|relays wss://us.example", false},
		{"clone wss://us.example|relays https://us.example", false},
		{"clone https://evil/us.example|relays wss://evil/us.example", false},
	} {
		if got := announcement(t, 1, 1, strings.Split(test.tags, "|")...).ListsService(s); got != test.want {
			t.Errorf("%s: %v", test.tags, got)
		}
	}
}

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

// A clone URL of this service that is the place of something else would have others
// clone that.
func TestMisplaced(t *testing.T) {
	s, err := ParseService("git.example.com")
	if err != nil {
		t.Fatal(err)
	}
	own := Repo{PubKey: PubKey{1}, Identifier: "de mo"}
	other, someone := Repo{PubKey: PubKey{1}, Identifier: "other"}, Repo{PubKey: PubKey{2}, Identifier: "de mo"}
	const at = "https://git.example.com"
	for _, tt := range []struct {
		clone     string
		misplaced bool
	}{
		{at + own.Path(), false},
		{at + own.Path() + "/", false},
		{"https://GIT.example.com:443" + own.Path(), false},
		{at, false},
		{at + "/demo.git", false},
		{at + other.Path(), true},
		{at + someone.Path(), true},
		{at + "/prs" + own.Path(), true},
		{at + someone.Path() + "/", true},
		{at + someone.Path() + " " + at + own.Path(), false},
		{"https://elsewhere.example.com" + someone.Path(), false},
	} {
		a := &Announcement{Stamp: Stamp{PubKey: own.PubKey}, Identifier: own.Identifier, Clone: strings.Fields(tt.clone), Relays: []string{"wss://git.example.com"}}
		if got := a.Misplaced(s); got != tt.misplaced {
			t.Errorf("%s: %v", tt.clone, got)
		}
		if !a.ListsService(s) {
			continue
		}
		r := Rules{Service: s}
		for maintained, want := range map[bool]Standing{false: Refused, true: Member} {
			standing, reason := r.Announcement(a, maintained)
			if !tt.misplaced {
				want = Hosted
			}
			if standing != want || (standing == Refused) != (reason == ReasonMisplaced) {
				t.Errorf("%s, maintained %v: %v %q", tt.clone, maintained, standing, reason)
			}
		}
	}
}
