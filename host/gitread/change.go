package gitread

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"math"
	"path"
	"strings"
	"sync"

	"talon/host/gitrepo"
	"talon/internal/recent"
)

// Change is the last commit that changed something.
type Change struct {
	ID      string
	Subject string
	When    int64 // of the committer
}

// Changes are the last changes of the entries of a folder, by their names.
type Changes map[string]Change

const (
	// changeBytes is the size of the changes that are kept; twice as much for those used last.
	changeBytes = 24 << 20

	// quickWork bounds what a request itself does, about 100 ms, before it leaves the rest to the
	// background. The work is that of a walker.
	quickWork = 16 << 20

	// Costs of a walker: bytes of trees, and other work by the number of bytes that take as long.
	costOfCommit  = 1 << 10
	costOfEntry   = 16 // to ask the filter of a commit for it
	costOfCompare = 16 << 10
	allWork       = math.MaxInt

	// maxFolders is how many folders of a repository are remembered as those looked at last.
	maxFolders = 16
)

// changes keeps the last changes of folders. It is safe for concurrent use.
type changes struct {
	mu     sync.Mutex // guards the fields below
	kept   recent.Map[changeKey, Changes]
	newest recent.Map[string, []changeKey] // by repository: those made last, one of each folder, the latest first
}

// changeKey names a folder as a commit has it. The last changes follow from both: two commits with
// the same tree may differ.
type changeKey struct{ commit, folder string }

func newChanges() *changes {
	return &changes{
		kept: recent.Map[changeKey, Changes]{Size: changeBytes}, newest: recent.Map[string, []changeKey]{Size: 1000},
	}
}

// get returns changes that are known.
func (c *changes) get(key changeKey) (Changes, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	found, aging, ok := c.kept.Get(key)
	if ok && aging {
		c.kept.Add(key, found, found.cost())
	}
	return found, ok
}

// put keeps changes.
func (c *changes) put(key changeKey, repo string, found Changes) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kept.Add(key, found, found.cost())
	before, _, _ := c.newest.Get(repo)
	list := append(make([]changeKey, 0, maxFolders), key)
	for _, other := range before {
		if other.folder != key.folder && len(list) < maxFolders {
			list = append(list, other)
		}
	}
	c.newest.Add(repo, list, 1)
}

// before returns the changes of the folder that were made last, of whatever commit.
func (c *changes) before(repo, folder string) (key changeKey, found Changes) {
	c.mu.Lock()
	defer c.mu.Unlock()
	list, _, _ := c.newest.Get(repo)
	for _, key := range list {
		if key.folder == folder {
			found, _, _ = c.kept.Get(key)
			return key, found
		}
	}
	return key, nil
}

// folders returns folders of a repository whose changes were made last, at most a number.
func (c *changes) folders(repo string, maximum int) (folders []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	list, _, _ := c.newest.Get(repo)
	for _, key := range list[:min(len(list), maximum)] {
		folders = append(folders, key.folder)
	}
	return folders
}

// cost is about how much memory changes take.
func (c Changes) cost() int {
	n := 128
	for name, change := range c {
		n += 160 + len(name) + len(change.Subject)
	}
	return n
}

// LastChanges returns the last changes of the entries of a folder as a commit has it: for each entry
// the commit that git log -1 shows. It returns nil if that takes long. Then it goes on in the
// background, and a later call has them. REQUIRES: the refs of the repository reach the commit.
func (r *Repository) LastChanges(commit string, folder []string) (Changes, error) {
	found, err := r.lastChanges(commit, folder)
	if err != nil || found == nil {
		return nil, err
	}
	return r.shownChanges(found), nil
}

func (r *Repository) lastChanges(commit string, folder []string) (Changes, error) {
	key := changeKey{commit, strings.Join(folder, "/")}
	if found, ok := r.reader.changes.get(key); ok {
		return found, nil
	}
	w, err := r.newWalker(key, folder)
	if err != nil || w == nil {
		return nil, err
	}
	done, err := w.walk(quickWork)
	if err != nil {
		return nil, err
	}
	if !done {
		r.reader.later(r.repo, r.by, "changes "+commit+" "+key.folder, func(later *Repository) error { return later.findChanges(commit, key.folder) })
		return nil, nil
	}
	return r.finish(w)
}

// finish keeps what a walker found.
func (r *Repository) finish(w *walker) (Changes, error) {
	found, err := w.changes()
	if err != nil {
		return nil, err
	}
	r.reader.changes.put(w.key, r.repo.Dir(), found)
	return found, nil
}

