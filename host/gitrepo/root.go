package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

const (
	sharedDir = ".shared"
	trashDir  = ".trash"
	cutFile   = "talon-identifier"
)

// Root is a folder of repositories by owner and identifier. One process at a time
// may have it open.
type Root struct {
	git     *Git
	dir     string
	locks   locks
	batches *batches

	templates templates
	said      said
	gcEpoch   atomic.Uint64 // counts how often objects may have gone
}

// Open opens a folder of repositories, and makes it if it is absent. What a crash
// left half made or half removed goes.
func Open(git *Git, dir string) (*Root, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make the folder of repositories: %w", err)
	}
	dir, err := filepath.Abs(dir)
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return nil, fmt.Errorf("find the folder of repositories: %w", err)
	}
	if strings.ContainsAny(dir, "\n") {
		return nil, fmt.Errorf("the path %q has a line break, which git's alternates cannot name; use another", dir)
	}
	trash := filepath.Join(dir, trashDir)
	if err := empty(trash); err != nil {
		return nil, fmt.Errorf("empty %s: %w", trash, err)
	}
	if err := distinguishesCase(trash); err != nil {
		return nil, err
	}
	return &Root{git: git, dir: dir, batches: newBatches()}, nil
}

// empty makes a folder, or removes all that is in it. A git that outlived a crash may still be
// writing there, until it misses what has gone.
func empty(dir string) error {
	const tries, pause = 200, 10 * time.Millisecond
	for try := 1; ; try++ {
		err := os.RemoveAll(dir)
		if err == nil {
			err = os.Mkdir(dir, 0o755)
		}
		// ErrExist is also that a folder is not empty.
		if !errors.Is(err, fs.ErrExist) || try == tries {
			return err
		}
		time.Sleep(pause)
	}
}

// distinguishesCase makes sure that Name and name are two repositories.
func distinguishesCase(dir string) error {
	probe := filepath.Join(dir, "case")
	if err := os.WriteFile(probe, nil, 0o644); err != nil {
		return fmt.Errorf("write to the folder of repositories: %w", err)
	}
	defer func() { _ = os.Remove(probe) }()
	if _, err := os.Lstat(filepath.Join(dir, "CASE")); err == nil {
		return fmt.Errorf("the file system of %s takes upper and lower case for the same; use another", dir)
	}
	return nil
}

// Close ends the processes that are kept for look-ups.
func (r *Root) Close() { r.batches.close() }

// Repo returns the place of a repository, be it there or not.
func (r *Root) Repo(name Name) *Repo {
	file, _ := fileName(name.identifier)
	return r.at(name, file)
}

func (r *Root) at(name Name, file string) *Repo {
	return &Repo{
		git: r.git, dir: filepath.Join(r.dir, name.npub, file), locks: &r.locks, batches: r.batches, root: r, name: name,
	}
}

// LockAll takes the locks of several repositories, in an order that all callers
// share. REQUIRES: the caller holds no lock of a repository.
func (r *Root) LockAll(ctx context.Context, repos ...*Repo) (unlock func(), err error) {
	dirs := make([]string, 0, len(repos))
	for _, repo := range repos {
		dirs = append(dirs, repo.dir)
	}
	slices.Sort(dirs)
	dirs = slices.Compact(dirs)
	var held []func()
	unlock = func() {
		for _, f := range slices.Backward(held) {
			f()
		}
	}
	for _, dir := range dirs {
		f, err := r.locks.lock(ctx, dir)
		if err != nil {
			unlock()
			return nil, err
		}
		held = append(held, f)
	}
	return unlock, nil
}

// List calls yield with the name of every repository, until it returns false.
func (r *Root) List(yield func(Name) bool) error {
	owners, err := os.ReadDir(r.dir)
	if err != nil {
		return fmt.Errorf("list the repositories: %w", err)
	}
	for _, owner := range owners {
		if !owner.IsDir() || !strings.HasPrefix(owner.Name(), "npub1") {
			continue
		}
		files, err := os.ReadDir(filepath.Join(r.dir, owner.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue // it went with its last repository
		}
		if err != nil {
			return fmt.Errorf("list the repositories: %w", err)
		}
		for _, file := range files {
			if !file.IsDir() {
				continue
			}
			if name, ok := r.nameOf(owner.Name(), file.Name()); ok && !yield(name) {
				return nil
			}
		}
	}
	return nil
}

// nameOf returns the name of a repository that is in the root.
func (r *Root) nameOf(npub, file string) (Name, bool) {
	identifier, ok := identifierOf(file)
	if !ok {
		text, err := os.ReadFile(filepath.Join(r.dir, npub, file, cutFile))
		if err != nil {
			return Name{}, false
		}
		identifier = string(text)
		if back, cut := fileName(identifier); !cut || back != file {
			return Name{}, false
		}
	}
	name, err := ParseName(npub, identifier)
	return name, err == nil
}
