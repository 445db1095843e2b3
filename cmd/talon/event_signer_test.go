package main

import (
	"context"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"
	"github.com/nbd-wtf/go-nostr/nip04"
	"github.com/nbd-wtf/go-nostr/nip46"
)

// bunker is a signer at a relay (NIP-46) that keeps alice's key.
type bunker struct {
	t      *testing.T
	relay  string
	secret string

	mu      sync.Mutex // guards the fields below
	clients map[string]bool
	asked   []string // methods
	old     bool     // it knows NIP-04 only
	change  func(method string, resp *nip46.Response) (answer bool)
}

// startBunker runs a signer until the end of the test.
func startBunker(t *testing.T, relay string) *bunker {
	t.Helper()
	b := &bunker{t: t, relay: relay, secret: "once", clients: map[string]bool{}}
	keeps := nip46.NewStaticKeySigner(key("alice"))
	keeps.AuthorizeRequest = func(_ bool, from, secret string) bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		if secret != "" && secret == b.secret {
			b.secret, b.clients[from] = "", true
		}
		return b.clients[from]
	}
	ctx, stop := context.WithCancel(context.Background())
	connection, err := nostr.RelayConnect(ctx, relay)
	if err != nil {
		t.Fatal(err)
	}
	sub, err := connection.Subscribe(ctx, nostr.Filters{{Kinds: []int{nostr.KindNostrConnect}, Tags: nostr.TagMap{"p": {pubkey("alice")}}}})
	if err != nil {
		t.Fatal(err)
	}
	<-sub.EndOfStoredEvents
	var ended sync.WaitGroup
	ended.Go(func() {
		for e := range sub.Events {
			b.handle(ctx, connection, &keeps, e)
		}
	})
	t.Cleanup(func() {
		stop()
		_ = connection.Close()
		ended.Wait()
	})
	return b
}

func (b *bunker) handle(ctx context.Context, relay *nostr.Relay, keeps *nip46.StaticKeySigner, e *nostr.Event) {
	b.mu.Lock()
	old := b.old
	b.mu.Unlock()
	if old && !strings.Contains(e.Content, "?iv=") {
		return // it cannot read NIP-44
	}
	req, resp, answer, err := keeps.HandleRequest(ctx, e)
	if err != nil {
		b.t.Errorf("the signer does not understand a request: %v", err)
		return
	}
	b.mu.Lock()
	b.asked = append(b.asked, req.Method)
	change := b.change
	b.mu.Unlock()
	if change != nil {
		if !change(req.Method, &resp) {
			return
		}
		session, _ := keeps.GetSession(e.PubKey)
		if _, answer, err = session.MakeResponse(resp.ID, e.PubKey, resp.Result, errorOf(resp)); err == nil {
			err = answer.Sign(key("alice"))
		}
	}
	if old && err == nil {
		session, _ := keeps.GetSession(e.PubKey)
		if answer.Content, err = nip04.Encrypt(resp.String(), session.SharedKey); err == nil {
			err = answer.Sign(key("alice"))
		}
	}
	if err == nil {
		err = relay.Publish(ctx, answer)
	}
	if err != nil && ctx.Err() == nil {
		b.t.Errorf("the signer cannot answer: %v", err)
	}
}

type signerError string

func (r signerError) Error() string { return string(r) }

func errorOf(r nip46.Response) error {
	if r.Error == "" {
		return nil
	}
	return signerError(r.Error)
}

// oldEncryption makes the signer know NIP-04 only.
func (b *bunker) oldEncryption(on bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.old = on
}

// answers sets how requests are answered, nil for as they should be, and forgets those of before.
func (b *bunker) answers(change func(method string, resp *nip46.Response) bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.change, b.asked = change, nil
}

// requests returns the methods that were asked for. A request that was sent twice, to a signer that
// was silent for a while, counts once.
func (b *bunker) requests() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Join(slices.Compact(b.asked), " ")
}

// url is what a person copies from the signer.
func (b *bunker) url(secret string) string {
	return "bunker://" + pubkey("alice") + "?relay=" + url.QueryEscape(b.relay) + "&secret=" + secret
}

