package guest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// mappedFile is a copy of machine code as it lies in memory, in the folder of a module.
const mappedFile = "mapped"

// loading is held by who has wazero read machine code, and shared by who has it compile:
// what is new in memory meanwhile is what was read.
var loading sync.RWMutex

// span is a part of memory, in whole pages.
type span struct{ from, to uint64 }

// mapCode has the system take the pages of the machine code that wazero has read from a
// file: they are shared, and can be dropped and read again, as those of a program. wazero
// does not say where they are, so that they are looked for, by what they hold, in what was
// new when it had read them: nobody else can give that back. Whatever fails, the code stays
// where it is.
func (c *code) mapCode() error {
	defer c.unmap()
	executable := executableOf(c.data)
	if len(executable) == 0 {
		return errors.New("the file of machine code has another form")
	}
	addr, err := findExecutable(c.spans, executable)
	if err != nil {
		return err
	}
	file := filepath.Join(c.dir, mappedFile)
	f, err := openExecutable(file, executable)
	if err != nil {
		if err := writeWhole(file, executable); err != nil {
			return err
		}
		if f, err = openExecutable(file, executable); err != nil {
			return err
		}
	}
	defer f.Close()
	_, _, failed := unix.Syscall6(unix.SYS_MMAP, addr, uintptr(len(executable)), unix.PROT_READ|unix.PROT_EXEC,
		unix.MAP_PRIVATE|unix.MAP_FIXED, f.Fd(), 0)
	if failed != 0 {
		return failed
	}
	return nil
}

// openExecutable opens a file that has these bytes, and that the system lets us run: not
// every file system allows that.
func openExecutable(file string, executable []byte) (*os.File, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && info.Size() != int64(len(executable)) {
		err = errors.New("the file has another size")
	}
	if err == nil {
		var there []byte
		if there, err = unix.Mmap(int(f.Fd()), 0, len(executable), unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE|unix.MAP_POPULATE); err == nil {
			if !bytes.Equal(there, executable) {
				err = errors.New("the file has other bytes")
			}
			err = errors.Join(err, unix.Munmap(there))
		}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// writeWhole writes a file; others see all of it or nothing.
func writeWhole(file string, data []byte) error {
	if err := os.WriteFile(file+".new", data, 0o600); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

// executableOf returns the machine code in a file of wazero's: behind a magic word, its
// version, and the offsets of all functions. It is empty if the file has another form.
func executableOf(data []byte) []byte {
	const magic = "WAZEVO"
	rest, ok := bytes.CutPrefix(data, []byte(magic))
	if !ok || len(rest) == 0 || len(rest) < 1+int(rest[0])+4 {
		return nil
	}
	rest = rest[1+int(rest[0]):]
	offsets := 8 * uint64(binary.LittleEndian.Uint32(rest))
	rest = rest[4:]
	if uint64(len(rest)) < offsets+8 {
		return nil
	}
	rest = rest[offsets:]
	size := binary.LittleEndian.Uint64(rest)
	if rest = rest[8:]; uint64(len(rest)) < size {
		return nil
	}
	return rest[:size:size]
}

// executableMemory are the parts of the memory of this process with code that belongs to no
// file; none where the system does not say.
func executableMemory() (spans []span) {
	text, _ := os.ReadFile("/proc/self/maps")
	for line := range strings.Lines(string(text)) {
		var s span
		var offset, inode uint64
		var rights, device string
		n, _ := fmt.Sscanf(line, "%x-%x %s %x %s %d", &s.from, &s.to, &rights, &offset, &device, &inode)
		if n == 6 && rights == "r-xp" && inode == 0 && !strings.Contains(line, "[") {
			spans = append(spans, s)
		}
	}
	return spans
}

// without returns what is in spans and not in others.
func without(spans, others []span) []span {
	for _, o := range others {
		var left []span
		for _, s := range spans {
			if o.to <= s.from || s.to <= o.from {
				left = append(left, s)
				continue
			}
			if s.from < o.from {
				left = append(left, span{s.from, o.from})
			}
			if o.to < s.to {
				left = append(left, span{o.to, s.to})
			}
		}
		spans = left
	}
	return spans
}

// findExecutable returns the address of machine code in parts of the memory of this
// process, which it reads as a file.
func findExecutable(spans []span, executable []byte) (addr uintptr, err error) {
	memory, err := os.Open("/proc/self/mem")
	if err != nil {
		return 0, err
	}
	defer memory.Close()
	page, head := uint64(os.Getpagesize()), make([]byte, min(len(executable), 64))
	for _, s := range spans {
		for at := s.from; at+uint64(len(executable)) <= s.to; at += page {
			if _, err := memory.ReadAt(head, int64(at)); err != nil || !bytes.HasPrefix(executable, head) {
				continue
			}
			if sameAs(io.NewSectionReader(memory, int64(at), int64(len(executable))), executable) {
				return uintptr(at), nil
			}
		}
	}
	return 0, errors.New("the machine code is not found in memory")
}

// sameAs reports whether a reader has these bytes.
func sameAs(r io.Reader, want []byte) bool {
	buf := make([]byte, 64<<10)
	for len(want) > 0 {
		n, err := r.Read(buf[:min(len(buf), len(want))])
		if n == 0 && err != nil || !bytes.Equal(buf[:n], want[:n]) {
			return false
		}
		want = want[n:]
	}
	return true
}
