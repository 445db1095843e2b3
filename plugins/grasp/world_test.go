package main

import (
	"encoding/hex"
	"strings"
	"testing"

	"talon/sdk/abi"
	"talon/sdk/grasp"
	"talon/sdk/nip19"
	"talon/sdk/policy"
	"talon/sdk/policy/policytest"
)

// People of the stories.
var (
	olivia  = person(1) // owns the repository "talon"
	mike    = person(2) // is listed by Olivia
	rita    = person(3) // is listed by Mike
	carl    = person(4) // contributes
	stan    = person(5) // has nothing to do with it
	mallory = person(6) // means harm
)

func person(n byte) policy.PubKey { return policy.PubKey{n, 31: 1} }

func npub(pk policy.PubKey) string { return nip19.EncodeNpub(pk) }

const here = "relay.example.com"

// world is a relay with the policy, and what tests say about it.
type world struct {
	*policytest.Harness
	t testing.TB
}

func newWorld(t testing.TB, config map[string]any) *world {
	t.Helper()
	w := &world{policytest.New(t, manifest, new(service), config), t}
	w.Git = map[string]policytest.Repo{}
	return w
}

// event is an event whose tags are written with spaces between their items. Events
// of one author, kind and content differ if their tags do.
func event(author policy.PubKey, kind int, tags ...string) policytest.Event {
	e := policytest.Event{PubKey: author, Kind: kind}
	for _, tag := range tags {
		e.Tags = append(e.Tags, strings.Split(tag, " "))
	}
	return e
}

// announces is an announcement of the repository "talon" that lists this service.
func announces(author policy.PubKey, maintainers ...policy.PubKey) policytest.Event {
	return announcesAt(here, author, maintainers...)
}

func announcesAt(service string, author policy.PubKey, maintainers ...policy.PubKey) policytest.Event {
	e := event(author, grasp.KindAnnouncement, "d talon", "clone https://"+service+"/"+npub(author)+"/talon.git", "relays wss://"+service)
	list := []string{"maintainers"}
	for _, m := range maintainers {
		list = append(list, hex.EncodeToString(m[:]))
	}
	e.Tags = append(e.Tags, list)
	return e
}

// named returns the announcement with another identifier, in its clone URL too.
func named(d string, e policytest.Event) policytest.Event {
	e.Tags[0] = []string{"d", d}
	host, _, _ := strings.Cut(e.Tags[1][1], "/npub1")
	e.Tags[1] = []string{"clone", host + grasp.Repo{PubKey: grasp.PubKey(e.PubKey), Identifier: d}.Path()}
	return e
}

func address(owner policy.PubKey) string {
	return grasp.Repo{PubKey: grasp.PubKey(owner), Identifier: "talon"}.Address()
}

var (
	commit = strings.Repeat("c", 40)
	other  = strings.Repeat("d", 40)
)

func state(author policy.PubKey, refs ...string) policytest.Event {
	return event(author, grasp.KindState, append([]string{"d talon", "HEAD ref:~refs/heads/main"}, refs...)...)
}

// has makes a repository, with objects.
func (w *world) has(owner policy.PubKey, objects ...string) {
	w.Git[address(owner)] = policytest.Repo{Objects: objects}
}

func (w *world) stores(events ...policytest.Event) { w.Stored = append(events, w.Stored...) }

func (w *world) holds(events ...policytest.Event) { w.Held = append(events, w.Held...) }

// hosts makes Olivia's repository as it is after its first push, with Mike as a
// maintainer.
func (w *world) hosts() {
	w.stores(announces(olivia, mike))
	w.has(olivia, commit)
}

func (w *world) accepts(rule string, e policytest.Event) {
	w.t.Helper()
	w.Want(e, policy.ActionAccept, rule)
}

// waits wants that the event is held, with the reason that clients know.
func (w *world) waits(rule string, e policytest.Event) {
	w.t.Helper()
	w.says(policy.ActionHold, rule, "purgatory: won't be served until git data arrives", e)
}

