package moderation

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"syscall"
)

// FileName is the name of the copy of the log in a data folder. A restored database does not
// know takedowns that are newer than its backup: the copy brings them back.
const FileName = "moderation.jsonl"

// File is a copy of the log outside the database: a line for each row, in no particular order.
type File struct {
	mu   sync.Mutex // guards the fields below
	path string
	uids map[string]struct{} // of the rows that are in it
}

// OpenFile reads the copy at a path, and returns its rows. A missing file is empty. Lines that
// cannot be read, such as one that a crash has cut off, are counted and left alone.
func OpenFile(path string) (f *File, list []Row, damaged int, err error) {
	f = &File{path: path, uids: make(map[string]struct{})}
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return f, nil, 0, nil
	}
	if err != nil {
		return nil, nil, 0, fmt.Errorf("read the copy of the moderation log: %w", err)
	}
	defer file.Close()
	list, damaged, err = ReadRows(file)
	if err != nil {
		return nil, nil, 0, fmt.Errorf("read the copy of the moderation log %s: %w", path, err)
	}
	for i := range list {
		f.uids[list[i].UID] = struct{}{}
	}
	return f, list, damaged, nil
}

// ReadRows reads lines that [Row.Line] wrote. It counts those that are no rows.
func ReadRows(r io.Reader) (list []Row, damaged int, err error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		row, err := ParseLine(lines.Bytes())
		if err != nil {
			damaged++
			continue
		}
		list = append(list, row)
	}
	return list, damaged, lines.Err()
}

// Append adds the rows that the file does not have. They are durable when it returns nil.
func (f *File) Append(list []Row) (err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var text []byte
	var added []string
	for i := range list {
		if _, there := f.uids[list[i].UID]; !there {
			text = append(text, list[i].Line()...)
			added = append(added, list[i].UID)
		}
	}
	if len(added) == 0 {
		return nil
	}
	if err := f.write(text); err != nil {
		return fmt.Errorf("append to the copy of the moderation log: %w", err)
	}
	for _, uid := range added {
		f.uids[uid] = struct{}{}
	}
	return nil
}

// write appends text after a whole line. REQUIRES: f.mu.
func (f *File) write(text []byte) (err error) {
	file, err := os.OpenFile(f.path, os.O_RDWR|os.O_CREATE|os.O_APPEND|syscall.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if last := []byte{'\n'}; info.Size() > 0 {
		if _, err := file.ReadAt(last, info.Size()-1); err != nil {
			return err
		}
		if last[0] != '\n' { // a crash has cut the last line off
			text = append([]byte{'\n'}, text...)
		}
	}
	if _, err := file.Write(text); err != nil {
		return err
	}
	return file.Sync()
}
