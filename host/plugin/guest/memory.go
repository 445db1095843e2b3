package guest

import (
	"context"
	"fmt"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/experimental"
	"golang.org/x/sys/unix"

	"talon/sdk/abi"
)

// memory is the memory of one instance: addresses for all that it may ever have are
// reserved when it is made, and growing makes more of them usable, so that nothing is
// copied. It belongs to its instance, which frees it when nobody can run any more: a
// guest whose memory has gone would end the process.
type memory struct {
	space  []byte // reserved
	usable int
}

// Reallocate implements experimental.LinearMemory.
func (m *memory) Reallocate(size uint64) []byte {
	if size > uint64(len(m.space)) {
		return nil
	}
	if int(size) > m.usable {
		next := min(max(int(size), m.usable+growBy), len(m.space))
		if unix.Mprotect(m.space[m.usable:next], unix.PROT_READ|unix.PROT_WRITE) != nil {
			return nil
		}
		m.usable = next
	}
	return m.space[:size:size]
}

// Free implements experimental.LinearMemory. It does nothing: the engine may close a
// guest that runs.
func (m *memory) Free() {}

func (m *memory) free() {
	if m.space != nil {
		_ = unix.Munmap(m.space) // of an address that was mapped
		m.space = nil
	}
}

// allocating returns a context in which the engine takes the memory for the instance
// that it makes.
func (m *memory) allocating(ctx context.Context) context.Context {
	return experimental.WithMemoryAllocator(ctx, experimental.MemoryAllocatorFunc(func(_, _ uint64) experimental.LinearMemory { return m }))
}

// growBy is the least that the system is asked for at a time.
const growBy = 1 << 20

// reserve returns a memory of at most this many bytes, of which the first are usable.
func reserve(limit, first uint64) (*memory, error) {
	space, err := unix.Mmap(-1, 0, int(limit), unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("reserve %d bytes of memory: %w", limit, err)
	}
	m := &memory{space: space}
	if m.Reallocate(first) == nil {
		m.free()
		return nil, fmt.Errorf("there are no %d bytes of memory", first)
	}
	return m, nil
}

// reserveFor reserves the memory of an instance of the module, at most limit bytes.
func reserveFor(compiled wazero.CompiledModule, limit int64) (*memory, error) {
	const page = 64 << 10
	def := compiled.ExportedMemories()[abi.ExportMemory]
	pages := uint64(limit / page)
	if own, bounded := def.Max(); bounded {
		pages = min(pages, uint64(own))
	}
	first := uint64(def.Min())
	return reserve(max(pages, first, 1)*page, first*page)
}
