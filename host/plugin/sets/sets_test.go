package sets

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"talon/host"
	"talon/host/memfacts"
	"talon/host/plugin/sidecar"
	"talon/internal/testkit"
)

const (
	npub   = "npub1zutzeysacnf9rru6zqwmxd54mud0k44tst6l70ja5mhv8jjumytsd2x7nu"
	pubHex = "17162c921dc4d2518f9a101db33695df1afb56ab82f5ff3e5da6eec3ca5cd917"
)

func author(t testing.TB) (pk host.PubKey) {
	t.Helper()
	if !host.ParseHex(pk[:], pubHex) {
		t.Fatal("pubHex is wrong")
	}
	return pk
}

// event makes an event of the author of pubHex.
func event(t testing.TB, n byte, kind host.Kind, at int64, tags ...host.Tag) *host.Event {
	t.Helper()
	e := &host.Event{ID: host.ID{n}, PubKey: author(t), Kind: kind, CreatedAt: at, Tags: tags}
	if tags == nil {
		e.Tags = host.Tags{}
	}
	e.JSON = e.AppendJSON(nil)
	return e
}

// facts are events in memory.
type facts struct {
	mu     sync.Mutex
	events []*host.Event // newest first
	err    error
	during func() // called in each query, after it has been answered
	asked  int
}

func (f *facts) Query(ctx context.Context, filter host.Filter) (out [][]byte, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked++
	if err := errors.Join(f.err, ctx.Err()); err != nil {
		return nil, err
	}
	out = memfacts.Query(f.events, filter)
	if f.during != nil {
		f.during()
	}
	return out, nil
}

func (f *facts) Get(context.Context, host.ID) ([]byte, error)     { panic("not used") }
func (f *facts) Referenced(context.Context, string) (bool, error) { panic("not used") }
func (f *facts) set(events ...*host.Event)                        { f.events = events }
func published(s *Sets, events ...*host.Event) {
	var list []host.Published
	for _, e := range events {
		list = append(list, host.Published{Event: e, Seq: 1})
	}
	s.Published(context.Background(), list)
}

