package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gobwas/ws"
	"github.com/gobwas/ws/wsutil"
	"github.com/nbd-wtf/go-nostr"

	"talon/host"
	"talon/host/schnorr"
	"talon/host/wire"
	"talon/sdk/grasp"
)

// An announcement lists a server by the rules with which the server looks for itself. The
// two must not drift apart.
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
			a, err := e.Announcement()
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

func TestParseTag(t *testing.T) {
	const (
		id    = "46d731680add2990efe1cc619dc9b8014feeb23261ab9dee50e9d11814de5a2b"
		note  = "note1gmtnz6q2m55epmlpe3semjdcq987av3jvx4emmjsa8g3s9x7tg4sclreky"
		owner = "2e2c9221dc4d2518f9a101db336695f1afb56ab82f5ff3e5da6eec3ca5cd917"
		naddr = "naddr1qqzhgctvdahqygqhzckfy8wy6fgclxssrkend9wlrta4d2uz7hlnuhdxampu5hxezupsgqqqw7vslspsv5"
	)
	for text, want := range map[string]host.Tag{
		"t=bug":                       {"t", "bug"},
		"t":                           {"t"},
		"t=":                          {"t", ""},
		"t=a;;b":                      {"t", "a", "", "b"},
		"alt=a=b":                     {"alt", "a=b"},
		`["t","a;b=c"]`:               {"t", "a;b=c"},
		` ["t"]`:                      {` ["t"]`},
		"p=" + aliceNpub + ";wss://r": {"p", pubkey("alice"), "wss://r"},
		"P=" + aliceNpub:              {"P", pubkey("alice")},
		"t=" + aliceNpub:              {"t", aliceNpub},
		"e=" + note:                   {"e", id},
		"q=" + note:                   {"q", id},
		"e=" + id:                     {"e", id},
		`["p","` + aliceNpub + `"]`:   {"p", aliceNpub},
	} {
		if got, err := parseTag(text); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("parseTag(%q) = %q, %v; want %q", text, got, err, want)
		}
	}
	for _, name := range []string{"a", "A", "q"} {
		got, err := parseTag(name + "=" + naddr)
		if err != nil || len(got) != 2 || !strings.HasPrefix(got[1], "30617:") || !strings.HasSuffix(got[1], owner[len(owner)-20:]+":talon") {
			t.Errorf("the tag %s of an naddr is %q, %v", name, got, err)
		}
	}
	for _, text := range []string{"", "=", "=x", "[", "[]", `["a",["b"]]`, `["a"] x`, "p=npub1", "e=note1x", "a=naddr1x", "q=nevent1"} {
		if got, err := parseTag(text); err == nil {
			t.Errorf("parseTag(%q) = %q, want an error", text, got)
		}
	}
}

func TestIdentifier(t *testing.T) {
	for name, want := range map[string]string{
		"demo": "demo", "My Demo": "my-demo", "  a -- b! ": "a-b", "Größe 2": "größe-2", "../etc": "etc", "...": "", "": "", "a\x00b": "a-b",
	} {
		if got := identifierOf(name); got != want {
			t.Errorf("identifierOf(%q) = %q, want %q", name, got, want)
		}
	}
}

func secretOf(t *testing.T, name string) (k secretKey) {
	t.Helper()
	if !host.ParseHex(k[:], key(name)) {
		t.Fatal("no hex")
	}
	return k
}

// A relay takes each event that is signed, whatever its text.
func TestSign(t *testing.T) {
	k := secretOf(t, "alice")
	for _, content := range []string{"", "é🦀", "\u0000\u001f\u007f\u2028 <&>\"\\\b\f\n\r\t", strings.Repeat("x", 1<<20)} {
		e := &host.Event{Kind: 1, CreatedAt: 1700000000, Content: content, Tags: host.Tags{{"t", content}, {"-"}}}
		if err := k.sign(e); err != nil {
			t.Fatal(err)
		}
		got, err := wire.ParseEvent(e.JSON)
		if err == nil {
			err = schnorr.Verify(got)
		}
		if err != nil || got.Content != content || got.PubKey.String() != pubkey("alice") {
			t.Errorf("%.40q: %v", content, err)
		}
	}
	for name, e := range map[string]*host.Event{
		"content that is not UTF-8": {Content: "\xff"},
		"a tag that is not UTF-8":   {Tags: host.Tags{{"t", "\xff"}}},
		"a time before 1970":        {CreatedAt: -1},
	} {
		if err := k.sign(e); err == nil || e.JSON != nil {
			t.Errorf("%s was signed", name)
		}
	}
}

