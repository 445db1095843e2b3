package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// incoming begins the names of quarantines below the objects of a repository: those of
// git's own receive-pack, and in a Folder ours.
const incoming = "tmp_objdir-"

// staleAfter is the age at which nothing works on a quarantine any more.
const staleAfter = 24 * time.Hour

// quarantine is where what a push or a fetch brings stays until it has been checked: a bare
// repository of its own that borrows from the one that it is for, and from the store of that
// one. Nobody sees it, and it needs no lock. The repository may even go meanwhile.
type quarantine struct {
	repo  *Repo
	dir   string // empty before make
	store *store // that the repository borrows from; nil for none
}

// make makes the folder. In a Root it is among what a start throws away.
func (q *quarantine) make(format Format, prefix string) (err error) {
	r := q.repo
	objects := filepath.Join(r.dir, "objects")
	borrow := objects + "\n"
	parent := objects
	if r.root != nil {
		parent = r.root.trash
		store, borrows, err := r.shared()
		if err != nil {
			return err
		}
		if borrows { // also when the repository goes
			q.store = store
			borrow += filepath.Join(store.dir, "objects") + "\n"
		}
	} else {
		if strings.Contains(objects, "\n") {
			return errors.New("git cannot borrow from a path with a line break")
		}
		prefix = incoming
		old := olderThan(time.Now().Add(-staleAfter))
		err := removeAll(objects, func(d fs.DirEntry) bool { return strings.HasPrefix(d.Name(), incoming) && old(d) })
		if err != nil {
			return err
		}
	}
	if q.dir, err = os.MkdirTemp(parent, prefix); err != nil {
		return err
	}
	config := "[core]\n\trepositoryformatversion = 0\n\tbare = true\n"
	if format != SHA1 {
		config = fmt.Sprintf("[core]\n\trepositoryformatversion = 1\n\tbare = true\n[extensions]\n\tobjectformat = %v\n", format)
	}
	err = errors.Join(
		os.MkdirAll(filepath.Join(q.dir, "objects", "pack"), 0o755),
		os.Mkdir(filepath.Join(q.dir, "refs"), 0o755),
		os.WriteFile(filepath.Join(q.dir, "HEAD"), []byte("ref: refs/heads/main\n"), 0o644),
		os.WriteFile(filepath.Join(q.dir, "config"), []byte(config), 0o644),
		writeFile(filepath.Join(q.dir, "objects", "info", "alternates"), borrow),
	)
	if err != nil {
		q.remove()
	}
	return err
}

// remove deletes the folder, with all that was not moved to the repository. No process of
// it may run.
func (q *quarantine) remove() {
	if q.dir != "" {
		_ = os.RemoveAll(q.dir)
	}
}

// present returns those of the objects that are here. It changes ids.
func (r *Repo) present(ctx context.Context, ids []string) ([]string, error) {
	there, err := r.Has(ctx, ids...)
	if err != nil {
		return nil, err
	}
	list := ids[:0]
	for i, id := range ids {
		if there[i] {
			list = append(list, id)
		}
	}
	return list, nil
}
