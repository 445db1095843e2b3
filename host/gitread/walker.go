package gitread

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"talon/host/gitrepo"
	"talon/internal/recent"
)

// walker finds the last changes of the entries of a folder.
//
// From a commit that shows nothing for a path, git log goes on to the first parent that has the
// same there. So each path has one chain of commits, and its last change is the first commit on it
// that has no such parent. The walker follows the chains of all entries at a time, those with the
// largest generation first, so that they meet where they can. It looks at trees at the ends of runs only.
type walker struct {
	repo   *Repository
	past   *history
	key    changeKey
	folder []string

	entries   []Entry
	keys      []pathKey // of the entries, for the filters
	within    []pathKey // of the folder and those above
	queue     *walkQueue
	at        map[uint32][]int32 // the entries whose chains have come to a commit
	found     []uint32           // the last changes, by entry
	suspected []uint32           // the commit of a run that may have changed an entry, by entry; notFound for none
	early     Changes            // what is known from an earlier walk, by entries that are left to it

	old       changeKey // of the earlier walk
	oldNumber uint32
	oldFound  Changes

	ids     recent.Map[string, string] // the tree of the folder, by the root tree; "" for none
	raw     recent.Map[string, []byte] // trees as git has them
	work    int                        // so far
	maxWork int                        // work of this call of walk
	end     time.Time                  // of walks; zero for none
	trees   int                        // that were compared
}

const (
	// Costs of a walker: bytes of trees, and other work by the number of bytes that take as long.
	costOfCommit  = 1 << 10
	costOfEntry   = 16 // to ask the filter of a commit for it
	costOfCompare = 16 << 10
)

// Sizes of what a walker remembers: side branches take turns with each other.
const (
	walkerIDs   = 1000
	walkerBytes = 6 << 20
)

const notFound = 1<<32 - 1

// newWalker returns a walker, nil if the history has to be indexed first.
func (r *Repository) newWalker(key changeKey, folder []string) (*walker, error) {
	past, err := r.history()
	if err != nil {
		if isIndexing(err) {
			return nil, nil
		}
		return nil, err
	}
	start, ok := past.find(key.commit)
	if !ok {
		return nil, fmt.Errorf("%w: no commit %s", ErrNotFound, key.commit)
	}
	w := &walker{
		repo: r, past: past, key: key, folder: folder, queue: &walkQueue{past: past}, at: make(map[uint32][]int32), oldNumber: notFound,
	}
	w.ids.Size, w.raw.Size = walkerIDs, walkerBytes
	id, err := w.folderOf(past.tree(start))
	if err != nil {
		return nil, err
	}
	raw, err := w.tree(id)
	if err != nil {
		return nil, err
	}
	if w.entries, err = parseTree(raw, len(key.commit)/2); err != nil {
		return nil, fmt.Errorf("read the folder %.200q of %s: %w", key.folder, key.commit, err)
	}
	w.found, w.suspected = make([]uint32, len(w.entries)), make([]uint32, len(w.entries))
	all := make([]int32, len(w.entries))
	for i := range w.entries {
		all[i], w.found[i], w.suspected[i] = int32(i), notFound, notFound
	}
	w.early = make(Changes)
	if old, found := r.reader.changes.before(r.repo.Dir(), key.folder); found != nil {
		if n, ok := past.find(old.commit); ok {
			w.old, w.oldNumber, w.oldFound = old, n, found
		}
	}
	for i := range folder {
		w.within = append(w.within, keyOfPath(strings.Join(folder[:i+1], "/")))
	}
	w.keys = make([]pathKey, len(w.entries))
	for i := range w.entries {
		w.keys[i] = keyOfPath(path.Join(key.folder, w.entries[i].Name))
	}
	w.add(start, all)
	return w, nil
}

// folderOf returns the id of the folder below a root tree, "" if there is no such folder.
func (w *walker) folderOf(root string) (string, error) {
	if len(w.folder) == 0 {
		return root, nil
	}
	id, aging, ok := w.ids.Get(root)
	if !ok {
		var err error
		if id, err = w.findFolder(root); err != nil {
			return "", err
		}
	}
	if !ok || aging {
		w.ids.Add(root, id, 1)
	}
	return id, nil
}

