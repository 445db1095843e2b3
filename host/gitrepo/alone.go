package gitrepo

import (
	"context"
	"io/fs"

	"talon/host"
)

// peers are the other processes that may have the same folder of repositories open. alone and
// nodePeers are the two forms.
type peers interface {
	// acquire takes the lock of a key among them, nil where there are none. check fails if another
	// may have got it since. REQUIRES: the lock of this process.
	acquire(ctx context.Context, key string) (HeldLock, error)
	check(dir string, held HeldLock) error

	// make prepares a new repository before it gets its place. movedAway fails if one that was
	// moved away was another process's.
	make(dir string, held HeldLock) error
	movedAway(dir string, held HeldLock) error

	// identity tells whether another process has replaced a folder since, nil if none does that.
	identity(dir string) fs.FileInfo

	// transact has git prepare a transaction of refs, and commits it. setHEAD makes HEAD name a
	// branch. packLoose moves refs from files of their own to the file of all; it returns false if
	// it could not.
	transact(ctx context.Context, r *Repo, prepare string, args []string) error
	setHEAD(ctx context.Context, r *Repo, branch string) error
	packLoose(ctx context.Context, r *Repo, refs []fileRef, updates []host.RefUpdate) (bool, error)

	// objectsGone tells the others that objects may have gone. epoch changes after they said so.
	objectsGone() error
	epoch() uint64

	// removeLost removes what those have left that are not alive.
	removeLost(alive func(node string) bool) error
}

// alone is a process that no other shares its folder with.
type alone struct{}

func (alone) acquire(context.Context, string) (HeldLock, error) { return nil, nil }
func (alone) check(string, HeldLock) error                      { return nil }
func (alone) make(string, HeldLock) error                       { return nil }
func (alone) movedAway(string, HeldLock) error                  { return nil }
func (alone) identity(string) fs.FileInfo                       { return nil }
func (alone) objectsGone() error                                { return nil }
func (alone) epoch() uint64                                     { return 0 }
func (alone) removeLost(func(string) bool) error                { return nil }

func (alone) transact(ctx context.Context, r *Repo, prepare string, args []string) error {
	_, err := r.run(ctx, []byte(prepare+commitRefs), args...)
	return err
}

func (alone) setHEAD(ctx context.Context, r *Repo, branch string) error {
	_, err := r.run(ctx, nil, "symbolic-ref", "HEAD", branch)
	return err
}

func (alone) packLoose(_ context.Context, r *Repo, refs []fileRef, updates []host.RefUpdate) (bool, error) {
	return true, r.packLoose(refs, updates)
}
