package relay

import (
	"errors"
	"sync"

	"github.com/gobwas/ws/wsflate"
	"github.com/klauspost/compress/flate"

	"talon/host/inflate"
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
	b.b = b.b[:len(b.b)-len(inflate.SyncTail)]
}

// decompress appends what data decompresses to, at most limit bytes.
func decompress(b *buffer, data []byte, limit int) (err error) {
	b.b, err = inflate.Append(b.b, data, limit)
	switch {
	case errors.Is(err, inflate.ErrTooLong):
		return tooBig(limit)
	case err != nil:
		return errInflate
	}
	return nil
}
