package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Format is the hash that a repository names its objects by.
type Format uint8

const (
	SHA1 Format = iota
	SHA256
)

func (f Format) String() string { return [...]string{"sha1", "sha256"}[f] }

var errFolder = errors.New("the repositories of a folder are not made or removed by Talon")

// Init makes the repository, empty, with HEAD on Options.DefaultBranch. One that is there already
// stays as it is. REQUIRES: the lock.
func (r *Repo) Init(ctx context.Context, format Format) error {
	if r.root == nil {
		return errFolder
	}
	if there, err := r.Exists(); there || err != nil {
		return err
	}
	store := r.root.store(r.name.identifier, format)
	unlock, err := r.locks.lock(ctx, store.dir)
	if err != nil {
		return err
	}
	defer unlock()

	// The store first, then the mark that somebody borrows from it, then the
	// repository: a crash between them leaves a store that the next Init uses.
	if err := store.make(ctx, r.name.npub); err != nil {
		return err
	}
	file, cut := fileName(r.name.identifier)
	return r.root.build(ctx, r.dir, format, func(dir string) error {
		borrow := "../../../" + sharedDir + "/" + format.String() + "/" + file + "/objects\n"
		if err := writeFile(filepath.Join(dir, "objects", "info", "alternates"), borrow); err != nil {
			return err
		}
		if !cut {
			return nil
		}
		return writeFile(filepath.Join(dir, cutFile), r.name.identifier)
	})
}

// build makes a bare repository beside its place, and renames it there.
func (r *Root) build(ctx context.Context, place string, format Format, finish func(dir string) error) (err error) {
	dir, err := os.MkdirTemp(filepath.Join(r.dir, trashDir), "new-")
	if err != nil {
		return fmt.Errorf("make a repository: %w", err)
	}
	defer func() {
		if err != nil {
			_ = os.RemoveAll(dir)
		}
	}()
	empty, err := r.template(ctx, format)
	if err != nil {
		return fmt.Errorf("make a repository: %w", err)
	}
	if err := empty.write(dir); err != nil {
		return fmt.Errorf("make a repository: %w", err)
	}
	if err := finish(dir); err != nil {
		return fmt.Errorf("make a repository: %w", err)
	}
	if err := errors.Join(os.Chmod(dir, 0o755), syncTree(dir)); err != nil {
		return fmt.Errorf("make a repository: %w", err)
	}
	parent := filepath.Dir(place)
	// The owner's folder goes with the last repository in it, which may be now.
	for range 3 {
		if err = makeDirs(r.dir, parent); err == nil {
			err = os.Rename(dir, place)
		}
		if !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("make a repository: %w", err)
	}
	return syncDir(parent)
}

// configText writes settings as git's configuration file has them.
func configText(list [][2]string) string {
	var b strings.Builder
	for _, pair := range list {
		first, last := strings.IndexByte(pair[0], '.'), strings.LastIndexByte(pair[0], '.')
		section := pair[0][:first]
		if first < last {
			section += ` "` + pair[0][first+1:last] + `"`
		}
		fmt.Fprintf(&b, "[%s]\n\t%s = %s\n", section, pair[0][last+1:], pair[1])
	}
	return b.String()
}

// Remove removes the repository, and what it shared if nobody else borrows from
// there. What is being read from it meanwhile may fail. REQUIRES: the lock.
func (r *Repo) Remove(ctx context.Context) error {
	if r.root == nil {
		return errFolder
	}
	r.batches.drop(r.dir)
	if there, err := r.Exists(); err != nil || !there {
		return err
	}
	store, borrows, err := r.shared()
	if err != nil {
		return err
	}
	if err := r.root.discard(r.dir); err != nil {
		return fmt.Errorf("remove a repository: %w", err)
	}
	// Not an error if the owner has others.
	_ = os.Remove(filepath.Dir(r.dir))
	if !borrows {
		return nil
	}
	unlock, err := r.locks.lock(ctx, store.dir)
	if err != nil {
		return err
	}
	defer unlock()
	return store.leave(r.name.npub)
}

// discard moves a folder away, which is atomic, and then deletes it.
func (r *Root) discard(dir string) error {
	place, err := os.MkdirTemp(filepath.Join(r.dir, trashDir), "old-")
	if err != nil {
		return err
	}
	if err := os.Rename(dir, filepath.Join(place, "gone")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := syncDir(filepath.Dir(dir)); err != nil {
		return err
	}
	return os.RemoveAll(place)
}
