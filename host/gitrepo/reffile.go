package gitrepo

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// errUnusual says that refs are kept in a way that only git reads: links, symbolic
// refs but for HEAD, another format, damage. Whoever meets it asks git.
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

// readLoose appends the refs that have a file of their own below a folder. What goes
// meanwhile is not there.
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
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read refs: %w", err)
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("read refs: %w", err)
	}
	if !info.Mode().IsRegular() || info.Size() > limit {
		return nil, errUnusual
	}
	text := make([]byte, info.Size())
	if _, err := io.ReadFull(f, text); err != nil {
		return nil, fmt.Errorf("read refs: %w", err)
	}
	return text, nil
}
