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

	"talon/sdk/abi/manifest"
)

// Machine code of a module that came with the program ([Options.Prepared]) is a tar file of what
// [Options.CacheDir] keeps of the module.

// Prepare compiles a module and runs its self-test. It returns the module's code for
// [Options.Prepared]. The code is for processors like that of this machine.
func Prepare(ctx context.Context, name string, wasm []byte) (code []byte, err error) {
	j := newPreparation(name, wasm)
	err = j.within(func() error {
		if err := j.do(ctx); err != nil {
			return err
		}
		code, err = archive(codeDir(j.CacheDir, sha256.Sum256(wasm)))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("compile %s.wasm: %w", name, err)
	}
	return code, nil
}

// Fits reports whether this machine can use the prepared code of a module: whether a server
// here needs not compile the module.
func Fits(ctx context.Context, name string, wasm []byte, prepared Prepared) (bool, error) {
	j := newPreparation(name, wasm)
	err := j.within(func() error {
		o := Options{Name: name, Service: j.Service, CacheDir: j.CacheDir, Prepared: prepared, Patient: true}
		o.Elsewhere = func(context.Context, []byte) error { return errUnusable }
		m, err := Load(ctx, wasm, o)
		if err != nil {
			return err
		}
		return errors.Join(m.Close(ctx), SelfTest(ctx, wasm, o))
	})
	if errors.Is(err, errUnusable) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("load %s.wasm: %w", name, err)
	}
	return true, nil
}

func newPreparation(name string, wasm []byte) *CompileJob {
	j := &CompileJob{Name: name, Wasm: wasm}
	j.Service.Domain = manifest.VectorDomain
	return j
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

var errUnusable = errors.New("there is no compiled code that can be used here")

// archive returns the files of a folder of code that depend on the module alone.
func archive(dir string) ([]byte, error) {
	defer lockFolder(dir)()
	var files bytes.Buffer
	w := tar.NewWriter(&files)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == idleFile {
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

// unpackCode fills the folder of a module from its prepared code. The content is checked like
// everything else in the folder.
func unpackCode(code []byte, dir string) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return err
	}
	made, err := os.MkdirTemp(filepath.Dir(dir), newCode)
	if err != nil {
		return err
	}
	defer os.RemoveAll(made)
	archive := tar.NewReader(bytes.NewReader(code))
	for {
		head, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return publishFolder(made, dir)
		}
		if err == nil && (head.Typeflag != tar.TypeReg || !filepath.IsLocal(head.Name)) {
			err = fmt.Errorf("%q is no file of compiled code", head.Name)
		}
		if err == nil {
			err = writeFrom(archive, filepath.Join(made, head.Name))
		}
		if err != nil {
			return err
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
