package gitrepo

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"talon/host"
)

// Nodes are the processes that have one Root open, on a file system that they share. A lock says
// who may change a repository. A node that loses it learns that late, and a paused node continues
// later. So a node that gets a lock which another node had writes its own number to the repository
// (the fence). Then, if that other node is not alive, it removes the lock files of git. A node that
// moves refs takes git's lock files first, then compares the fence, then moves. If it was overtaken
// before the comparison, it sees that. If it was overtaken after, its lock files have gone, and git
// fails.
type Nodes interface {
	// Lock takes a lock that one node has at a time. It waits until ctx ends.
	Lock(ctx context.Context, name string) (HeldLock, error)

	// Name returns this node's name: no other node that is alive has it.
	Name() string
}

// HeldLock is a lock that this node has.
type HeldLock interface {
	// Number identifies the node as long as it keeps its locks. No number is ever used
	// again.
	Number() int64

	// Err returns an error if the lock is lost. It does no I/O.
	Err() error

	// Confirm returns an error if the lock is lost, and reports whether the node of
	// another number has lost all of its locks.
	Confirm(number int64) (over bool, err error)

	// Context ends when the lock is lost, or parent ends.
	Context(parent context.Context) (context.Context, context.CancelFunc)

	Unlock()
}

// ErrOvertaken says that another node has taken the lock of a repository.
var ErrOvertaken = errors.New("another node has taken the repository over: try again")

// fenceFile has the number of the node that had the lock last, and a second word while
// that clears up what a lost node has left.
const fenceFile = "talon-fence"

const clearing = "clearing"

// readFence returns the number of a repository or shared store, 0 if it has none.
func readFence(dir string) (number int64, cleared bool, err error) {
	text, err := os.ReadFile(filepath.Join(dir, fenceFile))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, fmt.Errorf("read who had a repository last: %w", err)
	}
	// Text that is no number comes from a crash of the file system.
	first, rest, _ := strings.Cut(strings.TrimSuffix(string(text), "\n"), " ")
	number, _ = strconv.ParseInt(first, 10, 64)
	return number, number > 0 && rest == "", nil
}

// takeFence makes a lock this node's own on disk as well. A missing folder gets no fence.
func (n *nodePeers) takeFence(dir string, hold HeldLock) error {
	number, cleared, err := readFence(dir)
	if err != nil || cleared && number == hold.Number() {
		return err
	}
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	lost := true
	if cleared {
		if lost, err = hold.Confirm(number); err != nil {
			return err
		}
	}
	if lost {
		if err := n.setFence(dir, hold, " "+clearing); err != nil {
			return err
		}
		if err := removeLocks(dir, func(fs.DirEntry) bool { return true }); err != nil {
			return fmt.Errorf("clear up what a lost node has left: %w", err)
		}
	}
	return n.setFence(dir, hold, "")
}

// setFence writes the fence. It may write late, so it asks afterwards whether the lock is still
// this node's. If it is not, the new holder finds a number that is not its own, does nothing,
// and takes the repository over once more.
func (n *nodePeers) setFence(dir string, hold HeldLock, word string) error {
	f, err := os.CreateTemp(n.trash, "fence-")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "%d%s\n", hold.Number(), word)
	err = errors.Join(err, f.Chmod(0o644), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), filepath.Join(dir, fenceFile))
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return fmt.Errorf("write who has a repository: %w", err)
	}
	_, err = hold.Confirm(0)
	return err
}

func checkFence(dir string, hold HeldLock) error {
	if err := hold.Err(); err != nil {
		return errors.Join(ErrOvertaken, err)
	}
	number, cleared, err := readFence(dir)
	if err != nil {
		return err
	}
	if number != hold.Number() || !cleared {
		if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
			return nil // what is not there nobody has
		}
		return ErrOvertaken
	}
	return nil
}

// OpenShared is Open of a folder that other nodes may have open as well. It keeps files that
// others are making or removing there.
func OpenShared(git *Git, dir string, nodes Nodes) (*Root, error) {
	dir, err := makeRoot(dir)
	if err != nil {
		return nil, err
	}
	trash := filepath.Join(dir, trashDir)
	if err := os.MkdirAll(trash, 0o755); err != nil {
		return nil, fmt.Errorf("make %s: %w", trash, err)
	}
	trash = filepath.Join(trash, nodeFolder+nodes.Name())
	return openRoot(git, dir, trash, &nodePeers{nodes: nodes, dir: dir, trash: trash})
}

// nodePeers are the other nodes that have a Root open.
type nodePeers struct {
	nodes Nodes
	dir   string // of the Root
	trash string // of this node, where files are made that are renamed
}

