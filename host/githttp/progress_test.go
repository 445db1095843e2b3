package githttp

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"talon/host/gitrepo"
	"talon/internal/testkit"
)

// A client that waits for its push hears that it is being worked on, in its side band, and
// then the report; one without a side band hears the report alone.
func TestWaitingClient(t *testing.T) {
	s := newSite(t, nil)
	s.change(func(h *Handler) { h.keepalive = time.Millisecond })
	r, _ := s.repo("x", gitrepo.SHA1)
	dir := work(t, gitrepo.SHA1)
	id := git(t, dir, "rev-parse", "main")
	pack := packOf(t, dir)
	for _, band := range []string{"", " side-band", " side-band-64k"} {
		ref := "refs/heads/x" + strings.TrimSpace(band)
		heard := make(chan struct{})
		s.confirm.set(func(*Push) error {
			if band != "" {
				<-heard
			}
			return nil
		})
		resp := s.request("POST", "/"+alice+"/x.git/git-receive-pack", pushType, strings.NewReader(create(id, ref, band)+pack))
		want := "000eunpack ok\n" + string(gitrepo.AppendPkt(nil, "ok ", ref, "\n")) + flushPkt
		if band == "" {
			if got := text(t, resp); got != want {
				t.Errorf("without a side band: %q", got)
			}
			continue
		}
		report, beats := "", 0
		for {
			_, payload, err := readPkt(resp.Body, nil)
			if err != nil {
				t.Fatalf("%s: %v", band, err)
			}
			if payload == nil {
				break
			}
			if len(payload) == 1 && payload[0] == 1 {
				if beats++; beats == 3 {
					close(heard)
				}
			} else if payload[0] == 1 {
				report += string(payload[1:])
			}
		}
		if report != want {
			t.Errorf("%s: the report is %q, want %q", band, report, want)
		}
	}
	if resp := s.request("GET", "/"+alice+"/x.git/info/refs?service=git-receive-pack", nil, nil); resp.StatusCode != http.StatusOK {
		t.Errorf("%s", resp.Status)
	}
	if left := leftovers(t, r); len(left) > 0 {
		t.Errorf("it leaves %v", left)
	}
}

// Git shows its user how far the server is, if asked to.
func TestProgress(t *testing.T) {
	s := newSite(t, nil)
	s.change(func(h *Handler) { h.keepalive = time.Millisecond })
	_, url := s.repo("x", gitrepo.SHA1)
	dir := work(t, gitrepo.SHA1)
	text := strings.Repeat("a line that is there twice\n", 2000)
	for i := range 3 {
		testkit.Commit(t, dir, fmt.Sprint(text, i))
	}
	if out := git(t, dir, "push", url, "main:refs/heads/quiet"); strings.Contains(out, "Resolving") {
		t.Errorf("nobody asked for it:\n%s", out)
	}
	git(t, dir, "push", "-q", "--delete", url, "quiet")
	if out := git(t, dir, "push", "--progress", url, "main:refs/heads/told"); !strings.Contains(out, "remote: Resolving deltas: 100%") {
		t.Errorf("what is told:\n%s", out)
	}
}

// Git's last progress is sent, however soon the end comes after it; not to a client that
// is still sending, and does not listen.
func TestLastWords(t *testing.T) {
	s := newSite(t, nil)
	all, half := make(chan struct{}), make(chan struct{})
	close(all)
	for range 100 {
		for read, want := range map[chan struct{}]string{all: "000a\x02first0009\x02last", half: ""} {
			w := httptest.NewRecorder()
			v := s.handler.startProgress(w, s.handler.answer(w), &commands{sideband: maxPkt}, read)
			for _, text := range []string{"first", "last"} {
				if _, err := v.Write([]byte(text)); err != nil {
					t.Fatal(err)
				}
			}
			v.stop()
			if got := w.Body.String(); got != want {
				t.Fatalf("%q is told, want %q", got, want)
			}
		}
	}
}

// TestLandedIsToldWhatChanged: the callback after a push learns whether the refs have changed,
// before the client does.
func TestLandedIsToldWhatChanged(t *testing.T) {
	s := newSite(t, nil)
	_, url := s.repo("x", gitrepo.SHA1)
	dir := work(t, gitrepo.SHA1)
	git(t, dir, "push", "-q", url, "main")
	git(t, dir, "push", "-q", "--delete", url, "main")
	s.confirm.set(func(*Push) error { return &Refusal{Reason: "no longer"} })
	if out, err := tryGit(t.Context(), dir, "push", url, "main"); err == nil || !strings.Contains(out, "no longer") {
		t.Errorf("a push that is not confirmed: %v\n%s", err, out)
	}
	s.authorize.set(func(*Push) error { return &Refusal{Reason: "never"} })
	if out, err := tryGit(t.Context(), dir, "push", url, "main"); err == nil || !strings.Contains(out, "never") {
		t.Errorf("a push that is not authorised: %v\n%s", err, out)
	}
	var changed []bool
	for _, p := range s.landed {
		changed = append(changed, p.Changed)
	}
	if fmt.Sprint(changed) != "[true true false]" {
		t.Errorf("landed is told %v", changed)
	}
}
