package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Usage returns how many bytes of git data count for the repository: its own objects, and those of
// the shared store that came through it. Objects that no ref reaches count until [Root.Collect]
// removes them. The repository need not exist.
func (r *Repo) Usage() (int64, error) {
	own, err := diskUse(filepath.Join(r.dir, "objects"))
	if err != nil {
		return 0, fmt.Errorf("measure a repository: %w", err)
	}
	s, borrows, err := r.shared()
	if err != nil || !borrows {
		return own, err
	}
	shared, err := s.charged(r.name.npub)
	if err != nil {
		return 0, fmt.Errorf("measure a repository: %w", err)
	}
	return own + shared, nil
}

// FolderUsage is [Repo.Usage] of a folder in a Root that another process may have open.
func FolderUsage(dir string) (int64, error) {
	bytes, err := diskUse(filepath.Join(dir, "objects"))
	if err != nil {
		return 0, fmt.Errorf("measure a repository: %w", err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "objects", "info", "alternates"))
	borrow := filepath.Clean(filepath.FromSlash(strings.TrimSpace(string(text))))
	if shared := filepath.Join("..", "..", "..", sharedDir) + string(filepath.Separator); err != nil || !strings.HasPrefix(borrow, shared) {
		return bytes, nil // it shares nothing, or borrows from a place that is not Talon's
	}
	s := store{dir: filepath.Dir(filepath.Join(dir, "objects", borrow))}
	charged, err := s.charged(filepath.Base(filepath.Dir(dir)))
	if err != nil {
		return 0, fmt.Errorf("measure a repository: %w", err)
	}
	return bytes + charged, nil
}

// SettleUsage makes the bytes that count for all repositories of the identifier those of the shared
// store, after a crash or for objects that came before bytes were counted.
func (r *Repo) SettleUsage(ctx context.Context) error {
	s, borrows, err := r.shared()
	if err != nil || !borrows {
		return err
	}
	unlock, err := r.locks.lock(ctx, s.dir)
	if err != nil {
		return err
	}
	defer unlock()
	return s.scaleUsage()
}

// charged returns the bytes that count for an owner.
func (s *store) charged(npub string) (int64, error) {
	text, err := os.ReadFile(filepath.Join(s.dir, borrowers, npub))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil || n < 0 {
		return 0, nil // nothing, or a crash cut it off: settle finds out
	}
	return n, nil
}

// charge adds to the bytes that count for an owner. REQUIRES: the lock of the store.
func (s *store) charge(npub string, bytes int64) error {
	if bytes == 0 {
		return nil
	}
	have, err := s.charged(npub)
	if err == nil {
		err = s.setCharged(npub, have+bytes)
	}
	return err
}

func (s *store) setCharged(npub string, bytes int64) error {
	return os.WriteFile(filepath.Join(s.dir, borrowers, npub), strconv.AppendInt(nil, bytes, 10), 0o644)
}

// scaleUsage scales the bytes that count for owners, so that their sum is the size of the store's objects.
// Owners get equal parts if nothing is known of any. REQUIRES: the lock of the store.
func (s *store) scaleUsage() error {
	size, err := diskUse(filepath.Join(s.dir, "objects"))
	if err != nil {
		return fmt.Errorf("measure shared objects: %w", err)
	}
	marks, err := os.ReadDir(filepath.Join(s.dir, borrowers))
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(marks) == 0 {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list the borrowers of shared objects: %w", err)
	}
	parts := make([]int64, len(marks))
	sum := int64(0)
	for i, mark := range marks {
		if parts[i], err = s.charged(mark.Name()); err != nil {
			return fmt.Errorf("read a borrower of shared objects: %w", err)
		}
		sum += parts[i]
	}
	if sum == size {
		return nil
	}
	if sum == 0 {
		for i := range parts {
			parts[i] = 1
		}
		sum = int64(len(parts))
	}
	left := size
	for i, mark := range marks {
		part := left
		if i < len(marks)-1 {
			scaled := new(big.Int).Mul(big.NewInt(parts[i]), big.NewInt(size))
			part = scaled.Div(scaled, big.NewInt(sum)).Int64()
		}
		left -= part
		if err := s.setCharged(mark.Name(), part); err != nil {
			return fmt.Errorf("note the size of shared objects: %w", err)
		}
	}
	return nil
}
