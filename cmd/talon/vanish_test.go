package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nbd-wtf/go-nostr"
)

// TestVanish lets a maintainer vanish (NIP-62), and looks through each door, also after a restart and
// at a second node where there is one. Nothing comes back, and other people notice nothing.
func TestVanish(t *testing.T) {
	t.Parallel()
	eachEngine(t, takedownSetup{scale: true}, (*takedown).runVanish)
}

// vanishedReason answers what comes again of somebody who has vanished.
const vanishedReason = "blocked: its author has asked to vanish (NIP-62)"

func (w *takedown) runVanish() {
	st := w.st
	w.alice, w.mallory, w.carol = st.who("alice"), st.who("mallory"), st.who("carol")
	w.work = st.folder()
	w.one, w.two = w.work.commit("one"), w.work.commit("two")
	mine := []*nostr.Event{
		st.held(st.announcement(w.mallory, "own")),
		st.held(st.state(w.mallory, "own", "refs/heads/main", w.one)),
	}
	w.work.push(st.repo(w.mallory, "own"), w.one+":refs/heads/main")
	theirs := []*nostr.Event{
		st.held(st.announcement(w.alice, "tool", w.mallory)),
		st.held(st.state(w.alice, "tool", "refs/heads/main", w.one)),
	}
	w.work.push(st.repo(w.alice, "tool"), w.one+":refs/heads/main")
	mine = append(mine, st.stored(st.event(w.mallory, 1621, nostr.Tag{"a", repoAddress(w.alice, "tool")}, nostr.Tag{"subject", "y"})))
	waits := st.held(st.announcement(w.mallory, "waits"))
	hidden := st.stored(st.event(w.mallory, 1621, nostr.Tag{"a", repoAddress(w.alice, "tool")}, nostr.Tag{"subject", "hidden"}))
	w.moderate("moderate", "hide", "event:"+hidden.ID)
	mine = append(mine, waits, hidden)

	st.refused(st.event(w.mallory, 62, nostr.Tag{"relay", "wss://elsewhere.example"}), "invalid: this request to vanish has no relay tag that names this relay, and none with ALL_RELAYS")
	request := st.event(w.mallory, 62, nostr.Tag{"relay", "wss://" + serviceDomain + "/"})
	if a := st.c.publish(st, request); !a.ok || !strings.HasPrefix(a.reason, "note: all events of this key") {
		w.Fatalf("the request is answered %v %q", a.ok, a.reason)
	}
	w.vanished("at once", mine, theirs)
	w.moderate("moderate", "unhide", "event:"+hidden.ID)
	w.vanished("after an unhide", mine, theirs)
	st = w.again()
	w.vanished("after a restart", mine, theirs)
	st.refused(st.eventAt(w.mallory, request.CreatedAt, 1621, nostr.Tag{"a", repoAddress(w.alice, "tool")}, nostr.Tag{"subject", "z"}), vanishedReason)
	if a := st.c.publish(st, request); !a.ok || !strings.HasPrefix(a.reason, "duplicate: ") {
		w.Errorf("the request comes again: %v %q", a.ok, a.reason)
	}
	if nips := fmt.Sprint(st.info()["supported_nips"]); !strings.Contains(nips, " 59 62 ") {
		w.Errorf("NIP-11 has %v", nips)
	}
	if w.other == nil {
		w.importVanished(mine)
	}
}

// vanished looks through the doors of each node.
func (w *takedown) vanished(what string, mine, theirs []*nostr.Event) {
	w.Helper()
	for node, st := range w.nodes() {
		at := what + node
		key := w.mallory.hex()
		st.until(at+": the events go", func() bool { return st.count(`{"authors":["`+key+`"]}`) == 0 })
		if got := st.reconciled(`{"authors":["` + key + `"]}`); len(got) != 0 {
			w.Errorf("%s: NEG has %d ids", at, len(got))
		}
		path := strings.TrimSuffix(repoPath(w.mallory, "own"), ".git")
		st.until(at+": the repository goes", func() bool {
			return st.ask("GET", path, nil).status == 404 && st.ask("GET", path+".git/info/refs?service=git-upload-pack", nil).status == 404
		})
		for _, e := range theirs {
			st.wantServed(e, true)
		}
		if refs := st.ask("GET", repoPath(w.alice, "tool")+"/info/refs?service=git-upload-pack", nil); !strings.Contains(refs.body, w.one+" refs/heads/main") {
			w.Errorf("%s: the other repository: %.200q", at, refs.body)
		}
		for _, e := range mine { // a module may have its own reason
			if a := st.c.publish(st, e); a.ok || st.served(e) {
				w.Errorf("%s: an event of kind %d is answered %v %q", at, e.Kind, a.ok, a.reason)
			}
		}
	}
	if left, err := filepath.Glob(filepath.Join(w.data, "git", w.mallory.npub(), "*")); err != nil || len(left) > 0 {
		w.Errorf("%s: folders are left: %v, %v", what, left, err)
	}
}

// importVanished brings the events by an import, and shows that a database from before the request
// obeys it when its copy is there.
func (w *takedown) importVanished(mine []*nostr.Event) {
	w.st.s.mustStop(w.T)
	var lines strings.Builder
	for _, e := range mine {
		lines.WriteString(e.String() + "\n")
	}
	file := filepath.Join(w.T.TempDir(), "events.jsonl")
	if err := os.WriteFile(file, []byte(lines.String()), 0o600); err != nil {
		w.Fatal(err)
	}
	old := graspData(w.T)
	copied, err := os.ReadFile(filepath.Join(w.data, "vanished.jsonl"))
	if err != nil || strings.Count(string(copied), "\n") != 1 {
		w.Fatalf("the copy of the requests: %q, %v", copied, err)
	}
	if err := os.WriteFile(filepath.Join(old, "vanished.jsonl"), copied, 0o600); err != nil {
		w.Fatal(err)
	}
	for _, data := range []string{w.data, old} {
		out, err := talon(w.T, nil, "import", file, "--data", data, "--plugins", w.plugins, "--domain", serviceDomain)
		if err != nil || strings.Count(out, "has asked to vanish") == 0 || strings.Contains(out, "stored 1") {
			w.Errorf("import: %v\n%s", err, out)
		}
		exported, err := talon(w.T, nil, "export", "--data", data)
		if err != nil || strings.Contains(exported, w.mallory.hex()+`","created_at"`) || strings.Contains(exported, `"pubkey":"`+w.mallory.hex()) {
			w.Errorf("export has events of somebody who has vanished: %v\n%s", err, exported)
		}
	}
	target := filepath.Join(w.T.TempDir(), "copy")
	if out, err := talon(w.T, nil, "copy", "--to", target, "--data", w.data); err != nil {
		w.Errorf("copy: %v\n%s", err, out)
	}
	if out, err := talon(w.T, nil, "import", file, "--data", target, "--plugins", w.plugins, "--domain", serviceDomain); err != nil || strings.Count(out, "has asked to vanish") == 0 {
		w.Errorf("import into the copy: %v\n%s", err, out)
	}
}