// findChanges finds the last changes of a folder, if they are not known.
func (r *Repository) findChanges(commit, folder string) error {
	key := changeKey{commit, folder}
	if _, ok := r.reader.changes.get(key); ok {
		return nil
	}
	var path []string
	if folder != "" {
		path = strings.Split(folder, "/")
	}
	w, err := r.newWalker(key, path)
	if err != nil || w == nil {
		return err
	}
	if _, err := w.walk(allWork); err != nil {
		return err
	}
	_, err = r.finish(w)
	return err
}

// walker finds the last changes of the entries of a folder.
//
// From a commit that shows nothing for a path, git log goes on to the first parent that has the
// same there. So each path has one chain of commits, and its last change is the first commit on it
// that has no such parent. The walker follows the chains of all entries at a time, those with the
// largest generation first, so that they meet where they can.
type walker struct {
	repo   *Repository
	past   *history
	key    changeKey
	folder []string

	entries []Entry
	keys    []pathKey // of the filters; made when first asked for
	within  []pathKey // of the folder and those above
	queue   *walkQueue
	at      map[uint32][]int32 // the entries whose chains have come to a commit
	found   []uint32           // the last changes, by entry
	early   Changes            // what is known from an earlier walk, by entries that are left to it

	old       changeKey // of the earlier walk
	oldNumber uint32
	oldFound  Changes

	ids   recent.Map[string, string] // the tree of the folder, by the root tree; "" for none
	raw   recent.Map[string, []byte] // trees as git has them
	work  int                        // so far
	trees int                        // that were compared
}

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
	w.found = make([]uint32, len(w.entries))
	all := make([]int32, len(w.entries))
	for i := range w.entries {
		all[i], w.found[i] = int32(i), notFound
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
	var parents []uint32
	for w.queue.Len() > 0 {
		n := heap.Pop(w.queue).(uint32)
		entries := w.at[n]
		delete(w.at, n)
		parents = w.past.parents(parents[:0], n)
		for i, p := range parents {
			if entries, err = w.pass(n, p, i == 0, entries); err != nil {
				return false, err
			}
			if len(entries) == 0 {
				break
			}
		}
		for _, i := range entries {
			w.found[i] = n
		}
		if w.work += costOfCommit; w.work > maxWork {
			return w.queue.Len() == 0, nil
		}
		if err := context.Cause(w.repo.ctx); err != nil {
			return false, err
		}
	}
	return true, nil
}

// pass has the chains go on to a parent that have the same entry there. It returns the others.
func (w *walker) pass(n, parent uint32, first bool, entries []int32) (left []int32, err error) {
	ask := entries
	var same []int32
	if first && n < w.past.base() {
		if filter, hashes := w.past.graph.filter(n); filter != nil {
			ask = nil
			w.work += costOfEntry * len(entries)
			for _, key := range w.within {
				if !key.mayChange(filter, hashes) {
					w.add(parent, entries)
					return nil, nil
				}
			}
			for _, i := range entries {
				if w.keys[i].mayChange(filter, hashes) {
					ask = append(ask, i)
				} else {
					same = append(same, i)
				}
			}
		}
	}
	if len(ask) > 0 {
		here, err := w.folderOf(w.past.tree(n))
		if err != nil {
			return nil, err
		}
		there, err := w.folderOf(w.past.tree(parent))
		if err != nil {
			return nil, err
		}
		if here == there {
			w.add(parent, entries)
			return nil, nil
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
		differ := differences(after, before, len(w.key.commit)/2)
		for _, i := range ask {
			if differ[w.entries[i].Name] {
				left = append(left, i)
			} else {
				same = append(same, i)
			}
		}
	}
	w.add(parent, same)
	return left, nil
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
			c, err := w.repo.commit(w.past.id(n))
			if err != nil {
				return nil, err
			}
			change = Change{ID: c.ID, Subject: cut(c.Subject(), 200), When: c.Committer.When}
			made[n] = change
		}
		found[name] = change
	}
	return found, nil
}

// cut returns a copy of at most limit bytes of a text.
func cut(s string, limit int) string {
	if len(s) > limit {
		s = strings.ToValidUTF8(s[:limit], "")
	}
	return strings.Clone(s)
}

// walkQueue gives the commit with the largest generation first, so that each commit comes after
// all that reach it.
type walkQueue struct {
	past *history
	list []uint32
}

func (q *walkQueue) Len() int { return len(q.list) }

func (q *walkQueue) Less(i, j int) bool {
	a, b := q.list[i], q.list[j]
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
