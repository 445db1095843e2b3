package gitrepo

import (
	"context"
	"fmt"
)

// Size is what the repository takes on disk: its own files, and those of the store
// that it shares with the others of its identifier, in bytes.
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

// Maintain is what a repository needs now and then: its refs packed, its packs
// shared, and the small packs of the shared store made one. It drops no object; see
// [Root.Collect]. REQUIRES: the lock.
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
	unlock, err := r.locks.lock(ctx, s.dir)
	if err != nil {
		return err
	}
	defer unlock()
	if _, err := r.git.run(ctx, s.dir, nil, "--git-dir=.", "repack", "--quiet", "-d", "--geometric=2"); err != nil {
		return fmt.Errorf("pack shared objects: %w", err)
	}
	return nil
}
