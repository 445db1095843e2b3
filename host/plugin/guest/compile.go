package guest

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/experimental"
	"golang.org/x/sys/unix"

	"talon/host/plugin/meter"
	"talon/internal/race"
	"talon/sdk/abi/manifest"
)

const (
	compileTime = race.Factor * time.Minute

	// compileWorkers is two since wazero looks whether the context is done only if
	// there is more than one: between functions, each of which is bounded.
	compileWorkers = 2
)

// learnVersion lets wazero look up its own version. It keeps it in a variable
// that it does not guard, and modules load side by side.
var learnVersion = sync.OnceFunc(func() {
	ctx := context.Background()
	wazero.NewRuntimeWithConfig(ctx, compiler).Close(ctx)
})

func rewrite(file []byte) ([]byte, error) {
	wasm, err := Decompress(file)
	if err != nil {
		return nil, err
	}
	return meter.Rewrite(wasm, meter.Options{StartFuel: startFuel, MaxModule: maxModuleSize})
}

// compile makes a runtime with the module compiled: with what is kept of it, or with what
// came with the program, or else it is compiled, and kept.
func (m *Module) compile(ctx context.Context, wasm []byte, config wazero.RuntimeConfig, o *Options) error {
	learnVersion()
	if o.CacheDir == "" {
		metered, err := rewrite(wasm)
		if err == nil {
			m.runtime, m.compiled, err = compileModule(ctx, metered, config, o)
		}
		return err
	}
	dir := codeDir(o.CacheDir, o.SHA256)
	defer lockFolder(dir)()
	if found, err := m.load(ctx, dir, config); found || err != nil {
		return err
	}
	if found, err := m.loadPrepared(ctx, dir, config, o); found || err != nil {
		return err
	}
	// A module that fails here needs no other process.
	metered, err := rewrite(wasm)
	if err != nil {
		return err
	}
	if o.Elsewhere != nil {
		if err := o.Elsewhere(ctx); err != nil {
			return err
		}
		if found, err := m.load(ctx, dir, config); found || err != nil {
			return err
		}
	}
	if o.Elsewhere == nil {
		err = fillCode(dir, metered, func(module []byte, folder string) error { return compileInto(ctx, folder, module, config, o) })
		if err != nil && !fromDisk(err) {
			return err
		}
		if found, err := m.load(ctx, dir, config); found || err != nil {
			return err
		}
	}
	if err == nil {
		err = errors.New("nothing is kept")
	}
	// A full disk costs the next start its time, not this one its module.
	m.log.Warn("compiled plugin is not kept", "module", m.name, "err", err)
	m.runtime, m.compiled, err = compileModule(ctx, metered, config, o)
	return err
}

// loadPrepared fills the folder of the module with the code that came with the program, and does
// what load does.
func (m *Module) loadPrepared(ctx context.Context, dir string, config wazero.RuntimeConfig, o *Options) (found bool, err error) {
	if o.Prepared == nil {
		return false, nil
	}
	code, err := o.Prepared.Code(o.SHA256)
	if err == nil && code == nil {
		return false, nil
	}
	if err == nil {
		err = unpackCode(code, dir)
	}
	if err != nil {
		m.log.Warn("what came compiled with the program cannot be used", "module", m.name, "err", err)
		return false, nil
	}
	return m.load(ctx, dir, config)
}

// fromDisk reports whether the system refused to read or write a file.
func fromDisk(err error) bool {
	return errors.As(err, new(*fs.PathError)) || errors.As(err, new(syscall.Errno))
}