// mustOpen opens sets whose clock is an hour ahead of files.
func mustOpen(t testing.TB, dir string, f host.Facts, specs ...sidecar.Set) *Sets {
	t.Helper()
	s, err := Open(context.Background(), dir, specs, f, Options{Now: func() time.Time { return time.Now().Add(time.Hour) }})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func has(t testing.TB, s *Sets, name, member string) bool {
	t.Helper()
	yes, known := s.Contains([]byte(name), []byte(member))
	if !known {
		t.Errorf("there is no set %s", name)
	}
	return yes
}

func write(t testing.TB, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func refresh(t testing.TB, s *Sets) {
	t.Helper()
	if err := s.Refresh(context.Background()); err != nil {
		t.Fatal(err)
	}
}

func TestFile(t *testing.T) {
	dir := t.TempDir()
	raw, err := hex.DecodeString(pubHex)
	if err != nil {
		t.Fatal(err)
	}
	other := strings.Repeat("AB", 32)
	path := write(t, dir, "a.txt", "\ufeff# comment\r\n\n  "+npub+" # alice\n"+other+"\nCasino\n  two words\t# and a comment\na#b\n"+strings.Repeat("x", 64)+"\nlast")
	write(t, dir, "empty", "")
	s := mustOpen(t, dir, nil, sidecar.Set{Name: "relative", File: "a.txt"}, sidecar.Set{Name: "absolute", File: path}, sidecar.Set{Name: "empty", File: "./empty"})
	for _, name := range []string{"relative", "absolute"} {
		for member, want := range map[string]bool{
			pubHex: true, strings.ToUpper(pubHex): true, string(raw): true, other: true, strings.ToLower(other): true,
			"Casino": true, "casino": false, "two words": true, "a#b": true, "a": false, strings.Repeat("x", 64): true, "last": true,
			"": false, "# comment": false, npub: false, strings.Repeat("x", 32): false, strings.Repeat("\xab", 32): true,
		} {
			if got := has(t, s, name, member); got != want {
				t.Errorf("%s contains %q: %v, want %v", name, member, got, want)
			}
		}
	}
	if has(t, s, "empty", "") {
		t.Error("the empty set has a member")
	}
	if _, known := s.Contains([]byte("no such"), []byte("a")); known {
		t.Error("a set that is not there is known")
	}
	for limit, yielded := range map[int]int{0: 0, 1: 0, 2: 2, 100: 2} {
		keys := 0
		if n := s.Keys("relative", limit, func([32]byte) { keys++ }); n != 2 || keys != yielded {
			t.Errorf("the set has %d keys, and yields %d up to %d; want 2, %d", n, keys, limit, yielded)
		}
	}
	if n := s.Keys("no such", 1, func([32]byte) {}); n != 0 {
		t.Errorf("a set that is not there has %d keys", n)
	}
	st := s.Status()
	if len(st) != 3 || st[0] != (Status{"relative", "file a.txt", 7, ""}) || st[2].Members != 0 {
		t.Errorf("status: %+v", st)
	}
}

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	large, err := os.Create(filepath.Join(dir, "large"))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(large.Truncate(maxFile+1), large.Close()); err != nil {
		t.Fatal(err)
	}
	secret := "nsec1qqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqq"
	for _, tt := range []struct {
		name, text string
		spec       sidecar.Set
		want       string
	}{
		{"no file", "", sidecar.Set{File: "missing"}, "no such file"},
		{"a folder", "", sidecar.Set{File: "."}, "is not a file"},
		{"a pipe", "", sidecar.Set{File: "pipe"}, "is not a file"},
		{"too large", "", sidecar.Set{File: "large"}, "more than 64 MiB"},
		{"damaged npub", "one\n\n" + npub[:62] + "q\n", sidecar.Set{File: "f"}, "line 3: "},
		{"a secret key", "one\n" + secret, sidecar.Set{File: "f"}, "line 2: it is a secret key"},
		{"not utf-8", "one\n\xff\n", sidecar.Set{File: "f"}, "line 2: it is not valid UTF-8"},
		{"binary", "a\x00b", sidecar.Set{File: "f"}, "line 1: it has a control character"},
		{"long member", strings.Repeat("x", maxText+1), sidecar.Set{File: "f"}, "line 1: the member is longer"},
		{"long line", "one\ntwo\n" + strings.Repeat("x", maxLine+1), sidecar.Set{File: "f"}, "line 3: it is longer"},
		{"kind without addresses", "", sidecar.Set{List: "1:" + pubHex + ":"}, "the list must be"},
		{"replaceable with a name", "", sidecar.Set{List: "3:" + pubHex + ":x"}, "the list must be"},
		{"damaged naddr", "", sidecar.Set{List: "naddr1qqzhgctvdahqygqhzckfy8wy6fgclxssrkend9wlrta4d2uz7hlnuhdxampu5hxezupsgqqqw7vslspsvq"}, "checksum"},
		{"a word", "", sidecar.Set{List: "friends"}, "the list must be"},
		{"nothing", "", sidecar.Set{}, "needs a file or a list"},
		{"both", "", sidecar.Set{File: "f", List: npub}, "has both"},
		{"a path with zero", "", sidecar.Set{File: "f\x00"}, "is not a path"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			write(t, dir, "f", tt.text)
			tt.spec.Name = "s"
			_, err := Open(t.Context(), dir, []sidecar.Set{tt.spec}, nil, Options{})
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "set s") && !strings.Contains(err.Error(), "of set s") {
				t.Errorf("got %v, want %q", err, tt.want)
			}
			if err != nil && (strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), secret)) {
				t.Errorf("the error is more than a sentence: %q", err)
			}
		})
	}
	write(t, dir, "f", "x")
	many := make([]sidecar.Set, maxSets+1)
	for i := range many {
		many[i] = sidecar.Set{Name: fmt.Sprint(i), File: "f"}
	}
	mustOpen(t, dir, nil, many[1:]...)
	for want, specs := range map[string][]sidecar.Set{
		"is there twice": {{Name: "s", File: "f"}, {Name: "s", File: "f"}},
		`not ""`:         {{File: "f"}},
		`not "a b"`:      {{Name: "a b", File: "f"}},
		"1 to 64 of":     {{Name: strings.Repeat("a", maxName+1), File: "f"}},
		"64 sets":        many,
	} {
		if _, err := Open(t.Context(), dir, specs, nil, Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if _, err := Open(t.Context(), dir, []sidecar.Set{{Name: "s", List: npub}}, &facts{err: errors.New("broken")}, Options{}); err == nil || !strings.Contains(err.Error(), "broken") {
		t.Errorf("a host that fails: %v", err)
	}
}

func TestTooManyMembers(t *testing.T) {
	testkit.SkipRace(t)
	dir := t.TempDir()
	var text bytes.Buffer
	for i := range maxMembers {
		fmt.Fprintln(&text, i)
	}
	write(t, dir, "more", text.String()+"x\n")
	if _, err := Open(t.Context(), dir, []sidecar.Set{{Name: "s", File: "more"}}, nil, Options{}); err == nil || !strings.Contains(err.Error(), "1000000 members") {
		t.Errorf("one more: %v", err)
	}
	limit, _, err := parse(&text)
	if err != nil || !limit.contains([]byte("999999")) {
		t.Fatalf("as many as may be: %v", err)
	}
	write(t, dir, "f", "x")
	s := mustOpen(t, dir, nil, sidecar.Set{Name: "a", File: "f"}, sidecar.Set{Name: "b", File: "f"}, sidecar.Set{Name: "c", File: "f"})
	s.mu.Lock()
	s.install(s.byName["c"], none, nil)
	s.install(s.byName["a"], limit, nil)
	s.install(s.byName["b"], limit, nil)
	one := new(members)
	one.addText("y")
	s.install(s.byName["c"], one, nil)
	s.mu.Unlock()
	if st := s.Status(); st[0].Problem+st[1].Problem != "" || st[1].Members != maxMembers || !strings.Contains(st[2].Problem, "all sets") || st[2].Members != 0 {
		t.Errorf("one more in all: %+v", st)
	}
	s.mu.Lock()
	s.install(s.byName["a"], one, nil)
	s.install(s.byName["b"], &members{bytes: maxAllBytes - 1}, nil)
	s.install(s.byName["c"], one, nil)
	s.mu.Unlock()
	if st := s.Status(); st[1].Problem != "" || !strings.Contains(st[2].Problem, "128 MiB") {
		t.Errorf("one byte more in all: %+v", st)
	}
}

func TestRefreshFile(t *testing.T) {
	dir := t.TempDir()
	path := write(t, dir, "f", "one\n")
	var log bytes.Buffer
	s, err := Open(t.Context(), dir, []sidecar.Set{{Name: "s", File: "f"}}, nil, Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	want := func(member, problem string) {
		t.Helper()
		refresh(t, s)
		if st := s.Status()[0]; !has(t, s, "s", member) || st.Members != 1 || !strings.Contains(st.Problem, problem) || (problem == "") != (st.Problem == "") {
			t.Errorf("want member %q and problem %q, got %+v", member, problem, st)
		}
	}
	want("one", "")
	write(t, dir, "f", "two\n") // of the same size, and perhaps the same time
	want("two", "")
	write(t, dir, "f", "npub1wrong")
	want("two", "line 1")
	want("two", "line 1")
	if n := strings.Count(log.String(), "keeps its members"); n != 1 {
		t.Errorf("one problem is logged %d times:\n%s", n, &log)
	}
	write(t, dir, "new", "three")
	if err := os.Rename(filepath.Join(dir, "new"), path); err != nil {
		t.Fatal(err)
	}
	want("three", "")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	want("three", "no such file")
	write(t, dir, "f", "four")
	want("four", "")
	if err := os.Chtimes(path, time.Time{}, time.Now().Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	refresh(t, s)
	before := s.byName["s"].members.Load()
	if refresh(t, s); s.byName["s"].members.Load() != before {
		t.Error("a file that did not change was read again")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Refresh(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("refresh without time: %v", err)
	}
}

func TestListMembers(t *testing.T) {
	key, id := strings.Repeat("ab", 32), strings.Repeat("cd", 32)
	address := "30617:" + pubHex + ":repo"
	e := event(t, 1, 10000, 5,
		host.Tag{"p", key, "wss://relay"}, host.Tag{"p", key[:62]}, host.Tag{"p", strings.ToUpper(id)}, host.Tag{"p"},
		host.Tag{"e", id}, host.Tag{"a", address}, host.Tag{"a", "1:2:3"}, host.Tag{"t", "nostr"}, host.Tag{"t", ""},
		host.Tag{"word", "bad word"}, host.Tag{"r", "https://example.com"}, host.Tag{"relay", "wss://relay.example.com"},
		host.Tag{"emoji", "smile", "https://x"}, host.Tag{"d", "name"}, host.Tag{}, host.Tag{"word", strings.Repeat("x", maxText+1)})
	f := &facts{events: []*host.Event{e}}
	s := mustOpen(t, "", f, sidecar.Set{Name: "mute", List: "10000:" + pubHex + ":"})
	for member, want := range map[string]bool{
		key: true, id: true, strings.Repeat("\xcd", 32): true, address: true, "1:2:3": false, "nostr": true, "bad word": true,
		"https://example.com": true, "wss://relay.example.com": true, "smile": false, "name": false, "": false, key[:62]: false, "wss://relay": false,
	} {
		if got := has(t, s, "mute", member); got != want {
			t.Errorf("contains %q: %v, want %v", member, got, want)
		}
	}
	if st := s.Status()[0]; st.Members != 7 || st.Problem != "" {
		t.Errorf("status: %+v", st)
	}
}

// TestListAddress: each way to name a list leads to it, and to no other.
func TestListAddress(t *testing.T) {
	tag := func(name string) host.Tag { return host.Tag{"t", name} }
	f := &facts{events: []*host.Event{
		event(t, 1, 30000, 9, host.Tag{"d", "x"}, host.Tag{"d", ""}, tag("x")),
		event(t, 2, 30000, 8, tag("no d")),
		event(t, 3, 30000, 7, host.Tag{"d", "other"}, host.Tag{"d", "talon"}, tag("other")),
		event(t, 4, 30000, 6, host.Tag{"d", "talon"}, tag("talon")),
		event(t, 5, 3, 5, tag("follows")),
		event(t, 6, 10000, 5, tag("mutes")),
		event(t, 7, 30617, 5, host.Tag{"d", "talon"}, tag("repo")),
	}}
	for list, want := range map[string]string{
		npub: "follows", pubHex: "follows", strings.ToUpper(pubHex): "follows", "3:" + pubHex + ":": "follows",
		"naddr1qqqqygqhzckfy8wy6fgclxssrkend9wlrta4d2uz7hlnuhdxampu5hxezupsgqqqqqpseqjfqd": "follows",
		"10000:" + pubHex + ":":      "mutes",
		"30000:" + pubHex + ":":      "no d",
		"30000:" + pubHex + ":talon": "talon",
		"naddr1qqzhgctvdahqygqhzckfy8wy6fgclxssrkend9wlrta4d2uz7hlnuhdxampu5hxezupsgqqqw7vslspsv5": "repo",
	} {
		s := mustOpen(t, "", f, sidecar.Set{Name: "s", List: list})
		if st := s.Status()[0]; !has(t, s, "s", want) || st.Members != 1 {
			t.Errorf("%s: want member %q, got %+v", list, want, st)
		}
	}
}

func TestPublished(t *testing.T) {
	tag := func(name string) host.Tag { return host.Tag{"t", name} }
	d := host.Tag{"d", "x"}
	address := "30000:" + pubHex + ":x"
	f := &facts{}
	f.set(event(t, 1, 30000, 10, d, tag("first")))
	s := mustOpen(t, "", f, sidecar.Set{Name: "s", List: address}, sidecar.Set{Name: "same", List: address}, sidecar.Set{Name: "follows", List: npub})
	want := func(step, member string) {
		t.Helper()
		for _, name := range []string{"s", "same"} {
			st := s.Status()[0]
			if member == "" && (st.Members != 0 || st.Problem == "") || member != "" && (!has(t, s, name, member) || st.Members != 1 || st.Problem != "") {
				t.Errorf("%s: want member %q, got %+v", step, member, st)
			}
		}
	}
	stranger := event(t, 99, 30000, 99, d, tag("stranger"))
	stranger.PubKey = host.PubKey{1}
	hostile := event(t, 98, host.KindDeletion, 99, host.Tag{"a", address}, host.Tag{"e", host.ID{1}.String()})
	hostile.PubKey = host.PubKey{1}
	want("opened", "first")
	published(s, stranger, hostile, event(t, 97, 30000, 99, host.Tag{"d", "y"}, tag("another")), event(t, 96, 30001, 99, d, tag("kind")), event(t, 95, 1, 99))
	want("events of others", "first")
	published(s, event(t, 2, 30000, 12, d, tag("second")))
	want("newer", "second")
	published(s, event(t, 3, 30000, 11, d, tag("older")), event(t, 3, 30000, 12, d, tag("same time, higher id")))
	want("older", "second")
	published(s, event(t, 1, 30000, 12, d, tag("same time, lower id")))
	want("tie", "same time, lower id")
	published(s, event(t, 4, host.KindDeletion, 11, host.Tag{"a", address}, host.Tag{"e", host.ID{2}.String()}, host.Tag{"e"}, host.Tag{"a", "x"}))
	want("deletion of older versions", "same time, lower id")
	published(s, event(t, 5, host.KindDeletion, 12, host.Tag{"a", address}))
	want("deletion by address", "")
	published(s, event(t, 6, 30000, 13, d, tag("again")))
	want("after the deletion", "again")
	published(s, event(t, 7, host.KindDeletion, 1, host.Tag{"e", host.ID{6}.String()}))
	want("deletion by id", "")
	if n := s.Status()[2].Members; n != 0 {
		t.Errorf("the follow list has %d members", n)
	}
	published(s, event(t, 8, 3, 13, host.Tag{"p", pubHex}))
	if !has(t, s, "follows", pubHex) {
		t.Error("the first version of a list was not followed")
	}
}

// TestRefreshList: what happened between Open and the first Published is found,
// expiry is, and a host that fails is asked again.
func TestRefreshList(t *testing.T) {
	tag := func(name string) host.Tag { return host.Tag{"t", name} }
	now := int64(1000)
	f := &facts{}
	s, err := Open(t.Context(), "", []sidecar.Set{{Name: "s", List: npub}}, f, Options{Now: func() time.Time { return time.Unix(now, 0) }})
	if err != nil {
		t.Fatal(err)
	}
	if st := s.Status()[0]; st.Problem != "the list is not stored here" || st.From != "list "+npub {
		t.Errorf("status: %+v", st)
	}
	f.set(event(t, 1, 3, 10, tag("between"), host.Tag{"expiration", "2000"}))
	f.err = errors.New("broken")
	if err := s.Refresh(t.Context()); !errors.Is(err, f.err) {
		t.Errorf("got %v, want %v", err, f.err)
	}
	f.err = nil
	if refresh(t, s); !has(t, s, "s", "between") {
		t.Error("what was stored between Open and Published is not there")
	}
	asked := f.asked
	if refresh(t, s); f.asked != asked {
		t.Error("a list that cannot have changed was read")
	}
	f.set()
	now = 2000
	if refresh(t, s); has(t, s, "s", "between") || s.Status()[0].Members != 0 {
		t.Error("a list that expired still has members")
	}

	withoutFacts := mustOpen(t, "", nil, sidecar.Set{Name: "s", List: npub})
	refresh(t, withoutFacts)
	if published(withoutFacts, event(t, 1, 3, 10, tag("told"))); !has(t, withoutFacts, "s", "told") {
		t.Error("without facts a list must follow what is published")
	}
	f.set(&host.Event{PubKey: author(t), Kind: 3, JSON: []byte("{}")})
	if _, err := Open(t.Context(), "", []sidecar.Set{{Name: "s", List: npub}}, f, Options{}); err == nil {
		t.Error("an event that cannot be read is no error")
	}
}

// TestRace publishes while the store is read, so that the answer is old.
func TestRace(t *testing.T) {
	tag := func(name string) host.Tag { return host.Tag{"t", name} }
	old, next := event(t, 1, 3, 10, tag("old")), event(t, 2, 3, 11, tag("next"))
	deletion := event(t, 3, host.KindDeletion, 12, host.Tag{"e", old.ID.String()})
	for name, tt := range map[string]struct {
		event *host.Event
		after []*host.Event // stored
		want  string
	}{
		"newer version": {next, []*host.Event{next}, "next"},
		"deletion":      {deletion, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := &facts{}
			f.set(old)
			s := mustOpen(t, "", f, sidecar.Set{Name: "s", List: npub})
			f.during = func() {
				f.during = nil
				f.set(tt.after...)
				published(s, tt.event)
			}
			refresh(t, s)
			if has(t, s, "s", "old") || tt.want != "" && !has(t, s, "s", tt.want) {
				t.Errorf("the set has an old version: %+v", s.Status())
			}
		})
	}
}

// TestTogether is for the race detector: a look-up sees a version whole.
func TestTogether(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "f", "always\n0\n")
	stored := &facts{events: []*host.Event{event(t, 1, 3, 0, host.Tag{"t", "always"})}}
	s := mustOpen(t, dir, stored, sidecar.Set{Name: "f", File: "f"}, sidecar.Set{Name: "l", List: npub})
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for range 2 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				for _, name := range []string{"f", "l"} {
					if yes, _ := s.Contains([]byte(name), []byte("always")); !yes {
						t.Errorf("set %s lost a member", name)
						return
					}
				}
				s.Status()
			}
		})
	}
	for i := range 200 {
		write(t, dir, "new", fmt.Sprintf("always\n%d\n", i))
		if err := os.Rename(filepath.Join(dir, "new"), filepath.Join(dir, "f")); err != nil {
			t.Error(err)
		}
		published(s, event(t, byte(i), 3, int64(i), host.Tag{"t", "always"}, host.Tag{"t", fmt.Sprint(i)}))
		if err := s.Refresh(t.Context()); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	wg.Wait()
}

