// Package gitrepo keeps bare git repositories on disk and works on them with the
// git program (2.39 or later). It is the only package of the host that runs git.
//
// A [Root] holds repositories by owner and identifier, as GRASP-01 serves them:
//
//	ROOT/<npub>/<name>.git            refs, HEAD, configuration, new packs
//	ROOT/.shared/<format>/<name>.git  the objects of all repositories of that identifier
//	ROOT/.trash/                      what is being made or removed, by each node in a folder of its own
//
// The name is the identifier with every byte outside A-Z a-z 0-9 . _ - as %XX. A name
// that is too long for a file is cut, and ends in ~ and the SHA-256 of the identifier.
// The file talon-identifier of such a repository has the whole identifier. A [Folder] is
// any folder of bare repositories, for talon git serve. With the git of [Git.Plain],
// which does pushes itself, they may have a work tree.
//
// Every repository of a Root borrows from the shared store of its identifier
// (objects/info/alternates, a relative path, so that the root can be moved).
// [Repo.Share] moves packs there, from where all repositories of the identifier
// see them: a second maintainer's copy costs refs only.
//
// A push ([Repo.Receive]) comes into a quarantine, without a lock. git index-pack reads its
// pack, and then git walks from the new values of the refs ([Incoming.Check]). Under the
// lock its packs move to the shared store, and its refs change ([Incoming.ApplyRefs]).
//
// Talon reads refs and the presence of objects from files, without a process, if the files
// have the form that Talon makes. It asks git about any other form.
//
// Invariants:
//
//  1. No path that a Root or Folder returns leads out of it, through names or links.
//  2. Git runs without a shell, without the configuration of the machine or the user,
//     without hooks, with a fixed environment, and never asks anybody. A plain git has a
//     few variables of ours as well.
//  3. Only object ids that [IsID] allows and names that [IsRef] allows reach git.
//  4. The end of a context ends git and all that it started: SIGTERM, on which git
//     removes its lock files, then SIGKILL. A push that does not end well leaves
//     nothing, and has bounded memory. Remains of a killed server are removed when a
//     Root is opened, and in a Folder by a later push. A pack beyond [PackLimits] is
//     refused before git has all of it. The depth of deltas that name their bases by id
//     is checked after git has indexed the pack.
//  5. A repository is whole or absent: it is made in .trash and renamed.
//  6. Objects leave a shared store only in [Root.Collect], under the locks of all
//     repositories that borrow from it, and only if none of their refs reaches them
//     and they are older than the grace time. A repository itself never drops one. A
//     push that was checked before is checked again before it lands.
//  7. A holder of the lock of one repository never waits for that of another.
//     [Root.LockAll] takes several in one order. The lock of an identifier comes last.
//  8. Several nodes may have one Root open ([Nodes]). A lock then holds for all nodes. A
//     node that has lost the lock without knowing it cannot change refs, HEAD and folders,
//     however late it continues. It can only add objects, which harm nobody. Reads need no
//     lock on any node.
//
// The package does not know events or rules: its callers decide about refs.
package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"talon/internal/durable"
)

// ErrNotFound says that a repository does not exist.
var ErrNotFound = errors.New("no such repository")

// Repo is a bare repository, or the place where one may be. Its methods may be
// called by many goroutines, but those that say so need its lock.
type Repo struct {
	git     *Git
	dir     string
	locks   *locks
	batches *batches

	root *Root // nil in a Folder
	name Name

	planned *Format // see Planned; nil for others
}

// Name returns the repository's name; zero in a Folder.
func (r *Repo) Name() Name { return r.name }

// Dir returns the path of the repository on disk.
func (r *Repo) Dir() string { return r.dir }

// Lock acquires the lock of the repository, which need not exist yet. It waits until ctx
// ends.
func (r *Repo) Lock(ctx context.Context) (unlock func(), err error) {
	return r.locks.lock(ctx, r.dir)
}

// Exists reports whether the repository exists. A link in its place is an error.
func (r *Repo) Exists() (bool, error) {
	dirs := []string{r.dir}
	if r.root != nil {
		dirs = []string{filepath.Dir(r.dir), r.dir}
	}
	for _, dir := range dirs {
		info, err := os.Lstat(dir)
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("look for a repository: %w", err)
		}
		if !info.IsDir() {
			return false, fmt.Errorf("look for a repository: %s is not a folder; links are not followed", dir)
		}
	}
	return isBare(r.dir), nil
}

// isBare reports whether the folder looks as a bare repository does.
func isBare(dir string) bool {
	for _, name := range []string{"objects", "refs"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || !info.IsDir() {
			return false
		}
	}
	info, err := os.Lstat(filepath.Join(dir, "HEAD"))
	return err == nil && info.Mode().IsRegular()
}

// mustExist fails with ErrNotFound if the repository is not there.
func (r *Repo) mustExist() error {
	there, err := r.Exists()
	if err == nil && !there {
		err = ErrNotFound
	}
	return err
}

// run runs git in the repository. No command finds another repository than this
// one, should it be damaged or gone.
func (r *Repo) run(ctx context.Context, in []byte, args ...string) ([]byte, error) {
	if err := r.mustExist(); err != nil {
		return nil, err
	}
	out, err := r.git.run(ctx, r.dir, in, append([]string{"--git-dir=."}, args...)...)
	return out, r.orGone(err)
}

