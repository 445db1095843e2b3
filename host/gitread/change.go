package gitread

import (
	"errors"
	"strings"
	"sync"
	"time"

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

	// A request itself walks for about 6 ms: freeWork. If nobody has the turn of costly answers, it
	// goes on to about 100 ms: quickWork. It leaves the rest to the background, which ends after about
	// 10 s: laterWork, or walkTime where the machine is slower. The work is that of a walker.
	freeWork  = 1 << 20
	quickWork = 16 << 20
	laterWork = 1600 << 20
	walkTime  = laterTime / 2

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
	done, err := r.walkQuickly(w)
	if err != nil {
		return nil, err
	}
	if !done {
		r.reader.later(r.repo, r.by, "changes "+commit+" "+key.folder, func(later *Repository) error { return later.findChanges(commit, key.folder) })
		return nil, nil
	}
	return r.finish(w)
}

// walkQuickly has a walker do what a request itself does. It reports whether that was all.
func (r *Repository) walkQuickly(w *walker) (done bool, err error) {
	if done, err = w.walk(freeWork); err != nil || done || !r.reader.costly.TryAcquire() {
		return done, err
	}
	defer r.reader.costly.Release()
	return w.walk(quickWork)
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
	if err := w.walkFor(walkTime); err != nil {
		return err
	}
	_, err = r.finish(w)
	return err
}

// walkFor has a walker do the work of the background, for at most a duration. The walker keeps the
// changes that it found until then. Otherwise each visitor would start the same work again.
func (w *walker) walkFor(d time.Duration) error {
	w.end = time.Now().Add(d)
	_, err := w.walk(laterWork)
	return err
}

// LastCommit returns the commit that changed last what a commit has at a path, "" if that is not known
// yet. It walks for the path alone first, which is much less work than for its folder. REQUIRES: the
// refs of the repository reach the commit.
func (r *Repository) LastCommit(commit string, path []string) (string, error) {
	if id, err := r.findLastCommit(commit, path); err != nil || id != "" {
		return id, err
	}
	found, err := r.LastChanges(commit, path[:len(path)-1])
	return found[path[len(path)-1]].ID, err
}

// findLastCommit is LastCommit without a walk for the folder.
func (r *Repository) findLastCommit(commit string, path []string) (string, error) {
	folder, name := path[:len(path)-1], path[len(path)-1]
	// The changes of a folder lack those that took too long.
	if found, ok := r.reader.changes.get(changeKey{commit, strings.Join(folder, "/")}); ok && found[name].ID != "" {
		return found[name].ID, nil
	}
	ids, err := r.walkPath(commit, strings.Join(path, "/"), 0, 1, freeWork)
	if errors.Is(err, errAskGit) {
		return "", nil
	}
	if err != nil || len(ids) == 0 {
		return "", err
	}
	return ids[0], nil
}

// changeAt returns a commit as the last change of something.
func (r *Repository) changeAt(id string) (Change, error) {
	c, err := r.commit(id)
	if err != nil {
		return Change{}, err
	}
	return Change{ID: c.ID, Subject: cut(c.Subject(), 200), When: c.Committer.When}, nil
}

// cut returns a copy of at most limit bytes of a text.
func cut(s string, limit int) string {
	if len(s) > limit {
		s = strings.ToValidUTF8(s[:limit], "")
	}
	return strings.Clone(s)
}
