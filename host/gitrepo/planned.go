package gitrepo

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
)

// A planned repository has no folder yet. Its objects may be here all the same, in the shared
// store of its identifier.

// Planned returns a repository that may have no folder. Until it has one, its format is the
// given one, and [Repo.Fetch] makes the folder when it has found data.
func (r *Repo) Planned(format Format) *Repo {
	planned := *r
	planned.planned = &format
	return &planned
}

// plannedStore returns the store that a planned repository will borrow from. It reports false
// for a repository that has a folder, or is not planned.
func (r *Repo) plannedStore() (*store, bool, error) {
	if r.planned == nil || r.root == nil {
		return nil, false, nil
	}
	there, err := r.Exists()
	if there || err != nil {
		return nil, false, err
	}
	return r.root.store(r.name.identifier, *r.planned), true, nil
}

// makePlanned makes the folder of a planned repository. REQUIRES: the lock.
func (r *Repo) makePlanned(ctx context.Context) error {
	if r.planned == nil {
		return r.mustExist()
	}
	if err := r.Init(ctx, *r.planned); err != nil {
		return err
	}
	format, err := r.Format(ctx)
	if err == nil && format != *r.planned {
		err = fmt.Errorf("the repository was made meanwhile, and names its objects by %v", format)
	}
	return err
}

// Shares reports whether any repository of an identifier is here: all of them borrow from a
// shared store.
func (r *Root) Shares(identifier string) bool {
	return isBare(r.store(identifier, SHA1).dir) || isBare(r.store(identifier, SHA256).dir)
}

// MayHave reports whether objects are in the shared store of the repository's identifier. The
// repository needs no folder. MayHave returns true if it cannot tell, so a caller looks again
// once there is a folder.
func (r *Repo) MayHave(format Format, ids ...string) bool {
	s := r.root.store(r.name.identifier, format)
	if !isBare(s.dir) {
		return false
	}
	found, ok := lookNative([]string{filepath.Join(s.dir, "objects")}, idLength(format)/2, ids)
	return !ok || !slices.Contains(found, false)
}

// HasObjects reports whether there are objects in the repository, or in what it borrows from.
func (r *Repo) HasObjects() (bool, error) {
	dirs := []string{filepath.Join(r.dir, "objects")}
	s, borrows, err := r.shared()
	if err != nil {
		return false, err
	}
	if borrows {
		dirs = append(dirs, filepath.Join(s.dir, "objects"))
	}
	packs, err := listPacks(dirs)
	if err != nil || len(packs) > 0 {
		return err == nil, err
	}
	for _, dir := range dirs {
		loose, err := filepath.Glob(filepath.Join(dir, "[0-9a-f][0-9a-f]"))
		if err != nil || len(loose) > 0 {
			return err == nil, err
		}
	}
	return false, nil
}
