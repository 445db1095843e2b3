package gitrepo

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Recover removes what git processes left that were killed: lock files, which would
// stop every later change, and the quarantines of a receive-pack that somebody else ran.
// Only those last written before a time go: processes that run now may have others.
// REQUIRES: the lock.
func (r *Repo) Recover(before time.Time) error {
	stale := olderThan(before)
	objects := filepath.Join(r.dir, "objects")
	err := errors.Join(
		r.removeLocks(stale),
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

// removeLocks removes the lock files of refs and of the repository's own files.
func (r *Repo) removeLocks(which func(fs.DirEntry) bool) error {
	lock := func(d fs.DirEntry) bool { return !d.IsDir() && strings.HasSuffix(d.Name(), ".lock") && which(d) }
	err := removeAll(r.dir, lock)
	return errors.Join(err, filepath.WalkDir(filepath.Join(r.dir, "refs"), func(path string, d fs.DirEntry, err error) error {
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
