package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"talon/internal/testkit"
)

// TestSnapshot takes snapshots while people push and maintenance runs. Each is whole, and has
// what was there before it began.
func TestSnapshot(t *testing.T) {
	root := newRoot(t)
	a, b := newRepo(t, root, alice, "x", SHA1), newRepo(t, root, bob, "x", SHA1)
	dir, _, second := work(t, SHA1)
	git(t, dir, "push", "-q", a.Dir(), "main")
	git(t, dir, "push", "-q", b.Dir(), "main")
	locked(t, a, func() {
		if err := a.Maintain(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
	stop, pushed := make(chan struct{}), 0
	var pushing sync.WaitGroup
	pushing.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			id := testkit.Commit(t, dir, fmt.Sprint(pushed))
			if _, err := tryGit(t.Context(), dir, "push", "-q", a.Dir(), "main:refs/heads/b"+fmt.Sprint(pushed)); err != nil {
				t.Errorf("push %s: %v", id, err)
			}
			pushed++
			locked(t, a, func() {
				if err := a.Maintain(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
	})
	for range 5 {
		resume, err := root.Pause(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		copied, err := root.Snapshot(t.Context())
		resume()
		if err != nil {
			t.Fatal(err)
		}
		for _, npub := range []string{alice, bob} {
			repo := filepath.Join(copied, npub, "x.git")
			git(t, repo, "fsck", "--strict", "--connectivity-only")
			if got := git(t, repo, "rev-parse", "main"); got != second {
				t.Errorf("main of the copy is %s, want %s", got, second)
			}
		}
		if err := os.RemoveAll(copied); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	pushing.Wait()
	fsck(t, a)
	fsck(t, b)
}

// TestPause: a repository is not removed while a snapshot is taken, and a snapshot waits for
// what is being removed.
func TestPause(t *testing.T) {
	root := newRoot(t)
	a := newRepo(t, root, alice, "x", SHA1)
	resume, err := root.Pause(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	soon, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	locked(t, a, func() {
		if err := a.Remove(soon); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("remove: %v", err)
		}
	})
	if err := root.Collect(soon, "x", SHA1, 0); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("collect: %v", err)
	}
	if there, err := a.Exists(); err != nil || !there {
		t.Fatalf("the repository has gone: %v", err)
	}
	resume()
	release, err := root.removing.enter(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := root.Pause(soon); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("pause while something is removed: %v", err)
	}
	release()
	locked(t, a, func() {
		if err := a.Remove(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
