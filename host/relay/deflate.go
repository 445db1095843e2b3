package relay

import (
	"errors"
	"io"
	"sync"

	"github.com/gobwas/ws/wsflate"
	"github.com/klauspost/compress/flate"
)

// deflateParameters keep no window between messages: a connection holds no
// compressor (RFC 7692, 7.1.1).
var deflateParameters = wsflate.Parameters{ServerNoContextTakeover: true, ClientNoContextTakeover: true}

var deflaters = sync.Pool{New: func() any {
	w, err := flate.NewWriter(nil, flate.BestSpeed)
	if err != nil {
		panic(err) // the level is a constant of the library
	}
	return w
}}

var inflaters = sync.Pool{New: func() any { return flate.NewReader(new(tailed)) }}

// syncTail ends a flushed deflate stream; it is not sent (RFC 7692, 7.2.1).
const syncTail = "\x00\x00\xff\xff"

// finalBlock is an empty last block, which lets the decompressor end.
const finalBlock = syncTail + "\x01\x00\x00\xff\xff"

type bufferWriter struct{ *buffer }

func (w bufferWriter) Write(p []byte) (int, error) {
	w.b = append(w.b, p...)
	return len(p), nil
}

// appendDeflated appends the parts compressed as one message.
func appendDeflated(b *buffer, parts ...[]byte) {
	w := deflaters.Get().(*flate.Writer)
	w.Reset(bufferWriter{b})
	for _, p := range parts {
		_, _ = w.Write(p) // a buffer does not fail
	}
	_ = w.Flush()
	deflaters.Put(w)
	b.b = b.b[:len(b.b)-len(syncTail)]
}

// inflate appends what data decompresses to, at most limit bytes.
func inflate(b *buffer, data []byte, limit int) error {
	r := inflaters.Get().(io.ReadCloser)
	defer inflaters.Put(r)
	if err := r.(flate.Resetter).Reset(&tailed{data: data, tail: finalBlock}, nil); err != nil {
		return errInflate
	}
	for {
		if len(b.b) == cap(b.b) {
			b.b = append(b.b, 0)[:len(b.b)]
		}
		n, err := r.Read(b.b[len(b.b):min(cap(b.b), limit+1)])
		b.b = b.b[:len(b.b)+n]
		if len(b.b) > limit {
			return tooBig(limit)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return errInflate
		}
	}
}

// tailed reads data, then tail. It is an io.ByteReader so that the decompressor
// adds no buffer of its own.
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
