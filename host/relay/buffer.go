package relay

import (
	"sync"
)

const (
	// readSize is the size of one read of a busy connection, in bytes.
	readSize = 16 << 10

	// writeSize is about the size of one write, in bytes: a client that is not able to
	// take it within Limits.WriteTime is cut off.
	writeSize = 64 << 10

	// keepSize is the largest scratch buffer that goes back to its pool.
	keepSize = 256 << 10
)

type readBuffer [readSize]byte

var readBuffers = sync.Pool{New: func() any { return new(readBuffer) }}

// buffer is scratch memory that grows.
type buffer struct{ b []byte }

func (b *buffer) free() {
	if b == nil || cap(b.b) > keepSize {
		return
	}
	b.b = b.b[:0]
	if cap(b.b) < writeSize {
		smallBuffers.Put(b)
		return
	}
	buffers.Put(b)
}

var buffers = sync.Pool{New: func() any { return &buffer{b: make([]byte, 0, writeSize+8<<10)} }}

func getBuffer() *buffer { return buffers.Get().(*buffer) }

// smallBuffers hold messages that did not come in one piece.
var smallBuffers = sync.Pool{New: func() any { return &buffer{b: make([]byte, 0, 4<<10)} }}
