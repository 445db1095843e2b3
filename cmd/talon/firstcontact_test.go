package main

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/nbd-wtf/go-nostr"
)

// TestFirstContact has strangers write about a repository whose relay holds their first events. A
// maintainer's reaction, a follow list and a change of the settings end that, also after a restart and
// at another node. A ban does not.
func TestFirstContact(t *testing.T) {
	t.Parallel()
	plugins := modulesAnd(t, []string{"grasp"}, map[string]string{"first-contact": ""})
	eachEngine(t, takedownSetup{plugins: plugins, scale: true}, (*takedown).firstContact)
}

var woken = regexp.MustCompile(`talon_woken_total\{[^}]*outcome="held"`)

const unanswered = "purgatory: no maintainer of the repository has answered you yet; the event is kept for 7 days and is served when one does"

func (w *takedown) firstContact() {
	st := w.st
	if w.other == nil { // later servers may be killed
		w.restart = func() *story {
			args := serveArgs(w.T, w.data, "--plugins", w.plugins, "--domain", serviceDomain)
			return newStory(w.T, startAs(w.T, exec.Command("talon", args...), w.data))
		}
	}
	owner := st.who("owner")
	work := st.folder()
	commit := work.commit("one")
	st.held(st.announcement(owner, "own"))
	state := st.held(st.state(owner, "own", "refs/heads/main", commit))
	work.push(st.repo(owner, "own"), commit+":refs/heads/main")
	st.becomesServed(state)
	about := nostr.Tag{"a", repoAddress(owner, "own")}
	issue := func(who person, subject string) *nostr.Event {
		return st.event(who, 1621, about, nostr.Tag{"subject", subject})
	}
	react := func(content string, to *nostr.Event) *nostr.Event {
		e := st.event(owner, 7, nostr.Tag{"e", to.ID}, nostr.Tag{"p", to.PubKey})
		e.Content = content
		return signAs(w.T, string(owner), *e)
	}
	everywhere := func(what string, e *nostr.Event) {
		w.Helper()
		for where, at := range w.nodes() {
			at.until(what+where, func() bool { return at.served(e) })
		}
	}
	stranger, other, banned, crashed, last := st.who("stranger"), st.who("other"), st.who("banned"), st.who("crashed"), st.who("last")
	mine := st.stored(issue(owner, "mine"))
	first := st.answered(issue(stranger, "first"), true, unanswered)
	comment := st.answered(st.event(stranger, 1111, nostr.Tag{"E", first.ID}, nostr.Tag{"K", "1621"}, nostr.Tag{"e", first.ID}, nostr.Tag{"k", "1621"}), true, unanswered)
	onMine := st.answered(st.event(other, 1111, nostr.Tag{"E", mine.ID}, nostr.Tag{"K", "1621"}, nostr.Tag{"e", mine.ID}, nostr.Tag{"k", "1621"}), true, unanswered)
	barred := st.answered(issue(banned, "barred"), true, unanswered)
	survives := st.answered(issue(crashed, "survives"), true, unanswered)
	kept := st.answered(issue(last, "kept"), true, unanswered)
	pull := st.answered(st.pull(last, commit, about[1]), true, unanswered)
	st.refused(st.event(stranger, 1621, nostr.Tag{"a", repoAddress(stranger, "own")}), "blocked: the event is not about a repository or an event that is accepted here")
	waiting := []*nostr.Event{first, comment, onMine, barred, survives, kept, pull}
	hidden := func(what string, list ...*nostr.Event) {
		w.Helper()
		for where, at := range w.nodes() {
			for _, e := range list {
				if at.served(e) || at.count(`{"authors":["`+e.PubKey+`"]}`) != 0 || len(at.reconciled(`{"authors":["`+e.PubKey+`"]}`)) != 0 {
					w.Errorf("%s: the event of kind %d is not held%s", what, e.Kind, where)
				}
			}
		}
	}
	hidden("at first", waiting...)
	if refs := work.git("ls-remote", st.repo(owner, "own")); strings.Contains(refs, pull.ID) {
		w.Errorf("a held pull request has a ref:\n%s", refs)
	}
	if why := w.plugin("why", first.ID); !strings.Contains(why, "first-contact") || !strings.Contains(why, "waits for") || !strings.Contains(why, owner.hex()) {
		w.Errorf("why says:\n%s", why)
	}
	st.answered(first, true, unanswered) // sent again

	// A dislike vouches for nobody.
	st.stored(react("-", first))
	st.until("the policies have decided again", func() bool {
		for _, at := range w.nodes() {
			// Metrics of a node have its name as a label.
			if _, text := at.s.get(w.T, "/metrics"); woken.MatchString(text) {
				return true
			}
		}
		return false
	})
	hidden("after a dislike", first, comment)

	st = w.again()
	hidden("after a restart", waiting...)
	at := st
	if w.other != nil {
		at = w.other
	}
	at.stored(react("+", first))
	everywhere("a maintainer has reacted to the issue", first)
	everywhere("the comment of the same author is served too", comment)
	hidden("others wait on", onMine, barred, survives, kept)
	st.stored(issue(stranger, "second"))

	w.moderate("moderate", "ban", banned.npub(), "--reason", "scam")
	follow := func(list ...person) *nostr.Event {
		tags := []nostr.Tag{}
		for _, p := range list {
			tags = append(tags, nostr.Tag{"p", p.hex()})
		}
		return st.event(owner, 3, tags...)
	}
	st.stored(follow(banned, other))
	everywhere("the author of a comment is followed", onMine)
	hidden("a banned author", barred)

	now := st.now
	st.s.kill()
	w.st = w.restart()
	st = w.st
	st.now = now
	hidden("after a crash", survives, kept)
	st.stored(follow(crashed))
	everywhere("an author who is followed after a crash", survives)

	// A policy that is off holds nothing.
	w.plugin("mode", "first-contact", "off")
	everywhere("the policy is off", kept)
	everywhere("the policy is off: a pull request whose commit is here", pull)
	hidden("the policy is off", barred)
	if refs := work.git("ls-remote", st.repo(owner, "own")); !strings.Contains(refs, pull.ID) {
		w.Errorf("a pull request that is served has no ref:\n%s", refs)
	}
	w.plugin("mode", "first-contact", "enforce") // the other engine has the same folder
	st.s.mustStop(w.T)
	if out := w.command("check"); !strings.Contains(out, " 0 problems") {
		w.Errorf("check says:\n%s", out)
	}
}

// plugin runs a command about plugins on the server.
func (w *takedown) plugin(args ...string) string {
	w.Helper()
	out, err := talon(w.T, nil, append(append([]string{"plugin"}, args...), "--data", w.data)...)
	if err != nil {
		w.Fatalf("%v: %v\n%s", args, err, out)
	}
	return out
}
