package gitrepo

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Folder is a folder of repositories in any depth. They are bare, unless its git is plain.
type Folder struct {
	git     *Git
	dir     string
	locks   locks
	batches *batches
}

// OpenFolder opens a folder of repositories, which must exist.
func OpenFolder(git *Git, dir string) (*Folder, error) {
	dir, err := filepath.Abs(dir)
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return nil, fmt.Errorf("open the folder of repositories: %w", err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return nil, fmt.Errorf("open the folder of repositories: %w", err)
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("open the folder of repositories: %s is not a folder", dir)
	}
	return &Folder{git: git, dir: dir, batches: newBatches()}, nil
}

// Close ends the processes that are kept for look-ups.
func (f *Folder) Close() { f.batches.close() }

// Find returns the repository at a path, given as its percent-decoded parts, with
// or without .git at the end. A path that leads into a repository or its work tree, or
// out of the folder by a link, is not found.
func (f *Folder) Find(parts []string) (*Repo, error) {
	if len(parts) == 0 {
		return nil, ErrNotFound
	}
	for _, part := range parts {
		if CheckIdentifier(part) != nil {
			return nil, ErrNotFound
		}
	}
	for i := 1; i < len(parts); i++ {
		above := filepath.Join(f.dir, filepath.Join(parts[:i]...))
		if isBare(above) {
			return nil, ErrNotFound
		}
		// Whoever pushes to a work tree says what is in it.
		if _, err := os.Lstat(filepath.Join(above, suffix)); f.git.plain && err == nil {
			return nil, ErrNotFound
		}
	}
	path := filepath.Join(f.dir, filepath.Join(parts...))
	candidates := []string{path, path + suffix}
	if f.git.plain {
		candidates = []string{filepath.Join(path, suffix), path, filepath.Join(path+suffix, suffix), path + suffix}
	}
	for _, candidate := range candidates {
		dir, err := filepath.EvalSymlinks(candidate)
		if err != nil || !strings.HasPrefix(dir, strings.TrimSuffix(f.dir, "/")+"/") || !isBare(dir) {
			continue
		}
		return &Repo{git: f.git, dir: dir, locks: &f.locks, batches: f.batches}, nil
	}
	return nil, ErrNotFound
}
