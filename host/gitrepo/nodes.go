package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Nodes are the processes that have one Root open, on a file system that they share. A
// lock says who may change a repository. But a node that loses it learns that late, and
// one that was paused goes on where it was. So whoever gets a lock that another node had
// writes its own number to the repository (the fence), and then removes the lock files of
// git, if that other node is not alive. Whoever moves refs takes git's lock files first,
// then compares the fence, then moves: if it was overtaken before it compared, it sees
// that, and if it was overtaken after, its lock files have gone, and git fails.
type Nodes interface {
	// Lock takes a lock that one node has at a time. It waits until ctx ends.
	Lock(ctx context.Context, name string) (Hold, error)

	// Name returns this node's name: no other node that is alive has it.
	Name() string
}

// Hold is a lock that this node has.
type Hold interface {
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

// ErrOvertaken says that another node has got the lock of a repository meanwhile.
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
	// What is no number is of a crash of the file system.
	first, rest, _ := strings.Cut(strings.TrimSuffix(string(text), "\n"), " ")
	number, _ = strconv.ParseInt(first, 10, 64)
	return number, number > 0 && rest == "", nil
}

// takeOver makes a lock this node's own on disk as well. What is not there has no fence.
func (l *locks) takeOver(dir string, hold Hold) error {
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

// setFence writes the fence. It may do so late: so it asks afterwards whether the lock is
// still this node's. If it is not, whoever has it by now finds a number that is not its
// own, does nothing, and takes the repository over once more.
func (l *locks) setFence(dir string, hold Hold, word string) error {
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
	hold := l.hold(dir)
	if hold == nil {
		return fmt.Errorf("%s is changed without its lock", dir)
	}
	return checkFence(dir, hold)
}

func checkFence(dir string, hold Hold) error {
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

// lostAfter is how long the folder of a node that is not alive stays as it is.
const lostAfter = 10 * time.Minute

// nodeFolder begins the names of the folders that nodes have in the trash of a Root.
const nodeFolder = "node-"

// RemoveLost removes what nodes that are not alive have left in the trash of the root: the
// quarantines of their pushes and fetches. A git of theirs that still works there fails. What
// has changed in the last minutes stays: a node may have come meanwhile.
func (r *Root) RemoveLost(alive func(node string) bool) error {
	if r.locks.nodes == nil {
		return nil
	}
	quiet, old := olderThan(time.Now().Add(-lostAfter)), olderThan(time.Now().Add(-staleAfter))
	return removeAll(filepath.Join(r.dir, trashDir), func(d fs.DirEntry) bool {
		node, is := strings.CutPrefix(d.Name(), nodeFolder)
		if !is {
			return old(d) // of a process that was alone
		}
		return node != r.locks.nodes.Name() && !alive(node) && quiet(d)
	})
}

// epochFile has another number whenever objects may have gone, where nodes share a Root.
const epochFile = "talon-gc-epoch"

// objectsGone says that objects may have gone from the root.
func (r *Root) objectsGone() error {
	r.gcEpoch.Add(1)
	if r.locks.nodes == nil {
		return nil
	}
	text := strconv.FormatUint(rand.Uint64(), 10)
	temporary := filepath.Join(r.trash, epochFile)
	if err := os.WriteFile(temporary, []byte(text), 0o644); err != nil {
		return err
	}
	return os.Rename(temporary, filepath.Join(r.dir, epochFile))
}

// epoch is a number that is another one when objects may have gone meanwhile.
func (r *Root) epoch() uint64 {
	local := r.gcEpoch.Load()
	if r.locks.nodes == nil {
		return local
	}
	text, err := os.ReadFile(filepath.Join(r.dir, epochFile))
	if errors.Is(err, fs.ErrNotExist) {
		return local
	}
	shared, err := strconv.ParseUint(string(text), 10, 64)
	if err != nil {
		return rand.Uint64() // who can tell
	}
	return local + shared
}
