package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"
)

// TestBackup backs up a service while people publish and push, and restores it in another place.
// Everything that was acknowledged before the backup is there, and equal.
func TestBackup(t *testing.T) {
	data := graspData(t)
	t.Parallel()
	plugins := pluginFolder(t, graspChain...)
	s := startGrasp(t, data, plugins)
	st := newStory(t, s)
	owner := st.who("owner")
	type repository struct{ id, commit string }
	var repositories []repository
	var wanted []string // events that were acknowledged
	work := st.folder()
	for i := range 3 {
		r := repository{fmt.Sprintf("r%d", i), work.commit(fmt.Sprint(i))}
		wanted = append(wanted, st.held(st.announcement(owner, r.id)).ID, st.held(st.state(owner, r.id, "refs/heads/main", r.commit)).ID)
		work.push(st.repo(owner, r.id), "main")
		repositories = append(repositories, r)
	}

	// Somebody writes issues all the time, and the owner pushes to another repository.
	busy := repositories[0]
	var mu sync.Mutex // guards acknowledged
	var acknowledged []string
	stop := make(chan struct{})
	var load sync.WaitGroup
	c := connect(t, s)
	load.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond):
			}
			e := signAs(t, "writer", nostr.Event{Kind: 1621, CreatedAt: nostr.Now(), Content: fmt.Sprint(n), Tags: nostr.Tags{{"a", "30617:" + owner.hex() + ":" + busy.id}, {"subject", "x"}}})
			if ok := c.publish(t, e); !ok.ok {
				t.Errorf("an issue is refused: %s", ok.reason)
				return
			}
			mu.Lock()
			acknowledged = append(acknowledged, e.ID)
			mu.Unlock()
		}
	})
	load.Go(func() {
		other := newStory(t, s)
		work := other.folder()
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			case <-time.After(200 * time.Millisecond): // a push takes a processor: the backup needs it, too
			}
			id := fmt.Sprintf("busy%d", n)
			commit := work.commit(id)
			other.held(other.announcement(owner, id))
			other.held(other.state(owner, id, "refs/heads/main", commit))
			work.push(other.repo(owner, id), "main")
		}
	})
	until(t, "issues are stored", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(acknowledged) > 50
	})
	mu.Lock()
	wanted = append(wanted, acknowledged...)
	mu.Unlock()

	folder := filepath.Join(t.TempDir(), "backup")
	for range 2 { // the second renews it
		if out, err := talon(t, nil, "backup", "--data", data, "--to", folder, "--incremental"); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	close(stop)
	load.Wait()
	if s.metric(t, "talon_backup_last_success_timestamp_seconds") == 0 {
		t.Error("the metrics know no backup")
	}
	if out, err := talon(t, nil, "restore", "--from", folder, "--data", data); err == nil || !strings.Contains(err.Error(), "is there already") {
		t.Errorf("over data: %v\n%s", err, out)
	}

	restored := filepath.Join(t.TempDir(), "data")
	out, err := talon(t, nil, "restore", "--from", folder, "--data", restored, "--plugins", filepath.Join(t.TempDir(), "plugins"))
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if a, b := file(t, data, "relay.key"), file(t, restored, "relay.key"); !bytes.Equal(a, b) {
		t.Error("the relay has another key")
	}
	ownCode(t, restored)
	second := newStory(t, startGrasp(t, restored, plugins))
	found := make(map[string]bool)
	for at := 0; at < len(wanted); at += 100 {
		part := wanted[at:min(at+100, len(wanted))]
		for _, e := range second.c.query(t, `{"ids":["`+strings.Join(part, `","`)+`"]}`) {
			found[e.ID] = true
		}
	}
	for _, id := range wanted {
		if !found[id] {
			t.Errorf("event %s was acknowledged before the backup and is not there", id)
		}
	}
	for _, r := range repositories {
		if got, want := second.refsOf(second.repo(owner, r.id)), st.refsOf(st.repo(owner, r.id)); got != want {
			t.Errorf("%s has the refs\n%s\nwant\n%s", r.id, got, want)
		}
		clone := filepath.Join(t.TempDir(), "clone")
		second.git(".", "clone", "-q", "-b", "main", second.repo(owner, r.id), clone)
		if got := second.git(clone, "rev-parse", "HEAD"); got != r.commit {
			t.Errorf("%s: the clone is at %s, want %s", r.id, got, r.commit)
		}
	}
}

func file(t *testing.T, dir, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestBackupWithoutServer backs up data that nobody serves.
func TestBackupWithoutServer(t *testing.T) {
	t.Parallel()
	data, folder := newData(t), filepath.Join(t.TempDir(), "backup")
	s := start(t, data)
	stored := signAs(t, "a", nostr.Event{Kind: 1, CreatedAt: nostr.Now(), Content: "x"})
	connect(t, s).publish(t, stored)
	s.mustStop(t)
	out, err := talon(t, nil, "backup", "--data", data, "--to", folder)
	if err != nil || !strings.Contains(out, "0 repositories") {
		t.Fatalf("%v\n%s", err, out)
	}
	restored := filepath.Join(t.TempDir(), "data")
	if out, err := talon(t, nil, "restore", "--from", folder, "--data", restored, "--plugins", filepath.Join(t.TempDir(), "plugins")); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	a, err := talon(t, nil, "export", "--data", data)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := talon(t, nil, "export", "--data", restored); err != nil || a != b {
		t.Errorf("%v: the export is\n%s\nwant\n%s", err, b, a)
	}
	if !strings.Contains(a, stored.ID) && len(a) > 0 {
		t.Errorf("the event is not there: %s", a)
	}
}
