package gitrepo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
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

// addCompleted counts what git appended to a pack that came from another repository here. Git
// index-pack has said the name of the pack.
func (r *Repo) addCompleted(said string, sent int64) {
	_, hash, _ := strings.Cut(strings.TrimSpace(said), "\t")
	s, borrows, err := r.shared()
	if !IsID(hash) || !borrows || err != nil {
		return
	}
	if info, err := os.Stat(filepath.Join(r.dir, "objects", "pack", "pack-"+hash+".pack")); err == nil {
		s.root.redundant.add(s.dir, max(0, info.Size()-sent))
	}
}

// maxPacks is how many packs a store has before the small ones are combined. Git looks for each
// object in all packs, and every push makes one.
const maxPacks = 200

// NeedsRepack reports whether a repack of the shared store is worth its price: it saves
// Options.RepackBytes and a quarter of the store, or there are many packs. Maintenance does
// the rest.
func (r *Repo) NeedsRepack() bool {
	s, borrows, err := r.shared()
	if err != nil || !borrows {
		return false
	}
	packs, err := s.packs()
	return err == nil && (s.wastes(packs) || len(packs) > maxPacks)
}

// wastes reports whether a repack of all packs saves enough.
func (s *store) wastes(packs []packFile) bool {
	waste, size := s.root.redundant.get(s.dir), int64(0)
	for _, p := range packs {
		size += p.size
	}
	return waste >= s.root.git.options.RepackBytes && waste >= size/repackShare
}

// Repack combines the packs of the shared store, and so removes the copies that git appended to
// thin packs. Where there are many packs and few copies, it combines only small packs. It
// drops no object. It holds the lock of the store only while it puts the new pack in the place
// of the others: pushes go on. REQUIRES: the caller holds no lock.
func (r *Repo) Repack(ctx context.Context) error {
	s, borrows, err := r.shared()
	if err != nil || !borrows {
		return err
	}
	old, err := s.packs()
	if err != nil {
		return err
	}
	if s.wastes(old) {
		waste := s.root.redundant.get(s.dir)
		defer s.root.redundant.remove(s.dir, waste) // also after a failure, which the next push would repeat
	} else {
		old = smallPacks(old)
	}
	if len(old) < 2 {
		return nil
	}
	dir, err := os.MkdirTemp(s.root.trash, "repack-")
	if err != nil {
		return fmt.Errorf("repack shared objects: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	combining := s.combine(ctx, old, dir)
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
	now, err := s.packs()
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

// packFile is a pack of a store.
type packFile struct {
	name string // without extension
	size int64
	at   time.Time
}

// packs returns the packs of the store, the oldest first. Packs of objects that nothing reaches
// are maintenance's own, and stay as they are.
func (s *store) packs() (packs []packFile, err error) {
	entries, err := os.ReadDir(filepath.Join(s.dir, "objects", "pack"))
	if err != nil {
		return nil, fmt.Errorf("list shared packs: %w", err)
	}
	apart := make(map[string]bool)
	for _, entry := range entries {
		for _, ext := range []string{".mtimes", ".keep"} {
			if name, is := strings.CutSuffix(entry.Name(), ext); is {
				apart[name] = true
			}
		}
	}
	for _, entry := range entries {
		name, is := strings.CutSuffix(entry.Name(), ".pack")
		if !is || !strings.HasPrefix(name, "pack-") || apart[name] {
			continue
		}
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // it has gone meanwhile
		}
		if err != nil {
			return nil, fmt.Errorf("list shared packs: %w", err)
		}
		packs = append(packs, packFile{name, info.Size(), info.ModTime()})
	}
	slices.SortStableFunc(packs, func(a, b packFile) int { return a.at.Compare(b.at) })
	return packs, nil
}

// smallPacks returns those packs that cost little to combine: none of them is larger than all
// smaller ones together, so that a byte is copied again only when its pack has doubled.
func smallPacks(packs []packFile) (small []packFile) {
	bySize := slices.SortedFunc(slices.Values(packs), func(a, b packFile) int { return cmp.Compare(a.size, b.size) })
	sum, n := int64(0), 0
	for i, p := range bySize {
		if p.size <= sum {
			n = i + 1
		}
		sum += p.size
	}
	small = bySize[:n]
	slices.SortStableFunc(small, func(a, b packFile) int { return a.at.Compare(b.at) })
	return small
}

// maintenanceNice is the priority of git that tidies up: it waits for those that serve clients.
const maintenanceNice = 10

// combine makes one pack of several, in another folder. Packs come oldest first.
func (s *store) combine(ctx context.Context, packs []packFile, dir string) error {
	// Git takes an object from the pack with the latest time, and copies it as it is. Old packs
	// have as deltas what git appended to later ones as a whole.
	now := time.Now()
	var list strings.Builder
	for i, pack := range packs {
		list.WriteString(pack.name + ".pack\n")
		at := now.Add(-time.Duration(i) * time.Second)
		if err := os.Chtimes(filepath.Join(s.dir, "objects", "pack", pack.name+".pack"), at, at); err != nil {
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
	p.lower(maintenanceNice)
	_, err = p.exchange([]byte(list.String()), cancel)
	return err
}

// replace puts the pack of a folder in the place of others. REQUIRES: the lock of the store.
func (s *store) replace(old []packFile, dir string) error {
	made, err := filepath.Glob(filepath.Join(dir, "pack-*.pack"))
	if err != nil || len(made) != 1 {
		return errors.Join(err, fmt.Errorf("git made %d packs of one store", len(made)))
	}
	if err := s.root.locks.check(s.dir); err != nil {
		return err
	}
	packs := filepath.Join(s.dir, "objects", "pack")
	if _, err := movePacks(dir, packs); err != nil {
		return err
	}
	kept := strings.TrimSuffix(filepath.Base(made[0]), ".pack")
	for _, pack := range old {
		if pack.name != kept {
			err = errors.Join(err, removePack(packs, pack.name))
		}
	}
	return errors.Join(err, s.scaleUsage())
}

func containsAll(packs, want []packFile) bool {
	return !slices.ContainsFunc(want, func(p packFile) bool {
		return !slices.ContainsFunc(packs, func(other packFile) bool { return other.name == p.name })
	})
}
