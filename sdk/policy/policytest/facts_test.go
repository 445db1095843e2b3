package policytest

import (
	"bytes"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"talon/sdk/abi"
	"talon/sdk/policy"
)

const factsManifest = `{
  "talon_manifest": 1, "name": "x", "worlds": ["policy"], "functions": ["admit", "query", "connect", "push"],
  "capabilities": ["store.query", "held.get", "held.query", "git.has", "git.ref", "kv.get", "kv.set", "kv.delete", "kv.incr", "sets.contains", "bucket.take", "metric"]
}`

// all runs a function as each of its own.
type all struct {
	probe
	query   func(policy.QueryInput) policy.Verdict
	connect func(policy.ConnectInput) policy.Verdict
	push    func(policy.PushInput) policy.Verdict
}

func (a *all) Query(in policy.QueryInput) policy.Verdict     { return a.query(in) }
func (a *all) Connect(in policy.ConnectInput) policy.Verdict { return a.connect(in) }
func (a *all) Push(in policy.PushInput) policy.Verdict       { return a.push(in) }

// with runs f as a decision about an empty event, at the harness's time.
func with(t *testing.T) (h *Harness, run func(f func(in policy.Input))) {
	t.Helper()
	p := new(all)
	h = New(t, factsManifest, p, nil)
	return h, func(f func(in policy.Input)) {
		p.admit = func(in policy.Input) policy.Verdict {
			f(in)
			return policy.Pass()
		}
		h.Admit(Event{})
	}
}

func TestWhatThePolicyKeeps(t *testing.T) {
	h, run := with(t)
	get := func(in policy.Input, key string) string {
		value, ok := in.KVGet(key)
		if !ok {
			return "-"
		}
		return string(value)
	}
	run(func(in policy.Input) {
		if !in.KVSet(in.Key("a", "b"), []byte("1"), 0) || !in.KVSet("short", []byte("2"), 10) || !in.KVSet("big", bytes.Repeat([]byte("x"), 40_000), 0) {
			t.Error("there is no room")
		}
		if get(in, "ab") != "1" || get(in, "short") != "2" || len(get(in, "big")) != 40_000 || get(in, "other") != "-" {
			t.Errorf("ab %q, short %q, other %q", get(in, "ab"), get(in, "short"), get(in, "other"))
		}
		in.KVDelete("ab")
		if got := get(in, "ab"); got != "-" {
			t.Errorf("deleted: %q", got)
		}
		if in.KVSet(strings.Repeat("k", 257), nil, 0) || in.KVSet("k", make([]byte, 65537), 0) {
			t.Error("a key or value that is too long is kept")
		}
		for i, want := range []int64{5, 3} {
			if got := in.KVIncr("n", []int64{5, -2}[i], 10); got != want {
				t.Errorf("incr: %d, want %d", got, want)
			}
		}
		if in.KVIncr("max", math.MaxInt64, 0) != math.MaxInt64 || in.KVIncr("max", 1, 0) != math.MaxInt64 {
			t.Error("a counter does not stop at the end")
		}
		if got := in.KVIncr("short", 7, 0); got != 7 {
			t.Errorf("a value that is no counter counts as %d, want 0", got-7)
		}
	})
	h.Now += 10
	run(func(in policy.Input) {
		if get(in, "short") != "-" || get(in, "n") != "-" || len(get(in, "max")) != 8 {
			t.Errorf("after the time to live: %q %q %q", get(in, "short"), get(in, "n"), get(in, "max"))
		}
		h.Room = 40_020
		if in.KVSet("more", make([]byte, 100), 0) || in.KVIncr("new", 3, 0) != 3 || get(in, "new") != "-" {
			t.Error("something is kept without room")
		}
	})
}

func TestBucket(t *testing.T) {
	h, run := with(t)
	take := func(n, burst int, want time.Duration, wantOK bool) {
		t.Helper()
		run(func(in policy.Input) {
			t.Helper()
			if wait, ok := in.Take("k", n, burst, 500*time.Millisecond); wait != want || ok != wantOK {
				t.Errorf("take %d of %d: %v, %v; want %v, %v", n, burst, wait, ok, want, wantOK)
			}
		})
	}
	take(3, 4, 0, true)
	take(2, 4, 500*time.Millisecond, false)
	take(1, 4, 0, true)
	take(4, 4, 2*time.Second, false)
	take(0, 4, 0, true)
	h.Now++
	take(2, 4, 0, true)
	take(1, 4, 500*time.Millisecond, false)
	h.Now += 1000
	take(4, 4, 0, true)
	run(func(in policy.Input) {
		if wait, ok := in.Take("k", 5, 4, time.Second); wait >= 0 || ok {
			t.Errorf("more than the bucket holds: %v, %v", wait, ok)
		}
		if _, ok := in.Take("other", 4, 4, time.Hour); !ok {
			t.Error("a bucket that nobody took from is not full")
		}
	})
}

