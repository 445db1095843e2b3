package gitread

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sort"
	"strings"
)

// graph is git's commit-graph (gitformat-commit-graph) in memory. Commits are numbered from the
// lowest layer on. It does not change.
type graph struct {
	idBytes int
	layers  []*layer
	count   uint32
	bytes   int
	state   string // of the files
}

// layer is one file of a commit-graph.
type layer struct {
	first  uint32 // number of its first commit
	count  uint32
	fanout []byte
	ids    []byte
	data   []byte
	edges  []byte

	filterEnds []byte // nil if it has no filters
	filters    []byte
	hashes     uint32 // of a filter
}

// maxGraph bounds the files of a commit-graph that is read: about a million commits.
const maxGraph = 96 << 20

var errGraph = errors.New("the commit-graph is damaged or of another version")

// stateOf returns a text that changes when the files do.
func stateOf(files []string) (state string, size int64, err error) {
	for _, file := range files {
		info, err := os.Stat(file)
		if err != nil {
			return "", 0, err
		}
		state += fmt.Sprintf("%s %d %d\n", file, info.Size(), info.ModTime().UnixNano())
		size += info.Size()
	}
	return state, size, nil
}

// openGraph reads a commit-graph, nil if there is none or it is too large.
func openGraph(files []string, idBytes int) (*graph, error) {
	state, size, err := stateOf(files)
	if len(files) == 0 || errors.Is(err, fs.ErrNotExist) || size > maxGraph {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the commit-graph: %w", err)
	}
	g := &graph{idBytes: idBytes, state: state}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil // git has just replaced it
		}
		if err != nil {
			return nil, fmt.Errorf("read the commit-graph: %w", err)
		}
		if err := g.add(content); err != nil {
			return nil, fmt.Errorf("read %s: %w", file, err)
		}
	}
	return g, nil
}

// add adds a layer.
func (g *graph) add(content []byte) error {
	if len(content) < 8 || string(content[:4]) != "CGPH" || content[4] != 1 || content[5] != hashVersion(g.idBytes) {
		return errGraph
	}
	chunks := make(map[string][]byte)
	for i := range int(content[6]) {
		if len(content) < 8+12*(i+2) {
			return errGraph
		}
		row, next := content[8+12*i:], content[8+12*(i+1):]
		begin, end := binary.BigEndian.Uint64(row[4:]), binary.BigEndian.Uint64(next[4:])
		if begin > end || end > uint64(len(content)) {
			return errGraph
		}
		chunks[string(row[:4])] = content[begin:end]
	}
	l := &layer{first: g.count, fanout: chunks["OIDF"], ids: chunks["OIDL"], data: chunks["CDAT"], edges: chunks["EDGE"]}
	if len(l.fanout) != 1024 {
		return errGraph
	}
	l.count = binary.BigEndian.Uint32(l.fanout[1020:])
	n := int(l.count)
	if len(l.ids) != n*g.idBytes || len(l.data) != n*(g.idBytes+16) {
		return errGraph
	}
	for i := 4; i < 1024; i += 4 {
		if binary.BigEndian.Uint32(l.fanout[i-4:]) > binary.BigEndian.Uint32(l.fanout[i:]) {
			return errGraph
		}
	}
	ends, filters := chunks["BIDX"], chunks["BDAT"]
	if len(ends) == 4*n && len(filters) >= 12 {
		version, hashes, bits := binary.BigEndian.Uint32(filters), binary.BigEndian.Uint32(filters[4:]), binary.BigEndian.Uint32(filters[8:])
		if version <= 2 && hashes > 0 && hashes <= 32 && bits > 0 {
			l.filterEnds, l.filters, l.hashes = ends, filters[12:], hashes
		}
	}
	g.layers = append(g.layers, l)
	g.count += l.count
	g.bytes += len(content)
	if g.count >= noParent {
		return errGraph
	}
	return nil
}

func (g *graph) layerOf(n uint32) *layer {
	for i := len(g.layers) - 1; i > 0; i-- {
		if n >= g.layers[i].first {
			return g.layers[i]
		}
	}
	return g.layers[0]
}

// find returns the number of a commit.
func (g *graph) find(id string) (n uint32, ok bool) {
	name, err := hex.DecodeString(id)
	if g == nil || err != nil || len(name) != g.idBytes {
		return 0, false
	}
	for _, l := range g.layers {
		low, high := uint32(0), binary.BigEndian.Uint32(l.fanout[4*int(name[0]):])
		if name[0] > 0 {
			low = binary.BigEndian.Uint32(l.fanout[4*(int(name[0])-1):])
		}
		i := low + uint32(sort.Search(int(high-low), func(i int) bool {
			at := (int(low) + i) * g.idBytes
			return bytes.Compare(l.ids[at:at+g.idBytes], name) >= 0
		}))
		if i < high && bytes.Equal(l.ids[int(i)*g.idBytes:int(i+1)*g.idBytes], name) {
			return l.first + i, true
		}
	}
	return 0, false
}

// id returns the id of a commit.
func (g *graph) id(n uint32) string {
	l := g.layerOf(n)
	i := int(n-l.first) * g.idBytes
	return hex.EncodeToString(l.ids[i : i+g.idBytes])
}

