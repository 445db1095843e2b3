package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nbd-wtf/go-nostr"
)

// withReaders returns a folder with the policies open and readers.
func withReaders(t testing.TB) string {
	t.Helper()
	dir := modulesAnd(t, []string{"open", "readers"}, nil)
	drop(t, dir, "open.toml", []byte(openRelay))
	return dir
}

// authenticated opens a connection that proves a key.
func authenticated(t testing.TB, s *process, name string) *client {
	t.Helper()
	c := connect(t, s)
	var verb, challenge string
	if err := json.Unmarshal([]byte(c.mustNext(t, "AUTH")), &[]any{&verb, &challenge}); err != nil {
		t.Fatal(err)
	}
	e := signAs(t, name, nostr.Event{Kind: 22242, Tags: nostr.Tags{{"relay", s.url}, {"challenge", challenge}}})
	c.send(t, `["AUTH",`+e.String()+`]`)
	if a, err := parseOK(c.mustNext(t, "OK")); err != nil || !a.ok {
		t.Fatalf("authenticate: %+v, %v", a, err)
	}
	return c
}

// count returns the answer to a COUNT of one filter.
func (c *client) count(t testing.TB, filter string) (n int) {
	t.Helper()
	c.send(t, `["COUNT","count",`+filter+`]`)
	var verb, id string
	var answer struct{ Count int }
	text := c.mustNext(t, "COUNT", "CLOSED")
	if err := json.Unmarshal([]byte(text), &[]any{&verb, &id, &answer}); err != nil || verb != "COUNT" {
		t.Fatalf("count %s: %s, %v", filter, text, err)
	}
	return answer.Count
}

// reconciled returns the answer of a negentropy session to a client that has nothing: the ids of
// all that the filter selects.
func (c *client) reconciled(t testing.TB, filter string) string {
	t.Helper()
	const nothing = "6100000200" // version, all times, a list of ids, none
	c.send(t, `["NEG-OPEN","neg",`+filter+`,"`+nothing+`"]`)
	text := c.mustNext(t, "NEG-MSG", "NEG-ERR")
	if strings.Contains(text, "closed: the events have changed") {
		return c.reconciled(t, filter)
	}
	c.send(t, `["NEG-CLOSE","neg"]`)
	return text
}

// live returns the ids of live events up to one.
func (c *client) live(t testing.TB, last string) (list []string) {
	t.Helper()
	for {
		var verb, sub string
		var e nostr.Event
		if err := json.Unmarshal([]byte(c.mustNext(t, "EVENT")), &[]any{&verb, &sub, &e}); err != nil {
			t.Fatal(err)
		}
		if list = append(list, e.ID); e.ID == last {
			return list
		}
	}
}