func TestNoAllocation(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "f", pubHex+"\nword\n")
	s := mustOpen(t, dir, &facts{}, sidecar.Set{Name: "f", File: "f"}, sidecar.Set{Name: "l", List: npub})
	name, raw, digits, word := []byte("f"), bytes.Repeat([]byte{7}, 32), []byte(pubHex), []byte("word")
	unknown := []byte(strings.Repeat("y", 64))
	foreign := event(t, 1, 1, 1, host.Tag{"p", pubHex})
	deletion := event(t, 2, host.KindDeletion, 1, host.Tag{"e", pubHex})
	deletion.PubKey = host.PubKey{1}
	stranger := event(t, 3, 3, 1)
	stranger.PubKey = host.PubKey{1}
	events := []host.Published{{Event: foreign}, {Event: deletion}, {Event: stranger}}
	for what, call := range map[string]func(){
		"Contains": func() {
			s.Contains(name, raw)
			s.Contains(name, digits)
			s.Contains(name, word)
			s.Contains(name, unknown)
		},
		"Published": func() { s.Published(context.Background(), events) },
	} {
		if n := testing.AllocsPerRun(100, call); n != 0 {
			t.Errorf("%s allocates %v times", what, n)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("# comment\n" + npub + "\n" + pubHex + "\nword # x\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, line, err := parse(bytes.NewReader(data))
		if err != nil {
			if line < 0 || line > 1+bytes.Count(data, []byte("\n")) {
				t.Errorf("line %d of %q", line, data)
			}
			return
		}
		if m.contains(nil) {
			t.Errorf("%q makes an empty member", data)
		}
		for text := range m.texts {
			if !m.contains([]byte(text)) {
				t.Errorf("%q is a member that is not found", text)
			}
		}
	})
}

