package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/nbd-wtf/go-nostr"
	"github.com/nbd-wtf/go-nostr/nip11"
	"github.com/nbd-wtf/go-nostr/nip86"
)

// TestManagement moderates a running relay over NIP-86, with the types of go-nostr.
func TestManagement(t *testing.T) {
	t.Parallel()
	s := start(t, newData(t), "--operators", pubkey("operator"), "--moderators", pubkey("moderator"))
	call := func(who string, method string, params ...any) nip86.Response {
		t.Helper()
		ask := nip86.Request{Method: method, Params: params}
		if _, err := nip86.DecodeRequest(ask); err != nil && method != "unbanpubkey" { // which go-nostr does not know
			t.Fatal(err)
		}
		body, err := json.Marshal(ask)
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(body)
		auth := signAs(t, who, nostr.Event{Kind: nostr.KindHTTPAuth, CreatedAt: nostr.Now(), Tags: nostr.Tags{
			{"u", s.web()}, {"method", "POST"}, {"payload", hex.EncodeToString(sum[:])},
		}})
		req, err := http.NewRequest(http.MethodPost, s.web(), bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/nostr+json+rpc")
		req.Header.Set("Authorization", "Nostr "+base64.StdEncoding.EncodeToString([]byte(auth.String())))
		got, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer got.Body.Close()
		var a nip86.Response
		if err := json.NewDecoder(got.Body).Decode(&a); err != nil {
			t.Fatalf("%s: %v", got.Status, err)
		}
		return a
	}
	ok := func(a nip86.Response) {
		t.Helper()
		if a.Error != "" || a.Result != true {
			t.Fatalf("the answer is %+v", a)
		}
	}
	c := connect(t, s)
	first := signAs(t, "mallory", nostr.Event{Kind: 1, CreatedAt: nostr.Now(), Content: "spam"})
	if a := c.publish(t, first); !a.ok {
		t.Fatal(a)
	}
	if out, err := talon(t, nil, "usage", "--by", "address", "--data", s.data); err != nil || !strings.Contains(out, "127.0.0.1") {
		t.Errorf("usage by address: %q, %v", out, err)
	}
	ok(call("moderator", "banpubkey", pubkey("mallory"), "spam"))
	second := signAs(t, "mallory", nostr.Event{Kind: 1, CreatedAt: nostr.Now(), Content: "more spam"})
	if a := c.publish(t, second); a.ok || a.reason != "blocked: banned by the operator: spam" {
		t.Errorf("an event of a banned author: %+v", a)
	}
	until(t, "the stored event goes", func() bool { return len(c.query(t, `{"ids":["`+first.ID+`"]}`)) == 0 })
	list := call("operator", "listbannedpubkeys")
	text, err := json.Marshal(list.Result)
	if err != nil {
		t.Fatal(err)
	}
	var banned []nip86.PubKeyReason
	if err := json.Unmarshal(text, &banned); err != nil || !slices.Equal(banned, []nip86.PubKeyReason{{PubKey: pubkey("mallory"), Reason: "spam"}}) {
		t.Errorf("banned: %s, %v", text, err)
	}
	ok(call("moderator", "unbanpubkey", pubkey("mallory")))
	until(t, "the stored event comes back", func() bool { return len(c.query(t, `{"ids":["`+first.ID+`"]}`)) == 1 })
	if a := c.publish(t, second); !a.ok {
		t.Errorf("an author whose ban has ended: %+v", a)
	}
	report := signAs(t, "moderator", nostr.Event{Kind: 1984, CreatedAt: nostr.Now(), Tags: nostr.Tags{{"e", second.ID, "spam"}, {"p", pubkey("mallory"), "spam"}}})
	if a := c.publish(t, report); !a.ok {
		t.Fatalf("a report of a moderator: %+v", a)
	}
	waiting := func(who string) string { // an authorization counts once, and two of one second are the same
		t.Helper()
		text, err := json.Marshal(call(who, "listeventsneedingmoderation").Result)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if got, want := waiting("moderator"), `[{"id":"`+second.ID+`","reason":"spam"}]`; got != want {
		t.Errorf("the queue is %s, want %s", got, want)
	}
	ok(call("moderator", "allowevent", second.ID))
	if got := waiting("operator"); got != "[]" {
		t.Errorf("after a decision the queue is %s", got)
	}
	if a := call("moderator", "blockip", "127.0.0.1"); !strings.Contains(a.Error, "needs the role operator") {
		t.Errorf("a moderator blocks addresses: %+v", a)
	}
	if a := call("mallory", "supportedmethods"); a.Error == "" {
		t.Errorf("a stranger is answered %+v", a)
	}
	about, err := nip11.Fetch(t.Context(), s.url)
	if err != nil || !slices.Contains(about.SupportedNIPs, any(86)) && !slices.Contains(about.SupportedNIPs, any(float64(86))) {
		t.Errorf("NIP-11 lists %v, %v", about.SupportedNIPs, err)
	}
	// The operator's own address too, at once.
	ok(call("operator", "blockip", "127.0.0.1", "test"))
	if _, err := c.next(); err == nil {
		t.Error("the connection of a blocked address stays open")
	}
	if status, body := s.get(t, "/"); status != http.StatusForbidden || body != "blocked: banned by the operator: test\n" {
		t.Errorf("a page for a blocked address: %d %q", status, body)
	}
}