func TestSetsGitAndMetrics(t *testing.T) {
	h, run := with(t)
	key := policy.PubKey{0xab}
	h.Sets = map[string][]string{"friends": {key.String(), "text"}}
	h.Git = map[string]Repo{"30617:x:y": {Objects: []string{"beef"}, Others: []string{"cafe"}, Refs: map[string]string{"refs/heads/main": "beef"}}}
	h.Held = []Event{{Kind: 30617, Content: "held"}}
	run(func(in policy.Input) {
		type answer struct{ yes, known bool }
		ask := func(yes, known bool) answer { return answer{yes, known} }
		for i, got := range []answer{
			ask(in.PubKeyInSet("friends", key)), ask(in.InSet("friends", key.String())), ask(in.InSet("friends", "text")),
			ask(in.PubKeyInSet("friends", policy.PubKey{1})), ask(in.InSet("foes", "text")),
		} {
			if want := (answer{i < 3, i < 4}); got != want {
				t.Errorf("set %d: %+v, want %+v", i, got, want)
			}
		}
		object, ok := in.GitRef("30617:x:y", "refs/heads/main")
		_, other := in.GitRef("30617:x:y", "refs/heads/next")
		if object != "beef" || !ok || other || !in.GitHas("30617:x:y", "beef") || in.GitHas("30617:x:y", "dead") || in.GitHas("30617:x:z", "beef") {
			t.Errorf("git: %q, %v, %v", object, ok, other)
		}
		if !in.GitHas("30617:x:y", "") || in.GitHas("30617:x:z", "") || !in.GitHasCommit("30617:x:y", "beef") || in.GitHasCommit("30617:x:y", "cafe") ||
			!in.GitHas("30617:x:y", "cafe") {
			t.Error("git: what is here, and what is a commit")
		}
		found := in.QueryHeld(policy.Filter{Kinds: []int{h.Held[0].Kind}})
		if !found.Next() || found.Event().Content() != "held" || found.Next() || found.More() {
			t.Error("the held event is not found by a query")
		}
		if found = in.QueryHeld(policy.Filter{Limit: 1}); !found.Next() || found.Next() || !found.More() {
			t.Error("a query for one does not say that there may be more")
		}
		if found = in.Query(policy.Filter{}); found.Next() || found.More() || found.Failed() {
			t.Error("what is held is found in the store")
		}
		h.Failing = true
		if found = in.QueryHeld(policy.Filter{Kinds: []int{h.Held[0].Kind}}); found.Next() || !found.Failed() {
			t.Error("a query that the host cannot answer has an answer")
		}
		h.Failing = false
		if e, ok := in.Held(h.Held[0].id()); !ok || e.Content() != "held" {
			t.Error("the held event is not found")
		}
		if _, ok := in.Held(policy.ID{}); ok {
			t.Error("an event that is not held is found")
		}
		in.Count("seen", 2)
		in.Count("seen", 0.5)
		in.Gauge("level", -1)
	})
	if h.Metrics["seen"] != 2.5 || h.Metrics["level"] != -1 {
		t.Errorf("metrics %v", h.Metrics)
	}
}