func BenchmarkContains(b *testing.B) {
	dir := b.TempDir()
	var text bytes.Buffer
	var members [][]byte
	for i := range 100_000 {
		key := make([]byte, 32)
		for j := range key {
			key[j] = byte(i>>(j%3*8)) * byte(j*2+1)
		}
		members = append(members, key)
		fmt.Fprintf(&text, "%x\nword %d\n", key, i)
	}
	write(b, dir, "f", text.String())
	s := mustOpen(b, dir, nil, sidecar.Set{Name: "f", File: "f"})
	name := []byte("f")
	for _, bench := range []struct {
		name string
		make func(i int) []byte
	}{
		{"key", func(i int) []byte { return members[i] }},
		{"hex", func(i int) []byte { return hex.AppendEncode(nil, members[i]) }},
		{"text", func(i int) []byte { return fmt.Appendf(nil, "word %d", i) }},
		{"missing", func(i int) []byte { return fmt.Appendf(nil, "name %d", i) }},
	} {
		b.Run(bench.name, func(b *testing.B) {
			list := make([][]byte, len(members))
			for i := range list {
				list[i*7919%len(list)] = bench.make(i)
			}
			b.ReportAllocs()
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for i := 0; pb.Next(); i++ {
					s.Contains(name, list[i%len(list)])
				}
			})
		})
	}
}

func BenchmarkPublished(b *testing.B) {
	s := mustOpen(b, "", &facts{}, sidecar.Set{Name: "l", List: npub})
	events := []host.Published{{Event: event(b, 1, 1, 1, host.Tag{"p", pubHex})}}
	b.ReportAllocs()
	for b.Loop() {
		s.Published(context.Background(), events)
	}
}
