package gitrepo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// redundant counts the bytes of each shared store that a repack may save: copies of bases that
// git appended to thin packs. Maintenance also removes them, so the counts need not survive a
// restart.
type redundant struct {
	mu    sync.Mutex // guards bytes
	bytes map[string]int64
}

func (c *redundant) add(dir string, bytes int64) {
	if bytes == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.bytes == nil {
		c.bytes = make(map[string]int64)
	}
	c.bytes[dir] += bytes
}

func (c *redundant) get(dir string) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bytes[dir]
}

// reset forgets a store without copies.
func (c *redundant) reset(dir string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.bytes, dir)
}

// remove subtracts bytes that a repack has dealt with.
func (c *redundant) remove(dir string, bytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.bytes[dir] -= bytes; c.bytes[dir] <= 0 {
		delete(c.bytes, dir)
	}
}

// repackShare is the part of a store that a repack must save. So a repack copies at most four
// bytes for each byte that git appended, and a store is at most a third too large.
const repackShare = 4

// NeedsRepack reports whether a repack of the shared store is worth its price: it saves
// Options.RepackBytes and a quarter of the store. Maintenance saves the rest.
func (r *Repo) NeedsRepack() bool {
	s, borrows, err := r.shared()
	if err != nil || !borrows {
		return false
	}
	waste := s.root.redundant.get(s.dir)
	if waste < r.git.options.RepackBytes {
		return false
	}
	_, size, err := s.packs()
	return err == nil && waste >= size/repackShare
}

// Repack combines the packs of the shared store, and so removes the copies that git appended to
// thin packs. It drops no object. It holds the lock of the store only while it puts the
// new pack in the place of the others: pushes go on. REQUIRES: the caller holds no lock.
func (r *Repo) Repack(ctx context.Context) error {
	s, borrows, err := r.shared()
	if err != nil || !borrows {
		return err
	}
	waste := s.root.redundant.get(s.dir)
	defer s.root.redundant.remove(s.dir, waste) // also after a failure, which the next push would repeat
	old, _, err := s.packs()
	if err != nil || len(old) < 2 {
		return err
	}
	dir, err := os.MkdirTemp(s.root.trash, "repack-")
	if err != nil {
		return fmt.Errorf("repack shared objects: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	combining := s.combine(ctx, old, dir)
	unlock, err := r.locks.lock(ctx, s.dir)
	if err != nil {
		return err
	}
	defer unlock()
	now, _, err := s.packs()
	if err == nil && !containsAll(now, old) {
		return nil // maintenance has combined them meanwhile
	}
	if err = errors.Join(combining, err); err == nil {
		err = s.replace(old, dir)
	}
	if err != nil {
		return fmt.Errorf("repack shared objects: %w", err)
	}
	return nil
}

// packs returns the names of the packs of the store without extension, the oldest first, and
// their size. Packs of objects that nothing reaches are maintenance's own, and stay as they are.
func (s *store) packs() (names []string, size int64, err error) {
	entries, err := os.ReadDir(filepath.Join(s.dir, "objects", "pack"))
	if err != nil {
		return nil, 0, fmt.Errorf("list shared packs: %w", err)
	}
	list := make(map[string]fs.FileInfo)
	for _, entry := range entries {
		name, is := strings.CutSuffix(entry.Name(), ".pack")
		if !is || !strings.HasPrefix(name, "pack-") {
			continue
		}
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // it has gone meanwhile
		}
		if err != nil {
			return nil, 0, fmt.Errorf("list shared packs: %w", err)
		}
		list[name] = info
	}
	for _, entry := range entries {
		for _, ext := range []string{".mtimes", ".keep"} {
			if name, is := strings.CutSuffix(entry.Name(), ext); is {
				delete(list, name)
			}
		}
	}
	for _, info := range list {
		size += info.Size()
	}
	names = slices.SortedFunc(maps.Keys(list), func(a, b string) int {
		return cmp.Or(list[a].ModTime().Compare(list[b].ModTime()), strings.Compare(a, b))
	})
	return names, size, nil
}

// combine makes one pack of several, in another folder. Packs come oldest first.
func (s *store) combine(ctx context.Context, packs []string, dir string) error {
	// Git takes an object from the pack with the latest time, and copies it as it is. Old packs
	// have as deltas what git appended to later ones as a whole.
	now := time.Now()
	for i, name := range packs {
		at := now.Add(-time.Duration(i) * time.Second)
		if err := os.Chtimes(filepath.Join(s.dir, "objects", "pack", name+".pack"), at, at); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	p, err := s.root.git.start(ctx, s.dir, nil, "-c", "pack.threads=1", "--git-dir=.",
		"pack-objects", "--quiet", "--stdin-packs", "--delta-base-offset", filepath.Join(dir, "pack"))
	if err != nil {
		return err
	}
	yield(p.cmd.Process.Pid)
	_, err = p.exchange([]byte(strings.Join(packs, ".pack\n")+".pack\n"), cancel)
	return err
}

// replace puts the pack of a folder in the place of others. REQUIRES: the lock of the store.
func (s *store) replace(old []string, dir string) error {
	made, err := filepath.Glob(filepath.Join(dir, "pack-*.pack"))
	if err != nil || len(made) != 1 {
		return errors.Join(err, fmt.Errorf("git made %d packs of one store", len(made)))
	}
	if err := s.root.locks.check(s.dir); err != nil {
		return err
	}
	packs := filepath.Join(s.dir, "objects", "pack")
	if err := movePacks(dir, packs); err != nil {
		return err
	}
	kept := strings.TrimSuffix(filepath.Base(made[0]), ".pack")
	for _, name := range old {
		if name != kept {
			err = errors.Join(err, removePack(packs, name))
		}
	}
	return err
}

func containsAll(list, want []string) bool {
	return !slices.ContainsFunc(want, func(name string) bool { return !slices.Contains(list, name) })
}
