package guest

import (
	"hash/crc32"
	"io/fs"
	"os"
	"sync"
	"weak"

	"github.com/klauspost/compress/zstd"
)

// writeZstd writes a file that others see whole or not at all, for everybody to read.
func writeZstd(file string, data []byte, d *dictionary) error {
	const window = 32 << 20 // for the dictionary and the data
	o := []zstd.EOption{
		zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(window),
	}
	if d != nil {
		o = append(o, zstd.WithEncoderDictRaw(d.id, d.data))
	}
	w, err := zstd.NewWriter(nil, o...)
	if err != nil {
		return err
	}
	if err := os.WriteFile(file+".new", w.EncodeAll(data, nil), 0o644); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

// readZstd reads a file that writeZstd has written.
func readZstd(file string, d *dictionary) ([]byte, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	o := []zstd.DOption{zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxPrepared)}
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

// dictionary is the zstd dictionary of the files of a folder. Each of them has the number
// of the dictionary, which identifies its content.
type dictionary struct {
	file string
	info fs.FileInfo
	id   uint32
	data []byte
}

// lastDictionary is kept while modules load: the garbage collector takes it.
var lastDictionary struct {
	sync.Mutex
	weak.Pointer[dictionary]
}

func openDictionary(file string) (*dictionary, error) {
	lastDictionary.Lock()
	defer lastDictionary.Unlock()
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	d := lastDictionary.Value()
	if d != nil && d.file == file && os.SameFile(d.info, info) && d.info.ModTime().Equal(info.ModTime()) {
		return d, nil
	}
	data, err := readZstd(file, nil)
	if err != nil {
		return nil, err
	}
	d = &dictionary{file, info, crc32.Checksum(data, castagnoli) | 1, data} // 0 is no dictionary
	lastDictionary.Pointer = weak.Make(d)
	return d, nil
}
