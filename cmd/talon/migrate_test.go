package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nbd-wtf/go-nostr"

	"talon/host"
)

// moving is a GRASP service that moves, and what it has.
type moving struct {
	*story
	owner       person
	work        *folder
	served      []*nostr.Event
	waiting     *nostr.Event
	refs        string
	pulled, web string
}

// newMoving starts a service with a repository, an issue, a pull request and an announcement that waits.
func newMoving(t *testing.T, begin func() *story) *moving {
	t.Helper()
	m := &moving{story: begin()}
	m.owner, m.work = m.who("owner"), m.folder()
	m.web = m.repo(m.owner, "moved")
	announcement := m.held(m.announcement(m.owner, "moved"))
	one := m.work.commit("one")
	state := m.held(m.state(m.owner, "moved", "HEAD", "ref: refs/heads/main", "refs/heads/main", one))
	m.work.push(m.web, "main")
	m.becomesServed(state)
	issue := m.stored(m.issue())
	m.pulled = m.work.unrelated()
	pull := m.held(m.pull(m.who("reader"), m.pulled, repoAddress(m.owner, "moved")))
	m.work.push(m.web, m.pulled+":refs/nostr/"+pull.ID)
	m.becomesServed(pull)
	m.waiting = m.held(m.announcement(m.owner, "waiting"))
	m.served, m.refs = []*nostr.Event{announcement, state, issue, pull}, m.refsOf(m.web)
	return m
}

func (m *moving) issue() *nostr.Event {
	return m.event(m.who("reader"), 1621, nostr.Tag{"a", repoAddress(m.owner, "moved")})
}

// moved checks what the new server has.
func (m *moving) moved(to *story) {
	m.Helper()
	for _, e := range m.served {
		to.wantServed(e, true)
	}
	if got := to.refsOf(to.repo(m.owner, "moved")); got != m.refs {
		m.Errorf("the new server has %s, want %s", got, m.refs)
	}
}

func migrate(t *testing.T, to *story, from ...string) (string, error) {
	t.Helper()
	args := []string{"migrate", "--to", to.s.url, "--filters", "40"}
	for _, name := range from {
		args = append(args, "--from", name)
	}
	return talon(t, nil, args...)
}

// beginMigration returns what starts servers without sync and hunt.
func beginMigration(t *testing.T) (begin func() *story) {
	plugins := pluginFolder(t, "grasp")
	return func() *story {
		t.Helper()
		return newStory(t, startGrasp(t, graspData(t), plugins, "--sync", "false", "--hunt", "false"))
	}
}

// TestMigrate moves a GRASP service to another server while people use it.
func TestMigrate(t *testing.T) {
	t.Parallel()
	begin := beginMigration(t)
	m := newMoving(t, begin)
	to := begin()
	if out, err := migrate(t, to, m.s.url); err != nil || !strings.HasSuffix(out, "\nno difference\n") {
		t.Fatalf("%v\n%s", err, out)
	}
	m.moved(to)
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>a relay") }))
	defer page.Close()
	if !servesGit(t.Context(), m.web) || servesGit(t.Context(), page.URL+"/x.git") || servesGit(t.Context(), m.web+"x") {
		t.Error("a page is a repository, or the repository is none")
	}
	// People went on in the meantime.
	two := m.work.commit("two")
	state := m.held(m.state(m.owner, "moved", "HEAD", "ref: refs/heads/main", "refs/heads/main", two))
	m.work.push(m.web, "+HEAD:refs/heads/main")
	m.becomesServed(state)
	m.served, m.refs = append(m.served[:1], state, m.stored(m.issue()), m.served[3]), m.refsOf(m.web)
	// ngit-relay serves announcements of empty repositories. They wait here, which is no difference.
	dir := t.TempDir()
	drop(t, dir, "empty.jsonl", []byte(m.waiting.String()+"\n"))
	out, err := migrate(t, to, m.s.url, filepath.Join(dir, "empty.jsonl"))
	if err != nil || !strings.HasPrefix(out, "3 events sent, ") || !strings.Contains(out, "\n1 events wait at the new server, ") || !strings.HasSuffix(out, "\nno difference\n") {
		t.Fatalf("%v\n%s", err, out)
	}
	m.moved(to)
}

