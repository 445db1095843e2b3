// Package inflate decompresses messages of a websocket (RFC 7692, permessage-deflate)
// whose sender keeps no window between messages, or one that a [Window] keeps as well. The size
// of the result is bounded.
package inflate

import (
	"errors"
	"io"
	"sync"

	"github.com/klauspost/compress/flate"
)

// Errors of Append.
var (
	ErrTooLong = errors.New("the message decompresses to more than is allowed")
	ErrDamaged = errors.New("the message does not decompress")
)

// SyncTail ends a flushed deflate stream. It is not sent (RFC 7692, 7.2.1).
const SyncTail = "\x00\x00\xff\xff"

// finalBlock stands where the sender cut its stream: the tail, and an empty last block,
// which lets the decompressor end.
const finalBlock = SyncTail + "\x01\x00\x00\xff\xff"

var readers = sync.Pool{New: func() any { return flate.NewReader(new(tailed)) }}

// Append appends to b, which may be empty, what packed decompresses to. The result
// has at most the given length; what was decompressed until an error is returned with it.
// Append is safe for concurrent use.
func Append(b, packed []byte, limit int) ([]byte, error) { return appendAfter(nil, b, packed, limit) }

// Window decompresses the messages of a sender that keeps its window between them (RFC 7692,
// 7.1.1.1). The zero value is that of a new connection. It holds at most 32 KiB.
type Window struct{ last []byte }

// windowBytes is how far deflate looks back.
const windowBytes = 32 << 10

// Append works as the function Append. It must see the compressed messages of a sender in their
// order. After an error, the window is of no more use.
func (w *Window) Append(b, packed []byte, limit int) ([]byte, error) {
	before := len(b)
	b, err := appendAfter(w.last, b, packed, limit)
	if fresh := b[before:]; len(fresh) >= windowBytes {
		w.last = append(w.last[:0], fresh[len(fresh)-windowBytes:]...)
	} else {
		keep := min(len(w.last), windowBytes-len(fresh))
		n := copy(w.last, w.last[len(w.last)-keep:])
		w.last = append(w.last[:n], fresh...)
	}
	return b, err
}

func appendAfter(window, b, packed []byte, limit int) ([]byte, error) {
	r := readers.Get().(io.ReadCloser)
	defer readers.Put(r)
	if err := r.(flate.Resetter).Reset(&tailed{data: packed, tail: finalBlock}, window); err != nil {
		return b, ErrDamaged
	}
	for {
		if len(b) == cap(b) {
			b = append(b, 0)[:len(b)]
		}
		n, err := r.Read(b[len(b):min(cap(b), limit+1)])
		b = b[:len(b)+n]
		switch {
		case len(b) > limit:
			return b, ErrTooLong
		case errors.Is(err, io.EOF):
			return b, nil
		case err != nil:
			return b, ErrDamaged
		}
	}
}

// tailed reads data, then tail. It is an io.ByteReader so that the decompressor adds
// no buffer of its own.
type tailed struct {
	data []byte
	tail string
}

func (t *tailed) Read(p []byte) (int, error) {
	if len(t.data) > 0 {
		n := copy(p, t.data)
		t.data = t.data[n:]
		return n, nil
	}
	if len(t.tail) == 0 {
		return 0, io.EOF
	}
	n := copy(p, t.tail)
	t.tail = t.tail[n:]
	return n, nil
}

func (t *tailed) ReadByte() (byte, error) {
	var one [1]byte
	_, err := t.Read(one[:])
	return one[0], err
}
