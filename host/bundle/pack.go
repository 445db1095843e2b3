package bundle

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"sync"
	"weak"

	"github.com/klauspost/compress/zstd"
)

// A pack is a file of named entries in groups. Each group is compressed as a whole. Modules of one
// compiler have most of their code in common. So each group is compressed against the first, which
// is its dictionary.
//
// The file has a magic word, the length of the index in 4 bytes, the index as JSON, and the groups.
type pack struct {
	index
	groups [][]byte // compressed

	mu         sync.Mutex
	dictionary weak.Pointer[dictionary] // kept while entries are read: the garbage collector takes it
}

const magic = "talonpk1"

type index struct {
	About   json.RawMessage  `json:"about,omitempty"` // what the writer says of the entries
	Groups  []int64          `json:"groups"`          // compressed bytes of each
	Entries map[string]place `json:"entries"`
}

// place is where an entry is.
type place struct {
	Group int   `json:"group"`
	From  int64 `json:"from"`
	Size  int64 `json:"size"`
}

type entry struct {
	name string
	data []byte
}

// dictionary is the first group of a pack.
type dictionary struct {
	id   uint32
	data []byte
}

const (
	maxGroup = 256 << 20 // bytes of a group, decompressed
	window   = 64 << 20  // bytes of the dictionary and a group
)

func newDictionary(data []byte) *dictionary {
	return &dictionary{crc32.ChecksumIEEE(data) | 1, data} // 0 is no dictionary
}

func writePack(w io.Writer, about any, groups [][]entry) error {
	text, err := json.Marshal(about)
	if err != nil {
		return err
	}
	x := index{About: text, Entries: make(map[string]place)}
	var body bytes.Buffer
	var d *dictionary
	for number, group := range groups {
		var data []byte
		for _, e := range group {
			x.Entries[e.name] = place{number, int64(len(data)), int64(len(e.data))}
			data = append(data, e.data...)
		}
		compressed, err := compress(data, d)
		if err != nil {
			return err
		}
		if d == nil {
			d = newDictionary(data)
		}
		x.Groups = append(x.Groups, int64(len(compressed)))
		body.Write(compressed)
	}
	head, err := json.Marshal(x)
	if err != nil {
		return err
	}
	_, err = w.Write(append(binary.LittleEndian.AppendUint32([]byte(magic), uint32(len(head))), head...))
	if err == nil {
		_, err = body.WriteTo(w)
	}
	return err
}

func compress(data []byte, d *dictionary) ([]byte, error) {
	o := []zstd.EOption{zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(window)}
	if d != nil {
		o = append(o, zstd.WithEncoderDictRaw(d.id, d.data))
	}
	c, err := zstd.NewWriter(nil, o...)
	if err != nil {
		return nil, err
	}
	return c.EncodeAll(data, nil), nil
}

// errDamaged says that a pack was not written by writePack.
var errDamaged = errors.New("the file is damaged")

// openPack returns the pack in a file. It copies none of the groups.
func openPack(data []byte) (*pack, error) {
	rest, ok := bytes.CutPrefix(data, []byte(magic))
	if !ok || len(rest) < 4 {
		return nil, errDamaged
	}
	size := int64(binary.LittleEndian.Uint32(rest))
	if rest = rest[4:]; int64(len(rest)) < size {
		return nil, errDamaged
	}
	p := &pack{}
	if err := json.Unmarshal(rest[:size], &p.index); err != nil {
		return nil, fmt.Errorf("%w: %w", errDamaged, err)
	}
	rest = rest[size:]
	for _, size := range p.Groups {
		if size < 0 || int64(len(rest)) < size {
			return nil, errDamaged
		}
		p.groups = append(p.groups, rest[:size])
		rest = rest[size:]
	}
	return p, nil
}

// read returns an entry, decompressed. The caller must not change it.
func (p *pack) read(name string) ([]byte, error) {
	at, ok := p.Entries[name]
	if !ok {
		return nil, fmt.Errorf("read %.80q: %w", name, fs.ErrNotExist)
	}
	group, err := p.decompress(at.Group)
	if err != nil {
		return nil, err
	}
	if at.From < 0 || at.Size < 0 || at.From > int64(len(group)) || at.Size > int64(len(group))-at.From {
		return nil, errDamaged
	}
	return group[at.From : at.From+at.Size : at.From+at.Size], nil
}

// decompress returns the entries of a group.
func (p *pack) decompress(number int) ([]byte, error) {
	if number < 0 || number >= len(p.groups) {
		return nil, errDamaged
	}
	d, err := p.readDictionary()
	if err != nil || number == 0 {
		return d.data, err
	}
	return decompress(p.groups[number], d)
}

func (p *pack) readDictionary() (*dictionary, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if d := p.dictionary.Value(); d != nil {
		return d, nil
	}
	data, err := decompress(p.groups[0], nil)
	if err != nil {
		return new(dictionary), err
	}
	d := newDictionary(data)
	p.dictionary = weak.Make(d)
	return d, nil
}

func decompress(data []byte, d *dictionary) ([]byte, error) {
	o := []zstd.DOption{zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxGroup), zstd.WithDecoderMaxWindow(window)}
	if d != nil {
		o = append(o, zstd.WithDecoderDictRaw(d.id, d.data))
	}
	r, err := zstd.NewReader(nil, o...)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return r.DecodeAll(data, nil)
}
