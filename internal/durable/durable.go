// Package durable changes files so that a crash at any point leaves the old content or the new,
// and nothing in between. When a function returns nil, its change survives a loss of power.
package durable

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Write makes data the content of a file. It replaces the file as a whole.
func Write(path string, data []byte, mode fs.FileMode) error {
	return WriteFrom(path, mode, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

// WriteFrom replaces a file by what write produces. If write fails, the file stays as it is.
//
// Until the end, the data is in a hidden file of the same folder, whose name ends with ".tmp".
// A crash may leave that file behind.
func WriteFrom(path string, mode fs.FileMode, write func(w io.Writer) error) error {
	return put(path, mode, write, os.Rename)
}

// Create makes a file with this content. It fails with [fs.ErrExist] if the path exists, also
// if somebody else makes it at the same time.
func Create(path string, data []byte, mode fs.FileMode) error {
	return put(path, mode, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	}, func(temporary, path string) error {
		return errors.Join(os.Link(temporary, path), os.Remove(temporary))
	})
}

// put writes a temporary file, and gives it its name with the function name.
func put(path string, mode fs.FileMode, write func(w io.Writer) error, name func(temporary, path string) error) (err error) {
	dir, base := filepath.Split(path)
	f, err := os.CreateTemp(filepath.Clean(dir), "."+base+".*.tmp")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			_ = f.Close()
			_ = os.Remove(f.Name())
		}
	}()
	if err = write(f); err == nil {
		err = f.Chmod(mode)
	}
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = f.Close()
	}
	if err == nil {
		err = name(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return Sync(filepath.Dir(path))
}

// Remove deletes a file. It returns nil if the file does not exist.
func Remove(path string) error {
	err := os.Remove(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return Sync(filepath.Dir(path))
}

// Mkdir makes a folder, unless it exists. The folder above it must exist.
func Mkdir(dir string, mode fs.FileMode) error {
	err := os.Mkdir(dir, mode)
	if info, statErr := os.Stat(dir); errors.Is(err, fs.ErrExist) && statErr == nil && info.IsDir() {
		return nil
	}
	if err != nil {
		return err
	}
	return Sync(filepath.Dir(dir))
}

// Sync makes the names in a folder, or the bytes of a file, durable.
func Sync(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("sync %s: %w", path, err)
	}
	return nil
}
