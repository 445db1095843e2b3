package guest

import (
	"bufio"
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

// loads says how often this process has had the machine code of a folder in memory.
var loads = struct {
	sync.Mutex
	of map[string]int
}{of: make(map[string]int)}

// countLoad is called before that. The caller has locked the folder.
func countLoad(dir string) {
	loads.Lock()
	defer loads.Unlock()
	loads.of[dir]++
}

func loadedOnce(dir string) bool {
	loads.Lock()
	defer loads.Unlock()
	return loads.of[dir] == 1
}

// mapCode has the system take the pages of the machine code that wazero has read from a
// file: they are shared, and can be dropped and read again, as those of a program. wazero
// does not say where they are, so that they are looked for by what they hold; of code that
// was loaded before in this process there may be two copies, which go at any time, so that
// nothing is done then. Whatever fails, the code stays where it is.
func (c *code) mapCode() error {
	defer lockFolder(c.dir)() // meanwhile nobody else loads it
	if !loadedOnce(c.dir) {
		return nil
	}
	data, err := os.ReadFile(c.machine)
	if err != nil {
		return err
	}
	executable := executableOf(data)
	if len(executable) == 0 {
		return errors.New("the file of machine code has another form")
	}
	addr, err := findExecutable(executable)
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
		if there, err = unix.Mmap(int(f.Fd()), 0, len(executable), unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE); err == nil {
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

// writeWhole writes a file, all at once for others.
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

// findExecutable returns the address of machine code in the memory of this process that
// belongs to no file. It reads memory as a file, since others may give theirs back at any
// time.
func findExecutable(executable []byte) (addr uintptr, err error) {
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		return 0, err
	}
	defer maps.Close()
	memory, err := os.Open("/proc/self/mem")
	if err != nil {
		return 0, err
	}
	defer memory.Close()
	page := uint64(os.Getpagesize())
	head := make([]byte, min(len(executable), 64))
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		var from, to, offset, inode uint64
		var rights, device string
		n, _ := fmt.Sscanf(lines.Text(), "%x-%x %s %x %s %d", &from, &to, &rights, &offset, &device, &inode)
		if n != 6 || rights != "r-xp" || inode != 0 || strings.HasSuffix(lines.Text(), "]") {
			continue
		}
		for ; from+uint64(len(executable)) <= to; from += page {
			if _, err := memory.ReadAt(head, int64(from)); err != nil || !bytes.HasPrefix(executable, head) {
				continue
			}
			if sameAs(io.NewSectionReader(memory, int64(from), int64(len(executable))), executable) {
				return uintptr(from), nil
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
