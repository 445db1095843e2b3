package gitrepo

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sort"
	"syscall"

	"github.com/klauspost/compress/flate"
)

// PackLimits bound the cost of indexing a pack: a pack of a few kB can inflate to terabytes. All
// must be positive.
type PackLimits struct {
	Objects   int64 // of a pack
	Depth     int   // deltas one on the other
	Inflated  int64 // bytes of all objects together
	Free      int64 // bytes that each pack may inflate to, whatever its size
	Expansion int64 // times its own size that a pack may inflate to, beyond Free
}

// DefaultPackLimits are the default limits. The Linux kernel has half as many objects,
// deltas 50 deep, and inflates to 100 times its packed size.
var DefaultPackLimits = PackLimits{Objects: 20_000_000, Depth: 500, Inflated: 1 << 40, Free: 512 << 20, Expansion: 2000}

func (l *PackLimits) check() error {
	if l.Objects <= 0 || l.Depth <= 0 || l.Inflated <= 0 || l.Free <= 0 || l.Expansion <= 0 {
		return errors.New("set up git: the limits of packs must be positive")
	}
	return nil
}

// early are the limits of a pack from somebody whom no event here vouches for: an eighth of
// what is free, a tenth of what its size allows.
func (l PackLimits) early() PackLimits {
	l.Free, l.Expansion = max(l.Free/8, 1), max(l.Expansion/10, 1)
	return l
}

// errNotPack ends a scan of what git refuses as well: it says best what is wrong.
var errNotPack = errors.New("not a pack")

// A PackScan reads a pack on its way to git, and refuses it before its cost exceeds the
// limits. It holds six bytes for each object. It belongs to one goroutine.
type PackScan struct {
	next chan []byte   // what was written, one piece at a time
	idle chan struct{} // the piece was looked at as far as that is possible
	done chan struct{} // closed when the fields below are set

	err      error // a *Refused, or nil
	panicked any   // what the scan panicked with, nil if it did not
	worked   int64 // bytes that were inflated
}

// ScanPack begins to read a pack that is given to Write. Early is whether no ref that it is
// for is said by an event that is here: then it may inflate to less.
func (r *Repo) ScanPack(format Format, early bool) *PackScan {
	s := &PackScan{next: make(chan []byte), idle: make(chan struct{}), done: make(chan struct{})}
	limits := r.git.options.Pack
	if early {
		limits = limits.early()
	}
	p := newPackReader(&pieces{scan: s}, limits, format)
	go s.scan(func() error {
		err := p.read()
		s.worked = p.worked
		return err
	})
	return s
}

// scan reads the pack in a goroutine of its own. No caller could contain a panic there, so Write
// passes it on to its own.
func (s *PackScan) scan(read func() error) {
	defer close(s.done)
	defer func() { s.panicked = recover() }()
	refused := (*Refused)(nil)
	if err := read(); errors.As(err, &refused) {
		s.err = err
	}
}

// Write returns when all of b was looked at. A *Refused says that the pack is not to go
// on. Bytes after the pack pass, and so does input that is no pack: git says what is wrong with them.
func (s *PackScan) Write(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	select {
	case s.next <- b:
	case <-s.done:
		return len(b), s.result()
	}
	select {
	case <-s.idle:
		return len(b), nil
	case <-s.done:
		return len(b), s.result()
	}
}

// result is what the scan has come to. REQUIRES: done is closed.
func (s *PackScan) result() error {
	if s.panicked != nil {
		panic(s.panicked)
	}
	return s.err
}

// Close ends the scan.
func (s *PackScan) Close() {
	close(s.next)
	<-s.done
}

// pieces are what a scan is given, as a reader. It asks for the next piece when all
// before it was looked at.
type pieces struct {
	scan  *PackScan
	left  []byte
	begun bool
}

func (r *pieces) Read(p []byte) (int, error) {
	if len(r.left) == 0 {
		if r.begun {
			r.scan.idle <- struct{}{}
		}
		r.begun = true
		b, ok := <-r.scan.next
		if !ok {
			r.begun = false // nobody waits any more
			return 0, io.EOF
		}
		r.left = b
	}
	n := copy(p, r.left)
	r.left = r.left[n:]
	return n, nil
}

// packReader is one scan of a pack (gitformat-pack).
type packReader struct {
	raw      counted
	in       *bufio.Reader // of raw
	limits   PackLimits
	idSize   int
	inflater io.ReadCloser
	buf      [32 << 10]byte

	offsets  []uint32 // of objects, modulo 4 GiB
	wraps    []int    // the objects with which the next 4 GiB begin
	depths   []uint16
	inflated int64 // of all objects, deltas applied
	worked   int64 // bytes that were inflated to learn that
}

