package guest

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"talon/sdk/abi/manifest"
)

// A folder of prepared code ([Options.Prepared]) has a file for each module, what
// [Options.CacheDir] keeps of it, and one file that all of them are compressed against:
// modules of one compiler have most of their code in common.
const (
	// dictionaryFile is the latter.
	dictionaryFile = "dictionary.zst"

	preparedSuffix = ".tar.zst"
	maxPrepared    = 256 << 20 // bytes of all files of one module
)

// Prepare fills a folder with the compiled code of the modules in other folders. A server
// with this folder needs no process to compile them ([Options.Prepared]). Prepare keeps
// code that this machine can use, and deletes code that belongs to no module.
func Prepare(ctx context.Context, folder string, from []string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	var missing []*CompileJob
	keep := []string{dictionaryFile}
	for _, dir := range from {
		modules, err := os.ReadDir(dir)
		if err != nil {
			return err
		}
		for _, e := range modules {
			if filepath.Ext(e.Name()) != ".wasm" {
				continue
			}
			wasm, err := os.ReadFile(filepath.Join(dir, e.Name()))
			if err != nil {
				return err
			}
			j := &CompileJob{Name: strings.TrimSuffix(e.Name(), ".wasm"), Wasm: wasm}
			j.Service.Domain = manifest.VectorDomain
			switch err := j.within(func() error { return j.load(ctx, folder) }); {
			case err == nil:
				keep = append(keep, filepath.Base(preparedFile(folder, sha256.Sum256(wasm))))
			case errors.Is(err, errUnusable):
				missing = append(missing, j)
			default:
				return fmt.Errorf("look at %s: %w", e.Name(), err)
			}
		}
	}
	if len(keep) == 1 {
		keep = nil // a dictionary alone is of other modules
	}
	there, err := os.ReadDir(folder)
	for _, e := range there {
		if err == nil && !slices.Contains(keep, e.Name()) {
			err = os.Remove(filepath.Join(folder, e.Name()))
		}
	}
	if err != nil {
		return err
	}
	for _, j := range missing {
		err := j.within(func() error {
			if err := j.do(ctx); err != nil {
				return err
			}
			return pack(folder, j.CacheDir, j.Wasm)
		})
		if err != nil {
			return fmt.Errorf("compile %s.wasm: %w", j.Name, err)
		}
	}
	return nil
}

// within calls f with a cache for this job alone.
func (j *CompileJob) within(f func() error) error {
	cache, err := os.MkdirTemp("", "talon-compile-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(cache)
	j.CacheDir = cache
	return f()
}

// load loads the module with what the folder has of it, or returns errUnusable.
func (j *CompileJob) load(ctx context.Context, folder string) error {
	o := Options{Name: j.Name, Service: j.Service, CacheDir: j.CacheDir, Prepared: folder, Patient: true}
	o.Elsewhere = func(context.Context) error { return errUnusable }
	m, err := Load(ctx, j.Wasm, o)
	if err != nil {
		return err
	}
	return errors.Join(m.Close(ctx), SelfTest(ctx, j.Wasm, o))
}

var errUnusable = errors.New("there is no compiled code that can be used here")

// preparedFile returns the file in a folder of prepared code for the module with a SHA-256.
func preparedFile(prepared string, module [sha256.Size]byte) string {
	return codeDir(prepared, module) + preparedSuffix
}

// pack writes what a cache keeps of a module to a folder of prepared code. The first module
// of a folder becomes its dictionary.
func pack(prepared, cacheDir string, wasm []byte) error {
	files, err := archive(codeDir(cacheDir, sha256.Sum256(wasm)))
	if err != nil {
		return fmt.Errorf("pack compiled code: %w", err)
	}
	dictionary := filepath.Join(prepared, dictionaryFile)
	if _, err := os.Stat(dictionary); errors.Is(err, fs.ErrNotExist) {
		if err := writeZstd(dictionary, files, nil); err != nil {
			return err
		}
	}
	d, err := openDictionary(dictionary)
	if err != nil {
		return err
	}
	return writeZstd(preparedFile(prepared, sha256.Sum256(wasm)), files, d)
}

// archive returns the files of a folder of code that depend on the module alone.
func archive(dir string) ([]byte, error) {
	defer lockFolder(dir)()
	var files bytes.Buffer
	w := tar.NewWriter(&files)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == mappedFile || d.Name() == idleFile {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err == nil {
			err = w.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(data))})
		}
		if err == nil {
			_, err = w.Write(data)
		}
		return err
	})
	return files.Bytes(), errors.Join(err, w.Close())
}

// unpackCode fills the folder of a module from the file that came with the program, and
// reports whether there is one. The content is checked like everything else in the folder.
func unpackCode(file, dir string) (found bool, err error) {
	from := filepath.Join(filepath.Dir(file), dictionaryFile)
	if !trusted(file) || !trusted(from) {
		return false, nil
	}
	d, err := openDictionary(from)
	if err != nil {
		return false, err
	}
	files, err := readZstd(file, d)
	if err != nil {
		return false, err
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return false, err
	}
	made, err := os.MkdirTemp(filepath.Dir(dir), newCode)
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(made)
	archive := tar.NewReader(bytes.NewReader(files))
	for {
		head, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return true, publishFolder(made, dir)
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
