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

// quarantine holds the objects of a push or a fetch until they have been checked. It is a bare
// repository of its own. It borrows from the repository that it is for, and from that one's
// store. Nobody sees it, and it needs no lock. The repository may even go in that time.
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
		if _, planned, err := r.plannedStore(); err != nil || planned {
			if err != nil {
				return err
			}
			borrow = "" // git complains about folders that are not there
		}
		if borrows { // also when the repository goes
			q.store = store
			if isBare(store.dir) {
				borrow += filepath.Join(store.dir, "objects") + "\n"
			}
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

// fsckIgnored are the faults of objects (fsck.<msg-id> of git-config) that a push or a
// fetch may bring. All others are refused on both ways, warnings of git too, as git does
// where transfer.fsckObjects is set:
//
//   - what attacks whoever checks it out or clones submodules: hasDot, hasDotdot,
//     hasDotgit, emptyName, fullPathname, duplicateEntries, treeNotSorted and
//     gitmodules* but Parse
//   - what overflows old clients: gitattributes* but Symlink
//   - what hides a part of a message from readers: nulInCommit
//   - what git cannot read, or would not write: the rest
//
// Here is what old programs and converters wrote into histories that people publish
// today, and what git itself only mentions. It hurts nobody: git shows such a date,
// name or mode as well as it can. A commit cannot be mended without a new id, and so
// without a new history.
var fsckIgnored = []string{
	// Authors, committers and taggers: of git before 1.5, of imports from Subversion,
	// Mercurial and Bazaar, and of names that were empty.
	"badDate", "badDateOverflow", "badEmail", "badName", "badTimezone", "missingEmail", "missingNameBeforeEmail",
	"missingSpaceBeforeDate", "missingSpaceBeforeEmail", "multipleAuthors", "zeroPaddedDate",

	// Modes of files: of git in 2005, and of other programs that write trees. Git checks them
	// out as 644, 755 or a folder.
	"badFilemode", "zeroPaddedFilemode",

	// Tags from before 2005 have no tagger, and some have a name that is none today.
	"badTagName", "missingTaggerEntry",

	// Git reports these and continues. The reports would be a line for each commit. It does not
	// read such files through links, and it ignores a .gitmodules that does not parse.
	"gitmodulesParse", "gitattributesSymlink", "gitignoreSymlink", "mailmapSymlink",
}

// fsckArgument has git index-pack check each object. Links between objects are checked
// as well; git checks no faults without.
func fsckArgument() string { return "--strict=" + strings.Join(fsckIgnored, "=ignore,") + "=ignore" }

// fsckConfig has git fetch check what fsckArgument does.
func fsckConfig() [][2]string {
	list := [][2]string{{"fetch.fsckObjects", "true"}}
	for _, fault := range fsckIgnored {
		list = append(list, [2]string{"fetch.fsck." + fault, "ignore"})
	}
	return list
}

// fsckFault returns what git found wrong with objects, if it ended because of that. Git writes
// "remote: " before the text of a server, so that text counts for nothing here.
func fsckFault(stderr []byte) string {
	const fault, end = "error: ", "fatal: fsck error in pack"
	var faults []string
	ended := false
	for line := range strings.FieldsFuncSeq(string(stderr), func(r rune) bool { return r == '\n' || r == '\r' }) {
		if text, ok := strings.CutPrefix(line, fault+"object "); ok {
			faults = append(faults, "object "+text)
		}
		ended = ended || strings.HasPrefix(line, end)
	}
	switch {
	case !ended:
		return ""
	case len(faults) == 0: // they were too long to be kept
		return "fsck error in packed object"
	}
	return printable(strings.Join(faults, "; "))
}
