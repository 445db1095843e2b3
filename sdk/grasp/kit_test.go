package grasp

import (
	"bufio"
	"encoding/json"
	"errors"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"talon/sdk/nip19"
)

// key returns a key or an id that is easy to tell.
func key(n int) [32]byte {
	return [32]byte{byte(n >> 16), byte(n >> 8), byte(n), 31: 1}
}

func npub(n int) string { return nip19.EncodeNpub(key(n)) }

// oid returns the name of an object.
func oid(n int) string {
	s := strconv.Itoa(n)
	return strings.Repeat("a", 40-len(s)) + s
}

var none = strings.Repeat("0", 40)

// event returns an event; each tag is written with spaces between its items.
func event(kind, author int, at int64, tags ...string) *Event {
	e := &Event{Stamp: Stamp{ID: key(1000*author + int(at)), PubKey: key(author), CreatedAt: at}, Kind: kind}
	for _, tag := range tags {
		e.Tags = append(e.Tags, strings.Split(tag, " "))
	}
	return e
}

func announcement(t testing.TB, author int, at int64, tags ...string) *Announcement {
	t.Helper()
	a, err := ParseAnnouncement(event(KindAnnouncement, author, at, append([]string{"d repo"}, tags...)...))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func state(t testing.TB, author int, at int64, tags ...string) *State {
	t.Helper()
	s, err := ParseState(event(KindState, author, at, append([]string{"d repo"}, tags...)...))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func service(t testing.TB, s string) Service {
	t.Helper()
	service, err := ParseService(s)
	if err != nil {
		t.Fatal(err)
	}
	return service
}

func list(t testing.TB, entries ...string) List {
	t.Helper()
	l, err := ParseList(entries)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// A guest pays for what a package imports: net/url alone brings 0.9 MB, by way of
// fmt, os and reflect.
func TestImportsAreSmall(t *testing.T) {
	small := []string{"errors", "slices", "strconv", "strings", "unicode", "unicode/utf8", "talon/sdk/nip19"}
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range parsed.Imports {
			if imported, _ := strconv.Unquote(spec.Path.Value); !slices.Contains(small, imported) {
				t.Errorf("%s imports %s", file, imported)
			}
		}
	}
}

// Events that people have published.
func TestSharedEvents(t *testing.T) {
	const file = "../../../shared/data/nip34.jsonl"
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		t.Skipf("%s is absent", file)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	ngit, other := service(t, "relay.ngit.dev"), service(t, "ngit.dev")
	var announcements []*Announcement
	states := map[string]*State{}
	seen := map[int]int{}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		e := read(t, lines.Bytes())
		seen[e.Kind]++
		switch e.Kind {
		case KindAnnouncement:
			a, err := ParseAnnouncement(e)
			if err != nil {
				t.Fatal(err)
			}
			announcements = append(announcements, a)
			if !a.ListsService(ngit) || a.ListsService(other) || a.EarliestCommit == "" || a.Name == "" || len(a.Maintainers) == 0 {
				t.Errorf("%+v", a)
			}
		case KindState:
			s, err := ParseState(e)
			if err != nil {
				t.Fatal(err)
			}
			states[s.Identifier] = s
			if !s.Tracks() || s.Faults != nil || s.Object("refs/heads/main") == "" {
				t.Errorf("%+v", s)
			}
		}
	}
	if lines.Err() != nil || seen[KindAnnouncement] == 0 || seen[KindState] == 0 || seen[KindPatch] == 0 || seen[KindIssue] == 0 {
		t.Fatalf("the file has %v, %v", seen, lines.Err())
	}
	for _, a := range announcements {
		s := states[a.Identifier]
		if s == nil {
			continue
		}
		g := NewGraph([]*Announcement{a})
		if owners, reason := AdmitState(s, g); len(owners) != 1 {
			t.Errorf("%s: %s", a.Identifier, reason)
		}
		push := Push{Maintainers: g.Maintainers(a.PubKey), States: []Candidate{{s, false}}}
		for _, ref := range s.Refs {
			push.Updates = append(push.Updates, Update{ref.Name, none, ref.Object})
		}
		if got := push.Authorize(); got.State != s {
			t.Errorf("%s: %s", a.Identifier, got.Text())
		}
	}
}

func read(t *testing.T, line []byte) *Event {
	var raw struct {
		ID, PubKey string
		CreatedAt  int64 `json:"created_at"`
		Kind       int
		Tags       [][]string
	}
	if err := json.Unmarshal(line, &raw); err != nil {
		t.Fatal(err)
	}
	id, ok := ParseID(raw.ID)
	pubkey, ok2 := ParseID(raw.PubKey)
	if !ok || !ok2 {
		t.Fatalf("wrong id or key in %s", line)
	}
	return &Event{Stamp{id, pubkey, raw.CreatedAt}, raw.Kind, raw.Tags}
}
