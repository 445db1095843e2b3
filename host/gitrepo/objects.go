package gitrepo

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// fewObjects are looked for in the files. A process of git is faster for more.
const fewObjects = 64

// Has reports for each object whether it is in the repository, or in a store that it borrows
// from. An object that is there may still lack others that it refers to: see Connected. A string
// that is not an object id is absent.
func (r *Repo) Has(ctx context.Context, ids ...string) ([]bool, error) {
	if err := r.mustExist(); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("look for objects: %w", context.Cause(ctx))
	}
	if len(ids) <= fewObjects {
		// If the files are unusual, git answers.
		if found, ok := r.hasNative(ids); ok {
			return found, nil
		}
	}
	found := make([]bool, len(ids))
	ask := make([]string, 0, len(ids))
	for _, id := range ids {
		if IsID(id) {
			ask = append(ask, id)
		}
	}
	answers, err := r.ask(ctx, ask)
	if err != nil {
		return nil, fmt.Errorf("look for objects: %w", err)
	}
	for i, id := range ids {
		if IsID(id) {
			// Not "ID missing", nor another object that a ref or a prefix names.
			found[i] = answers[0] == id
			answers = answers[1:]
		}
	}
	return found, nil
}

// Connected reports whether the objects are there with all that they refer to. It
// trusts that the refs of the repository are connected, and walks no further than
// to them.
func (r *Repo) Connected(ctx context.Context, ids ...string) (bool, error) {
	if len(ids) == 0 {
		return true, nil
	}
	found, err := r.Has(ctx, ids...)
	if err != nil || slices.Contains(found, false) {
		return false, err
	}
	// After a push, they are the refs themselves.
	if refs, _, err := r.refFiles(ctx); err == nil {
		tips := make(map[string]bool, len(refs))
		for _, ref := range refs {
			tips[ref.ID] = true
		}
		ids = slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return tips[id] })
		if len(ids) == 0 {
			return true, nil
		}
	}
	in := strings.Join(ids, "\n") + "\n"
	_, err = r.run(ctx, []byte(in), "rev-list", "--objects", "--stdin", "--not", "--all", "--quiet")
	if err != nil && ctx.Err() == nil && (exitCode(err) == 1 || exitCode(err) == 128) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("walk the objects: %w", err)
	}
	return true, nil
}

// peel finds what the tags among refs are of, where that is not known.
func (r *Repo) peel(ctx context.Context, refs []fileRef) error {
	var ask []string
	var asked []*fileRef
	for i := range refs {
		ref := &refs[i]
		if ref.peeled {
			continue
		}
		if peeled, ok := r.batches.peeled(ref.ID); ok {
			ref.Peeled = peeled
			continue
		}
		ask, asked = append(ask, ref.ID+"^{}"), append(asked, ref)
	}
	if len(ask) == 0 {
		return nil
	}
	answers, err := r.ask(ctx, ask)
	if err != nil {
		return err
	}
	for i, ref := range asked {
		switch answer := answers[i]; {
		case answer == ref.ID:
		case IsID(answer):
			ref.Peeled = answer
		default:
			return fmt.Errorf("%.200q points to %s, which is not there as a whole", ref.Name, ref.ID)
		}
		r.batches.keepPeeled(ref.ID, ref.Peeled)
	}
	return nil
}

// peelKnown finds what the tags among refs are of without a process. It reports false if that
// is not known of all.
func (r *Repo) peelKnown(refs []fileRef) bool {
	for i := range refs {
		ref := &refs[i]
		if ref.peeled {
			continue
		}
		peeled, ok := r.batches.peeled(ref.ID)
		if !ok {
			return false
		}
		ref.Peeled, ref.peeled = peeled, true
	}
	return true
}

