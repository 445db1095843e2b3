package gitread

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
)

// Mode is the mode of an entry of a tree.
type Mode uint32

// Modes of entries, as git writes them.
const (
	ModeTree    Mode = 0o040000
	ModeFile    Mode = 0o100644
	ModeProgram Mode = 0o100755
	ModeLink    Mode = 0o120000
	ModeCommit  Mode = 0o160000 // a submodule
)

// canonical returns the mode that git takes an entry to have.
func (m Mode) canonical() Mode {
	switch m & 0o170000 {
	case 0o100000:
		if m&0o100 != 0 {
			return ModeProgram
		}
		return ModeFile
	case 0o120000:
		return ModeLink
	case 0o040000:
		return ModeTree
	}
	return ModeCommit
}

func (m Mode) String() string {
	switch m {
	case ModeTree:
		return "folder"
	case ModeProgram:
		return "program"
	case ModeLink:
		return "symbolic link"
	case ModeCommit:
		return "submodule"
	}
	return "file"
}

// Entry is an entry of a tree. Its name is of any bytes but NUL and slash.
type Entry struct {
	Name string
	Mode Mode
	ID   string
}

// Tree returns the entries of a tree in git's order. It fails with a *TakenDown.
func (r *Repository) Tree(id string) ([]Entry, error) {
	if err := r.check(id); err != nil {
		return nil, err
	}
	return r.tree(id)
}

// tree is Tree, also of one that the operator has taken down.
func (r *Repository) tree(id string) ([]Entry, error) {
	r.reader.mu.Lock()
	entries, aging, ok := r.reader.trees.Get(id)
	if ok && aging {
		r.reader.trees.Add(id, entries, treeCost(entries))
	}
	r.reader.mu.Unlock()
	if ok {
		return entries, nil
	}
	content, err := r.object("tree", id, maxTreeBytes)
	if err != nil {
		return nil, err
	}
	entries, err = parseTree(content, len(id)/2)
	if err != nil {
		return nil, fmt.Errorf("read the tree %s: %w", id, err)
	}
	if cost := treeCost(entries); cost < treeBytes/8 {
		r.reader.mu.Lock()
		r.reader.trees.Add(id, entries, cost)
		r.reader.mu.Unlock()
	}
	return entries, nil
}

// treeCost is about how much memory entries take.
func treeCost(entries []Entry) int {
	n := 64
	for i := range entries {
		n += 80 + len(entries[i].Name)
	}
	return n
}

// parseTree parses a tree whose ids have size bytes.
func parseTree(content []byte, size int) ([]Entry, error) {
	entries := make([]Entry, 0, len(content)/(size+16))
	for len(content) > 0 {
		mode, rest, ok := bytes.Cut(content, []byte{' '})
		name, rest, named := bytes.Cut(rest, []byte{0})
		if !ok || !named || len(rest) < size || len(mode) > 6 || len(name) == 0 {
			return nil, fmt.Errorf("the entry %d is damaged", len(entries))
		}
		m, err := strconv.ParseUint(string(mode), 8, 32)
		if err != nil {
			return nil, fmt.Errorf("the entry %d has the mode %.10q", len(entries), mode)
		}
		entries = append(entries, Entry{Name: string(name), Mode: Mode(m).canonical(), ID: hex.EncodeToString(rest[:size])})
		content = rest[size:]
	}
	return entries, nil
}

// At returns the entry at a path below a tree. An empty path is the tree itself. At fails with a
// *TakenDown if the operator has taken the entry down, or a folder on the way.
func (r *Repository) At(tree string, path []string) (Entry, error) {
	e, err := r.at(tree, path, r.check)
	if err == nil {
		err = r.check(e.ID)
	}
	return e, err
}

// at is At with another check of the folders on the way.
func (r *Repository) at(tree string, path []string, check func(id string) error) (Entry, error) {
	at := Entry{Mode: ModeTree, ID: tree}
	if len(path) > maxDepth {
		return at, fmt.Errorf("%w: a path of %d folders", ErrNotFound, len(path))
	}
	for i, name := range path {
		if at.Mode != ModeTree {
			return at, fmt.Errorf("%w: %.200q is no folder", ErrNotFound, strings.Join(path[:i], "/"))
		}
		if err := check(at.ID); err != nil {
			return at, err
		}
		entries, err := r.tree(at.ID)
		if err != nil {
			return at, err
		}
		found := false
		for j := range entries {
			if entries[j].Name == name {
				at, found = entries[j], true
				break
			}
		}
		if !found {
			return at, fmt.Errorf("%w: %.200q", ErrNotFound, strings.Join(path[:i+1], "/"))
		}
	}
	return at, nil
}

// Sizes returns the sizes of blobs, -1 for one that is not here.
func (r *Repository) Sizes(ids []string) ([]int64, error) {
	if err := r.openObjects(); err != nil {
		return nil, err
	}
	return r.objects.Sizes(ids)
}

// TreeSizes returns the sizes of files in a tree by their ids. Entries are those that a page shows,
// the first ones in an order that does not change.
func (r *Repository) TreeSizes(tree string, entries []Entry) (map[string]int64, error) {
	key := sizesKey{tree, len(entries)}
	r.reader.mu.Lock()
	sizes, aging, ok := r.reader.sizes.Get(key)
	if ok && aging {
		r.reader.sizes.Add(key, sizes, sizeCost*(1+len(sizes)))
	}
	r.reader.mu.Unlock()
	if ok {
		return sizes, nil
	}
	var ids []string
	for i := range entries {
		if m := entries[i].Mode; m == ModeFile || m == ModeProgram {
			ids = append(ids, entries[i].ID)
		}
	}
	list, err := r.Sizes(ids)
	if err != nil {
		return nil, err
	}
	sizes = make(map[string]int64, len(ids))
	for i, id := range ids {
		sizes[id] = list[i]
	}
	r.reader.mu.Lock()
	r.reader.sizes.Add(key, sizes, sizeCost*(1+len(sizes)))
	r.reader.mu.Unlock()
	return sizes, nil
}

// sizesKey names the first entries of a tree.
type sizesKey struct {
	tree  string
	count int
}

// sizeCost is about how much memory a size takes.
const sizeCost = 100

// Size returns the size of a blob.
func (r *Repository) Size(id string) (int64, error) {
	sizes, err := r.Sizes([]string{id})
	if err == nil && sizes[0] < 0 {
		err = fmt.Errorf("%w: no blob %s", ErrNotFound, id)
	}
	if err != nil {
		return 0, err
	}
	return sizes[0], nil
}

// Blob returns the content of a blob of at most limit bytes. It asks for the size first: git reads a
// whole blob before it sends a byte, and a small pack can hold a large one. REQUIRES: an entry of a
// tree of the repository names it. It fails with a *TakenDown.
func (r *Repository) Blob(id string, limit int64) ([]byte, error) {
	if err := r.check(id); err != nil {
		return nil, err
	}
	if err := r.openObjects(); err != nil {
		return nil, err
	}
	if _, size, err := r.objects.Info(id); err == nil && size > limit {
		return nil, fmt.Errorf("read the blob %s of %d bytes: %w", id, size, ErrTooLarge)
	}
	return r.object("blob", id, limit)
}