func TestOtherFunctions(t *testing.T) {
	p := new(all)
	h := New(t, factsManifest, p, nil)
	h.Address, h.Authed, h.UserAgent, h.WebOrigin, h.Path = "192.0.2.7", []policy.PubKey{{1}}, "u", "o", "/p"
	checkClient := func(c policy.Client, now int64) {
		t.Helper()
		keys := c.Keys()
		if c.Address() != "192.0.2.7" || !c.Authed(policy.PubKey{1}) || c.Authed(policy.PubKey{2}) || c.UserAgent() != "u" ||
			c.Origin() != "o" || c.Path() != "/p" || !keys.Next() || policy.PubKey(keys.Key()) != (policy.PubKey{1}) || keys.Next() || now != Now {
			t.Errorf("client %q %q %q %q at %d", c.Address(), c.UserAgent(), c.Origin(), c.Path(), now)
		}
	}
	p.query = func(in policy.QueryInput) policy.Verdict {
		checkClient(in.Client(), in.Now())
		filters := in.Filters()
		if !filters.Next() {
			t.Fatal("there are no filters")
		}
		f := filters.Filter()
		limit, _ := f.Limit()
		if in.Verb() != policy.VerbCount || f.NumKinds() != 2 || f.NumAuthors() != 1 || f.NumTags() != 1 || limit != 5 || filters.Next() {
			t.Errorf("verb %d, %d kinds, %d authors, %d tags, limit %d", in.Verb(), f.NumKinds(), f.NumAuthors(), f.NumTags(), limit)
		}
		return policy.RequireAuth("who are you?").By("q")
	}
	if v := h.Query(policy.VerbCount, policy.Filter{
		Kinds: []int{1, 2}, Authors: []policy.PubKey{{3}}, Tags: []policy.TagFilter{{Name: "t", Values: []string{"x"}}}, Limit: 5,
	}); v.Rule != "q" {
		t.Errorf("query: %+v", v)
	}
	p.connect = func(in policy.ConnectInput) policy.Verdict {
		checkClient(in.Client(), in.Now())
		if in.Open() != 100 || in.FromAddress() != 3 {
			t.Errorf("open %d, from the address %d", in.Open(), in.FromAddress())
		}
		return policy.Reject("blocked", "full").By("c")
	}
	if v := h.Connect(100, 3); v.Rule != "c" {
		t.Errorf("connect: %+v", v)
	}
	update := abi.RefUpdate{Ref: "refs/heads/main", Old: "0", New: "1"}
	p.push = func(in policy.PushInput) policy.Verdict {
		checkClient(in.Client(), in.Now())
		updates, maintainers := in.Updates(), in.Maintainers()
		if !updates.Next() || updates.Update() != update || updates.Next() || !maintainers.Next() || maintainers.Key() != [32]byte{9} ||
			in.Repo() != "30617:x:y" || in.Bytes() != 5 || in.Stored() != 6 {
			t.Errorf("push to %q, %d and %d bytes", in.Repo(), in.Bytes(), in.Stored())
		}
		return policy.Accept().By("p")
	}
	if v := h.Push(Push{Repo: "30617:x:y", Maintainers: []policy.PubKey{{9}}, Updates: []abi.RefUpdate{update}, Bytes: 5, Stored: 6}); v.Rule != "p" {
		t.Errorf("push: %+v", v)
	}
}

// TestKeysAllocateNothing: decisions that build keys allocate nothing.
func TestKeysAllocateNothing(t *testing.T) {
	p := new(all)
	p.admit = func(in policy.Input) policy.Verdict {
		pk := in.Event().PubKey()
		in.PubKeyInSet("none", pk)
		if _, ok := in.Take(in.Key("author:", string(pk[:])), 1, 1<<30, time.Millisecond); !ok {
			return policy.Reject("rate-limited", "no")
		}
		in.KVIncr(in.Key("bytes:", string(pk[:])), 5, 60)
		return policy.Pass()
	}
	h := New(t, factsManifest, p, nil)
	h.WantNoAllocations(Event{PubKey: policy.PubKey{1}})
}

// recorder is a test that notes its failures.
type recorder struct {
	testing.TB
	failed []string
}

func (r *recorder) Helper() {}

func (r *recorder) Errorf(format string, args ...any) { r.failed = append(r.failed, format) }

func TestManifestAndMethodsBelongTogether(t *testing.T) {
	r := &recorder{TB: t}
	New(r, factsManifest, new(probe), nil)
	if len(r.failed) != 3 || !strings.Contains(r.failed[0], "has no method") {
		t.Errorf("functions without methods: %q", r.failed)
	}
	r = &recorder{TB: t}
	New(r, manifestText, new(all), nil)
	if len(r.failed) != 3 || !strings.Contains(r.failed[0], "never calls it") {
		t.Errorf("methods that the manifest does not name: %q", r.failed)
	}
	r = &recorder{TB: t}
	p := &all{connect: func(policy.ConnectInput) policy.Verdict { return policy.Hold("wait") }}
	New(r, factsManifest, p, nil).Connect(1, 1)
	if !slices.Equal(r.failed, []string{"%v is no answer to %s"}) {
		t.Errorf("hold as an answer to connect: %q", r.failed)
	}
}

func TestVectors(t *testing.T) {
	const text = `{
		"talon_manifest": 1, "name": "x", "worlds": ["policy"], "capabilities": ["store.get", "sets.contains"],
		"config": [{"key": "word", "type": "string"}],
		"vectors": [
			{"name": "reject", "function": "admit", "config": {"word": "x"}, "event": {"content": "x"}, "now": 5,
				"stored": [{"id": "01", "created_at": 4}], "sets": {"s": ["text"]},
				"want": {"action": "reject", "rule": "r", "reason": "blocked: x"}},
			{"name": "pass", "function": "admit", "event": {"content": "x"}, "want": {"action": "pass"}}
		]}`
	p := new(probe)
	p.admit = func(in policy.Input) policy.Verdict {
		if in.Now() != 5 {
			return policy.Pass()
		}
		_, stored := in.Get(policy.ID{1})
		yes, _ := in.InSet("s", "text")
		if !stored || !yes {
			t.Error("what the vector says is not there")
		}
		return policy.Reject("blocked", in.Event().Content()).By("r")
	}
	Vectors(t, text, p)
	if !reflect.DeepEqual(p.cfg, policy.Config{}) {
		t.Error("a vector configured the policy that was given, not a copy")
	}
}
