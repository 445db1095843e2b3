package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"talon/internal/durable"
)

// borrowers is the folder of a shared store with a file for each owner whose
// repository borrows from it. The file has the bytes that came through that repository: see
// [Repo.Usage].
const borrowers = "talon-borrowers"

// store is the shared store of an identifier: a bare repository whose refs are
// copies of those of its borrowers, made by Collect.
type store struct {
	root       *Root
	dir        string
	identifier string
	format     Format
}

func (r *Root) store(identifier string, format Format) *store {
	file, _ := fileName(identifier)
	return &store{root: r, dir: filepath.Join(r.dir, sharedDir, format.String(), file), identifier: identifier, format: format}
}

// shared returns the store that the repository borrows from, if there is one.
func (r *Repo) shared() (*store, bool, error) {
	if r.root == nil {
		return nil, false, nil
	}
	text, err := os.ReadFile(filepath.Join(r.dir, "objects", "info", "alternates"))
	if errors.Is(err, fs.ErrNotExist) {
		return r.plannedStore()
	}
	if err != nil {
		return nil, false, fmt.Errorf("find shared objects: %w", err)
	}
	for _, format := range []Format{SHA1, SHA256} {
		s := r.root.store(r.name.identifier, format)
		borrow, err := filepath.Rel(filepath.Join(r.dir, "objects"), filepath.Join(s.dir, "objects"))
		if err == nil && strings.TrimSuffix(string(text), "\n") == filepath.ToSlash(borrow) {
			return s, true, nil
		}
	}
	return nil, false, fmt.Errorf("%s borrows objects from a place that is not Talon's", r.dir)
}

// make makes the store if it is absent, and marks an owner as borrower.
// REQUIRES: the lock of the store.
func (s *store) make(ctx context.Context, npub string) error {
	if !isBare(s.dir) {
		err := s.root.build(ctx, s.dir, s.format, func(dir string) error {
			return os.MkdirAll(filepath.Join(dir, borrowers), 0o755)
		})
		if err != nil {
			return err
		}
	}
	marks := filepath.Join(s.dir, borrowers)
	mark, err := os.OpenFile(filepath.Join(marks, npub), os.O_WRONLY|os.O_CREATE, 0o644)
	if err == nil {
		err = mark.Close() // the bytes that it has stay
	}
	if err != nil {
		return fmt.Errorf("mark a borrower of shared objects: %w", err)
	}
	return durable.Sync(marks)
}

// removeBorrower takes the mark of an owner away, and removes a store without borrowers. A
// mark without a repository, left by a crash, does not count. REQUIRES: the lock of
// the store.
func (s *store) removeBorrower(npub string) error {
	mark := filepath.Join(s.dir, borrowers, npub)
	if err := os.Remove(mark); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("unmark a borrower of shared objects: %w", err)
	}
	if err := s.root.locks.check(s.dir); err != nil {
		// It may be of a repository that another node has just made.
		return errors.Join(err, os.WriteFile(mark, nil, 0o644))
	}
	members, err := s.members()
	if err != nil || len(members) > 0 {
		return err
	}
	s.root.redundant.reset(s.dir)
	if err := errors.Join(s.root.discard(s.dir), s.root.objectsGone()); err != nil {
		return fmt.Errorf("remove shared objects: %w", err)
	}
	return nil
}

// members returns the repositories that borrow from the store.
func (s *store) members() ([]*Repo, error) {
	marks, err := os.ReadDir(filepath.Join(s.dir, borrowers))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list the borrowers of shared objects: %w", err)
	}
	var list []*Repo
	for _, mark := range marks {
		name, err := ParseName(mark.Name(), s.identifier)
		if err != nil {
			continue
		}
		repo := s.root.Repo(name)
		there, err := repo.Exists()
		if err != nil {
			return nil, err
		}
		if there {
			list = append(list, repo)
		}
	}
	return list, nil
}

// Share moves the repository's packs to the shared store of its identifier: all
// repositories of the identifier have the objects from then on. It costs a few
// links, whatever the packs' size. REQUIRES: the lock.
func (r *Repo) Share(ctx context.Context) error {
	s, borrows, err := r.shared()
	if err != nil || !borrows {
		return err
	}
	unlock, err := r.locks.lock(ctx, s.dir)
	if err != nil {
		return err
	}
	defer unlock()
	moved, err := movePacks(filepath.Join(r.dir, "objects", "pack"), filepath.Join(s.dir, "objects", "pack"))
	if err == nil {
		err = s.charge(r.name.npub, moved)
	}
	if err != nil {
		return fmt.Errorf("share objects: %w", err)
	}
	return nil
}

