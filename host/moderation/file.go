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
type File struct{ lines }

// OpenFile reads the copy at a path, and returns its rows. A missing file is empty. Lines that
// cannot be read, such as one that a crash has cut off, are counted and left alone.
func OpenFile(path string) (f *File, list []Row, damaged int, err error) {
	f = &File{lines{path: path, keys: make(map[string]struct{})}}
	err = f.read(func(r io.Reader) error {
		list, damaged, err = ReadRows(r)
		return err
	})
	if err != nil {
		return nil, nil, 0, fmt.Errorf("read the copy of the moderation log %s: %w", path, err)
	}
	for i := range list {
		f.keys[list[i].UID] = struct{}{}
	}
	return f, list, damaged, nil
}

// ReadRows reads lines that [Row.Line] wrote. It counts those that are no rows.
func ReadRows(r io.Reader) (list []Row, damaged int, err error) {
	err = eachLine(r, func(line []byte) {
		row, err := ParseLine(line)
		if err != nil {
			damaged++
			return
		}
		list = append(list, row)
	})
	return list, damaged, err
}

// eachLine calls yield for each line that is not empty.
func eachLine(r io.Reader, yield func(line []byte)) error {
	scan := bufio.NewScanner(r)
	scan.Buffer(nil, maxLine)
	for scan.Scan() {
		if len(bytes.TrimSpace(scan.Bytes())) > 0 {
			yield(scan.Bytes())
		}
	}
	return scan.Err()
}

// Append adds the rows that the file does not have. They are durable when it returns nil.
func (f *File) Append(list []Row) (err error) {
	keys, texts := make([]string, len(list)), make([][]byte, len(list))
	for i := range list {
		keys[i], texts[i] = list[i].UID, list[i].Line()
	}
	if _, err := f.append(keys, texts); err != nil {
		return fmt.Errorf("append to the copy of the moderation log: %w", err)
	}
	return nil
}

// lines is a file to which lines are added, each once.
type lines struct {
	mu   sync.Mutex // guards the fields below
	path string
	keys map[string]struct{} // of the lines that are in it
}

// read calls parse with the file, if it is there.
func (f *lines) read(parse func(io.Reader) error) error {
	file, err := os.Open(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer file.Close()
	return parse(file)
}

// append adds the lines whose keys are new, and returns their bytes.
func (f *lines) append(keys []string, texts [][]byte) (written int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var text []byte
	var added []string
	for i, key := range keys {
		if _, there := f.keys[key]; !there {
			text, added = append(text, texts[i]...), append(added, key)
		}
	}
	if len(added) == 0 {
		return 0, nil
	}
	if err := f.write(text); err != nil {
		return 0, err
	}
	for _, key := range added {
		f.keys[key] = struct{}{}
	}
	return len(text), nil
}

// write appends text after a whole line. REQUIRES: f.mu.
func (f *lines) write(text []byte) (err error) {
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