// TestRemoteSigner: --signer works wherever --key does, with a key that never leaves the signer.
func TestRemoteSigner(t *testing.T) {
	s := start(t, newData(t), "--domain", serviceDomain)
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	t.Setenv(keyFileVar, "")
	t.Setenv(signerVar, "")
	before := signTime
	t.Cleanup(func() { signTime = before })
	b := startBunker(t, s.url)
	alice := &pusher{T: t, dir: gitWork(t, filepath.Join(t.TempDir(), "work"))}
	run := func(args ...string) string {
		t.Helper()
		out, err := alice.event(args...)
		if err != nil {
			t.Fatalf("%s: %v\n%s", args[0], err, out)
		}
		return out
	}
	fails := func(want string, args ...string) {
		t.Helper()
		out, err := alice.event(args...)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q\n%s", args, err, want, out)
		}
	}

	// The secret is good once: the signer knows this client again by its key.
	fails("unauthorized", "key", "--signer", b.url("wrong"))
	b.answers(nil)
	if out := run("key", "--signer", b.url("once")); strings.TrimSpace(out) != aliceNpub {
		t.Errorf("the signer's key is %q", out)
	}
	b.answers(nil)
	if out := run("sign", "--signer", b.url("once"), "--content", `"\ <é🦀`, "--tag", "t=a;b"); !strings.Contains(out, pubkey("alice")) || !strings.Contains(out, `["t","a","b"]`) {
		t.Errorf("it signed %s", out)
	}
	if got := b.requests(); got != "get_public_key sign_event" {
		t.Errorf("the second command asked %q", got)
	}

	// A signer that is older than NIP-44 gets what it can read.
	b.oldEncryption(true)
	if out := run("sign", "--signer", b.url("once"), "--content", "old"); !strings.Contains(out, `"old"`) {
		t.Errorf("a signer with NIP-04 signed %s", out)
	}
	b.oldEncryption(false)

	// All the commands that sign.
	t.Setenv(signerVar, b.url(""))
	run("publish", "--content", "hello", s.url)
	path := "/" + aliceNpub + "/demo.git"
	run("announce", "--git", alice.dir, "--name", "demo", "--clone", "https://"+serviceDomain+path, "--relay", "wss://"+serviceDomain, s.url)
	run("push", "--git", alice.dir, s.web()+path, "main")
	if refs := mustGit(t, ".", "ls-remote", s.web()+path, "refs/heads/main"); refs == "" {
		t.Error("the branch is not there")
	}
	mustGit(t, alice.dir, "commit", "-q", "--allow-empty", "-m", "two")
	run("state", "--git", alice.dir, "--identifier", "demo", s.url)
	run("query", s.url, `{"kinds":[1]}`)

	// A key file goes before where an option names it; two of a kind are an error.
	file := keyFileOf(t, "bob")
	if out := run("sign", "--key", file, "--content", "x"); !strings.Contains(out, pubkey("bob")) {
		t.Errorf("--key beside %s: %s", signerVar, out)
	}
	fails("none of the others can be", "sign", "--key", file, "--signer", b.url(""), "--content", "x")
	t.Setenv(keyFileVar, file)
	fails("are both set", "sign", "--content", "x")
	t.Setenv(keyFileVar, "")

	// The signer must send back the event that it got.
	for name, lie := range map[string]func(e *nostr.Event){
		"another content": func(e *nostr.Event) { e.Content = "other" },
		"another time":    func(e *nostr.Event) { e.CreatedAt++ },
		"another tag":     func(e *nostr.Event) { e.Tags = nostr.Tags{{"t", "x"}} },
	} {
		b.answers(func(method string, resp *nip46.Response) bool {
			var e nostr.Event
			if method == "sign_event" && e.UnmarshalJSON([]byte(resp.Result)) == nil {
				lie(&e)
				if err := e.Sign(key("alice")); err != nil {
					t.Error(err)
				}
				resp.Result = e.String()
			}
			return true
		})
		if out, err := alice.event("sign", "--content", "x"); err == nil || !strings.Contains(err.Error(), "signed another event") {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
	b.answers(func(method string, resp *nip46.Response) bool {
		if method == "sign_event" {
			resp.Result, resp.Error = "", "not today\x1b[2J"
		}
		return true
	})
	if _, err := alice.event("sign", "--content", "x"); err == nil || !strings.Contains(err.Error(), "not today") || strings.Contains(err.Error(), "\x1b") {
		t.Errorf("a refusal: %v", err)
	}

	// A person must approve: the command says so, and does not wait for ever.
	signTime = time.Second
	b.answers(func(method string, _ *nip46.Response) bool { return method != "sign_event" })
	out, err := alice.event("sign", "--content", "x")
	if err == nil || !strings.Contains(err.Error(), "did not answer within 1s (sign_event)") || !strings.Contains(out, "approve the request (sign_event) there") {
		t.Errorf("a signer that does not answer: %v\n%s", err, out)
	}
	signTime = before
	b.answers(func(method string, resp *nip46.Response) bool {
		if method == "sign_event" {
			time.Sleep(3 * time.Second)
		}
		return true
	})
	if out := run("sign", "--content", "late"); !strings.Contains(out, "approve the request") || !strings.Contains(out, `"late"`) {
		t.Errorf("a late approval: %s", out)
	}

	// Wrong URLs.
	for _, wrong := range []string{"https://example.com", "bunker://alice?relay=" + s.url, "bunker://" + pubkey("alice"), "bunker://" + pubkey("alice") + "?relay=http://x"} {
		fails("the URL of the signer is wrong", "sign", "--content", "x", "--signer", wrong)
	}
	fails("reach a relay of the signer", "sign", "--content", "x", "--signer", "bunker://"+pubkey("alice")+"?relay=ws://127.0.0.1:1")
}
