package main

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/nbd-wtf/go-nostr"
)

// TestPluginSets limits authors, but for those whom alice follows: the set follows
// her list as she changes and deletes it.
func TestPluginSets(t *testing.T) {
	t.Parallel()
	data, dir := newData(t), pluginFolder(t, "open", "rate")
	drop(t, dir, "rate.toml", []byte(`
[config]
per_author_events_per_minute = 2
[sets.trusted]
list = "`+aliceNpub+`"
`))
	s := start(t, data, "--plugins", dir)
	c := connect(t, s)
	note := func(text string) answer {
		t.Helper()
		return c.publish(t, signAs(t, "bob", nostr.Event{Kind: 1, Content: text}))
	}
	limited := func(a answer) bool {
		return !a.ok && strings.HasPrefix(a.reason, "rate-limited: too many events of this author")
	}
	list := func(at nostr.Timestamp, tags ...nostr.Tag) *nostr.Event {
		return signAs(t, "alice", nostr.Event{Kind: 3, CreatedAt: at, Tags: tags})
	}
	for _, text := range []string{"first", "second"} {
		if a := note(text); !a.ok {
			t.Fatalf("the %s note: %+v", text, a)
		}
	}
	if a := note("third"); !limited(a) {
		t.Fatalf("the third note in a minute: %+v", a)
	}
	now := nostr.Now()
	follows := list(now-2, nostr.Tag{"p", pubkey("bob")})
	if a := c.publish(t, follows); !a.ok {
		t.Fatalf("alice's list: %+v", a)
	}
	if a := note("fourth"); !a.ok {
		t.Errorf("bob is followed: %+v", a)
	}
	if out, err := talon(t, nil, "plugin", "show", "rate", "--data", data); err != nil || !strings.Contains(out, "trusted") {
		t.Errorf("%v: %s", err, out)
	}
	deletion := signAs(t, "alice", nostr.Event{Kind: 5, CreatedAt: now, Tags: nostr.Tags{{"a", "3:" + pubkey("alice") + ":"}, {"e", follows.ID}}})
	if a := c.publish(t, deletion); !a.ok {
		t.Fatalf("the deletion: %+v", a)
	}
	if a := note("fifth"); !limited(a) {
		t.Errorf("alice's list is deleted: %+v", a)
	}
}

// TestPluginState uses up a limit, and finds it used up after a swap
// and a restart.
func TestPluginState(t *testing.T) {
	t.Parallel()
	data, dir := newData(t), pluginFolder(t, "open", "rate")
	drop(t, dir, "rate.toml", []byte("[config]\nper_author_bytes_per_day = 1000\n"))
	note := func(s *process, text string) answer {
		t.Helper()
		return connect(t, s).publish(t, signAs(t, "bob", nostr.Event{Kind: 1, Content: text}))
	}
	used := func(s *process, when string) {
		t.Helper()
		if a := note(s, when); a.ok || !strings.HasPrefix(a.reason, "rate-limited: this author has stored enough for today") {
			t.Errorf("%s: %+v", when, a)
		}
	}
	first := startAs(t, exec.Command("talon", serveArgs(t, data, "--plugins", dir)...), data)
	if a := note(first, strings.Repeat("x", 500)); !a.ok {
		t.Fatalf("%+v", a)
	}
	used(first, "again "+strings.Repeat("x", 500))
	if _, err := talon(t, nil, "plugin", "mode", "rate", "off", "--data", data); err != nil {
		t.Fatal(err)
	}
	if a := note(first, "no limits "+strings.Repeat("x", 500)); !a.ok {
		t.Errorf("switched off: %+v", a)
	}
	if _, err := talon(t, nil, "plugin", "mode", "rate", "enforce", "--data", data); err != nil {
		t.Fatal(err)
	}
	used(first, "after a swap "+strings.Repeat("x", 500))
	if err := first.stop(); err != nil {
		t.Fatal(err)
	}
	used(start(t, data, "--plugins", dir), "after a restart "+strings.Repeat("x", 500))
}
