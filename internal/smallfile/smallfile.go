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

// Open opens a regular file for reading. The caller closes it.
func Open(path string) (*os.File, error) {
	// Without O_NONBLOCK, opening a pipe waits for somebody who writes.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: path, Err: ErrNotRegular}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Read returns the content of a regular file of at most limit bytes.
func Read(path string, limit int64) ([]byte, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(text)) > limit {
		return nil, fmt.Errorf("%w: %s has more than %d bytes", ErrTooLarge, path, limit)
	}
	return text, nil
}
