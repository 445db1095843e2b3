package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"talon/host"
	"talon/internal/testkit"
)

// service gives locks to nodes, as a database does.
type service struct {
	mu     sync.Mutex // guards what follows
	last   int64
	alive  map[int64]bool
	holder map[string]*testHold
}

// testNode is a node of a service. It believes in its locks until end, but does not
// learn that it was replaced.
type testNode struct {
	of     *service
	name   string
	number int64
	asked  func(call int) // by Err
}

type testHold struct {
	n     *testNode
	name  string
	calls int
}

func newService() *service {
	return &service{alive: map[int64]bool{}, holder: map[string]*testHold{}}
}

func (s *service) join(name string) *testNode {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	s.alive[s.last] = true
	return &testNode{of: s, name: name, number: s.last}
}

// lose ends a node's session.
func (s *service) lose(n *testNode) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.alive, n.number)
	for name, h := range s.holder {
		if h.n == n {
			delete(s.holder, name)
		}
	}
}

func (n *testNode) Name() string { return n.name }

func (n *testNode) Lock(ctx context.Context, name string) (HeldLock, error) {
	n.of.mu.Lock()
	defer n.of.mu.Unlock()
	if n.of.holder[name] != nil {
		return nil, errors.New("a test does not wait: " + name)
	}
	h := &testHold{n: n, name: name}
	n.of.holder[name] = h
	return h, nil
}

func (h *testHold) Number() int64 { return h.n.number }

func (h *testHold) Err() error {
	h.calls++
	if h.n.asked != nil {
		h.n.asked(h.calls)
	}
	return nil
}

func (h *testHold) Confirm(number int64) (bool, error) {
	h.n.of.mu.Lock()
	defer h.n.of.mu.Unlock()
	if h.n.of.holder[h.name] != h {
		return false, errors.New("the lock is lost")
	}
	return !h.n.of.alive[number], nil
}

func (h *testHold) Context(parent context.Context) (context.Context, context.CancelFunc) {
	return context.WithCancel(parent)
}

func (h *testHold) Unlock() {
	h.n.of.mu.Lock()
	defer h.n.of.mu.Unlock()
	if h.n.of.holder[h.name] == h {
		delete(h.n.of.holder, h.name)
	}
}

// sharedRoot opens a folder as a node.
func sharedRoot(t testing.TB, dir string, n *testNode) *Root {
	t.Helper()
	root, err := OpenShared(newGit(t), dir, n)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(root.Close)
	return root
}

// pair is a repository as two nodes see it, with two commits.
type pair struct {
	service       *service
	dir           string
	a, b          *testNode
	ra, rb        *Repo
	first, second string
}

func newPair(t *testing.T) *pair {
	t.Helper()
	p := &pair{service: newService(), dir: filepath.Join(t.TempDir(), "git")}
	p.a, p.b = p.service.join("a"), p.service.join("b")
	p.ra = newRepo(t, sharedRoot(t, p.dir, p.a), alice, "x", SHA1)
	p.rb = sharedRoot(t, p.dir, p.b).Repo(p.ra.Name())
	dir, first, second := work(t, SHA1)
	p.first, p.second = first, second
	if err := push(t, p.ra, packOf(t, dir, second), host.RefUpdate{Ref: "refs/heads/x", Old: zeroID, New: second}); err != nil {
		t.Fatal(err)
	}
	return p
}

const zeroID = "0000000000000000000000000000000000000000"