// counted counts what is read of a pack.
type counted struct {
	r io.Reader
	n int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

func newPackReader(r io.Reader, limits PackLimits, format Format) *packReader {
	p := &packReader{limits: limits, idSize: idLength(format) / 2, raw: counted{r: r}}
	p.in = bufio.NewReaderSize(&p.raw, 32<<10)
	return p
}

// at is how many bytes of the pack were read.
func (p *packReader) at() int64 { return p.raw.n - int64(p.in.Buffered()) }

const (
	objOffsetDelta = 6
	objIDDelta     = 7
)

func (p *packReader) read() error {
	var head [12]byte
	if _, err := io.ReadFull(p.in, head[:]); err != nil || string(head[:4]) != "PACK" {
		return errNotPack
	}
	objects := int64(binary.BigEndian.Uint32(head[8:]))
	if objects > p.limits.Objects {
		return refusedPack("it has %d objects, and may have %d", objects, p.limits.Objects)
	}
	for i := range objects {
		if err := p.object(int(i)); err != nil {
			return err
		}
	}
	return nil
}

func refusedPack(format string, args ...any) error {
	return &Refused{Reason: "the pack takes more work than it may: " + fmt.Sprintf(format, args...)}
}

// object reads one object, and adds up its cost.
func (p *packReader) object(i int) error {
	at := p.at()
	kind, size, err := readObjectHead(p.in)
	if err != nil {
		return err
	}
	depth := 0
	switch kind {
	case objOffsetDelta:
		distance, err := readDistance(p.in)
		if err != nil {
			return err
		}
		base, found := p.find(at - distance)
		if !found {
			return errNotPack
		}
		depth = int(p.depths[base]) + 1
	case objIDDelta:
		if _, err := io.ReadFull(p.in, p.buf[:p.idSize]); err != nil {
			return errNotPack
		}
		depth = 1 // at least; see checkDepths
	}
	if depth > p.limits.Depth {
		return refusedDepth(p.limits.Depth)
	}
	if i > 0 && uint32(at) < p.offsets[i-1] {
		p.wraps = append(p.wraps, i)
	}
	p.offsets, p.depths = append(p.offsets, uint32(at)), append(p.depths, uint16(min(depth, 1<<16-1)))
	return p.content(kind, size)
}

// readObjectHead reads what an object is, and how long its content is, inflated.
func readObjectHead(in io.ByteReader) (kind byte, size int64, err error) {
	c, err := in.ReadByte()
	if err != nil {
		return 0, 0, errNotPack
	}
	kind, size = c>>4&7, int64(c&15)
	for shift := 4; c&0x80 != 0; shift += 7 {
		if c, err = in.ReadByte(); err != nil || shift > 56 {
			return 0, 0, errNotPack
		}
		size |= int64(c&0x7f) << shift
	}
	return kind, size, nil
}

// readDistance reads how far before a delta its base begins.
func readDistance(in io.ByteReader) (int64, error) {
	c, err := in.ReadByte()
	n := int64(c & 0x7f)
	for err == nil && c&0x80 != 0 {
		if n >= 1<<48 {
			return 0, errNotPack
		}
		c, err = in.ReadByte()
		n = (n+1)<<7 | int64(c&0x7f)
	}
	if err != nil {
		return 0, errNotPack
	}
	return n, nil
}

// find returns the object that begins at a place.
func (p *packReader) find(at int64) (index int, found bool) {
	if at < 0 {
		return 0, false
	}
	from, to := 0, len(p.offsets)
	if wrap := int(at >> 32); wrap > len(p.wraps) {
		return 0, false
	} else {
		if wrap > 0 {
			from = p.wraps[wrap-1]
		}
		if wrap < len(p.wraps) {
			to = p.wraps[wrap]
		}
	}
	part := p.offsets[from:to]
	index = sort.Search(len(part), func(i int) bool { return part[i] >= uint32(at) })
	return from + index, index < len(part) && part[index] == uint32(at)
}

// content inflates an object, for only that says where it ends, and a delta as far as to
// learn what it makes.
func (p *packReader) content(kind byte, size int64) error {
	var zlib [2]byte
	if _, err := io.ReadFull(p.in, zlib[:]); err != nil || zlib[0]&15 != 8 || zlib[1]&0x20 != 0 || binary.BigEndian.Uint16(zlib[:])%31 != 0 {
		return errNotPack
	}
	if p.inflater == nil {
		p.inflater = flate.NewReader(p.in)
	} else if err := p.inflater.(flate.Resetter).Reset(p.in, nil); err != nil {
		return errNotPack
	}
	delta := kind == objOffsetDelta || kind == objIDDelta
	for left, first := size, true; ; first = false {
		n, err := p.inflater.Read(p.buf[:])
		if left -= int64(n); left < 0 {
			return errNotPack // it is more than it says
		}
		p.inflated += int64(n)
		p.worked += int64(n)
		runtime.Gosched() // others wait for the processor that have less to do
		if first && delta {
			for n < 2*binary.MaxVarintLen64 && err == nil {
				var more int
				more, err = p.inflater.Read(p.buf[n : 2*binary.MaxVarintLen64])
				if left -= int64(more); left < 0 {
					return errNotPack
				}
				n += more
			}
			base, a := binary.Uvarint(p.buf[:n])
			if a <= 0 || base > 1<<62 {
				return errNotPack
			}
			made, b := binary.Uvarint(p.buf[a:n])
			if b <= 0 || made > 1<<62 {
				return errNotPack
			}
			p.inflated = add(p.inflated, int64(made))
			if kind == objIDDelta {
				p.inflated = add(p.inflated, int64(base)) // it may have to be read from here
			}
		}
		if err := p.within(p.at()); err != nil {
			return err
		}
		if err == io.EOF {
			if left != 0 {
				return errNotPack
			}
			break
		}
		if err != nil {
			return errNotPack
		}
	}
	var sum [4]byte // git looks at it
	if _, err := io.ReadFull(p.in, sum[:]); err != nil {
		return errNotPack
	}
	return nil
}

// add adds up to what no limit reaches.
func add(a, b int64) int64 {
	const maximum = 1 << 62
	if a > maximum-b {
		return maximum
	}
	return a + b
}

// within refuses a pack that inflates to too much for the bytes read so far.
func (p *packReader) within(packed int64) error {
	if p.inflated > p.limits.Inflated {
		return refusedPack("its objects have more than %d bytes", p.limits.Inflated)
	}
	if (p.inflated-p.limits.Free)/p.limits.Expansion > packed {
		return refusedPack("its objects have more than %d MiB and %d times its own size", p.limits.Free>>20, p.limits.Expansion)
	}
	return nil
}

// checkDepths refuses packs that git has indexed in a quarantine, if deltas in one are
// deeper than they may be. A [PackScan] cannot see that of deltas that name their bases by
// id, as libgit2 writes them: it does not know the ids of what passes.
func checkDepths(ctx context.Context, dir string, format Format, limit int) error {
	packs, err := listPacks([]string{filepath.Join(dir, "objects")})
	if err != nil {
		return fmt.Errorf("look at the deltas of a pack: %w", err)
	}
	for _, pack := range packs {
		refused := (*Refused)(nil)
		if err := checkDepth(ctx, pack, idLength(format)/2, limit); errors.As(err, &refused) {
			return err
		} else if err != nil {
			return fmt.Errorf("look at the deltas of a pack: %w", err)
		}
	}
	return nil
}

// indexedPack is a pack with its index, which is mapped: it is larger than the names of all
// objects. During the check, memory holds fourteen more bytes for each object.
type indexedPack struct {
	pack    *os.File
	index   []byte
	idSize  int
	objects int
	offsets []int64 // of the objects, in order

	head   bytes.Reader
	window [4 << 10]byte // what was read last of the pack
	at     int64         // where it begins
	length int
}

// noBase is the base of what is no delta.
const noBase = 1<<32 - 1

// checkDepth refuses a pack with a delta deeper than most. It inflates nothing: it finds the
// base of each object, and then how far each is from one that is no delta.
func checkDepth(ctx context.Context, path string, idSize, limit int) error {
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
	limit = min(limit, deepest)
	known := make([]uint16, p.objects) // depths, and one; 0: not known yet
	for i := range bases {
		// A circle, which git has refused, has no end.
		depth, at := 0, uint32(i)
		for known[at] == 0 && bases[at] != noBase && depth <= limit {
			depth, at = depth+1, bases[at]
		}
		if known[at] > 0 {
			depth += int(known[at]) - 1
		}
		if depth > limit {
			return refusedDepth(limit)
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

func refusedDepth(limit int) error { return refusedPack("deltas are more than %d deep", limit) }

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
	p.offsets = make([]int64, p.objects)
	for i := range p.offsets {
		p.offsets[i] = p.offset(i)
	}
	slices.Sort(p.offsets)
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

// offset is where the i-th object of the index begins in the pack. Offsets from 2 GiB on have a
// list of their own.
func (p *indexedPack) offset(i int) int64 {
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
	at := p.offsets[i]
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
	i, found := slices.BinarySearch(p.offsets, place)
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
	return p.find(p.offset(i))
}
