package gitrepo

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

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
	size := idLength(s.format) / 2
	dirs := []string{filepath.Join(r.dir, "objects"), filepath.Join(s.dir, "objects")}
	found = make([]bool, len(ids))
	var looked []string
	for range maxLooks {
		packs, err := listPacks(dirs)
		if err != nil {
			return nil, false
		}
		// An object that is missing may have moved to another pack meanwhile.
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