func ref(t *testing.T, r *Repo, name string) string {
	t.Helper()
	id, _, err := r.Ref(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// late is a list of actions of a node that was paused, and that the other has replaced since.
var late = []struct {
	name string
	call int // of Hold.Err in which the pause is
	do   func(t *testing.T, r *Repo, id string) error
}{
	{"ref", 1, func(t *testing.T, r *Repo, id string) error {
		return r.UpdateRefs(t.Context(), []host.RefUpdate{{Ref: "refs/heads/main", New: id}})
	}},
	{"many refs", 1, func(t *testing.T, r *Repo, id string) error { return r.UpdateRefs(t.Context(), many(id)) }},
	{"HEAD", 1, func(t *testing.T, r *Repo, _ string) error { return r.SetHEAD(t.Context(), "refs/heads/late") }},
	{"pack", 1, func(t *testing.T, r *Repo, _ string) error { return r.PackRefs(t.Context()) }},
	{"remove", 1, func(t *testing.T, r *Repo, _ string) error { return r.Remove(t.Context()) }},
}

func many(id string) []host.RefUpdate {
	updates := []host.RefUpdate{{Ref: "refs/heads/main", New: id}}
	for n := range ManyRefs {
		updates = append(updates, host.RefUpdate{Ref: fmt.Sprintf("refs/heads/b%d", n), New: id})
	}
	return updates
}

// TestLate: what a node was about to do when it was paused does not happen once another has
// the lock, whatever the first believes.
func TestLate(t *testing.T) {
	for _, tt := range late {
		t.Run(tt.name, func(t *testing.T) {
			p := newPair(t)
			unlock, err := p.ra.Lock(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			p.a.asked = func(call int) {
				if call != tt.call {
					return
				}
				p.service.lose(p.a)
				locked(t, p.rb, func() {
					if err := p.rb.UpdateRefs(t.Context(), []host.RefUpdate{{Ref: "refs/heads/main", New: p.second}}); err != nil {
						t.Error(err)
					}
				})
			}
			if err := tt.do(t, p.ra, p.first); !errors.Is(err, ErrOvertaken) {
				t.Errorf("the late node is told %v", err)
			}
			unlock()
			if got := ref(t, p.rb, "refs/heads/main"); got != p.second {
				t.Errorf("the ref is at %q, not where the other node has put it", got)
			}
			if refs, err := p.rb.Refs(t.Context()); err != nil || len(refs.List) != 2 || refs.HEAD != "refs/heads/main" {
				t.Errorf("refs %+v, %v", refs, err)
			}
			fsck(t, p.rb)
		})
	}
}

// TestGitIsLate pauses the git of a node after that has compared the fence, as when the
// whole machine stands still.
func TestGitIsLate(t *testing.T) {
	p := newPair(t)
	unlock, err := p.ra.Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	stopped := make(chan int, 1)
	p.a.asked = func(int) {
		git := updateRef(t)
		if err := syscall.Kill(git, syscall.SIGSTOP); err != nil {
			t.Error(err)
		}
		stopped <- git
	}
	done := make(chan error, 1)
	go func() {
		done <- p.ra.UpdateRefs(t.Context(), []host.RefUpdate{{Ref: "refs/heads/main", New: p.first}, {Ref: "refs/heads/y", New: p.first}})
	}()
	git := <-stopped
	defer func() { _ = syscall.Kill(git, syscall.SIGCONT) }()
	// It has taken its lock files, and gets the command to commit.
	lockFile := filepath.Join(p.ra.Dir(), "refs", "heads", "main.lock")
	testkit.Eventually(t, "git is stopped", func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", git))
		_, there := os.Lstat(lockFile)
		return err == nil && strings.Contains(string(stat), ") T ") && there == nil
	})
	p.service.lose(p.a)
	locked(t, p.rb, func() {
		if _, err := os.Lstat(lockFile); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the lock file of the lost node: %v", err)
		}
		if err := p.rb.UpdateRefs(t.Context(), []host.RefUpdate{{Ref: "refs/heads/main", New: p.second}}); err != nil {
			t.Error(err)
		}
	})
	if err := syscall.Kill(git, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err == nil {
		t.Error("the late git has moved refs")
	}
	unlock()
	if main, y := ref(t, p.rb, "refs/heads/main"), ref(t, p.rb, "refs/heads/y"); main != p.second || y != "" {
		t.Errorf("refs are at %q and %q", main, y)
	}
	fsck(t, p.rb)
}

// updateRef returns the process of this test's git update-ref.
func updateRef(t *testing.T) int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Skip("it needs /proc")
	}
	for _, d := range entries {
		pid, err := strconv.Atoi(d.Name())
		if err != nil {
			continue
		}
		stat, _ := os.ReadFile(filepath.Join("/proc", d.Name(), "stat"))
		_, rest, _ := strings.Cut(string(stat), ") ")
		if f := strings.Fields(rest); len(f) < 2 || f[1] != strconv.Itoa(os.Getpid()) {
			continue
		}
		if args, _ := os.ReadFile(filepath.Join("/proc", d.Name(), "cmdline")); strings.Contains(string(args), "update-ref") {
			return pid
		}
	}
	panic("there is no git update-ref")
}

// TestLateRemoval: a folder that was moved away late comes back.
func TestLateRemoval(t *testing.T) {
	p := newPair(t)
	locked(t, p.ra, func() {
		p.a.asked = func(call int) {
			if call != 2 { // after it was moved
				return
			}
			gone, err := filepath.Glob(filepath.Join(p.dir, trashDir, "*", "old-*", "gone", fenceFile))
			if err != nil || len(gone) != 1 {
				t.Fatalf("%q, %v", gone, err)
			}
			if err := os.WriteFile(gone[0], []byte("2\n"), 0o644); err != nil {
				t.Error(err)
			}
		}
		if err := p.ra.Remove(t.Context()); !errors.Is(err, ErrOvertaken) {
			t.Errorf("the late node is told %v", err)
		}
	})
	p.service.lose(p.a)
	locked(t, p.rb, func() {
		if got := ref(t, p.rb, "refs/heads/x"); got != p.second {
			t.Errorf("the ref is at %q", got)
		}
	})
	fsck(t, p.rb)
}

