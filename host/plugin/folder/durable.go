package folder

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// disk is what a history does to files, one durable step each.
type disk struct {
	write  func(path string, data []byte) error
	remove func(path string) error
}

var realDisk = disk{
	write:  func(path string, data []byte) error { return writeDurably(path, data, 0o600) },
	remove: removeDurably,
}

// Files change so that a crash at any point leaves the old content or the new, and nothing
// in between.

// writeDurably makes data the content of a file, which is replaced as a whole. When it
// returns nil, the content survives a loss of power.
//
// Until then, the data is in a hidden file of the same folder, whose name ends with ".tmp".
// A crash may leave that behind.
func writeDurably(path string, data []byte, mode fs.FileMode) (err error) {
	dir, name := filepath.Split(path)
	f, err := os.CreateTemp(filepath.Clean(dir), "."+name+".*.tmp")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			_ = f.Close()
			_ = os.Remove(f.Name())
		}
	}()
	if _, err = f.Write(data); err == nil {
		err = f.Chmod(mode)
	}
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = f.Close()
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return syncFolder(filepath.Dir(path))
}

// removeDurably deletes a file. It returns nil if the file does not exist.
func removeDurably(path string) error {
	err := os.Remove(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return syncFolder(filepath.Dir(path))
}

// makeFolder makes a folder, unless it is there. The folder above it must be there.
func makeFolder(dir string, mode fs.FileMode) error {
	err := os.Mkdir(dir, mode)
	if info, statErr := os.Stat(dir); errors.Is(err, fs.ErrExist) && statErr == nil && info.IsDir() {
		return nil
	}
	if err != nil {
		return err
	}
	return syncFolder(filepath.Dir(dir))
}

// syncFolder makes what happened to the names in a folder durable.
func syncFolder(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		_ = f.Close()
		return fmt.Errorf("sync the folder %s: %w", dir, err)
	}
	return f.Close()
}
