package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// ErrNotFound says that a repository is not there.
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
}

// Name is the repository's name; zero in a Folder.
func (r *Repo) Name() Name { return r.name }

// Dir is the path of the repository on disk.
func (r *Repo) Dir() string { return r.dir }

// Lock takes the lock of the repository, also of one that is not there yet. It
// waits until ctx ends.
func (r *Repo) Lock(ctx context.Context) (unlock func(), err error) {
	return r.locks.lock(ctx, r.dir)
}

// Exists reports whether the repository is there. A link in its place is an error.
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

// orGone returns why git failed: not found, if the repository went meanwhile.
func (r *Repo) orGone(err error) error {
	if err != nil && errors.Is(r.mustExist(), ErrNotFound) {
		return ErrNotFound
	}
	return err
}
