package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nbd-wtf/go-nostr"
)

// TestTakedown takes an author and a repository down in each way, and compares every door with
// what it should show: at once, after a restart, and at a second node where there is one. People
// who are not concerned notice nothing.
func TestTakedown(t *testing.T) {
	t.Parallel()
	eachEngine(t, takedownSetup{}, (*takedown).run)
}

// seen is what the doors should show.
type seen struct {
	events       map[string]*nostr.Event
	hidden       []string // names of events that no door shows
	reason       string   // on the page and for git of Mallory's repository; empty: it is served
	refused      string   // the answer to a copy of a hidden event
	author       int      // status of the page of the author
	aliceHasMain string   // the commit
}

// compare looks through each door of each node.
func (w *takedown) compare(what string, s seen) {
	w.Helper()
	hidden := map[string]bool{}
	for _, name := range s.hidden {
		hidden[name] = true
	}
	for node, st := range w.nodes() {
		at := what + node
		for name, e := range s.events {
			if hidden[name] {
				st.until(at+": "+name+" goes", func() bool { return !st.served(e) })
			} else {
				st.until(at+": "+name+" is served", func() bool { return st.served(e) })
			}
			filter := `{"authors":["` + e.PubKey + `"],"kinds":[` + kindText(e) + `],"since":` + timeText(e) + `,"until":` + timeText(e) + `}`
			want := 1
			if hidden[name] {
				want = 0
			}
			if got := st.count(filter); got != want {
				w.Errorf("%s: COUNT of %s is %d, want %d", at, name, got, want)
			}
			if got := st.reconciled(filter); len(got) != want {
				w.Errorf("%s: NEG of %s has %d ids, want %d", at, name, len(got), want)
			}
		}
		w.compareGit(at, st, s)
	}
	for name := range hidden {
		if e := s.events[name]; s.refused != "" {
			st := w.st
			if a := st.c.publish(st, e); a.ok || a.reason != s.refused {
				w.Errorf("%s: a copy of %s is answered %v %q, want %q", what, name, a.ok, a.reason, s.refused)
			}
		}
	}
}

func (w *takedown) compareGit(at string, st *story, s seen) {
	w.Helper()
	page := st.ask("GET", strings.TrimSuffix(repoPath(w.mallory, "own"), ".git"), nil)
	refs := st.ask("GET", repoPath(w.mallory, "own")+"/info/refs?service=git-upload-pack", nil)
	push := st.ask("GET", repoPath(w.mallory, "own")+"/info/refs?service=git-receive-pack", nil)
	if s.reason == "" {
		if page.status != 200 || !strings.Contains(refs.body, "refs/heads/main") {
			w.Errorf("%s: the page has status %d, and git gets %.100q", at, page.status, refs.body)
		}
	} else {
		if page.status != 451 || !strings.Contains(page.body, s.reason) {
			w.Errorf("%s: the page has status %d and not %q: %.600s", at, page.status, s.reason, page.body)
		}
		for _, r := range []reply{refs, push} {
			if r.status != 200 || !strings.Contains(r.body, "ERR this repository was "+s.reason) {
				w.Errorf("%s: git gets status %d and %.200q, want %q", at, r.status, r.body, s.reason)
			}
		}
	}
	for _, path := range []string{"/tree/main", "/issues"} {
		want := 200
		if s.reason != "" {
			want = 451
		}
		if page := st.ask("GET", strings.TrimSuffix(repoPath(w.mallory, "own"), ".git")+path, nil); page.status != want {
			w.Errorf("%s: %s has status %d, want %d", at, path, page.status, want)
		}
	}
	if page := st.ask("GET", "/"+w.mallory.npub(), nil); page.status != s.author {
		w.Errorf("%s: the page of the author has status %d, want %d", at, page.status, s.author)
	}
	if page := st.ask("GET", repoPath(w.alice, "tool"), nil); page.status != 200 {
		w.Errorf("%s: the page of a bystander has status %d", at, page.status)
	}
	st.until(at+": the bystander's branch is where it should be", func() bool {
		return strings.Contains(st.ask("GET", repoPath(w.alice, "tool")+"/info/refs?service=git-upload-pack", nil).body, s.aliceHasMain+" refs/heads/main")
	})
}

func kindText(e *nostr.Event) string {
	text, _ := json.Marshal(e.Kind)
	return string(text)
}

func timeText(e *nostr.Event) string {
	text, _ := json.Marshal(e.CreatedAt)
	return string(text)
}

