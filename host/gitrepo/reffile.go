package gitrepo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"talon/host"
	"talon/internal/durable"
	"talon/internal/smallfile"
)

// errUnusual says that refs are kept in a way that only git reads: links, symbolic refs except
// HEAD, another format, damage. A caller that gets it asks git.
var errUnusual = errors.New("the refs are kept in a way that only git reads")

const (
	maxLoose  = 1 << 10 // of a file with one ref
	maxPacked = maxOutput
)

// fileRef is a ref as the files of a repository have it.
type fileRef struct {
	Ref
	peeled bool // Peeled is known
}

// readRefs reads all refs, sorted by name, from their files. Those with a file of
// their own are read first: git writes a ref to packed-refs before it takes its file
// away, so that none is missed.
func (r *Repo) readRefs() ([]fileRef, error) {
	list, err := readLoose(nil, r.dir, "refs")
	if err != nil {
		return nil, err
	}
	own := make(map[string]bool, len(list))
	for _, ref := range list {
		own[ref.Name] = true
	}
	packed, err := readFile(filepath.Join(r.dir, "packed-refs"), maxPacked)
	if err != nil {
		return nil, err
	}
	skipped := false // the ref before this line has a file of its own
	for i, line := range bytes.Split(bytes.TrimSuffix(packed, []byte("\n")), []byte("\n")) {
		text := string(line)
		id, name, ok := strings.Cut(text, " ")
		switch {
		case len(packed) == 0:
		case i == 0:
			// Only then a ref without a line of its own for it is not a tag.
			if !strings.HasPrefix(text, "# pack-refs with:") || !strings.Contains(text+" ", " fully-peeled ") {
				return nil, errUnusual
			}
		case strings.HasPrefix(text, "^"):
			if !IsID(text[1:]) || i == 1 {
				return nil, errUnusual
			}
			if !skipped {
				list[len(list)-1].Peeled = text[1:]
			}
		case !ok || !IsID(id) || !strings.HasPrefix(name, "refs/") || !isRefFormat(name):
			return nil, errUnusual
		default:
			if skipped = own[name]; !skipped {
				list = append(list, fileRef{Ref: Ref{Name: name, ID: id}, peeled: true})
			}
		}
	}
	slices.SortFunc(list, func(a, b fileRef) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

// readLoose appends the refs that have a file of their own below a folder. It skips refs that go
// during the walk.
func readLoose(list []fileRef, dir, name string) ([]fileRef, error) {
	entries, err := os.ReadDir(filepath.Join(dir, name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return list, nil
	case errors.Is(err, syscall.ENOTDIR):
		return nil, errUnusual // a ref took its place just now
	case err != nil:
		return nil, fmt.Errorf("read a folder of refs: %w", err)
	}
	for _, d := range entries {
		at := name + "/" + d.Name()
		switch {
		case d.IsDir():
			if list, err = readLoose(list, dir, at); err != nil {
				return nil, err
			}
		case strings.HasSuffix(at, ".lock"):
		case !d.Type().IsRegular() || !isRefFormat(at):
			return nil, errUnusual
		default:
			id, err := readLooseRef(filepath.Join(dir, at))
			if err != nil {
				return nil, err
			}
			if id != "" {
				// Git puts nothing but commits below refs/heads.
				list = append(list, fileRef{Ref: Ref{Name: at, ID: id}, peeled: strings.HasPrefix(at, "refs/heads/")})
			}
		}
	}
	return list, nil
}

// readLooseRef returns the id in the file of a ref, or nothing if there is no file.
func readLooseRef(path string) (string, error) {
	text, err := readFile(path, maxLoose)
	if err != nil || text == nil {
		return "", err
	}
	id, ok := strings.CutSuffix(string(text), "\n")
	if !ok || !IsID(id) || IsZero(id) {
		return "", errUnusual
	}
	return id, nil
}

// readRef returns the id of one ref, or nothing.
func (r *Repo) readRef(name string) (string, error) {
	path := filepath.Join(r.dir, name)
	if info, err := os.Lstat(path); err == nil && !info.IsDir() {
		if !info.Mode().IsRegular() {
			return "", errUnusual
		}
		if id, err := readLooseRef(path); err != nil || id != "" {
			return id, err
		}
	}
	packed, err := readFile(filepath.Join(r.dir, "packed-refs"), maxPacked)
	if err != nil {
		return "", err
	}
	end := bytes.Index(packed, []byte(" "+name+"\n"))
	if end < 0 {
		return "", nil
	}
	id := string(packed[bytes.LastIndexByte(packed[:end], '\n')+1 : end])
	if !IsID(id) {
		return "", errUnusual
	}
	return id, nil
}

// readHEAD returns the ref that HEAD names; nothing if it names an object.
func (r *Repo) readHEAD() (string, error) {
	text, err := readFile(filepath.Join(r.dir, "HEAD"), maxLoose)
	if err != nil {
		return "", err
	}
	line, ended := strings.CutSuffix(string(text), "\n")
	name, symbolic := strings.CutPrefix(line, "ref: ")
	switch {
	case !ended || symbolic && !IsRef(name) || !symbolic && !IsID(line):
		return "", errUnusual
	case symbolic:
		return name, nil
	}
	return "", nil
}

// readFile reads a file that is not long. It returns nil for one that is not there.
func readFile(path string, limit int64) ([]byte, error) {
	text, err := smallfile.Read(path, limit)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case errors.Is(err, smallfile.ErrNotRegular), errors.Is(err, smallfile.ErrTooLarge):
		return nil, errUnusual
	case err != nil:
		return nil, fmt.Errorf("read refs: %w", err)
	}
	return text, nil
}

// updatePacked changes many refs by rewriting the file that has all of them: git makes a
// file for each first, which takes seconds under the lock for what anybody may push. All
// change or none, also in a crash: what has a file of its own moves to the one file
// first, as it is. It reports false if git has to do it. REQUIRES: the lock, in a Root,
// where nobody else changes refs.
func (r *Repo) updatePacked(ctx context.Context, updates []host.RefUpdate) (done bool, err error) {
	refs, err := r.readRefs()
	if errors.Is(err, errUnusual) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("update refs: %w", err)
	}
	if err := r.peel(ctx, refs); err != nil {
		return false, nil // one is broken
	}
	at := make(map[string]int, len(refs))
	now := make(map[string]string, len(refs))
	for i, ref := range refs {
		at[ref.Name], now[ref.Name] = i, ref.ID
	}
	var questions []string
	for _, u := range updates {
		id, there := now[u.Ref]
		if u.Old != "" && u.Old != id && (there || !IsZero(u.Old)) {
			return false, fmt.Errorf("update refs: %s is not at %s", u.Ref, u.Old)
		}
		if !IsZero(u.New) {
			questions = append(questions, u.New+"^{"+kindOf(u.Ref)+"}")
		}
	}
	wrong := make(map[string]string)
	if inTheWay(now, updates, wrong); len(wrong) > 0 {
		for name, reason := range wrong {
			return false, fmt.Errorf("update refs: %s: %s", name, reason)
		}
	}
	answers, err := r.ask(ctx, questions)
	if err != nil {
		return false, fmt.Errorf("update refs: %w", err)
	}
	next := slices.Clone(refs)
	for _, u := range updates {
		i, there := at[u.Ref]
		if IsZero(u.New) {
			if there {
				next[i].ID = ""
			}
			continue
		}
		if answers[0] != u.New {
			return false, nil // git says best what is wrong with it
		}
		answers = answers[1:]
		ref := fileRef{Ref: Ref{Name: u.Ref, ID: u.New}, peeled: strings.HasPrefix(u.Ref, "refs/heads/")}
		if there {
			next[i] = ref
		} else {
			next = append(next, ref)
		}
	}
	next = slices.DeleteFunc(next, func(ref fileRef) bool { return ref.ID == "" })
	slices.SortFunc(next, func(a, b fileRef) int { return strings.Compare(a.Name, b.Name) })
	if err := r.peel(ctx, next); err != nil {
		return false, fmt.Errorf("update refs: %w", err)
	}
	if packed, err := r.locks.peers.packLoose(ctx, r, refs, updates); err != nil {
		return false, fmt.Errorf("update refs: %w", err)
	} else if !packed {
		return false, nil
	}
	if err := r.writePacked(next); err != nil {
		return false, fmt.Errorf("update refs: %w", err)
	}
	return true, nil
}

// kindOf is what a ref must point to: branches name commits, others what they like.
func kindOf(ref string) string {
	if strings.HasPrefix(ref, "refs/heads/") {
		return "commit"
	}
	return "object"
}

// loose are the files of those of the refs that have one of their own.
func (r *Repo) loose(updates []host.RefUpdate) (loose []string) {
	for _, u := range updates {
		path := filepath.Join(r.dir, u.Ref)
		if info, err := os.Lstat(path); err == nil && info.Mode().IsRegular() {
			loose = append(loose, path)
		}
	}
	return loose
}

// packLoose takes the refs that are updated out of files of their own, if some have one.
func (r *Repo) packLoose(refs []fileRef, updates []host.RefUpdate) error {
	loose := r.loose(updates)
	if len(loose) == 0 {
		return nil
	}
	if err := r.writePacked(refs); err != nil {
		return err
	}
	folders := make(map[string]bool)
	for _, path := range loose {
		if err := os.Remove(path); err != nil {
			return err
		}
		folders[filepath.Dir(path)] = true
	}
	for folder := range folders {
		// A file that comes back would count, and what it says is old by then.
		if err := durable.Sync(folder); err != nil {
			return err
		}
	}
	return nil
}

// writePacked writes all refs to one file, durably.
func (r *Repo) writePacked(refs []fileRef) error {
	var text bytes.Buffer
	text.WriteString("# pack-refs with: peeled fully-peeled sorted \n")
	for _, ref := range refs {
		text.WriteString(ref.ID + " " + ref.Name + "\n")
		if ref.Peeled != "" {
			text.WriteString("^" + ref.Peeled + "\n")
		}
	}
	return r.replaceFile("packed-refs", text.Bytes())
}

// replaceFile rewrites a file of the repository, durably, as git does: under its lock
// file.
func (r *Repo) replaceFile(name string, text []byte) error {
	path := filepath.Join(r.dir, name)
	const exclusive = os.O_WRONLY | os.O_CREATE | os.O_EXCL
	f, err := os.OpenFile(path+".lock", exclusive, 0o644)
	if errors.Is(err, fs.ErrExist) {
		// It is of a git that was killed, unless another node has the lock by now.
		if err := errors.Join(r.locks.check(r.dir), os.RemoveAll(path+".lock")); err != nil {
			return err
		}
		f, err = os.OpenFile(path+".lock", exclusive, 0o644)
	}
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = r.locks.check(r.dir)
	}
	if err == nil {
		err = os.Rename(path+".lock", path)
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(path+".lock"))
	}
	return durable.Sync(r.dir)
}
