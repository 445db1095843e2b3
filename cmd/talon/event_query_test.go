package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/gobwas/ws"
	"github.com/gobwas/ws/wsutil"
	"github.com/nbd-wtf/go-nostr"
)

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

// What a relay says is shown, and a terminal does not obey it.
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