// findFolder has git find the folder below a root tree, which takes one question. A path that a
// question cannot have is followed from tree to tree.
func (w *walker) findFolder(root string) (string, error) {
	if err := w.repo.openObjects(); err != nil {
		return "", err
	}
	id, kind, raw, err := w.repo.objects.ObjectAt(root, w.key.folder, maxTreeBytes)
	switch {
	case errors.Is(err, gitrepo.ErrPath):
	case errors.Is(err, gitrepo.ErrNoObject) || kind != "" && kind != "tree":
		return "", nil // there is something else, or nothing
	case err != nil:
		return "", err
	default:
		w.raw.Add(id, raw, len(raw))
		return id, nil
	}
	id = root
	for _, name := range w.folder {
		raw, err := w.tree(id)
		if err != nil {
			return "", err
		}
		id = subtree(raw, name, len(root)/2)
	}
	return id, nil
}

// tree returns a tree as git has it, nothing for the id "".
func (w *walker) tree(id string) ([]byte, error) {
	if id == "" {
		return nil, nil
	}
	raw, aging, ok := w.raw.Get(id)
	if !ok {
		var err error
		if raw, err = w.repo.object("tree", id, maxTreeBytes); err != nil {
			return nil, err
		}
	}
	if !ok || aging {
		w.raw.Add(id, raw, len(raw))
	}
	return raw, nil
}

// add has chains come to a commit.
func (w *walker) add(n uint32, entries []int32) {
	if len(entries) == 0 {
		return
	}
	if n == w.oldNumber {
		left := entries[:0]
		for _, i := range entries {
			if change, ok := w.oldFound[w.entries[i].Name]; ok {
				w.early[w.entries[i].Name] = change
			} else {
				left = append(left, i)
			}
		}
		if entries = left; len(entries) == 0 {
			return
		}
	}
	if there, ok := w.at[n]; ok {
		w.at[n] = append(there, entries...)
		return
	}
	w.at[n] = entries
	heap.Push(w.queue, n)
}

// walk follows the chains until all have ended, or it has done more work than it may.
func (w *walker) walk(maxWork int) (done bool, err error) {
	w.maxWork = maxWork
	for w.queue.Len() > 0 {
		n := heap.Pop(w.queue).(uint32)
		entries := w.at[n]
		delete(w.at, n)
		end, suspects := w.run(n, entries)
		if end == n {
			err = w.step(n, entries, 0)
		} else {
			err = w.endRun(n, end, entries, suspects)
		}
		switch {
		case errors.Is(err, ErrTooLarge):
			// The folder was too large once. Chains that come there have no end, the others go on.
			w.work += maxTreeBytes
		case err != nil:
			return false, err
		}
		if w.work += costOfCommit; w.work > maxWork || w.isLate(0) {
			return w.queue.Len() == 0, nil
		}
		if err := context.Cause(w.repo.ctx); err != nil {
			return false, err
		}
	}
	return true, nil
}

// isLate reports whether the end of walks was some time ago.
func (w *walker) isLate(by time.Duration) bool {
	return !w.end.IsZero() && time.Since(w.end) > by
}

// step has the chains go on from a commit to the first of its parents, from one on, that has the same
// entry. The others end. A commit of git may have 20,000 parents: where that is too much work for this
// call of walk, the chains wait at the commit.
func (w *walker) step(n uint32, entries []int32, from int) (err error) {
	parents := w.past.parents(nil, n)
	for _, p := range parents[min(from, len(parents)):] {
		if len(entries) == 0 {
			return nil
		}
		if w.work > w.maxWork || w.isLate(0) {
			w.add(n, entries)
			return nil
		}
		if entries, err = w.pass(n, p, entries); err != nil {
			return err
		}
	}
	for _, i := range entries {
		w.found[i] = n
	}
	return nil
}

// maxRun bounds the work of a run.
const maxRun = 4 << 20

// run follows the first parents of a commit as long as the filters say that no entry changed twice. It
// returns the commit where that ends, and the entries that may have changed once, with the commit of
// that in suspected. One comparison of both ends decides about all of these: a filter of a commit takes
// one in a hundred paths for a changed one, so that most commits change none of many entries.
//
// It goes no further than the next commit of the queue.
func (w *walker) run(start uint32, entries []int32) (end uint32, suspects []int32) {
	end = start
	var parents []uint32
	for most := min(w.work+maxRun, w.maxWork); w.work < most && end < w.past.base(); {
		filter, hashes := w.past.graph.filter(end)
		if parents = w.past.parents(parents[:0], end); filter == nil || len(parents) == 0 {
			break
		}
		hits, ok := w.suspect(end, entries, filter, hashes)
		if !ok {
			break
		}
		suspects = append(suspects, hits...)
		end = parents[0]
		w.work += costOfCommit / 4
		if _, ok := w.at[end]; ok || end == w.oldNumber || w.queue.Len() > 0 && !w.queue.precedes(end, w.queue.list[0]) {
			break
		}
	}
	return end, suspects
}

