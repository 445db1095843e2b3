package main

import (
	"strings"
	"testing"

	"talon/host"
	hostgrasp "talon/host/grasp"
	"talon/sdk/grasp"
)

// What is announced for a server is what the server looks for: the rules of both
// sides must not drift apart.
func TestAnnouncementListsServer(t *testing.T) {
	var author host.PubKey
	if !host.ParseHex(author[:], pubkey("alice")) {
		t.Fatal("no key")
	}
	for server, domain := range map[string]string{
		"ws://localhost:7777":      "localhost:7777",
		"ws://localhost:7777/":     "localhost:7777",
		"wss://relay.example.com":  "relay.example.com",
		"wss://Relay.Example.com/": "relay.example.com",
		"ws://[::1]:7777":          "[::1]:7777",
	} {
		for _, id := range []string{"demo", "a:b c", "🦀%2F", strings.Repeat("x", 200)} {
			e, err := (&announcing{identifier: id, server: []string{server}}).event(author)
			if err != nil {
				t.Errorf("%s, %q: %v", server, id, err)
				continue
			}
			e.PubKey = author
			a, err := grasp.ParseAnnouncement(hostgrasp.Event(e))
			if err != nil {
				t.Errorf("%s, %q: %v", server, id, err)
				continue
			}
			service, err := grasp.ParseService(domain)
			if err != nil {
				t.Fatal(err)
			}
			if !a.ListsService(service) {
				t.Errorf("clone %q and relays %q do not list %s", a.Clone, a.Relays, domain)
			}
			path := a.Clone[0][strings.Index(a.Clone[0], "/npub1"):]
			if p, err := grasp.ParsePath(path); err != nil || p.Repo != a.Repo() {
				t.Errorf("the path %s leads to %+v, %v", path, p, err)
			}
		}
	}
}

// A state that no push could meet would wait for ever.
func TestStateFaults(t *testing.T) {
	oid := strings.Repeat("1a", 20)
	for ref, ok := range map[string]bool{"refs/heads/main": true, "refs/heads/a b": false, "refs/heads/x.lock": false} {
		e := &host.Event{Kind: grasp.KindState, Tags: host.Tags{{"d", "demo"}, {ref, oid}}}
		if err := checkState(e); (err == nil) != ok {
			t.Errorf("%s: %v", ref, err)
		}
	}
	for _, id := range []string{"", "..", "a/b"} {
		if err := checkState(&host.Event{Kind: grasp.KindState, Tags: host.Tags{{"d", id}, {"refs/heads/main", oid}}}); err == nil {
			t.Errorf("the identifier %q passed", id)
		}
	}
}
