package gitrepo

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"syscall"
)

// checkDepths refuses packs that git has indexed in a quarantine, if deltas in one are
// deeper than they may be. A [PackScan] cannot see that of deltas that name their bases by
// id, as libgit2 writes them: it does not know the ids of what passes.
func checkDepths(ctx context.Context, dir string, format Format, most int) error {
	packs, err := listPacks([]string{filepath.Join(dir, "objects")})
	if err != nil {
		return fmt.Errorf("look at the deltas of a pack: %w", err)
	}
	for _, pack := range packs {
		refused := (*Refused)(nil)
		if err := checkDepth(ctx, pack, idLength(format)/2, most); errors.As(err, &refused) {
			return err
		} else if err != nil {
			return fmt.Errorf("look at the deltas of a pack: %w", err)
		}
	}
	return nil
}

// indexedPack is a pack with its index, which is mapped: it is larger than the names of all
// objects. Beside it, fourteen bytes are held for each object while it is looked at.
type indexedPack struct {
	pack    *os.File
	index   []byte
	idSize  int
	objects int
	places  []int64 // of the objects, in order

	head   bytes.Reader
	window [4 << 10]byte // what was read last of the pack
	at     int64         // where it begins
	length int
}

// noBase is the base of what is no delta.
const noBase = 1<<32 - 1

// checkDepth refuses a pack with a delta deeper than most. It inflates nothing: it finds the
// base of each object, and then how far each is from one that is no delta.
func checkDepth(ctx context.Context, path string, idSize, most int) error {
	p, err := openIndexed(path, idSize)
	if err != nil {
		return err
	}
	defer p.close()
	bases := make([]uint32, p.objects) // by place, as all that follows
	for i := range bases {
		if i%(1<<16) == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if bases[i], err = p.base(i); err != nil {
			return err
		}
	}
	const deepest = 1<<16 - 2
	most = min(most, deepest)
	known := make([]uint16, p.objects) // depths, and one; 0: not known yet
	for i := range bases {
		// A circle, which git has refused, has no end.
		depth, at := 0, uint32(i)
		for known[at] == 0 && bases[at] != noBase && depth <= most {
			depth, at = depth+1, bases[at]
		}
		if known[at] > 0 {
			depth += int(known[at]) - 1
		}
		if depth > most {
			return refusedDepth(most)
		}
		for at = uint32(i); known[at] == 0; at = bases[at] {
			known[at] = uint16(depth + 1)
			if depth--; depth < 0 {
				break
			}
		}
	}
	return nil
}

func refusedDepth(most int) error { return refusedPack("deltas are more than %d deep", most) }

// openIndexed opens a pack with its index (gitformat-pack): 8 bytes of head, 256 counts of
// the names up to a first byte, the names in order, their sums, and their places.
func openIndexed(path string, idSize int) (_ *indexedPack, err error) {
	p := &indexedPack{idSize: idSize}
	defer func() {
		if err != nil {
			p.close()
		}
	}()
	if p.pack, err = os.Open(path + ".pack"); err != nil {
		return nil, err
	}
	f, err := os.Open(path + ".idx")
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size() < indexHead {
		return nil, errIndex
	}
	if p.index, err = syscall.Mmap(int(f.Fd()), 0, int(info.Size()), syscall.PROT_READ, syscall.MAP_SHARED); err != nil {
		return nil, err
	}
	p.objects = p.upTo(255)
	if string(p.index[:8]) != indexMagic || len(p.index) < indexHead+p.objects*(idSize+8) {
		return nil, errIndex
	}
	p.places = make([]int64, p.objects)
	for i := range p.places {
		p.places[i] = p.place(i)
	}
	slices.Sort(p.places)
	return p, nil
}

func (p *indexedPack) close() {
	if p.index != nil {
		_ = syscall.Munmap(p.index)
	}
	if p.pack != nil {
		_ = p.pack.Close()
	}
}

// upTo counts the names up to a first byte.
func (p *indexedPack) upTo(first int) int { return int(binary.BigEndian.Uint32(p.index[8+4*first:])) }

// place is where the i-th object of the index begins in the pack. Places beyond 2 GiB stand
// in a list of their own.
func (p *indexedPack) place(i int) int64 {
	places := p.index[indexHead+p.objects*(p.idSize+4):]
	place := binary.BigEndian.Uint32(places[4*i:])
	if place&(1<<31) == 0 {
		return int64(place)
	}
	far := 4*p.objects + 8*int(place&^(1<<31))
	if far+8 > len(places) {
		return -1 // nothing is there
	}
	return int64(binary.BigEndian.Uint64(places[far:]))
}

// base is what the object that is the i-th in the pack is a delta of, or noBase.
func (p *indexedPack) base(i int) (uint32, error) {
	at := p.places[i]
	const longest = 64 // what stands before a content
	if at < p.at || at+longest > p.at+int64(p.length) {
		n, err := p.pack.ReadAt(p.window[:], at)
		if err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
		p.at, p.length = at, n
	}
	p.head.Reset(p.window[at-p.at : p.length])
	kind, _, err := readObjectHead(&p.head)
	if err != nil {
		return 0, err
	}
	switch kind {
	case objOffsetDelta:
		distance, err := readDistance(&p.head)
		if err != nil {
			return 0, err
		}
		return p.find(at - distance)
	case objIDDelta:
		id := p.window[int(at-p.at)+int(p.head.Size())-p.head.Len() : p.length]
		if len(id) < p.idSize {
			return 0, errNotPack
		}
		return p.named(id[:p.idSize])
	}
	return noBase, nil
}

// find returns which object begins at a place.
func (p *indexedPack) find(place int64) (uint32, error) {
	i, found := slices.BinarySearch(p.places, place)
	if !found {
		return 0, errNotPack
	}
	return uint32(i), nil
}

// named returns which object has a name. No two have the same: git refuses such a pack.
func (p *indexedPack) named(id []byte) (uint32, error) {
	low, high := 0, p.upTo(int(id[0]))
	if id[0] > 0 {
		low = p.upTo(int(id[0]) - 1)
	}
	if low > high || high > p.objects {
		return 0, errIndex
	}
	name := func(i int) []byte { return p.index[indexHead+i*p.idSize:][:p.idSize] }
	i := low + sort.Search(high-low, func(i int) bool { return bytes.Compare(name(low+i), id) >= 0 })
	if i == high || !bytes.Equal(name(i), id) {
		return 0, errNotPack
	}
	return p.find(p.place(i))
}