// TestTakeOver: a lost node's lock files go, those of one that is alive are not looked for,
// and who clears up and does not come to an end is followed by one who does.
func TestTakeOver(t *testing.T) {
	p := newPair(t)
	left := filepath.Join(p.ra.Dir(), "refs", "heads", "z.lock")
	writeLeftover := func() {
		t.Helper()
		if err := os.WriteFile(left, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	there := func() bool { _, err := os.Lstat(left); return err == nil }
	writeLeftover()
	locked(t, p.rb, func() {
		if !there() {
			t.Error("a node that is alive leaves nothing, and its files were looked for")
		}
	})
	locked(t, p.ra, func() {}) // its again
	p.service.lose(p.a)
	locked(t, p.rb, func() {
		if there() {
			t.Error("what a lost node has left is still there")
		}
	})
	writeLeftover()
	if err := os.WriteFile(filepath.Join(p.ra.Dir(), fenceFile), []byte("2 "+clearing+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	locked(t, p.rb, func() {
		if there() {
			t.Error("who was to clear up has not, and nobody does")
		}
	})
	c := p.service.join("c")
	h, err := c.Lock(t.Context(), "git/x")
	if err != nil {
		t.Fatal(err)
	}
	p.service.lose(c)
	if err := p.rb.locks.peers.(*nodePeers).setFence(p.rb.Dir(), h, ""); err == nil {
		t.Error("a lost node has written its number, and may go on")
	}
	locked(t, p.rb, func() { // whoever has it has it again
		if err := p.rb.locks.check(p.rb.Dir()); err != nil {
			t.Error(err)
		}
	})
}

// TestObjectsGone: repositories of a node may lose objects at the same time.
func TestObjectsGone(t *testing.T) {
	p := newPair(t)
	root := p.ra.root
	before := root.epoch()
	var failed errgroup.Group
	for range 16 {
		failed.Go(func() error {
			for range 50 {
				if err := root.objectsGone(); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := failed.Wait(); err != nil {
		t.Error(err)
	}
	if root.epoch() == before {
		t.Error("the epoch is the same")
	}
}

// TestTrashOfNodes: a start leaves alone what others make and remove, and what lost nodes
// have left goes.
func TestTrashOfNodes(t *testing.T) {
	p := newPair(t)
	dir, _, second := work(t, SHA1)
	q, err := p.ra.Receive(t.Context(), []host.RefUpdate{{Ref: "refs/heads/q", Old: zeroID, New: second}})
	if err != nil {
		t.Fatal(err)
	}
	if err := bring(t, q, packOf(t, dir, second)); err != nil {
		t.Fatal(err)
	}
	root := sharedRoot(t, p.dir, p.service.join("c"))
	if err := root.RemoveLost(func(node string) bool { return node == "a" || node == "b" }); err != nil {
		t.Fatal(err)
	}
	if err := q.Check(t.Context()); err != nil {
		t.Errorf("a push to another node: %v", err)
	}
	onlyB := func(node string) bool { return node == "b" }
	if err := root.RemoveLost(onlyB); err != nil {
		t.Fatal(err)
	}
	if err := q.Check(t.Context()); err != nil {
		t.Errorf("a push to a node that may have come just now: %v", err)
	}
	before := time.Now().Add(-2 * lostAfter)
	if err := os.Chtimes(filepath.Join(p.dir, trashDir, "node-a"), before, before); err != nil {
		t.Fatal(err)
	}
	if err := root.RemoveLost(onlyB); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(filepath.Join(p.dir, trashDir))
	if err != nil || len(left) != 2 || left[0].Name() != "node-b" || left[1].Name() != "node-c" {
		t.Errorf("in the trash is %v, %v", left, err)
	}
}

// TestCollectOnAnotherNode: a push that was checked is checked again if another node has dropped
// objects since.
func TestCollectOnAnotherNode(t *testing.T) {
	p := newPair(t)
	q, err := p.ra.Receive(t.Context(), []host.RefUpdate{{Ref: "refs/heads/q", Old: zeroID, New: p.second}})
	if err != nil {
		t.Fatal(err)
	}
	if err := q.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	locked(t, p.rb, func() {
		if err := p.rb.UpdateRefs(t.Context(), []host.RefUpdate{{Ref: "refs/heads/x", New: zeroID}}); err != nil {
			t.Fatal(err)
		}
	})
	if err := p.rb.root.Collect(t.Context(), "x", SHA1, 0); err != nil {
		t.Fatal(err)
	}
	refused := (*Refused)(nil)
	locked(t, p.ra, func() { _, err = q.ApplyRefs(t.Context()) })
	if !errors.As(err, &refused) || !strings.Contains(refused.Reason, "missing") {
		t.Errorf("a ref to what was dropped: %v", err)
	}
}

// TestMadeAnew: what a node asks git of a repository that another has removed and made
// again is answered by the new one.
func TestMadeAnew(t *testing.T) {
	p := newPair(t)
	if found, err := p.ra.ask(t.Context(), []string{p.second}); err != nil || found[0] != p.second {
		t.Fatalf("%q, %v", found, err)
	}
	locked(t, p.rb, func() {
		if err := errors.Join(p.rb.Remove(t.Context()), p.rb.Init(t.Context(), SHA1)); err != nil {
			t.Fatal(err)
		}
	})
	if found, err := p.ra.ask(t.Context(), []string{p.second}); err != nil || found[0] == p.second {
		t.Errorf("%q, %v", found, err)
	}
}
