package gitread

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"talon/host/gitrepo"
	"talon/internal/recent"
)

// pathWork bounds the work of a walk along the history of a path, about 10 ms. Its unit is that of a
// walker. Beyond that git makes the log from the start: for a path that changed seldom it is as fast.
const pathWork = 3 << 20

// errAskGit says that git has to make the log of a path.
var errAskGit = errors.New("the history has no filters for this path, or is too long")

// PathLog returns the ids of the commits that changed a path, in the order of git log, from a
// position on, and whether there are more. REQUIRES: the refs of the repository reach the tip.
func (r *Repository) PathLog(tip string, path []string, from, limit int) (ids []string, more bool, err error) {
	name := strings.Join(path, "/")
	ids, err = r.walkPath(tip, name, from, limit+1, pathWork)
	if errors.Is(err, errAskGit) {
		ids, err = r.askPathLog(tip, name, from, limit+1)
	}
	if len(ids) > limit {
		return ids[:limit], true, err
	}
	return ids, false, err
}

// askPathLog has git make the log of a path.
func (r *Repository) askPathLog(tip, name string, from, limit int) (ids []string, err error) {
	args := []string{
		"--literal-pathspecs", "rev-list", "--max-count=" + strconv.Itoa(limit), "--skip=" + strconv.Itoa(from), tip, "--", name,
	}
	err = r.run(gitrepo.Command{Args: args, CPU: pageCPU, Output: 1 << 20}, func(out io.Reader) error {
		ids, err = readIDs(out)
		return err
	})
	return ids, err
}

// walkPath is git rev-list for a path, by the filters of the commit-graph. It fails with errAskGit
// where these do not help, and after work of a walker.
//
// Git takes commits by date. From a commit that shows nothing for a path it goes on to the first
// parent that has the same there, and from any other to all parents.
func (r *Repository) walkPath(tip, name string, from, limit, maxWork int) (ids []string, err error) {
	past, err := r.history()
	if isIndexing(err) {
		return nil, errAskGit
	}
	if err != nil {
		return nil, err
	}
	start, ok := past.reaches(tip)
	if !ok {
		return nil, fmt.Errorf("%w: no ref reaches %s", ErrNotFound, tip)
	}
	key := keyOfPath(name)
	if key == nil || past.graph == nil || past.graph.layers[0].filterEnds == nil {
		return nil, errAskGit
	}
	if err := r.openObjects(); err != nil {
		return nil, err
	}
	w := &pathWalker{repo: r, past: past, name: name, key: key}
	w.at.Size = walkerIDs
	seen := make([]uint64, len(past.reached))
	seen[start/64] |= 1 << (start % 64)
	q := newDateQueue()
	var parents []uint32
	at, met := dated{n: start, when: past.when(start)}, uint32(0)
	for len(ids) < limit {
		parents = past.parents(parents[:0], at.n)
		shown, next, err := w.step(at.n, parents)
		if err != nil {
			return nil, err
		}
		if shown {
			if from--; from < 0 {
				ids = append(ids, past.id(at.n))
			}
		}
		if w.work += costOfCommit / 4; w.work > maxWork {
			return nil, errAskGit
		}
		if err := context.Cause(r.ctx); err != nil {
			return nil, err
		}
		for _, p := range next {
			if seen[p/64]&(1<<(p%64)) == 0 {
				seen[p/64] |= 1 << (p % 64)
				met++
				q.add(dated{p, met, past.when(p)})
			}
		}
		var ok bool
		if at, ok = q.take(); !ok {
			break
		}
	}
	return ids, nil
}

// pathWalker compares what commits have at a path.
type pathWalker struct {
	repo *Repository
	past *history
	name string
	key  pathKey
	at   recent.Map[uint32, entryID] // by the commit
	work int
}

// entryID is what a commit has at a path: an object and its kind, or nothing.
type entryID struct {
	id, kind string
	mode     Mode // 0 if it was not asked for
}

// step reports whether the log of the path shows a commit, and where it goes on.
func (w *pathWalker) step(n uint32, parents []uint32) (shown bool, next []uint32, err error) {
	for i, p := range parents {
		same, err := w.same(n, p, i == 0)
		if err != nil {
			return false, nil, err
		}
		if same {
			return false, parents[i : i+1], nil
		}
	}
	if len(parents) > 0 {
		return true, parents, nil
	}
	first, err := w.entry(n)
	return first.id != "", nil, err
}

// same reports whether a commit and a parent have the same at the path.
func (w *pathWalker) same(n, parent uint32, first bool) (bool, error) {
	if first && n < w.past.base() {
		if filter, hashes := w.past.graph.filter(n); filter != nil && !w.key.mayChange(filter, hashes) {
			// The commit before the next change has what is known here.
			if e, _, ok := w.at.Get(n); ok {
				w.at.Add(parent, e, 1)
			}
			return true, nil
		}
	}
	here, err := w.entry(n)
	if err != nil {
		return false, err
	}
	there, err := w.entry(parent)
	if err != nil || here.id != there.id || here.kind != "blob" {
		return here.id == there.id, err
	}
	// Only the modes may differ.
	x, err := w.mode(n, here)
	if err != nil {
		return false, err
	}
	y, err := w.mode(parent, there)
	return x == y, err
}

// entry returns what a commit has at the path.
func (w *pathWalker) entry(n uint32) (e entryID, err error) {
	e, aging, ok := w.at.Get(n)
	if !ok {
		w.work += costOfCompare
		root := w.past.tree(n)
		e.id, e.kind, err = w.repo.objects.InfoAt(root, w.name)
		switch {
		case errors.Is(err, gitrepo.ErrPath):
			return e, errAskGit
		case errors.Is(err, gitrepo.ErrNoObject):
			// A submodule has no object here.
			var mode Mode
			if mode, err = w.modeBelow(root); err == nil && mode != 0 {
				err = errAskGit
			}
			e = entryID{}
		}
		if err != nil {
			return e, err
		}
	}
	if !ok || aging {
		w.at.Add(n, e, 1)
	}
	return e, nil
}

// mode returns the mode of the entry that a commit has at the path.
func (w *pathWalker) mode(n uint32, e entryID) (Mode, error) {
	if e.mode != 0 {
		return e.mode, nil
	}
	var err error
	if e.mode, err = w.modeBelow(w.past.tree(n)); err != nil {
		return 0, err
	}
	w.at.Add(n, e, 1)
	return e.mode, nil
}

// modeBelow returns the mode of what is at the path below a root tree, 0 for nothing.
func (w *pathWalker) modeBelow(root string) (Mode, error) {
	w.work += costOfCompare
	at, err := w.repo.at(root, strings.Split(w.name, "/"), func(string) error { return nil })
	if errors.Is(err, ErrNotFound) {
		return 0, nil
	}
	return at.Mode, err
}