func (n *nodePeers) acquire(ctx context.Context, key string) (HeldLock, error) {
	name, err := filepath.Rel(filepath.Dir(n.dir), key)
	if err != nil {
		return nil, err
	}
	hold, err := n.nodes.Lock(ctx, name)
	if err != nil {
		return nil, err
	}
	if err := n.takeFence(key, hold); err != nil {
		hold.Unlock()
		return nil, err
	}
	return hold, nil
}

func (n *nodePeers) check(dir string, hold HeldLock) error {
	if hold == nil {
		return fmt.Errorf("%s is changed without its lock", dir)
	}
	return checkFence(dir, hold)
}

// make writes the fence. A late rename fails where a repository is by then; one that comes to
// nothing else is empty, and has no announcement.
func (n *nodePeers) make(dir string, hold HeldLock) error {
	if hold == nil {
		return nil
	}
	return errors.Join(writeFile(filepath.Join(dir, fenceFile), fmt.Sprintf("%d\n", hold.Number())), hold.Err())
}

// movedAway checks the fence: if the move was late, the folder is somebody else's.
func (n *nodePeers) movedAway(dir string, hold HeldLock) error {
	if hold == nil {
		return nil
	}
	return checkFence(dir, hold)
}

func (n *nodePeers) identity(dir string) fs.FileInfo {
	info, _ := os.Stat(dir)
	return info
}

// transact commits the transaction if no other node has taken the repository over by the time
// when git has its lock files.
func (n *nodePeers) transact(ctx context.Context, r *Repo, prepare string, args []string) error {
	if err := r.mustExist(); err != nil {
		return err
	}
	p, err := r.git.start(ctx, r.dir, nil, append([]string{"--git-dir=."}, args...)...)
	if err != nil {
		return err
	}
	answers := bufio.NewScanner(p.Out)
	_, err = io.WriteString(p.In, prepare)
	for _, want := range []string{"start: ok", "prepare: ok"} {
		if err == nil && (!answers.Scan() || answers.Text() != want) {
			err = fmt.Errorf("git says %.100q", answers.Text())
		}
	}
	if err == nil {
		// Its lock files are there. Without more input it removes them.
		if err = r.locks.check(r.dir); err == nil {
			_, err = io.WriteString(p.In, commitRefs)
		}
	}
	_ = p.In.Close()
	_, _ = io.Copy(io.Discard, p.Out)
	if failed := p.Wait(); failed != nil {
		return r.orGone(failed) // git says best why
	}
	return err
}

func (n *nodePeers) setHEAD(_ context.Context, r *Repo, branch string) error {
	return r.replaceFile("HEAD", []byte("ref: "+branch+"\n"))
}

// packLoose has git take the files of loose refs away, under a lock file for each.
func (n *nodePeers) packLoose(ctx context.Context, r *Repo, refs []fileRef, updates []host.RefUpdate) (bool, error) {
	if len(r.loose(updates)) == 0 {
		return true, r.packLoose(refs, updates)
	}
	err := r.PackRefs(ctx)
	return err == nil && len(r.loose(updates)) == 0, err
}

// epochFile has another number whenever objects may have gone, where nodes share a Root.
const epochFile = "talon-gc-epoch"

// objectsGone has a file of its own for each call: repositories that are purged together call it at
// the same time.
func (n *nodePeers) objectsGone() error {
	f, err := os.CreateTemp(n.trash, "epoch-")
	if err != nil {
		return err
	}
	_, err = f.WriteString(strconv.FormatUint(rand.Uint64(), 10))
	err = errors.Join(err, f.Chmod(0o644), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), filepath.Join(n.dir, epochFile))
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

func (n *nodePeers) epoch() uint64 {
	text, err := os.ReadFile(filepath.Join(n.dir, epochFile))
	if errors.Is(err, fs.ErrNotExist) {
		return 0
	}
	shared, err := strconv.ParseUint(string(text), 10, 64)
	if err != nil {
		return rand.Uint64() // who can tell
	}
	return shared
}

// lostAfter is how long the folder of a node that is not alive stays as it is.
const lostAfter = 10 * time.Minute

// nodeFolder begins the names of the folders that nodes have in the trash of a Root.
const nodeFolder = "node-"

func (n *nodePeers) removeLost(alive func(node string) bool) error {
	quiet, old := olderThan(time.Now().Add(-lostAfter)), olderThan(time.Now().Add(-staleAfter))
	return removeAll(filepath.Join(n.dir, trashDir), func(d fs.DirEntry) bool {
		node, is := strings.CutPrefix(d.Name(), nodeFolder)
		if !is {
			return old(d) // of a process that was alone
		}
		return node != n.nodes.Name() && !alive(node) && quiet(d)
	})
}
