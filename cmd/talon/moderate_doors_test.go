package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nbd-wtf/go-nostr"
)

// TestTakedownDoors looks at the doors that are open while a takedown happens: live subscriptions,
// negentropy sessions and purgatory, at each node. Then it brings what was taken down by an import and
// by a comparison with another relay.
func TestTakedownDoors(t *testing.T) {
	t.Parallel()
	eachEngine(t, takedownSetup{scale: true}, (*takedown).openDoors)
}

func (w *takedown) openDoors() {
	st := w.st
	w.alice, w.mallory = st.who("alice"), st.who("mallory")
	work := st.folder()
	commit := work.commit("one")
	st.held(st.announcement(w.alice, "tool"))
	st.held(st.state(w.alice, "tool", "refs/heads/main", commit))
	work.push(st.repo(w.alice, "tool"), commit+":refs/heads/main")
	issue := func(subject string) *nostr.Event {
		return st.event(w.mallory, 1621, nostr.Tag{"a", repoAddress(w.alice, "tool")}, nostr.Tag{"subject", subject})
	}
	first := st.stored(issue("first"))
	target := w.mallory.npub()
	for _, action := range []struct {
		name, refused string
		do, undo      []string
	}{
		{"hide", "hidden", []string{"moderate", "hide"}, []string{"moderate", "unhide"}},
		{"ban", "banned", []string{"moderate", "ban"}, []string{"moderate", "unban"}},
		{"purge", "banned", []string{"moderate", "ban", "--purge"}, nil},
	} {
		waits := st.held(st.announcement(w.mallory, "waits-"+action.name))
		var watchers []*client
		for _, at := range w.nodes() {
			at.until("the event is at each node", func() bool { return at.served(first) })
			c := connect(w.T, at.s)
			c.send(w.T, `["REQ","live",{"authors":["`+w.mallory.hex()+`"],"limit":0}]`)
			c.mustNext(w.T, "EOSE")
			c.send(w.T, `["NEG-OPEN","open",{"authors":["`+w.mallory.hex()+`"]},"6100000200"]`)
			c.mustNext(w.T, "NEG-MSG")
			watchers = append(watchers, c)
		}
		w.moderate(append(action.do, target, "--reason", "scam")...)
		later := issue("during " + action.name)
		later.CreatedAt = first.CreatedAt
		later = signAs(w.T, string(w.mallory), *later)
		for _, e := range []*nostr.Event{later, waits, first} {
			if a := st.c.publish(w.T, e); a.ok || a.reason != "blocked: "+action.refused+" by the operator: scam" {
				w.Errorf("%s: an event of kind %d is answered %v %q", action.name, e.Kind, a.ok, a.reason)
			}
		}
		for i, c := range watchers {
			if text := c.mustNext(w.T, "NEG-ERR"); !strings.Contains(text, "closed: the events have changed") {
				w.Errorf("%s: the open session at node %d gets %s", action.name, i, text)
			}
			c.send(w.T, `["COUNT","count",{"authors":["`+w.mallory.hex()+`"]}]`)
			if text := c.mustNext(w.T, "EVENT", "COUNT"); text != `["COUNT","count",{"count":0}]` {
				w.Errorf("%s: node %d: a live subscription or a count gets %s", action.name, i, text)
			}
		}
		push := st.ask("GET", repoPath(w.mallory, "waits-"+action.name)+"/info/refs?service=git-receive-pack", nil)
		if !strings.Contains(push.body, "ERR this repository was "+action.refused+" by the operator: scam") {
			w.Errorf("%s: a push to what waited is answered %d %.200q", action.name, push.status, push.body)
		}
		if action.undo == nil {
			break
		}
		w.moderate(append(action.undo, target)...)
		for i, c := range watchers {
			if text := c.mustNext(w.T, "EVENT"); !strings.Contains(text, first.ID) {
				w.Errorf("after %s the live subscription at node %d gets %s", action.name, i, text)
			}
		}
	}
	if w.other == nil {
		w.bringBack(first)
	}
}

// bringBack imports an event that was purged, and compares with a relay that has it.
func (w *takedown) bringBack(e *nostr.Event) {
	w.st.s.mustStop(w.T)
	file := filepath.Join(w.T.TempDir(), "events.jsonl")
	if err := os.WriteFile(file, []byte(e.String()+"\n"), 0o600); err != nil {
		w.Fatal(err)
	}
	out, err := talon(w.T, nil, "import", file, "--data", w.data, "--plugins", w.plugins, "--domain", serviceDomain)
	if err != nil || !strings.Contains(out, "banned by the operator: scam") {
		w.Errorf("import: %v\n%s", err, out)
	}
	other := start(w.T, newData(w.T))
	if a := connect(w.T, other).publish(w.T, e); !a.ok {
		w.Fatal(a)
	}
	out, err = talon(w.T, nil, "sync", other.url, "--data", w.data, "--plugins", w.plugins, "--domain", serviceDomain)
	if err != nil {
		w.Errorf("sync: %v\n%s", err, out)
	}
	if out, err := talon(w.T, nil, "export", "--data", w.data); err != nil || strings.Contains(out, e.ID) {
		w.Errorf("the event is back: %v\n%s", err, out)
	}
}
