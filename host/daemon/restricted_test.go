package daemon

import (
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"talon/host"
	"talon/host/schnorr"
	"talon/sdk/nip19"
)

// TestAuthGit tries the passwords of git clients below /auth/.
func TestAuthGit(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	npub := nip19.EncodeNpub(host.PubKey{1})
	repo := "/auth/" + npub + "/secret%20lib.git"
	var got *http.Request
	h := &authGit{
		proof: proof{
			services: []string{"git.example.com", "git.example.onion"},
			verify:   func(*host.Event) error { return nil },
			now:      func() time.Time { return now },
		},
		next:   http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r }),
		reader: func(keys []host.PubKey) *host.Reader { return &host.Reader{Keys: keys} },
	}
	h.signIn = newSignIn(h.proof, nil, nil)
	password := func(kind host.Kind, at int64, u string) string {
		e := &host.Event{PubKey: host.PubKey{7}, CreatedAt: at, Kind: kind, Tags: host.Tags{{"u", u}, {"method", "GET"}}}
		return string(e.AppendJSON(nil))
	}
	base := "https://git.example.com" + repo
	good := password(27235, now.Unix()-500, base)
	for _, tt := range []struct {
		name, path, password string
		want                 int
	}{
		{"refs", repo + "/info/refs", good, 0},
		{"a fetch", repo + "/git-upload-pack", good, 0},
		{"by another name", repo + "/info/refs", password(27235, now.Unix(), "http://git.example.onion"+repo), 0},
		{"in base64", repo + "/info/refs", base64.StdEncoding.EncodeToString([]byte(good)), 0},
		{"no password", repo + "/info/refs", "", http.StatusUnauthorized},
		{"garbage", repo + "/info/refs", "{", http.StatusUnauthorized},
		{"another repository", "/auth/" + npub + "/other.git/info/refs", good, http.StatusUnauthorized},
		{"a longer name", repo + "x/info/refs", good, http.StatusUnauthorized},
		{"too old", repo + "/info/refs", password(27235, now.Unix()-601, base), http.StatusUnauthorized},
		{"from the future", repo + "/info/refs", password(27235, now.Unix()+601, base), http.StatusUnauthorized},
		{"of another kind", repo + "/info/refs", password(1, now.Unix(), base), http.StatusUnauthorized},
		{"for another server", repo + "/info/refs", password(27235, now.Unix(), "https://evil.example"+repo), http.StatusUnauthorized},
		{"for the public path", "/auth/" + npub + "/secret%20lib.git/info/refs", password(27235, now.Unix(), "https://git.example.com/"+npub+"/secret%20lib.git"), http.StatusUnauthorized},
		{"for all repositories", repo + "/info/refs", password(27235, now.Unix(), "https://git.example.com/auth/"), http.StatusUnauthorized},
		{"no repository at all", "/auth/x", "", http.StatusUnauthorized},
	} {
		got = nil
		r := httptest.NewRequest("GET", tt.path+"?service=git-upload-pack", nil)
		if tt.password != "" {
			r.SetBasicAuth("nostr", tt.password)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if tt.want != 0 {
			if got != nil || w.Code != tt.want || w.Header().Get("WWW-Authenticate") == "" {
				t.Errorf("%s: status %d, passed on %v; want %d", tt.name, w.Code, got != nil, tt.want)
			}
			continue
		}
		if got == nil {
			t.Errorf("%s: status %d, want it passed on", tt.name, w.Code)
			continue
		}
		reader, _ := got.Context().Value(readerKey{}).(*host.Reader)
		if reader == nil || len(reader.Keys) != 1 || reader.Keys[0] != (host.PubKey{7}) {
			t.Errorf("%s: read by %+v", tt.name, reader)
		}
		if keys := provenBy(got); signedIn(got) != "/auth" || len(keys) != 1 || keys[0] != (host.PubKey{7}) {
			t.Errorf("%s: pages take it for %q with the keys %v", tt.name, signedIn(got), keys)
		}
		if want := tt.path[len("/auth"):]; got.URL.EscapedPath() != want || got.Header.Get("Authorization") != "" {
			t.Errorf("%s: path %s, want %s; credentials %q", tt.name, got.URL.EscapedPath(), want, got.Header.Get("Authorization"))
		}
	}
	h.verify = schnorr.Verify
	r := httptest.NewRequest("GET", repo+"/info/refs", nil)
	r.SetBasicAuth("nostr", good)
	w := httptest.NewRecorder()
	if h.ServeHTTP(w, r); w.Code != http.StatusUnauthorized {
		t.Errorf("a wrong signature: status %d", w.Code)
	}
	got = nil
	if h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/"+npub+"/lib.git/info/refs", nil)); got == nil {
		t.Error("a public path is not passed on")
	} else if signedIn(got) != "" || provenBy(got) != nil {
		t.Error("a public path is one of somebody who has signed in")
	}
}

func TestAddressOfPath(t *testing.T) {
	key := host.PubKey{3}
	npub := nip19.EncodeNpub(key)
	for _, parts := range [][]string{{npub, "lib.git"}, {"prs", npub, "lib.git"}} {
		if a, ok := addressOfPath(parts); !ok || a.PubKey != key || a.D != "lib" || a.Kind != host.KindAnnouncement {
			t.Errorf("%q: %v, %v", parts, a, ok)
		}
	}
	for _, parts := range [][]string{nil, {"lib.git"}, {npub, "lib"}, {"npub1x", "lib.git"}} {
		if a, ok := addressOfPath(parts); ok {
			t.Errorf("%q: %v", parts, a)
		}
	}
}
