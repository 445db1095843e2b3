package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"
)

// TestGraspCrash kills the service at random moments while people announce, sign and push.
// Afterwards each event that it answered OK is held or served, and each push that git
// reported as done is there. A state that waits takes its push without being sent again.
// Events and repositories agree each time.
func TestGraspCrash(t *testing.T) {
	data := graspData(t)
	t.Parallel()
	const people = 2
	rounds := 4 // each start takes its time, seconds under the race detector
	if os.Getenv("TALON_TEST_SCALE") != "" {
		rounds = 40
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	dir := pluginFolder(t, "grasp")
	args := serveArgs(t, data, "--plugins", dir, "--domain", serviceDomain)
	var all []*crashRepo
	var last []*crashRepo
	for round := range rounds {
		s := startAs(t, exec.Command("talon", args...), data)
		st := newStory(t, s)
		for _, r := range last {
			r.verify(st)
		}
		mustCheck(t, data)
		if t.Failed() {
			t.Logf("log of the server:\n%s", s.text())
			return
		}
		last = nil
		var mu sync.Mutex // guards last
		var group sync.WaitGroup
		for i := range people {
			f := st.folder()
			c, err := open(s.url)
			if err != nil {
				t.Fatal(err)
			}
			group.Go(func() {
				defer c.close()
				for n := 0; ; n++ {
					r := &crashRepo{owner: st.who("owner"), id: fmt.Sprintf("%d %d %d", round, i, n), work: f}
					mu.Lock()
					last = append(last, r)
					mu.Unlock()
					if !r.publish(st, c) {
						return
					}
				}
			})
		}
		// Not only the kind of moment that comes after an answer.
		<-time.After(time.Duration(random.IntN(700)) * time.Millisecond)
		s.kill()
		group.Wait()
		all = append(all, last...)
	}
	st := newStory(t, start(t, data, "--plugins", dir, "--domain", serviceDomain))
	pushes := 0
	for _, r := range last {
		r.verify(st)
	}
	for _, r := range all {
		r.verify(st)
		pushes += len(r.pushed)
	}
	mustCheck(t, data)
	t.Logf("%d repositories, %d pushes", len(all), pushes)
}

// crashRepo is a repository, and the answers that its owner got.
type crashRepo struct {
	owner person
	id    string
	work  *folder

	announcement *nostr.Event // nil until it was answered
	waiting      *nostr.Event // the last state that was answered and not pushed
	pushed       []*nostr.Event
}

// commitOf is the commit that a state names.
func commitOf(state *nostr.Event) string { return state.Tags[1][1] }

// publish announces the repository, and signs and pushes two states. It reports false
// when the server has gone.
func (r *crashRepo) publish(st *story, c *client) bool {
	send := func(e *nostr.Event) bool {
		if c.write(message(e)) != nil {
			return false
		}
		text, err := c.next("OK")
		if err != nil {
			return false
		}
		if a, err := parseOK(text); err != nil || a != (answer{e.ID, true, purgatory}) {
			st.Errorf("an event of kind %d: %s (%v)", e.Kind, text, err)
			return false
		}
		return true
	}
	sign := func(at, kind int, tags ...nostr.Tag) *nostr.Event {
		e := nostr.Event{Kind: kind, CreatedAt: nostr.Timestamp(1_700_000_000 + at), Tags: tags}
		if err := e.Sign(key(string(r.owner))); err != nil {
			st.Error(err)
		}
		return &e
	}
	announcement := sign(0, 30617, announcementTags(r.owner, r.id)...)
	if !send(announcement) {
		return false
	}
	r.announcement = announcement
	for i := range 2 {
		if _, err := gitAs(r.work.dir, "commit", "-q", "--allow-empty", "-m", fmt.Sprint(r.id, i)); err != nil {
			st.Error(err)
			return false
		}
		commit, err := gitAs(r.work.dir, "rev-parse", "HEAD")
		if err != nil {
			st.Error(err)
			return false
		}
		state := sign(1+i, 30618, nostr.Tag{"d", r.id}, nostr.Tag{"refs/heads/main", commit})
		if !send(state) {
			return false
		}
		r.waiting = state
		if out, err := gitAs(r.work.dir, "push", st.repo(r.owner, r.id), commit+":refs/heads/main"); err != nil {
			if strings.Contains(out, "rejected") {
				st.Errorf("a push was refused: %s", out)
			}
			return false
		}
		r.pushed, r.waiting = append(r.pushed, state), nil
	}
	return true
}

// verify looks whether the server has kept its word, and pushes what waits.
func (r *crashRepo) verify(st *story) {
	st.Helper()
	if r.announcement == nil {
		return
	}
	url := st.repo(r.owner, r.id)
	moved := false // by a push that was done when the server was killed, and not answered
	if n := len(r.pushed); n > 0 {
		refs, state := st.refsOf(url), r.pushed[n-1]
		moved = r.waiting != nil && refs == "HEAD=refs/heads/main refs/heads/main="+commitOf(r.waiting)
		if !moved && refs != "HEAD=refs/heads/main refs/heads/main="+commitOf(state) {
			st.Fatalf("%s: a push that was done is lost: %s", r.id, refs)
		}
		if !moved && !st.served(state) {
			st.Fatalf("%s: the state of a push that was done is not served", r.id)
		}
		if !st.served(r.announcement) {
			st.Fatalf("%s: the announcement is not served after a push that was done", r.id)
		}
	} else {
		st.wantStatus(200, "GET", repoPath(r.owner, r.id)+"/info/refs?service=git-upload-pack")
	}
	if r.waiting == nil {
		return
	}
	r.work.push(url, commitOf(r.waiting)+":refs/heads/main")
	st.wantRefs(url, "HEAD=refs/heads/main", "refs/heads/main="+commitOf(r.waiting))
	if moved {
		// There was nothing to push: the server releases the state when it has looked.
		st.becomesServed(r.waiting)
	}
	st.wantServed(r.announcement, true)
	st.wantServed(r.waiting, true)
	r.pushed, r.waiting = append(r.pushed, r.waiting), nil
}
