package cluster

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"talon/host"
	"talon/host/gitrepo"
	"talon/internal/testkit"
)

// shared is a cluster as repositories see it. A node that is credulous believes in its
// locks whatever its clock says.
type shared struct {
	*Cluster
	credulous bool
	asked     func() // before a lock is believed in
}

type sharedHold struct {
	*HeldLock
	of shared
}

func (n shared) Lock(ctx context.Context, name string) (gitrepo.HeldLock, error) {
	h, err := n.Cluster.Lock(ctx, name)
	if err != nil {
		return nil, err
	}
	return sharedHold{h, n}, nil
}

func (h sharedHold) Err() error {
	if h.of.asked != nil {
		h.of.asked()
	}
	if h.of.credulous {
		return nil
	}
	return h.HeldLock.Err()
}

// repository opens the one repository of a folder, as a node.
func repository(ctx context.Context, dir string, n gitrepo.Nodes) (*gitrepo.Repo, error) {
	git, err := gitrepo.Find(ctx, "git", gitrepo.DefaultOptions)
	if err != nil {
		return nil, err
	}
	root, err := gitrepo.OpenShared(git, filepath.Join(dir, "git"), n)
	if err != nil {
		return nil, err
	}
	name, err := gitrepo.ParseName("npub1xnyq0w834zswvmqld7y803ntdjqlqzw473xjtkuzu2gqndyd8ghqsadjyq", "x")
	return root.Repo(name), err
}

// move moves a branch, under the lock.
func move(ctx context.Context, r *gitrepo.Repo, commit string) error {
	unlock, err := r.Lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	return r.UpdateRefs(ctx, []host.RefUpdate{{Ref: "refs/heads/main", New: commit}})
}

// again does something until no session is lost over it: a machine may pause for longer than a
// lease.
func again(do func() error) error {
	for {
		err := do()
		if !errors.Is(err, ErrLost) && !errors.Is(err, gitrepo.ErrOvertaken) {
			return err
		}
	}
}

// TestPausedInWrite stops the process of a node while it moves a ref: git has taken its lock
// files, and waits for the word. Another node takes the repository over and moves the ref.
// Then the first goes on: its ref does not move, even if it does not look at its clock.
func TestPausedInWrite(t *testing.T) {
	for _, credulous := range []string{"", "credulous"} {
		t.Run("node "+credulous, func(t *testing.T) {
			url, dir := database(t), t.TempDir()
			b := join(t, url, "b", 2*time.Second)
			r, err := repository(t.Context(), dir, shared{Cluster: b})
			if err != nil {
				t.Fatal(err)
			}
			err = again(func() error {
				unlock, err := r.Lock(t.Context())
				if err != nil {
					return err
				}
				defer unlock()
				return r.Init(t.Context(), gitrepo.SHA1)
			})
			if err != nil {
				t.Fatal(err)
			}
			work := testkit.NewRepository(t)
			one, two := testkit.Commit(t, work, "one"), testkit.Commit(t, work, "two")
			testkit.Git(t, work, "push", "-q", r.Dir(), two+":refs/heads/other")

			other := startNode(t, "TALON_TEST_NODE="+url, "TALON_TEST_REPOSITORIES="+dir, "TALON_TEST_COMMIT="+one, "TALON_TEST_CREDULOUS="+credulous)
			other.wantLine("writing")
			other.pause()
			began := time.Now()
			if err := again(func() error { return move(t.Context(), r, two) }); err != nil {
				t.Fatal(err)
			}
			t.Logf("the repository was taken over after %v, with a lease of 2 s", time.Since(began).Round(time.Millisecond))
			other.goOn()
			other.wantLine(gitrepo.ErrOvertaken.Error())
			if id, _, err := r.Ref(t.Context(), "refs/heads/main"); id != two || err != nil {
				t.Errorf("the ref is at %q, %v", id, err)
			}
			// Nothing is in the way of what comes next, on either node.
			other.wantLine("again <nil>")
			if id, _, err := r.Ref(t.Context(), "refs/heads/main"); id != one || err != nil {
				t.Errorf("the ref is at %q, %v", id, err)
			}
		})
	}
}

// pausedWriter is the process that TestPausedInWrite stops.
func pausedWriter(url, dir string) {
	ctx, commit := context.Background(), os.Getenv("TALON_TEST_COMMIT")
	c, err := Join(ctx, url, Options{Name: "paused", Lease: 2 * time.Second, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		fmt.Println(err)
		return
	}
	paused := false
	node := shared{Cluster: c, credulous: os.Getenv("TALON_TEST_CREDULOUS") != "", asked: func() {
		if !paused {
			paused = true
			fmt.Println("writing")
			_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
		}
	}}
	r, err := repository(ctx, dir, node)
	if err != nil {
		fmt.Println(err)
		return
	}
	for !paused {
		if err = move(ctx, r, commit); err == nil {
			break
		}
	}
	fmt.Println(strings.ReplaceAll(fmt.Sprint(err), "\n", " "))
	fmt.Println("again", again(func() error { return move(ctx, r, commit) }))
	_ = c.Close()
}