// A key that is logged or formatted by mistake does not show.
func TestSecretKeyIsNotFormatted(t *testing.T) {
	k := secretOf(t, "alice")
	for _, verb := range []string{"%v", "%s", "%+v", "%#v", "%q", "%x", "%X", "%d"} {
		for _, v := range []any{k, &k, struct{ K secretKey }{k}} {
			text := fmt.Sprintf(verb, v)
			if strings.Contains(strings.ToLower(text), key("alice")[:8]) || strings.Contains(text, fmt.Sprint(k[0])+" "+fmt.Sprint(k[1])) {
				t.Errorf("%s shows the key: %s", verb, text)
			}
		}
	}
}

func TestKeyRange(t *testing.T) {
	order := curveOrder
	order[31]--
	if inRange([32]byte{}) || inRange(curveOrder) || !inRange(order) || !inRange([32]byte{31: 1}) {
		t.Error("a key is from 1 to the order of the curve less one")
	}
	a, b := newKey(), newKey()
	if a == b {
		t.Error("two new keys are the same")
	}
}

// fakeRelay answers the first message of one client with other messages.
func fakeRelay(t *testing.T, messages ...string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(patience))
		if _, err := ws.Upgrade(c); err != nil {
			t.Error(err)
		}
		if _, _, err := wsutil.ReadClientData(c); err != nil {
			t.Error(err)
		}
		for _, m := range messages {
			_ = wsutil.WriteServerText(c, []byte(m))
		}
		_, _ = c.Read(make([]byte, 1000)) // it says goodbye
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-done
	})
	return "ws://" + l.Addr().String()
}

// runEvent runs a subcommand of talon event in this process.
func runEvent(t *testing.T, stdin string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	t.Setenv(keyFileVar, "")
	var out, errOut bytes.Buffer
	cmd := eventCommand()
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(args)
	cmd.SetIn(strings.NewReader(stdin))
	cmd.SetOut(&out)
	cmd.SetErr(&errOut)
	err = cmd.ExecuteContext(t.Context())
	return out.String(), errOut.String(), err
}

// A relay that answers with forgeries, or with what was not asked for, does not get
// them printed as if they were an answer.
func TestQueryLyingRelay(t *testing.T) {
	good := signAs(t, "alice", nostr.Event{Kind: 1, Content: "good"})
	forged := *good
	forged.Content = "forged"
	other := signAs(t, "alice", nostr.Event{Kind: 7, Content: "other"})
	message := func(e *nostr.Event) string { return fmt.Sprintf(`["EVENT","q1",%s]`, e) }
	url := fakeRelay(t, message(&forged), message(other), message(good), `["EOSE","q1"]`)
	out, errOut, err := runEvent(t, "", "query", url, `{"kinds":[1]}`)
	var got nostr.Event
	if err != nil || json.Unmarshal([]byte(out), &got) != nil || got.ID != good.ID || strings.Count(out, "\n") != 1 {
		t.Errorf("got %q, %v", out, err)
	}
	if !strings.Contains(errOut, "2 events are not printed") {
		t.Errorf("stderr: %q", errOut)
	}
}

// One that sends more than was asked for is cut off.
func TestQueryEndlessRelay(t *testing.T) {
	var messages []string
	for i := range 10 {
		messages = append(messages, fmt.Sprintf(`["EVENT","q1",%s]`, signAs(t, "alice", nostr.Event{Kind: 1, Content: fmt.Sprint(i)})))
	}
	out, _, err := runEvent(t, "", "query", "--limit", "3", fakeRelay(t, messages...))
	if err != nil || strings.Count(out, "\n") != 3 {
		t.Errorf("got %d lines, %v", strings.Count(out, "\n"), err)
	}
}

// The text of a relay is shown, and a terminal does not obey it.
func TestRelayTextIsPlain(t *testing.T) {
	e := signAs(t, "alice", nostr.Event{Kind: 1, Content: "x"})
	notice := `["NOTICE","\u001b[2Jgone\u0007` + strings.Repeat("long", 1000) + `"]`
	url := fakeRelay(t, notice, `["CLOSED","q1","\u001b]0;owned\u0007"]`)
	_, errOut, err := runEvent(t, "", "query", url)
	if err == nil || strings.ContainsAny(err.Error()+errOut, "\x1b\x07") || !strings.Contains(err.Error(), "owned") {
		t.Errorf("query: %q, %v", errOut, err)
	}
	if !strings.Contains(errOut, "gone") || len(errOut) > 1000 {
		t.Errorf("the notice is shown as %d bytes: %.100q", len(errOut), errOut)
	}
	url = fakeRelay(t, fmt.Sprintf(`["OK","%s",false,"\u001b[31mred\nline"]`, e.ID))
	out, _, err := runEvent(t, e.String(), "publish", "--stdin", url)
	if err == nil || strings.Contains(out, "\x1b") || strings.Count(out, "\n") != 1 || !strings.Contains(out, "red") {
		t.Errorf("publish: %q, %v", out, err)
	}
}