// suspect notes the entries that a commit may have changed, and returns them. It returns false, and notes
// nothing, if one of them is noted already.
func (w *walker) suspect(n uint32, entries []int32, filter []byte, hashes uint32) (hits []int32, ok bool) {
	for _, key := range w.within {
		if !key.mayChange(filter, hashes) {
			return nil, true
		}
	}
	w.work += costOfEntry * len(entries)
	for _, i := range entries {
		if !w.keys[i].mayChange(filter, hashes) {
			continue
		}
		if w.suspected[i] != notFound {
			for _, i := range hits {
				w.suspected[i] = notFound
			}
			return nil, false
		}
		w.suspected[i] = n
		hits = append(hits, i)
	}
	return hits, true
}

// endRun decides about the entries that may have changed in a run. The other chains come to its end.
func (w *walker) endRun(start, end uint32, entries, suspects []int32) error {
	var differ map[string]bool
	if len(suspects) > 0 {
		var err error
		if differ, err = w.compare(start, end); err != nil {
			return err
		}
	}
	same, changed := entries[:0], map[uint32][]int32{}
	for _, i := range entries {
		if n := w.suspected[i]; n != notFound && differ[w.entries[i].Name] {
			changed[n] = append(changed[n], i)
		} else {
			same = append(same, i)
		}
	}
	for _, i := range suspects {
		w.suspected[i] = notFound
	}
	w.add(end, same)
	for n, entries := range changed {
		if err := w.step(n, entries, 1); err != nil {
			return err
		}
	}
	return nil
}

// pass has the chains go on to a parent that have the same entry there. It returns the others.
func (w *walker) pass(n, parent uint32, entries []int32) (left []int32, err error) {
	differ, err := w.compare(n, parent)
	if err != nil {
		return nil, err
	}
	var same []int32
	for _, i := range entries {
		if differ[w.entries[i].Name] {
			left = append(left, i)
		} else {
			same = append(same, i)
		}
	}
	w.add(parent, same)
	return left, nil
}

// compare returns the names of the entries that differ in the folder of two commits.
func (w *walker) compare(n, other uint32) (differ map[string]bool, err error) {
	here, err := w.folderOf(w.past.tree(n))
	if err != nil {
		return nil, err
	}
	there, err := w.folderOf(w.past.tree(other))
	if err != nil || here == there {
		return nil, err
	}
	before, err := w.tree(there)
	if err != nil {
		return nil, err
	}
	after, err := w.tree(here)
	if err != nil {
		return nil, err
	}
	w.trees++
	w.work += costOfCompare + len(before) + len(after)
	return differences(after, before, len(w.key.commit)/2), nil
}

// changes returns what the walker has found.
func (w *walker) changes() (Changes, error) {
	found := make(Changes, len(w.entries))
	made := make(map[uint32]Change)
	for i := range w.entries {
		name := w.entries[i].Name
		if change, ok := w.early[name]; ok {
			found[name] = change
			continue
		}
		n := w.found[i]
		if n == notFound {
			continue
		}
		change, ok := made[n]
		if !ok {
			if w.isLate(walkTime / 2) {
				continue // and show what is there
			}
			var err error
			change, err = w.repo.changeAt(w.past.id(n))
			if errors.Is(err, ErrTooLarge) {
				continue
			}
			if err != nil {
				return nil, err
			}
			made[n] = change
		}
		found[name] = change
	}
	return found, nil
}

// walkQueue gives the commit with the largest generation first, so that each commit comes after
// all that reach it.
type walkQueue struct {
	past *history
	list []uint32
}

func (q *walkQueue) Len() int { return len(q.list) }

func (q *walkQueue) Less(i, j int) bool { return q.precedes(q.list[i], q.list[j]) }

// precedes reports whether a commit has its turn before another.
func (q *walkQueue) precedes(a, b uint32) bool {
	if x, y := q.past.generation(a), q.past.generation(b); x != y {
		return x > y
	}
	return q.past.when(a) > q.past.when(b)
}

func (q *walkQueue) Swap(i, j int) { q.list[i], q.list[j] = q.list[j], q.list[i] }
func (q *walkQueue) Push(x any)    { q.list = append(q.list, x.(uint32)) }
func (q *walkQueue) Pop() any {
	last := q.list[len(q.list)-1]
	q.list = q.list[:len(q.list)-1]
	return last
}