// movePacks links packs to another folder and then removes them from the first.
// The index is the last link, for git looks for packs by it, and the first file to
// go. A crash leaves packs in both places at worst. It returns the bytes of the files that are new
// in the other folder.
func movePacks(from, to string) (moved int64, err error) {
	entries, err := os.ReadDir(from)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return moved, err
	}
	if err := os.MkdirAll(to, 0o755); err != nil {
		return moved, err
	}
	var packs []string
	for _, e := range entries {
		if base, ok := strings.CutSuffix(e.Name(), ".idx"); ok && strings.HasPrefix(base, "pack-") {
			packs = append(packs, base)
		}
	}
	if len(packs) == 0 {
		return 0, nil
	}
	for _, base := range packs {
		for _, ext := range []string{".pack", ".rev", ".idx"} {
			err := os.Link(filepath.Join(from, base+ext), filepath.Join(to, base+ext))
			if info, serr := os.Stat(filepath.Join(to, base+ext)); err == nil && serr == nil {
				moved += info.Size()
			}
			if err != nil && !errors.Is(err, fs.ErrExist) && !(ext == ".rev" && errors.Is(err, fs.ErrNotExist)) {
				return moved, err
			}
		}
	}
	if err := durable.Sync(to); err != nil {
		return moved, err
	}
	for _, base := range packs {
		if err := removePack(from, base); err != nil {
			return moved, err
		}
	}
	return moved, nil
}

