package grasp

import (
	"bufio"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"testing"
)

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
