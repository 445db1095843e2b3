package guest

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/klauspost/compress/zstd"
)

const (
	preparedSuffix = ".tar.zst"
	maxPrepared    = 512 << 20 // bytes of all files of one module
)

// PreparedFile is the file for a module in [Options.Prepared].
func PreparedFile(prepared string, wasm []byte) string {
	return preparedFile(prepared, sha256.Sum256(wasm))
}

func preparedFile(prepared string, module [sha256.Size]byte) string {
	return codeDir(prepared, module) + preparedSuffix
}

// Pack returns what [Options.CacheDir] keeps of a module, as a file of
// [Options.Prepared].
func Pack(cacheDir string, wasm []byte) ([]byte, error) {
	dir := codeDir(cacheDir, sha256.Sum256(wasm))
	defer lockFolder(dir)()
	var packed bytes.Buffer
	compressed, err := zstd.NewWriter(&packed, zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	archive := tar.NewWriter(compressed)
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == mappedFile || d.Name() == idleFile {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err == nil {
			err = archive.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(data))})
		}
		if err == nil {
			_, err = archive.Write(data)
		}
		return err
	})
	if err = errors.Join(err, archive.Close(), compressed.Close()); err != nil {
		return nil, fmt.Errorf("pack compiled code: %w", err)
	}
	return packed.Bytes(), nil
}

// unpackCode fills the folder of a module from the file that came with the program, and
// reports whether there is one. What it holds is checked like all that the folder holds.
func unpackCode(file, dir string) (found bool, err error) {
	if !trusted(file) {
		return false, nil
	}
	f, err := os.Open(file)
	if err != nil {
		return false, err
	}
	defer f.Close()
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return false, err
	}
	made, err := os.MkdirTemp(filepath.Dir(dir), newCode)
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(made)
	compressed, err := zstd.NewReader(f, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(64<<20))
	if err != nil {
		return false, err
	}
	defer compressed.Close()
	archive := tar.NewReader(io.LimitReader(compressed, maxPrepared))
	for {
		head, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return true, place(made, dir)
		}
		if err == nil && (head.Typeflag != tar.TypeReg || !filepath.IsLocal(head.Name)) {
			err = fmt.Errorf("%q is no file of compiled code", head.Name)
		}
		if err == nil {
			err = writeFrom(archive, filepath.Join(made, head.Name))
		}
		if err != nil {
			return false, err
		}
	}
}

// writeFrom makes a file, and the folders above it, of what is read.
func writeFrom(r io.Reader, path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	return errors.Join(err, f.Close())
}

// trusted reports whether nobody else than who may change this program, or runs it, can
// write the file. Machine code does what it likes: it is trusted as the program is.
func trusted(file string) bool {
	owners := []uint32{0, uint32(os.Geteuid())}
	if program, err := os.Executable(); err == nil {
		if info, err := os.Stat(program); err == nil {
			owners = append(owners, ownerOf(info))
		}
	}
	for _, path := range []string{file, filepath.Dir(file)} {
		info, err := os.Lstat(path)
		if err != nil || info.Mode().Perm()&0o022 != 0 || !slices.Contains(owners, ownerOf(info)) {
			return false
		}
		if path == file && !info.Mode().IsRegular() {
			return false
		}
	}
	return true
}

func ownerOf(info fs.FileInfo) uint32 { return info.Sys().(*syscall.Stat_t).Uid }