// follows wants that the event is held as long as its parent.
func (w *world) follows(rule, parent string, e policytest.Event) {
	w.t.Helper()
	w.says(policy.ActionHold, rule, "purgatory: won't be served until the event that this one is about is", e)
	if v := w.Admit(e); v.Parent != parent {
		w.t.Errorf("kind %d by %x is held with %q, want %q", e.Kind, e.PubKey[0], v.Parent, parent)
	}
}

func (w *world) refuses(rule, reason string, e policytest.Event) {
	w.t.Helper()
	w.says(policy.ActionReject, rule, reason, e)
}

func (w *world) says(action policy.Action, rule, reason string, e policytest.Event) {
	w.t.Helper()
	if v := w.Admit(e); v.Action != action || v.Rule != rule || v.Reason() != reason {
		w.t.Errorf("kind %d by %x: %v by %q, %q; want %v by %q, %q", e.Kind, e.PubKey[0], v.Action, v.Rule, v.Reason(), action, rule, reason)
	}
}

func (w *world) pushes(owner policy.PubKey, action policy.Action, rule, reason string) {
	w.t.Helper()
	v := w.Push(policytest.Push{Repo: address(owner), Updates: []abi.RefUpdate{{Ref: "refs/heads/main", Old: strings.Repeat("0", 40), New: commit}}})
	if v.Action != action || v.Rule != rule || v.Reason() != reason {
		w.t.Errorf("a push to %x: %v by %q, %q; want %v by %q, %q", owner[0], v.Action, v.Rule, v.Reason(), action, rule, reason)
	}
}

const (
	reasonUnrelated = "blocked: the event is not about a repository or an event that is accepted here"
	reasonNotListed = "invalid: the announcement must list this service in both its clone and its relays tags"
	reasonDenied    = "blocked: this repository is not welcome here"
)

// FuzzAdmit decides about events of any kind and with any tags, among others that
// are stored and held with the same. The harness fails if the policy asks what no
// relay answers, panics, or answers with nonsense; and every event is decided.
func FuzzAdmit(f *testing.F) {
	for _, kind := range []uint16{0, 1, 5, 1111, 1617, 1618, 1619, 1621, 1630, 10317, 30023, 30617, 30618} {
		f.Add(kind, "d talon\na "+address(olivia)+"\nc "+commit+"\ne "+strings.Repeat("ab", 32)+"\nclone https://"+here+"/prs/x\nrelays wss://"+here)
	}
	f.Add(uint16(30618), "d \xff\nHEAD ref: x\nrefs/heads/main "+commit+"\nrefs/heads/main/x "+commit)
	f.Add(uint16(1618), "a 30617::\na 30617:"+strings.Repeat("0", 64)+":\xff\nc "+commit+"\nq :::")
	f.Add(uint16(30617), "d "+strings.Repeat("x", 2000)+"\nmaintainers\nmaintainers x "+strings.Repeat("0", 64)+"\n\nclone")
	configs := []map[string]any{
		nil,
		{"archive_all": true, "deny": []any{npub(mallory), "warez"}, "max_repositories_per_author": 1},
		{"allow": []any{npub(olivia)}, "archive_services": []any{"elsewhere.com"}, "profiles": false},
	}
	f.Fuzz(func(t *testing.T, kind uint16, text string) {
		// JSON has no invalid UTF-8, so that no event has.
		e := event(stan, int(kind), strings.Split(strings.ToValidUTF8(text, "?"), "\n")...)
		for _, config := range configs {
			w := newWorld(t, config)
			w.hosts()
			stored, held := e, e
			stored.PubKey, held.PubKey = carl, mike
			stored.Kind = 30617
			w.stores(stored)
			w.holds(held)
			if v := w.Admit(e); v.Action == policy.ActionPass || v.Rule == "" {
				t.Errorf("%v by %q", v.Action, v.Rule)
			}
			for _, tag := range e.Tags {
				w.Push(policytest.Push{Repo: strings.Join(tag, ":")})
			}
		}
	})
}