// orGone returns why git failed: not found, if the repository has gone.
func (r *Repo) orGone(err error) error {
	if err != nil && errors.Is(r.mustExist(), ErrNotFound) {
		return ErrNotFound
	}
	return err
}

// Size returns the repository's size on disk: its own files, and those of the store that
// it shares with the others of its identifier, in bytes.
func (r *Repo) Size() (own, shared int64, err error) {
	if own, err = diskUse(r.dir); err != nil {
		return 0, 0, fmt.Errorf("measure a repository: %w", err)
	}
	s, borrows, err := r.shared()
	if err != nil || !borrows {
		return own, 0, err
	}
	if shared, err = diskUse(s.dir); err != nil {
		return 0, 0, fmt.Errorf("measure shared objects: %w", err)
	}
	return own, shared, nil
}

// Maintain does the regular maintenance of a repository: it packs refs, shares packs, and
// combines the small packs of the shared store. It drops no object; see [Root.Collect].
// REQUIRES: the lock.
func (r *Repo) Maintain(ctx context.Context) error {
	if err := r.PackRefs(ctx); err != nil {
		return err
	}
	if err := r.Share(ctx); err != nil {
		return err
	}
	s, borrows, err := r.shared()
	if err != nil || !borrows {
		return err
	}
	release, err := s.root.removing.enter(ctx)
	if err != nil {
		return err
	}
	defer release()
	unlock, err := r.locks.lock(ctx, s.dir)
	if err != nil {
		return err
	}
	defer unlock()
	ctx, end := r.locks.bound(ctx, s.dir)
	defer end()
	if _, err := r.git.run(ctx, s.dir, nil, "--git-dir=.", "repack", "--quiet", "-d", "--geometric=2"); err != nil {
		return fmt.Errorf("pack shared objects: %w", err)
	}
	return s.scaleUsage()
}

func writeFile(path, text string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), 0o644)
}

func appendFile(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// makeDirs makes a folder below top and those between, durably. A link on the way
// is an error.
func makeDirs(top, dir string) error {
	if dir == top {
		return nil
	}
	if err := makeDirs(top, filepath.Dir(dir)); err != nil {
		return err
	}
	err := os.Mkdir(dir, 0o755)
	if err == nil {
		return durable.Sync(filepath.Dir(dir))
	}
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	info, err := os.Lstat(dir)
	if err == nil && !info.IsDir() {
		err = &fs.PathError{Op: "mkdir", Path: dir, Err: errors.New("not a folder; links are not followed")}
	}
	return err
}

// syncTree makes a small folder durable. It syncs all files concurrently: a file system
// with a journal writes it once for all.
func syncTree(dir string) error {
	var paths []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && (d.IsDir() || d.Type().IsRegular()) {
			paths = append(paths, path)
		}
		return err
	})
	errs := make([]error, len(paths))
	var all sync.WaitGroup
	for i, path := range paths {
		all.Go(func() { errs[i] = durable.Sync(path) })
	}
	all.Wait()
	return errors.Join(append(errs, err)...)
}

// diskUse is the size of all files below a folder, without those that go during the walk.
func diskUse(dir string) (size int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			var info fs.FileInfo
			if info, err = d.Info(); err == nil {
				size += info.Size()
			}
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	return size, err
}

// Recover removes what git processes left that were killed: lock files, which would
// stop every later change, and the quarantines of a receive-pack that somebody else ran.
// Only those last written before a time go: processes that run now may have others.
// REQUIRES: the lock.
func (r *Repo) Recover(before time.Time) error {
	stale := olderThan(before)
	objects := filepath.Join(r.dir, "objects")
	err := errors.Join(
		removeLocks(r.dir, stale),
		removeAll(objects, func(d fs.DirEntry) bool { return strings.HasPrefix(d.Name(), incoming) && stale(d) }),
		removeAll(filepath.Join(objects, "pack"), func(d fs.DirEntry) bool { return strings.HasPrefix(d.Name(), "tmp_") && stale(d) }),
	)
	if err != nil {
		return fmt.Errorf("recover a repository: %w", err)
	}
	return nil
}

// olderThan chooses what was last written before a time.
func olderThan(before time.Time) func(fs.DirEntry) bool {
	return func(d fs.DirEntry) bool {
		info, err := d.Info()
		return err == nil && info.ModTime().Before(before)
	}
}

// removeLocks removes the lock files of refs and of a repository's own files.
func removeLocks(dir string, which func(fs.DirEntry) bool) error {
	lock := func(d fs.DirEntry) bool { return !d.IsDir() && strings.HasSuffix(d.Name(), ".lock") && which(d) }
	err := removeAll(dir, lock)
	return errors.Join(err, filepath.WalkDir(filepath.Join(dir, "refs"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && lock(d) {
			err = os.Remove(path)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}))
}

// removeAll removes some of what is in a folder, which need not be there.
func removeAll(dir string, which func(fs.DirEntry) bool) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, d := range entries {
		if which(d) {
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, d.Name())))
		}
	}
	return err
}