// IsID reports whether s is the name of an object: 40 (SHA-1) or 64 (SHA-256)
// lower-case hex digits.
func IsID(s string) bool {
	if len(s) != 40 && len(s) != 64 {
		return false
	}
	for i := 0; i < len(s); i++ {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// IsZero reports whether s is an object id of zeros only, which means "no object" in ref
// updates.
func IsZero(s string) bool { return IsID(s) && strings.Trim(s, "0") == "" }

// Format returns the hash that the repository names its objects by.
func (r *Repo) Format(ctx context.Context) (Format, error) {
	if s, borrows, err := r.shared(); borrows || err != nil {
		if err != nil {
			return 0, err
		}
		return s.format, nil
	}
	out, err := r.run(ctx, nil, "rev-parse", "--show-object-format")
	if err != nil {
		return 0, fmt.Errorf("read the format of a repository: %w", err)
	}
	if strings.TrimSpace(string(out)) == SHA256.String() {
		return SHA256, nil
	}
	return SHA1, nil
}

// IsCommit reports whether an object is in the repository, or in what it borrows from,
// and is a commit: not a tag of one.
func (r *Repo) IsCommit(ctx context.Context, id string) (bool, error) {
	// Most that are asked for are not there, which needs no process of git.
	found, err := r.Has(ctx, id)
	if err != nil || !found[0] {
		return false, err
	}
	answers, err := r.ask(ctx, []string{id + "^{commit}"})
	if err != nil {
		return false, fmt.Errorf("look for a commit: %w", err)
	}
	return answers[0] == id, nil
}

// maxLooks bounds how often packs may come and go while objects are looked for.
const maxLooks = 4

// hasNative looks for objects without git: in the indexes of packs, and among the files
// of single objects. It reports false if it cannot say. A pack is in the shared store
// before it goes from the repository, so the repository is looked at first.
func (r *Repo) hasNative(ids []string) (found []bool, ok bool) {
	s, borrows, err := r.shared()
	if err != nil || !borrows {
		return nil, false
	}
	return lookNative([]string{filepath.Join(r.dir, "objects"), filepath.Join(s.dir, "objects")}, idLength(s.format)/2, ids)
}

// lookNative is hasNative in folders of objects whose names have size bytes.
func lookNative(dirs []string, size int, ids []string) (found []bool, ok bool) {
	found = make([]bool, len(ids))
	var looked []string
	for range maxLooks {
		packs, err := listPacks(dirs)
		if err != nil {
			return nil, false
		}
		// A missing object may have moved to another pack since.
		if looked != nil && slices.Equal(packs, looked) {
			return found, true
		}
		missing, err := lookIn(dirs, packs, size, ids, found)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			looked = nil // one of them has gone
		case err != nil:
			return nil, false
		case !missing:
			return found, true
		default:
			looked = packs
		}
	}
	return nil, false
}

// listPacks returns the paths of all packs, without their extension.
func listPacks(dirs []string) ([]string, error) {
	packs := []string{}
	for _, dir := range dirs {
		entries, err := os.ReadDir(filepath.Join(dir, "pack"))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, d := range entries {
			if base, ok := strings.CutSuffix(d.Name(), ".idx"); ok && strings.HasPrefix(base, "pack-") {
				packs = append(packs, filepath.Join(dir, "pack", base))
			}
		}
	}
	return packs, nil
}

// lookIn marks the objects that it finds, whose names have size bytes, and reports
// whether any is missing.
func lookIn(dirs, packs []string, size int, ids []string, found []bool) (missing bool, err error) {
	names := make([][]byte, len(ids)) // nil once there is nothing to look for
	for i, id := range ids {
		if !found[i] && IsID(id) && len(id) == 2*size {
			names[i], _ = hex.DecodeString(id)
			for _, dir := range dirs {
				if info, err := os.Lstat(filepath.Join(dir, id[:2], id[2:])); err == nil && info.Mode().IsRegular() {
					found[i], names[i] = true, nil
					break
				}
			}
		}
	}
	wanted := func(name []byte) bool { return name != nil }
	for _, pack := range packs {
		if !slices.ContainsFunc(names, wanted) {
			return false, nil
		}
		if err := lookInPack(pack, size, names, found); err != nil {
			return false, err
		}
	}
	return slices.ContainsFunc(names, wanted), nil
}

var errIndex = errors.New("not an index of a pack in version 2")

const (
	indexMagic = "\xfftOc\x00\x00\x00\x02"
	indexHead  = 8 + 256*4 // before the names
)

// lookInPack looks in one index (gitformat-pack): 8 bytes of head, 256 counts of the
// names up to a first byte, then the names in order.
func lookInPack(pack string, size int, names [][]byte, found []bool) error {
	f, err := os.Open(pack + ".idx")
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	var counts [indexHead]byte
	if _, err := io.ReadFull(f, counts[:]); err != nil || string(counts[:8]) != indexMagic {
		return errIndex
	}
	upTo := func(first int) int64 { return int64(binary.BigEndian.Uint32(counts[8+4*first:])) }
	there := make([]byte, size)
	for i, name := range names {
		if name == nil {
			continue
		}
		low, high := int64(0), upTo(int(name[0]))
		if name[0] > 0 {
			low = upTo(int(name[0]) - 1)
		}
		for low < high {
			middle := low + (high-low)/2
			if _, err := f.ReadAt(there, indexHead+middle*int64(size)); err != nil {
				return errIndex
			}
			order := bytes.Compare(there, name)
			if order == 0 {
				if _, err := os.Lstat(pack + ".pack"); err != nil {
					return err
				}
				found[i], names[i] = true, nil
				break
			}
			if order < 0 {
				low = middle + 1
			} else {
				high = middle
			}
		}
	}
	return nil
}