// TestMigrateFolder moves the folder of another program and a file of its events.
func TestMigrateFolder(t *testing.T) {
	if os.Getenv("TALON_TEST_SCALE") == "" {
		t.Skip("TestMigrate and TestReadEvents have the parts: make scale")
	}
	begin := beginMigration(t)
	m := newMoving(t, begin)
	dir := t.TempDir()
	bare := filepath.Join(dir, "git", m.owner.npub(), "moved.git")
	m.git(".", "clone", "-q", "--mirror", m.web, bare)
	events := filepath.Join(dir, "events.jsonl")
	var lines strings.Builder
	list := m.c.query(t, `{}`)
	slices.Reverse(list)
	for _, e := range list {
		fmt.Fprintln(&lines, e)
	}
	fmt.Fprintln(&lines, signAs(t, "stranger", nostr.Event{Kind: 1621, Tags: nostr.Tags{{"a", repoAddress(m.owner, "absent")}}}))
	drop(t, dir, "events.jsonl", []byte(lines.String()))
	drop(t, filepath.Join(dir, "git"), "purgatory-state.json", []byte(purgatoryFile(m.waiting)))
	to := begin()
	belongsTo := func(user int) {
		if os.Getuid() != 0 {
			return
		}
		if err := os.Chown(bare, user, user); err != nil {
			t.Fatal(err)
		}
	}
	belongsTo(12_345) // the old server had a user of its own
	out, err := migrate(t, to, events, filepath.Join(dir, "git"))
	if err != nil || !strings.Contains(out, "1 of 1 clones are the same\n") || !strings.Contains(out, "1 refused: "+unrelatedReason) {
		t.Fatalf("%v\n%s", err, out)
	}
	m.moved(to)
	to.wantServed(m.waiting, false)
	to.answered(m.waiting, true, purgatory)

	// A branch that nobody has signed.
	belongsTo(0)
	m.git(bare, "update-ref", "refs/heads/unsigned", m.pulled)
	out, err = migrate(t, to, events, filepath.Join(dir, "git"))
	if err == nil || !strings.Contains(out, `moved.git: refs/heads/unsigned is "", want `+m.pulled) {
		t.Errorf("a branch that the new server lacks: %v\n%s", err, out)
	}
	m.moved(to)
}

// purgatoryFile is what ngit-grasp writes when it stops, with one announcement, and one push that came
// before its event.
func purgatoryFile(e *nostr.Event) string {
	return fmt.Sprintf(`{"version":1,"announcement_purgatory":{"x":{"event":%s}},"state_events":{},"pr_events":{"y":{"event":null}}}`, e)
}

// TestReadEvents reads a file of events and a purgatory. The events that a relay would serve are found.
func TestReadEvents(t *testing.T) {
	at := nostr.Timestamp(1_700_000_000)
	note := func(text string, tags ...nostr.Tag) *nostr.Event {
		return signAs(t, "alice", nostr.Event{Kind: 1, CreatedAt: at, Content: text, Tags: tags})
	}
	kept, deleted, expired := note("kept"), note("deleted"), note("expired", nostr.Tag{"expiration", "1700000001"})
	old := signAs(t, "alice", nostr.Event{Kind: 0, CreatedAt: at})
	current := signAs(t, "alice", nostr.Event{Kind: 0, CreatedAt: at + 1})
	foreign := signAs(t, "bob", nostr.Event{Kind: 5, CreatedAt: at + 3, Tags: nostr.Tags{{"e", kept.ID}}})
	deletion := signAs(t, "alice", nostr.Event{Kind: 5, CreatedAt: at + 2, Tags: nostr.Tags{{"e", deleted.ID}}})
	dir := t.TempDir()
	var lines strings.Builder
	for _, e := range []*nostr.Event{current, kept, deleted, expired, old, deletion, foreign} {
		fmt.Fprintf(&lines, "%s\n\n", e)
	}
	drop(t, dir, "events", []byte(strings.TrimSpace(lines.String()))) // the last line has no end
	s, err := readFile(filepath.Join(dir, "events"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	all := host.Filter{Limit: 10}
	err = s.answers(t.Context(), []host.Filter{all, {Limit: 1}, {Kinds: []host.Kind{0}, Limit: 10}}, func(n int, ids []host.ID) error {
		var got []string
		for _, id := range ids {
			got = append(got, id.String())
		}
		want := [][]string{{foreign.ID, deletion.ID, current.ID, kept.ID}, {foreign.ID}, {current.ID}}[n]
		if !slices.Equal(got, want) {
			t.Errorf("filter %d finds %q, want %q", n, got, want)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	if items, _, _ := s.items(t.Context(), all, func(int) {}); len(items) != 7 {
		t.Errorf("%d events are to be sent, want all 7", len(items))
	}

	drop(t, dir, "broken", []byte(kept.String()+"\n{\"id\":"))
	if _, err := readFile(filepath.Join(dir, "broken")); err == nil || !strings.Contains(err.Error(), "line 2 is no event") {
		t.Errorf("a file that was cut: %v", err)
	}
	drop(t, dir, "purgatory-state.json", []byte(purgatoryFile(kept)))
	events, err := readPurgatory(filepath.Join(dir, "purgatory-state.json"))
	if err != nil || len(events) != 1 || events[0].ID.String() != kept.ID {
		t.Errorf("purgatory: %v, %v", events, err)
	}
	if events, err := readPurgatory(filepath.Join(dir, "absent")); err != nil || events != nil {
		t.Errorf("without a file: %v, %v", events, err)
	}
}
