package gitfetch

import (
	"errors"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"talon/host/netguard"
	"talon/sdk/grasp"
)

func TestParseURL(t *testing.T) {
	a := Addresses{Own: []grasp.Service{{Host: "relay.example.com"}}}
	for text, want := range map[string]string{
		"https://git.example.com/a/b.git":          "https://git.example.com/a/b.git git.example.com",
		"HTTPS://GIT.Example.COM.:443/a/b.git/":    "https://git.example.com/a/b.git git.example.com",
		"http://git.example.com:80/x":              "http://git.example.com/x git.example.com",
		"http://git.example.com:443/x":             "http://git.example.com:443/x git.example.com:443",
		"https://git.example.com:8443/x":           "https://git.example.com:8443/x git.example.com:8443",
		"https://git.example.com":                  "https://git.example.com git.example.com",
		"https://git.example.com/npub1x/a%20b.git": "https://git.example.com/npub1x/a%20b.git git.example.com",
		"https://xn--mller-kva.example/x":          "https://xn--mller-kva.example/x xn--mller-kva.example",
		"https://8.8.8.8/x":                        "https://8.8.8.8/x 8.8.8.8",
		"https://[2606:4700::1111]:8080/x":         "https://[2606:4700::1111]:8080/x [2606:4700::1111]:8080",
		"https://[2606:4700::1111]/x":              "https://[2606:4700::1111]/x [2606:4700::1111]",
		"https://[::ffff:8.8.8.8]/x":               "https://8.8.8.8/x 8.8.8.8",
		"https://relay.example.com:8443/x":         "https://relay.example.com:8443/x relay.example.com:8443",
		"https://git.example.com/--upload-pack=x":  "https://git.example.com/--upload-pack=x git.example.com",
	} {
		got, err := a.ParseURL(text)
		if err != nil || got.Text+" "+got.Domain != want {
			t.Errorf("%s: %q, %v; want %s", text, got.Text+" "+got.Domain, err, want)
		}
	}
}

// TestWrongURLs has what announcements of strangers may say.
func TestWrongURLs(t *testing.T) {
	a := Addresses{Own: []grasp.Service{{Host: "relay.example.com"}}}
	for _, text := range []string{
		"", " ", "git.example.com/x", "//git.example.com/x", "https:///x", "https:x", "https://", "https://:443/x", "https://git.example.com:/x",
		"ssh://git.example.com/x", "git@git.example.com:x", "file:///etc/passwd", "ext::sh -c id", "git://git.example.com/x", "ftp://x.example.com/",
		"--upload-pack=x", "-c core.sshCommand=x", "https://git.example.com/x --upload-pack=y", "https://git.example.com/x\n[core]", "https://git.example.com/\x00",
		"https://user@git.example.com/x", "https://user:password@git.example.com/x", "https://@git.example.com/x",
		"https://git.example.com/x?service=y", "https://git.example.com/x?", "https://git.example.com/x#y", "https://git.example.com/x#",
		"https://git.example.com/a/../../b", "https://git.example.com/%2e%2e/b", "https://git.example.com/./b", "https://git.example.com\\@evil.example.com/x",
		"https://git.example.com:22/x", "https://git.example.com:0/x", "https://git.example.com:65536/x", "https://git.example.com:25/x", "https://git.example.com:x/",
		"https://127.0.0.1/x", "https://127.1/x", "https://2130706433/x", "https://0x7f000001/x", "https://0177.0.0.1/x", "https://10.0.0.1/x", "https://0.0.0.0/x",
		"https://[::1]/x", "https://[::]/x", "https://[::ffff:127.0.0.1]/x", "https://[fe80::1%25eth0]/x", "https://[fd00::1]/x", "https://[64:ff9b::7f00:1]/x",
		"https://[2002:7f00:1::]/x", "https://169.254.169.254/latest", "https://100.64.0.1/x", "https://localhost/x", "https://x.localhost/x", "https://router.local/x",
		"https://metadata.google.internal/x", "https://intranet/x", "https://git..example.com/x", "https://.example.com/x", "https://-a.example.com/x",
		"https://müller.example/x", "https://git.example.com%2f@evil/x", "https://git_%00.example.com/", "https://ⓔxample.com/x",
		"https://relay.example.com/x", "https://RELAY.example.com./x", "http://relay.example.com/x", "https://relay.example.com:443/x",
		"https://git.example.com/" + strings.Repeat("x", maxURL), "https://" + strings.Repeat("a.", 130) + "com/",
	} {
		if got, err := a.ParseURL(text); err == nil {
			t.Errorf("%q is taken for %+v", text, got)
		}
	}
	if _, err := a.ParseURL("https://relay.example.com/x"); !errors.Is(err, ErrOurs) {
		t.Errorf("our own: %v", err)
	}
	a.Private = true
	for _, text := range []string{"http://127.0.0.1:8080/x", "http://localhost:8080/x", "http://intranet/x", "http://[::1]:8080/x"} {
		if _, err := a.ParseURL(text); err != nil {
			t.Errorf("%q, where private addresses are allowed: %v", text, err)
		}
	}
}

func FuzzParseURL(f *testing.F) {
	for _, text := range []string{"https://git.example.com/a/b.git", "http://[2606:4700::1]:80/", "https://a%41.com/%2f", "https://u:p@x.com:1/?#"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		a := Addresses{Own: []grasp.Service{{Host: "relay.example.com"}}}
		got, err := a.ParseURL(text)
		if err != nil {
			return
		}
		again, err := a.ParseURL(got.Text)
		if err != nil || again != got {
			t.Fatalf("%q is %+v, which is %+v, %v", text, got, again, err)
		}
		u, err := url.Parse(got.Text)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Host != got.Domain {
			t.Fatalf("%q is %+v", text, got)
		}
		if addr, err := netip.ParseAddr(u.Hostname()); err == nil && !netguard.Public(addr) {
			t.Fatalf("%q leads to %s", text, addr)
		}
	})
}
