package gitrepo

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

func writeFile(path, text string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), 0o644)
}

func appendFile(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// makeDirs makes a folder below top and those between, durably. A link on the way
// is an error.
func makeDirs(top, dir string) error {
	if dir == top {
		return nil
	}
	if err := makeDirs(top, filepath.Dir(dir)); err != nil {
		return err
	}
	err := os.Mkdir(dir, 0o755)
	if err == nil {
		return syncDir(filepath.Dir(dir))
	}
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	info, err := os.Lstat(dir)
	if err == nil && !info.IsDir() {
		err = &fs.PathError{Op: "mkdir", Path: dir, Err: errors.New("not a folder; links are not followed")}
	}
	return err
}

// syncTree makes a small folder durable. All at once: a file system that keeps a
// journal writes it once for those that wait.
func syncTree(dir string) error {
	var paths []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && (d.IsDir() || d.Type().IsRegular()) {
			paths = append(paths, path)
		}
		return err
	})
	errs := make([]error, len(paths))
	var all sync.WaitGroup
	for i, path := range paths {
		all.Go(func() { errs[i] = syncDir(path) })
	}
	all.Wait()
	return errors.Join(append(errs, err)...)
}

// syncDir makes the entries of a folder, or the bytes of a file, durable.
func syncDir(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// diskUse is the size of all files below a folder. What goes meanwhile does not count.
func diskUse(dir string) (size int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			var info fs.FileInfo
			if info, err = d.Info(); err == nil {
				size += info.Size()
			}
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	return size, err
}
