package sets

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"talon/internal/smallfile"
	"talon/sdk/nip19"
)

const maxFile = 64 << 20 // bytes

// grain is how far apart two changes of a file may be and have one time.
const grain = 2 * time.Second

// stamp tells one version of a file from another.
type stamp struct {
	info fs.FileInfo // nil: not read yet
	read time.Time
}

// same reports whether the file is the one that was read.
func (s stamp) same(info fs.FileInfo) bool {
	return s.info != nil && os.SameFile(s.info, info) && s.info.Size() == info.Size() && s.info.ModTime().Equal(info.ModTime()) &&
		s.read.Sub(info.ModTime()) > grain
}

// stat looks at a file before it is opened: to open a pipe would wait for
// somebody to write.
func stat(path string) (fs.FileInfo, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a file", path)
	case info.Size() > maxFile:
		return nil, tooLarge(path)
	}
	return info, nil
}

// readFile reads a set from a file.
func readFile(path string) (*members, error) {
	f, err := smallfile.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	all := &io.LimitedReader{R: f, N: maxFile + 1}
	m, line, err := parse(all)
	switch {
	case all.N == 0: // it has grown since stat
		return nil, tooLarge(path)
	case err == nil:
		return m, nil
	case line == 0:
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return nil, fmt.Errorf("%s: line %d: %w", path, line, err)
}

func tooLarge(path string) error { return fmt.Errorf("%s has more than %d MiB", path, maxFile>>20) }

// maxLine bounds a line: a member, white space and a comment.
const maxLine = 16 << 10

var (
	errLine    = fmt.Errorf("it is longer than %d bytes", maxLine)
	errText    = fmt.Errorf("the member is longer than %d bytes", maxText)
	errUTF8    = errors.New("it is not valid UTF-8")
	errControl = errors.New("it has a control character: is this a text file?")
	errSecret  = errors.New("it is a secret key: take it out, and consider it known to others")
)

// parse reads members. The line is that of the error, 0 where it has none. Errors
// do not repeat what the line says.
func parse(r io.Reader) (m *members, line int, err error) {
	m = new(members)
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		line++
		text := lines.Bytes()
		if line == 1 {
			text = bytes.TrimPrefix(text, []byte("\ufeff"))
		}
		if err := m.addLine(string(text)); err != nil {
			return nil, line, err
		}
		if m.len() > maxMembers {
			return nil, 0, errMembers
		}
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return nil, line + 1, errLine
	case err != nil:
		return nil, 0, err
	}
	return m, 0, nil
}

func (m *members) addLine(text string) error {
	if !utf8.ValidString(text) {
		return errUTF8
	}
	text = strings.TrimSpace(uncomment(text))
	lower := strings.ToLower(text)
	switch {
	case text == "":
		return nil
	case len(text) > maxText:
		return errText
	case strings.ContainsFunc(text, unicode.IsControl):
		return errControl
	case strings.HasPrefix(lower, "nsec1"):
		return errSecret
	case strings.HasPrefix(lower, "npub1"):
		key, err := nip19.DecodeNpub(text)
		if err != nil {
			return err
		}
		m.addKey(key)
		return nil
	}
	m.addText(text)
	return nil
}

// uncomment cuts off a comment: # at the start, or after white space.
func uncomment(text string) string {
	for i := 0; i < len(text); i++ {
		if text[i] == '#' && (i == 0 || text[i-1] == ' ' || text[i-1] == '\t') {
			return text[:i]
		}
	}
	return text
}