// removePack removes a pack with all that belongs to it, its index first.
func removePack(dir, name string) error {
	for _, ext := range []string{".idx", ".rev", ".bitmap", ".keep", ".pack"} {
		if err := os.Remove(filepath.Join(dir, name+ext)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// Collect shares what all repositories of an identifier have, repacks it, and drops
// objects that none of their refs reaches and that are older than grace. It holds the
// locks of all of them. If one of their refs is broken, nothing is dropped. REQUIRES: the
// caller holds no lock of a repository.
func (r *Root) Collect(ctx context.Context, identifier string, format Format, grace time.Duration) (err error) {
	if err := CheckIdentifier(identifier); err != nil {
		return err
	}
	release, err := r.removing.enter(ctx)
	if err != nil {
		return err
	}
	defer release()
	s := r.store(identifier, format)
	unlockGraph, err := r.locks.lock(ctx, s.graphKey())
	if err != nil {
		return err
	}
	defer unlockGraph()
	members, err := s.members()
	if err != nil {
		return err
	}
	// Filters of paths take long, so they are made before anybody has to wait.
	if isBare(s.dir) {
		if err := s.growGraph(ctx, members, true); err != nil {
			return fmt.Errorf("collect shared objects: %w", err)
		}
	}
	unlock, err := r.LockAll(ctx, members...)
	if err != nil {
		return err
	}
	defer unlock()
	var tips []string
	for _, repo := range members {
		if err := repo.Share(ctx); err != nil {
			return err
		}
		// A tip may be a loose object, which somebody made by hand. Then the store lacks it, the
		// next command fails, and nothing is dropped.
		refs, err := repo.Refs(ctx)
		if err != nil {
			return err
		}
		for _, ref := range refs.List {
			tips = append(tips, ref.ID)
		}
	}

	unlockStore, err := r.locks.lock(ctx, s.dir)
	if err != nil {
		return err
	}
	defer unlockStore()
	// A borrower that came between the two looks has nothing that is not in the
	// store, but its refs would not count.
	if now, err := s.members(); err != nil || len(now) != len(members) {
		return errors.Join(err, errors.New("collect shared objects: a repository came or went meanwhile; try again"))
	}
	if !isBare(s.dir) {
		return nil
	}
	ctx, end := r.locks.bound(ctx, s.dir)
	defer end()
	if err := s.setTips(ctx, tips); err != nil {
		return fmt.Errorf("collect shared objects: %w", err)
	}
	if err := errors.Join(r.locks.check(s.dir), r.objectsGone()); err != nil {
		return fmt.Errorf("collect shared objects: %w", err)
	}
	defer func() { err = errors.Join(err, r.objectsGone()) }() // before the locks are given back: whoever gets one next sees it
	// Git takes a commit of the graph for one that is there, so what goes leaves the graph first.
	if err := s.replaceGraph(ctx, len(tips) == 0); err != nil {
		return fmt.Errorf("collect shared objects: %w", err)
	}
	args := []string{"--git-dir=.", "repack", "--quiet", "-d", "--cruft",
		fmt.Sprintf("--cruft-expiration=%d.seconds.ago", int64(grace.Seconds()))}
	if _, err := r.git.run(ctx, s.dir, nil, args...); err != nil {
		return fmt.Errorf("collect shared objects: %w", err)
	}
	r.redundant.reset(s.dir)
	return s.scaleUsage()
}

// setTips makes refs of the store of exactly these objects. REQUIRES: the lock of
// the store.
func (s *store) setTips(ctx context.Context, tips []string) error {
	slices.Sort(tips)
	tips = slices.Compact(tips)
	out, err := s.root.git.run(ctx, s.dir, nil, "--git-dir=.", "for-each-ref", "--format=%(objectname)", "refs/tips/")
	if err != nil {
		return err
	}
	had := strings.Fields(string(out))
	slices.Sort(had)
	var in strings.Builder
	for _, id := range tips {
		if _, ok := slices.BinarySearch(had, id); !ok {
			fmt.Fprintf(&in, "update refs/tips/%s %s\n", id, id)
		}
	}
	for _, id := range had {
		if _, ok := slices.BinarySearch(tips, id); !ok {
			fmt.Fprintf(&in, "delete refs/tips/%s\n", id)
		}
	}
	if _, err := s.root.git.run(ctx, s.dir, []byte(in.String()), "--git-dir=.", "update-ref", "--stdin"); err != nil {
		return err
	}
	_, err = s.root.git.run(ctx, s.dir, nil, "--git-dir=.", "pack-refs", "--all", "--prune")
	return err
}

// Copy copies objects, with all that they refer to, from another repository of any
// identifier. It changes no ref: until one reaches the objects, Collect may drop them
// once they are old. Recover removes what a failed Copy leaves. Both repositories must
// have the same format. REQUIRES: the lock of the repository, not that of the other.
func (r *Repo) Copy(ctx context.Context, from *Repo, ids ...string) error {
	found, err := from.Has(ctx, ids...)
	if err != nil {
		return err
	}
	if slices.Contains(found, false) {
		return errors.New("copy objects: the other repository has not all of them")
	}
	refs, err := r.Refs(ctx)
	if err != nil {
		return err
	}
	// Objects that the refs here reach are not sent again, as far as the other knows them.
	var known []string
	for _, ref := range refs.List {
		known = append(known, ref.ID)
	}
	there, err := from.Has(ctx, known...)
	if err != nil {
		return err
	}
	var want strings.Builder
	for _, id := range ids {
		want.WriteString(id + "\n")
	}
	for i, id := range known {
		if there[i] {
			want.WriteString("^" + id + "\n")
		}
	}

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	source, err := from.serve(ctx, 0, "--git-dir=.", "pack-objects", "--quiet", "--revs", "--thin", "--delta-base-offset", "--stdout")
	if err != nil {
		return fmt.Errorf("copy objects: %w", err)
	}
	target, err := r.serve(ctx, 0, "--git-dir=.", "index-pack", "--stdin", "--fix-thin",
		fmt.Sprintf("--max-input-size=%d", r.git.options.MaxInput))
	if err != nil {
		cancel(err)
		return errors.Join(fmt.Errorf("copy objects: %w", err), source.Wait())
	}
	source.feed([]byte(want.String()))
	drained := make(chan []byte, 1)
	go func() {
		said, _ := io.ReadAll(io.LimitReader(target.Out, maxHeader))
		_, _ = io.Copy(io.Discard, target.Out)
		drained <- said
	}()
	sentBytes, copying := io.Copy(target.In, source.Out)
	if copying != nil {
		cancel(copying)
	}
	sent := source.Wait()
	if sent != nil {
		cancel(sent) // half a pack
	}
	_ = target.In.Close()
	said := <-drained
	if err := errors.Join(sent, target.Wait()); err != nil {
		return fmt.Errorf("copy objects: %w", err)
	}
	r.addCompleted(string(said), sentBytes)
	return nil
}

// objectsGone says that objects may have gone from the root.
func (r *Root) objectsGone() error {
	r.gcEpoch.Add(1)
	return r.locks.peers.objectsGone()
}

// epoch returns a number that changes whenever objects may have gone.
func (r *Root) epoch() uint64 { return r.gcEpoch.Load() + r.locks.peers.epoch() }
