package gitread

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path"
	"strconv"
	"strings"

	"talon/host/gitrepo"
	"talon/internal/recent"
)

// pathWork bounds the work of a walk along the history of a path, about 60 ms with that of git. Its unit
// is that of a walker. Beyond that git makes the log from the start.
const pathWork = 12 << 20

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
	if name == "" || key == nil || past.graph == nil || past.graph.layers[0].filterEnds == nil {
		return nil, errAskGit
	}
	if err := r.openObjects(); err != nil {
		return nil, err
	}
	w := &pathWalker{repo: r, past: past, key: key, maxWork: maxWork}
	folder, base := path.Split(name)
	w.folder, w.name = strings.TrimSuffix(folder, "/"), base
	w.others.Size = walkerIDs
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
		if len(next) == 1 && q.empty() && seen[next[0]/64]&(1<<(next[0]%64)) == 0 {
			seen[next[0]/64] |= 1 << (next[0] % 64)
			at = dated{n: next[0]} // no date decides
			continue
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
	repo          *Repository
	past          *history
	folder, name  string
	key           pathKey
	work, maxWork int

	// The entries at the path of the commit that the walk came to last, and of others.
	last      uint32
	lastEntry pathEntry
	known     bool // there is a last one
	others    recent.Map[uint32, pathEntry]
}

// pathEntry is what a commit has at a path. The zero value is nothing.
type pathEntry struct {
	id   string
	mode Mode
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
			w.pass(n, parent)
			return true, nil
		}
	}
	here, err := w.entry(n)
	if err != nil {
		return false, err
	}
	there, err := w.entry(parent)
	return here == there, err
}

// pass notes that a parent has the same as a commit, if it is known what that has.
func (w *pathWalker) pass(n, parent uint32) {
	if w.known && w.last == n {
		w.last = parent
	} else if e, _, ok := w.others.Get(n); ok {
		w.note(parent, e)
	}
}

// note notes what the last commit has.
func (w *pathWalker) note(n uint32, e pathEntry) {
	if w.known && w.last != n {
		w.others.Add(w.last, w.lastEntry, 1)
	}
	w.last, w.lastEntry, w.known = n, e, true
}

// entry returns what a commit has at the path.
func (w *pathWalker) entry(n uint32) (pathEntry, error) {
	if w.known && w.last == n {
		return w.lastEntry, nil
	}
	e, _, ok := w.others.Get(n)
	if !ok {
		var err error
		if e, err = w.read(w.past.tree(n)); err != nil {
			return e, err
		}
	}
	w.note(n, e)
	return e, nil
}

// read returns what is at the path below a root tree. One question is for the folder, which has the
// mode as well.
func (w *pathWalker) read(root string) (e pathEntry, err error) {
	if w.work > w.maxWork {
		return e, errAskGit // also in the middle of 20,000 parents
	}
	kind, raw := "", []byte(nil)
	if w.folder == "" {
		kind, raw, err = w.repo.objects.Object(root, maxTreeBytes)
	} else {
		_, kind, raw, err = w.repo.objects.ObjectAt(root, w.folder, maxTreeBytes)
	}
	w.work += max(costOfCompare, len(raw)/4) // a tree of 64 KiB takes twice as long as a small one
	switch {
	case errors.Is(err, gitrepo.ErrPath), errors.Is(err, ErrTooLarge):
		return e, errAskGit
	case errors.Is(err, gitrepo.ErrNoObject):
		return e, nil // no folder, or a submodule
	case err != nil || kind != "tree":
		return e, err
	}
	if found, ok := entryOf(raw, w.name, len(root)/2); ok {
		e = pathEntry{hex.EncodeToString(found.id), found.canonicalMode()}
	}
	return e, nil
}