func (w *takedown) run() {
	st := w.st
	w.alice, w.mallory, w.carol = st.who("alice"), st.who("mallory"), st.who("carol")
	w.work = st.folder()
	w.one, w.two = w.work.commit("one"), w.work.commit("two")
	events := map[string]*nostr.Event{}
	add := func(name string, e *nostr.Event) *nostr.Event {
		events[name] = e
		return e
	}
	// Alice lists Mallory. Mallory's state is the newest of both.
	add("alice's announcement", st.held(st.announcement(w.alice, "tool", w.mallory)))
	add("alice's state", st.held(st.state(w.alice, "tool", "refs/heads/main", w.one)))
	w.work.push(st.repo(w.alice, "tool"), w.one+":refs/heads/main")
	add("mallory's state", st.held(st.state(w.mallory, "tool", "refs/heads/main", w.two)))
	w.work.push(st.repo(w.alice, "tool"), w.two+":refs/heads/main")
	add("mallory's announcement", st.held(st.announcement(w.mallory, "own")))
	add("mallory's own state", st.held(st.state(w.mallory, "own", "refs/heads/main", w.one)))
	w.work.push(st.repo(w.mallory, "own"), w.one+":refs/heads/main")
	add("carol's issue", st.stored(st.event(w.carol, 1621, nostr.Tag{"a", repoAddress(w.mallory, "own")}, nostr.Tag{"subject", "x"})))
	add("mallory's issue", st.stored(st.event(w.mallory, 1621, nostr.Tag{"a", repoAddress(w.alice, "tool")}, nostr.Tag{"subject", "y"})))
	all := seen{events: events, author: 200, aliceHasMain: w.two}
	w.compare("before", all)

	ofAuthor := []string{"mallory's state", "mallory's announcement", "mallory's own state", "mallory's issue"}
	ofRepository := []string{"mallory's announcement", "mallory's own state", "carol's issue"}
	for _, action := range []struct{ do, undo, verb string }{{"hide", "unhide", "hidden"}, {"ban", "unban", "banned"}} {
		for _, tt := range []struct {
			target string
			hidden []string
		}{{w.mallory.npub(), ofAuthor}, {w.mallory.npub() + "/own", ofRepository}} {
			what := action.do + " " + tt.target[60:]
			down := all
			down.hidden, down.reason, down.refused = tt.hidden, action.verb+" by the operator: scam", "blocked: "+action.verb+" by the operator: scam"
			if tt.target == w.mallory.npub() {
				down.author = 451
			}
			dry := w.moderate("moderate", action.do, tt.target, "--reason", "scam", "--dry-run")
			if int(dry.Done.Events) != len(tt.hidden) || dry.Done.Repositories != 1 || len(dry.Rows) != 1 || dry.Rows[0].Number != 0 {
				w.Errorf("%s: the dry run counts %+v", what, dry.Done)
			}
			w.compare(what+" (dry run)", all)
			done := w.moderate("moderate", action.do, tt.target, "--reason", "scam")
			// On a machine that pauses for seconds, the other node carries out a part.
			if n := int(done.Done.Events); n > len(tt.hidden) || n < len(tt.hidden) && w.other == nil || len(done.Rows) != 1 {
				w.Errorf("%s: %+v", what, done)
			}
			w.compare(what, down)
			if action.do == "hide" {
				w.again()
				w.compare(what+" after a restart", down)
			}
			w.moderate("moderate", action.undo, tt.target)
			w.compare(action.undo+" "+tt.target[60:], all)
		}
	}

	// What is deleted does not come back, and its author may go on.
	down := all
	down.hidden, down.reason, down.refused = ofAuthor, "removed by the operator: scam", "blocked: removed by the operator: scam"
	down.aliceHasMain = w.one                        // the newest state that is left
	w.moderate("moderate", "hide", w.mallory.npub()) // a delete also removes what is hidden
	w.moderate("delete", "--author", w.mallory.npub(), "--reason", "scam")
	w.moderate("moderate", "unhide", w.mallory.npub())
	w.compare("delete", down)
	dir := filepath.Join(w.data, "git")
	if w.other != nil {
		dir = ""
	}
	if dir != "" {
		if left, err := filepath.Glob(filepath.Join(dir, w.mallory.npub(), "*")); err != nil || len(left) > 0 {
			w.Errorf("folders are left: %v, %v", left, err)
		}
	}
	w.again()
	w.compare("delete after a restart", down)
	w.st.now = nostr.Now() + 5
	w.st.held(w.st.announcement(w.mallory, "own"))

	w.afterRestore(events, down)
}

// afterRestore shows that a database from before the takedowns obeys them when the copy of the log
// is there.
func (w *takedown) afterRestore(events map[string]*nostr.Event, down seen) {
	w.st.s.mustStop(w.T)
	log, err := os.ReadFile(filepath.Join(w.data, "moderation.jsonl"))
	if err != nil || strings.Count(string(log), "\n") != 11 {
		w.Fatalf("the copy of the log has %d lines, want 11: %v\n%s", strings.Count(string(log), "\n"), err, log)
	}
	old := graspData(w.T)
	if err := os.WriteFile(filepath.Join(old, "moderation.jsonl"), log, 0o600); err != nil {
		w.Fatal(err)
	}
	store := w.empty()
	st := newStory(w.T, start(w.T, old, append([]string{"--plugins", w.plugins, "--domain", serviceDomain}, store...)...))
	for _, name := range down.hidden {
		if a := st.c.publish(st, events[name]); a.ok || a.reason != down.refused {
			w.Errorf("after a restore, %s is answered %v %q", name, a.ok, a.reason)
		}
	}
	out, err := talon(w.T, nil, append([]string{"moderate", "list", "--data", old}, store...)...)
	if err != nil || !strings.Contains(out, w.mallory.npub()) || !strings.Contains(out, "purge") || strings.Contains(out, "ban ") {
		w.Errorf("the list: %v\n%s", err, out)
	}
}
