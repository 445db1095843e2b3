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
func (l *locks) takeFence(dir string, hold HeldLock) error {
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
		if err := l.setFence(dir, hold, " "+clearing); err != nil {
			return err
		}
		if err := removeLocks(dir, func(fs.DirEntry) bool { return true }); err != nil {
			return fmt.Errorf("clear up what a lost node has left: %w", err)
		}
	}
	return l.setFence(dir, hold, "")
}

// setFence writes the fence. It may write late, so it asks afterwards whether the lock is still
// this node's. If it is not, the new holder finds a number that is not its own, does nothing,
// and takes the repository over once more.
func (l *locks) setFence(dir string, hold HeldLock, word string) error {
	f, err := os.CreateTemp(l.trash, "fence-")
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

// check fails if another node may have got the lock of a key. REQUIRES: the lock.
func (l *locks) check(dir string) error {
	if l.nodes == nil {
		return nil
	}
	hold := l.heldLock(dir)
	if hold == nil {
		return fmt.Errorf("%s is changed without its lock", dir)
	}
	return checkFence(dir, hold)
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

// locks are mutexes by key that exist while somebody holds or wants them.
type locks struct {
	nodes Nodes  // nil: this process is alone
	dir   string // keys are paths below it; with nodes
	trash string // where files are made that are renamed; with nodes

	mu   sync.Mutex // guards keys
	keys map[string]*keyLock
}

type keyLock struct {
	token chan struct{} // holds one value while the lock is taken
	users int           // that hold it or wait; guarded by locks.mu
	held  HeldLock      // with nodes, of who holds it; guarded by locks.mu
}

// lock waits for the key until ctx ends. The function that it returns gives the
// lock back; more calls of it do nothing.
func (l *locks) lock(ctx context.Context, key string) (unlock func(), err error) {
	l.mu.Lock()
	if l.keys == nil {
		l.keys = map[string]*keyLock{}
	}
	k := l.keys[key]
	if k == nil {
		k = &keyLock{token: make(chan struct{}, 1)}
		l.keys[key] = k
	}
	k.users++
	l.mu.Unlock()

	select {
	case k.token <- struct{}{}:
	case <-ctx.Done():
		l.release(key, k)
		return nil, fmt.Errorf("lock a repository: %w", context.Cause(ctx))
	}
	local := sync.OnceFunc(func() {
		<-k.token
		l.release(key, k)
	})
	if l.nodes == nil {
		return local, nil
	}
	hold, err := l.acquire(ctx, key)
	if err != nil {
		local()
		return nil, fmt.Errorf("lock a repository: %w", err)
	}
	l.setHeldLock(k, hold)
	return sync.OnceFunc(func() {
		l.setHeldLock(k, nil)
		hold.Unlock()
		local()
	}), nil
}

// acquire takes the lock of a key among the nodes. REQUIRES: the lock of the process.
func (l *locks) acquire(ctx context.Context, key string) (HeldLock, error) {
	name, err := filepath.Rel(filepath.Dir(l.dir), key)
	if err != nil {
		return nil, err
	}
	hold, err := l.nodes.Lock(ctx, name)
	if err != nil {
		return nil, err
	}
	if err := l.takeFence(key, hold); err != nil {
		hold.Unlock()
		return nil, err
	}
	return hold, nil
}

func (l *locks) setHeldLock(k *keyLock, hold HeldLock) {
	l.mu.Lock()
	defer l.mu.Unlock()
	k.held = hold
}

// heldLock returns what the node has of a lock, nil where it is alone.
func (l *locks) heldLock(key string) HeldLock {
	if l.nodes == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if k := l.keys[key]; k != nil {
		return k.held
	}
	return nil
}

// bound returns a context that ends when the lock of a key is lost to another node.
func (l *locks) bound(ctx context.Context, key string) (context.Context, context.CancelFunc) {
	if hold := l.heldLock(key); hold != nil {
		return hold.Context(ctx)
	}
	return ctx, func() {}
}

// release ends one use of a lock, which goes with its last.
func (l *locks) release(key string, k *keyLock) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if k.users--; k.users == 0 {
		delete(l.keys, key)
	}
}

// len is the number of locks that somebody holds or wants.
func (l *locks) len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.keys)
}