// eachOf calls yield with the ids that begin with a prefix, whose first byte is given, until it
// returns false.
func (g *graph) eachOf(first byte, prefix string, yield func(id string) bool) {
	for _, l := range g.layers {
		low, high := uint32(0), binary.BigEndian.Uint32(l.fanout[4*int(first):])
		if first > 0 {
			low = binary.BigEndian.Uint32(l.fanout[4*(int(first)-1):])
		}
		i := low + uint32(sort.Search(int(high-low), func(i int) bool { return g.id(l.first+low+uint32(i)) >= prefix }))
		for ; i < high; i++ {
			id := g.id(l.first + i)
			if !strings.HasPrefix(id, prefix) {
				break
			}
			if !yield(id) {
				return
			}
		}
	}
}

// row returns the data of a commit.
func (g *graph) row(n uint32) []byte {
	l := g.layerOf(n)
	size := g.idBytes + 16
	return l.data[int(n-l.first)*size : int(n-l.first+1)*size]
}

func (g *graph) tree(n uint32) string { return hex.EncodeToString(g.row(n)[:g.idBytes]) }

// when returns the time of the committer.
func (g *graph) when(n uint32) int64 {
	row := g.row(n)[g.idBytes+8:]
	return int64(binary.BigEndian.Uint64(row) & (1<<34 - 1))
}

// generation is larger than that of each parent. It is 0 if the file does not say.
func (g *graph) generation(n uint32) uint32 {
	return binary.BigEndian.Uint32(g.row(n)[g.idBytes+8:]) >> 2
}

const (
	noParent  = 0x70000000
	moreEdges = 0x80000000
)

// parents appends the parents of a commit.
func (g *graph) parents(to []uint32, n uint32) []uint32 {
	row := g.row(n)[g.idBytes:]
	first, second := binary.BigEndian.Uint32(row), binary.BigEndian.Uint32(row[4:])
	if first < g.count {
		to = append(to, first)
	}
	if second&moreEdges == 0 {
		if second < g.count {
			to = append(to, second)
		}
		return to
	}
	edges := g.layerOf(n).edges
	for i := int(second&^moreEdges) * 4; i+4 <= len(edges); i += 4 {
		edge := binary.BigEndian.Uint32(edges[i:])
		if parent := edge &^ moreEdges; parent < g.count {
			to = append(to, parent)
		}
		if edge&moreEdges != 0 {
			break
		}
	}
	return to
}

// filter returns the filter of the paths that a commit changed against its first parent, nil if
// there is none.
func (g *graph) filter(n uint32) (filter []byte, hashes uint32) {
	l := g.layerOf(n)
	if l.filterEnds == nil {
		return nil, 0
	}
	i := int(n - l.first)
	begin, end := uint32(0), binary.BigEndian.Uint32(l.filterEnds[4*i:])
	if i > 0 {
		begin = binary.BigEndian.Uint32(l.filterEnds[4*(i-1):])
	}
	if begin >= end || int(end) > len(l.filters) {
		return nil, 0
	}
	return l.filters[begin:end], l.hashes
}

// pathKey is the hash of a path for filters. It is nil for a path that git may hash in two ways.
type pathKey []uint32

// maxHashes is how many hashes a key has.
const maxHashes = 32

func keyOfPath(path string) pathKey {
	for i := range len(path) {
		if path[i] >= 0x80 {
			return nil // git hashed it by whether char is signed
		}
	}
	a, b := murmur3(0x293ae76f, path), murmur3(0x7e646e2c, path)
	key := make(pathKey, maxHashes)
	for i := range key {
		key[i] = a + uint32(i)*b
	}
	return key
}

// mayChange reports whether a commit may have changed a path, by its filter.
func (key pathKey) mayChange(filter []byte, hashes uint32) bool {
	if filter == nil || key == nil {
		return true
	}
	bits := uint32(len(filter)) * 8
	for _, h := range key[:hashes] {
		if bit := h % bits; filter[bit/8]&(1<<(bit%8)) == 0 {
			return false
		}
	}
	return true
}

// murmur3 is MurmurHash3 (x86, 32 bits).
func murmur3(seed uint32, s string) uint32 {
	const c1, c2 = 0xcc9e2d51, 0x1b873593
	h := seed
	i := 0
	for ; i+4 <= len(s); i += 4 {
		k := uint32(s[i]) | uint32(s[i+1])<<8 | uint32(s[i+2])<<16 | uint32(s[i+3])<<24
		k *= c1
		k = k<<15 | k>>17
		k *= c2
		h ^= k
		h = h<<13 | h>>19
		h = h*5 + 0xe6546b64
	}
	k := uint32(0)
	for j := len(s) - 1; j >= i; j-- {
		k = k<<8 | uint32(s[j])
	}
	if i < len(s) {
		k *= c1
		k = k<<15 | k>>17
		k *= c2
		h ^= k
	}
	h ^= uint32(len(s))
	h ^= h >> 16
	h *= 0x85ebca6b
	h ^= h >> 13
	h *= 0xc2b2ae35
	h ^= h >> 16
	return h
}

// hashVersion is the number that the file has for the format of ids.
func hashVersion(idBytes int) byte {
	if idBytes == 32 {
		return 2
	}
	return 1
}
