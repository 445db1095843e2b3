package main

import (
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/gobwas/ws"
	"github.com/gobwas/ws/wsutil"
	"github.com/nbd-wtf/go-nostr"
)

// listener is a relay without events that remembers all that it is asked.
type listener struct {
	url string

	mu    sync.Mutex // guards heard
	heard strings.Builder
}

func newListener(t *testing.T) *listener {
	l := new(listener)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		c, _, _, err := ws.UpgradeHTTP(r, w)
		if err == nil {
			l.serve(c)
		}
	}))
	t.Cleanup(s.Close)
	l.url = "ws" + strings.TrimPrefix(s.URL, "http")
	return l
}

func (l *listener) serve(c net.Conn) {
	defer c.Close()
	for {
		text, err := wsutil.ReadClientText(c)
		if err != nil {
			return
		}
		l.mu.Lock()
		l.heard.Write(append(text, '\n'))
		l.mu.Unlock()
		var verb, id string
		_ = json.Unmarshal(text, &[]any{&verb, &id})
		switch verb {
		case "REQ":
			err = wsutil.WriteServerText(c, []byte(`["EOSE","`+id+`"]`))
		case "NEG-OPEN":
			err = wsutil.WriteServerText(c, []byte(`["NOTICE","ERROR: bad msg: unknown cmd"]`))
		}
		if err != nil {
			return
		}
	}
}

func (l *listener) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.heard.String()
}

// TestSyncOfPrivateRepository syncs a private and a public repository. The relay that only the public
// one names, which is a bootstrap relay too, hears nothing of the other.
func TestSyncOfPrivateRepository(t *testing.T) {
	const strategy = "layered-v5"
	data := graspData(t, "readers", strategy, "polite")
	t.Parallel()
	of, others := newListener(t), newListener(t)
	plugins := modulesAnd(t, []string{"grasp", "readers"}, map[string]string{strategy: "batch_seconds = 1\n", "polite": hasty})
	owner := person(t.Name() + " owner")
	drop(t, plugins, "members.txt", []byte(owner.npub()+"\n"))
	drop(t, plugins, "readers.toml", []byte("[config]\nreaders_repositories = [\"unspeakable\"]\n[sets.readers]\nfile = \"members.txt\"\n"))
	st := newStory(t, startGrasp(t, data, plugins, "--allow-private", "true", "--bootstrap", others.url))
	work := st.folder()
	commit := work.commit("one")
	roots := map[string]*nostr.Event{}
	for name, relay := range map[string]*listener{"unspeakable": of, "open": others} {
		tags := announcementTags(owner, name)
		tags[3] = append(tags[3], relay.url)
		st.held(st.event(owner, 30617, tags...))
		st.held(st.state(owner, name, "refs/heads/main", commit))
		if name == "open" {
			work.push(st.repo(owner, name), commit+":refs/heads/main")
		} else if out, err := gitAs(work.dir, "-c", "http.proxy="+st.web,
			"-c", "credential.http://"+serviceDomain+".helper=!talon git-credential --key "+keyFileOf(t, string(owner)),
			"-c", "credential.http://"+serviceDomain+".useHttpPath=true",
			"push", "http://"+serviceDomain+"/auth"+repoPath(owner, name), commit+":refs/heads/main"); err != nil {
			t.Fatalf("push: %v\n%s", err, out)
		}
		roots[name] = st.event(owner, 1621, nostr.Tag{"a", repoAddress(owner, name)}, nostr.Tag{"subject", "an issue"})
		if a := st.c.publish(t, roots[name]); !a.ok {
			t.Fatalf("an issue of %s: %+v", name, a)
		}
	}
	hears := func(l *listener, name string) bool {
		text := l.text()
		return strings.Contains(text, repoAddress(owner, name)) && strings.Contains(text, roots[name].ID)
	}
	st.until("the relays hear of the repositories that name them", func() bool { return hears(of, "unspeakable") && hears(others, "open") })
	for _, secret := range []string{"unspeakable", roots["unspeakable"].ID} {
		if strings.Contains(others.text(), secret) {
			t.Errorf("a relay that the private repository does not name has heard %s", secret)
		}
	}
}