// TestGiftWraps sends private events past a stranger and to their recipient, through every door.
func TestGiftWraps(t *testing.T) {
	t.Parallel()
	plugins := withReaders(t)
	s := start(t, ownData(t, "readers"), "--plugins", plugins, "--auth-challenge", "connect")
	stranger, recipient, sender := connect(t, s), authenticated(t, s, "recipient"), connect(t, s)
	for _, c := range []*client{stranger, recipient} {
		c.send(t, `["REQ","live",{"limit":0},{"kinds":[1059,21059,1],"limit":0}]`)
		c.untilEOSE(t, "live")
	}
	to := nostr.Tags{{"p", pubkey("recipient")}}
	wrap := signAs(t, "one-time", nostr.Event{Kind: 1059, Content: "sealed", Tags: to})
	fleeting := signAs(t, "one-time", nostr.Event{Kind: 21059, Content: "sealed", Tags: to})
	note := signAs(t, "author", nostr.Event{Kind: 1, Content: "for everybody", Tags: to})
	for _, e := range []*nostr.Event{wrap, fleeting, note} {
		if a := sender.publish(t, e); !a.ok {
			t.Fatalf("publish: %+v", a)
		}
	}
	if got := stranger.live(t, note.ID); !slices.Equal(got, []string{note.ID}) {
		t.Errorf("a stranger got live %v", got)
	}
	if got := recipient.live(t, note.ID); !slices.Equal(got, []string{wrap.ID, fleeting.ID, note.ID}) {
		t.Errorf("the recipient got live %v", got)
	}
	doors := func(c *client, name string, want ...*nostr.Event) {
		t.Helper()
		for _, filter := range []string{
			`{"limit":5}`,
			`{"ids":["` + wrap.ID + `","` + note.ID + `"]}`,
			`{"kinds":[1,1059]}`,
			`{"authors":["` + wrap.PubKey + `","` + note.PubKey + `"]}`,
			`{"#p":["` + pubkey("recipient") + `"]}`,
		} {
			got, wanted := ids(c.query(t, filter)), ids(want)
			slices.Sort(got)
			slices.Sort(wanted)
			if !slices.Equal(got, wanted) {
				t.Errorf("%s asks %s: got %v, want %v", name, filter, got, wanted)
			}
			if n := c.count(t, filter); n != len(want) {
				t.Errorf("%s counts %s: got %d, want %d", name, filter, n, len(want))
			}
			seen := c.reconciled(t, filter)
			for _, e := range []*nostr.Event{wrap, note} {
				if strings.Contains(seen, e.ID) != slices.Contains(want, e) {
					t.Errorf("%s reconciles %s: kind %d is in the answer: %v", name, filter, e.Kind, strings.Contains(seen, e.ID))
				}
			}
		}
	}
	stranger = connect(t, s)
	recipient = authenticated(t, s, "recipient")
	doors(stranger, "a stranger", note)
	doors(recipient, "the recipient", wrap, note)
	doors(authenticated(t, s, "somebody else"), "somebody else", note)
	stranger.send(t, `["REQ","own",{"kinds":[1059]}]`)
	if got := stranger.mustNext(t, "CLOSED", "EOSE"); !strings.Contains(got, "auth-required: ") {
		t.Errorf("a stranger asks for gift wraps: %s", got)
	}

	// Without the module everybody receives everything, and with it again nobody else.
	mode := func(mode string) {
		t.Helper()
		if out, err := talon(t, nil, "plugin", "mode", "readers", mode, "--data", s.data); err != nil {
			t.Fatalf("mode %s: %v\n%s", mode, err, out)
		}
	}
	mode("off")
	until(t, "the stored gift wrap is for everybody", func() bool { return stranger.count(t, `{"ids":["`+wrap.ID+`"]}`) == 1 })
	doors(stranger, "a stranger without readers", wrap, note)
	mode("enforce")
	until(t, "the stored gift wrap is withheld", func() bool { return stranger.count(t, `{"ids":["`+wrap.ID+`"]}`) == 0 })
	doors(stranger, "a stranger", note)
	doors(recipient, "the recipient", wrap, note)

	// A comparison with the relay brings what everybody receives.
	into := ownData(t, "readers")
	if out, err := talon(t, nil, "sync", "--data", into, "--plugins", plugins, s.url); err != nil || !strings.Contains(out, "to the database: 1 stored") {
		t.Errorf("a comparison: %v\n%s", err, out)
	}
	if out, err := talon(t, nil, "export", "--data", into); err != nil || !strings.Contains(out, note.ID) || strings.Contains(out, wrap.ID) {
		t.Errorf("a comparison brought, %v:\n%s", err, out)
	}

	// The recipient deletes the gift wrap, whose key nobody has (NIP-59).
	deletion := signAs(t, "recipient", nostr.Event{Kind: 5, Tags: nostr.Tags{{"e", wrap.ID}, {"k", "1059"}}})
	if a := recipient.publish(t, deletion); !a.ok {
		t.Fatalf("the recipient's deletion: %+v", a)
	}
	if n := recipient.count(t, `{"ids":["`+wrap.ID+`"]}`); n != 0 {
		t.Errorf("the recipient counts %d gift wraps after the deletion", n)
	}
	if a := sender.publish(t, wrap); a.ok || a.reason != "blocked: deleted by its recipient" {
		t.Errorf("the gift wrap is sent again: %+v", a)
	}
	mustCheck(t, s.data)
}

// TestWithheldImports keeps the audience through an export, an import and a copy.
func TestWithheldImports(t *testing.T) {
	t.Parallel()
	plugins := withReaders(t)
	data, other := ownData(t, "readers"), filepath.Join(t.TempDir(), "other")
	wrap := signAs(t, "one-time", nostr.Event{Kind: 1059, Content: "sealed", Tags: nostr.Tags{{"p", pubkey("recipient")}}})
	in := fmt.Sprintln(wrap.String())
	if out, err := talon(t, strings.NewReader(in), "import", "--data", data, "--plugins", plugins); err != nil {
		t.Fatalf("import: %v\n%s", err, out)
	}
	if out, err := talon(t, nil, "export", "--data", data); err != nil || !strings.Contains(out, wrap.ID) {
		t.Errorf("the operator exports %q, %v", out, err)
	}
	if out, err := talon(t, nil, "copy", "--data", data, "--to", other); err != nil {
		t.Fatalf("copy: %v\n%s", err, out)
	}
	mustCheck(t, other)
	ownCode(t, other, "readers")
	s := start(t, other, "--plugins", plugins, "--auth-challenge", "connect")
	if n := connect(t, s).count(t, `{"ids":["`+wrap.ID+`"]}`); n != 0 {
		t.Errorf("a stranger counts %d in the copy", n)
	}
	if n := authenticated(t, s, "recipient").count(t, `{"ids":["`+wrap.ID+`"]}`); n != 1 {
		t.Errorf("the recipient counts %d in the copy", n)
	}
}
