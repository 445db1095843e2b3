package relay

import (
	"encoding/binary"
	"sync"

	"github.com/gobwas/ws"

	"talon/host/inflate"
)

// liveText is the text of an event that goes to many connections at once. Its encodings are made
// once for all of them.
type liveText struct {
	json []byte

	once   sync.Once
	packed []byte // a whole number of blocks of DEFLATE, aligned to bytes
}

// deflated returns the text compressed. It may stand between other blocks.
func (t *liveText) deflated() []byte {
	t.once.Do(func() {
		b := getBuffer()
		defer b.free()
		appendDeflated(b, t.json)
		t.packed = append(append(make([]byte, 0, len(b.b)+len(inflate.SyncTail)), b.b...), inflate.SyncTail...)
	})
	return t.packed
}

// writeLive writes an event that was published. Its text is copied only if it is short.
func (c *conn) writeLive(scratch *buffer, o *outgoing) error {
	n := len(o.prefix) + len(o.body) + len(closingBracket)
	if c.deflate && o.live != nil {
		packed := o.live.deflated()
		if size := storedSize(o.prefix) + len(packed) + storedSize(closingBracket) + 1; size < n {
			appendHeader(scratch, ws.OpText, ws.Rsv(true, false, false), size)
			scratch.b = appendStored(scratch.b, o.prefix)
			if err := c.writeShared(scratch, packed); err != nil {
				return err
			}
			// The empty block at the end is cut off behind its first byte (RFC 7692, 7.2.1).
			scratch.b = append(appendStored(scratch.b, closingBracket), 0)
			return nil
		}
	}
	if o.live == nil {
		c.appendText(scratch, o.prefix, o.body, closingBracket)
		return nil
	}
	appendHeader(scratch, ws.OpText, 0, n)
	scratch.b = append(scratch.b, o.prefix...)
	if err := c.writeShared(scratch, o.body); err != nil {
		return err
	}
	scratch.b = append(scratch.b, closingBracket...)
	return nil
}

// writeShared writes what belongs to many connections behind what is in scratch.
func (c *conn) writeShared(scratch *buffer, shared []byte) error {
	if len(shared) < writeSize {
		scratch.b = append(scratch.b, shared...)
		return nil
	}
	if err := c.writeAll(scratch); err != nil {
		return err
	}
	return c.writeBytes(shared)
}

// storedHead is the length of the head of a block that is not compressed (RFC 1951, 3.2.4).
const storedHead = 5

func storedSize(text []byte) int { return storedHead + len(text) }

// appendStored appends a block of DEFLATE that is not compressed, for a short text. It follows
// on what is aligned to bytes.
func appendStored(b, text []byte) []byte {
	n := uint16(len(text))
	b = append(b, 0)
	b = binary.LittleEndian.AppendUint16(b, n)
	b = binary.LittleEndian.AppendUint16(b, ^n)
	return append(b, text...)
}