// load compiles the module with what is kept of it. It reports whether it could, and
// removes what cannot be used.
func (m *Module) load(ctx context.Context, dir string, config wazero.RuntimeConfig) (found bool, err error) {
	c, err := openCode(dir)
	if c == nil {
		return false, err
	}
	runtime := wazero.NewRuntimeWithConfig(ctx, config.WithCompilationCache(c.cache))
	loading.Lock()
	before := executableMemory()
	compiled, err := runtime.CompileModule(ctx, c.shell)
	c.spans = without(executableMemory(), before)
	loading.Unlock()
	if err == nil && c.used() {
		c.shell = nil
		m.code, m.runtime, m.compiled = c, runtime, compiled
		return true, nil
	}
	return false, errors.Join(ctx.Err(), runtime.Close(ctx), c.close(ctx), removeCode(dir))
}

// compileInto compiles a module for the folder alone.
func compileInto(ctx context.Context, folder string, module []byte, config wazero.RuntimeConfig, o *Options) error {
	cache, err := wazero.NewCompilationCacheWithDir(folder)
	if err != nil {
		return err
	}
	runtime, _, err := compileModule(ctx, module, config.WithCompilationCache(cache), o)
	if runtime != nil {
		err = errors.Join(err, runtime.Close(ctx))
	}
	return errors.Join(err, cache.Close(ctx))
}

// compileModule makes a runtime with the module compiled. The runtime is there too if
// that fails.
func compileModule(ctx context.Context, module []byte, config wazero.RuntimeConfig, o *Options) (wazero.Runtime, wazero.CompiledModule, error) {
	runtime := wazero.NewRuntimeWithConfig(ctx, config)
	bounded, cancel := o.limited(experimental.WithCompilationWorkers(ctx, compileWorkers), compileTime, nil)
	defer cancel()
	loading.RLock()
	compiled, err := runtime.CompileModule(bounded, module)
	loading.RUnlock()
	switch {
	case ctx.Err() != nil:
		err = ctx.Err()
	case bounded.Err() != nil:
		err = fmt.Errorf("the module takes longer than %v to compile", compileTime)
	case err != nil:
		err = fmt.Errorf("compile: %w", brief{err})
	}
	return runtime, compiled, err
}

// Decompress returns the module in a file, which may be compressed with zstd. The hash and
// the signature of a module are those of the file.
func Decompress(file []byte) (wasm []byte, err error) {
	wasm = file
	if bytes.HasPrefix(file, []byte{0x28, 0xb5, 0x2f, 0xfd}) {
		r, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxModuleSize))
		if err != nil {
			return nil, err
		}
		defer r.Close()
		wasm, err = r.DecodeAll(file, nil)
		if errors.Is(err, zstd.ErrDecoderSizeExceeded) || errors.Is(err, zstd.ErrWindowSizeExceeded) {
			return nil, fmt.Errorf("the module has more than %d bytes when it is decompressed", maxModuleSize)
		}
		if err != nil {
			return nil, fmt.Errorf("decompress the module: %w", err)
		}
	}
	if len(wasm) > maxModuleSize {
		return nil, fmt.Errorf("the module has %d bytes; the limit is %d", len(wasm), maxModuleSize)
	}
	return wasm, nil
}

// ReadManifest returns the manifest of the module that a file holds.
func ReadManifest(file []byte) (*manifest.Manifest, error) {
	wasm, err := Decompress(file)
	if err != nil {
		return nil, err
	}
	return manifest.FromModule(wasm)
}

// mappedFile is the name of the copy of the machine code, as it is in memory, in the folder
// of a module.
const mappedFile = "mapped"

// loading is locked while wazero reads machine code, and read-locked while it compiles. So
// new executable memory during a read is the code that was read.
var loading sync.RWMutex

// span is a part of memory, in whole pages.
type span struct{ from, to uint64 }

// mapCode maps the pages of the machine code that wazero has read to a file. The system can
// share such pages, and drop and read them again, as those of a program. wazero does not
// report the address of the code. So mapCode compares the memory that is new since the read
// with the code. Only the owner of the code can free this memory. If a step fails, the code
// stays at its address.
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

// executableMemory returns the parts of this process's memory with code that belongs to no
// file. It returns nil if the system does not list them.
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
