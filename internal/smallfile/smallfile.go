// Package smallfile reads files of bounded length that another process may change at the same time.
// It never waits: a pipe, a device or a folder in place of a file is an error.
package smallfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// ErrNotRegular is the error for what is a pipe, a device, a socket or a folder.
var ErrNotRegular = errors.New("this is not a regular file")

// ErrTooLarge is the error for a file that is longer than it may be.
var ErrTooLarge = errors.New("the file is too large")

// ErrShared is the error for a secret that others than its owner can use.
var ErrShared = errors.New("others can use this file")

// Open opens a regular file for reading. The caller closes it.
func Open(path string) (*os.File, error) {
	// Without O_NONBLOCK, opening a pipe waits for somebody who writes.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: path, Err: fmt.Errorf("%w but a %s", ErrNotRegular, what(info.Mode()))}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// what says what is in the place of a file.
func what(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return "folder"
	case mode&fs.ModeNamedPipe != 0:
		return "pipe"
	}
	return "device or socket"
}

// Read returns the content of a regular file of at most limit bytes.
func Read(path string, limit int64) ([]byte, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return read(f, path, limit)
}

// ReadSecret is Read for a secret. It refuses a file that others than its owner can use.
func ReadSecret(path string, limit int64) ([]byte, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return nil, fmt.Errorf("%w: %s (mode %04o)", ErrShared, path, mode)
	}
	return read(f, path, limit)
}

func read(f *os.File, path string, limit int64) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(text)) > limit {
		return nil, fmt.Errorf("%w: %s has more than %d bytes", ErrTooLarge, path, limit)
	}
	return text, nil
}
