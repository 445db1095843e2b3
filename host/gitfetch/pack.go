package gitfetch

import (
	"encoding/binary"
	"math"
)

// packCounter reads an answer as it passes, and finds the pack in it, whose head says
// how many objects there are. It knows just enough of pkt-lines (gitprotocol-pack,
// gitprotocol-v2) for that, with a side band and without.
type packCounter struct {
	most  int64
	lines int // pkt-lines so far, up to the pack

	// pack is given the pack, and says whether the rest may come; nil if nobody wants it.
	pack func(b []byte) error

	found bool   // the head was read
	done  bool   // nothing is to be read any more
	size  []byte // of a pkt-line, as far as it has come
	left  int    // bytes of the pkt-line that have not come
	fresh bool   // the next byte is the pkt-line's first
	data  bool   // the pkt-line is of the band that the pack comes on
	head  []byte // of the pack, as far as it has come
}

const (
	packHead = 12 // "PACK", version, number of objects
	packBand = 1
)

// read takes the next bytes, and says why the pack must not come, if so.
func (c *packCounter) read(b []byte) error {
	for i := 0; i < len(b) && !c.done; {
		if c.left == 0 {
			c.size = append(c.size, b[i])
			if i++; len(c.size) == 4 {
				c.begin()
			}
			continue
		}
		if c.fresh {
			c.fresh, c.data = false, b[i] == packBand
			c.left--
			i++
			continue
		}
		n := min(c.left, len(b)-i)
		var err error
		switch {
		case !c.data:
		case c.found:
			err = c.pack(b[i : i+n])
		default:
			n = min(n, packHead-len(c.head))
			if c.head = append(c.head, b[i:i+n]...); len(c.head) == packHead {
				err = c.count()
			}
		}
		if err != nil {
			c.done = true
			return err
		}
		c.left -= n
		i += n
	}
	return nil
}

// begin reads the length of a pkt-line. In its place may be the pack itself, if there
// is no side band: then all that follows is.
func (c *packCounter) begin() {
	if string(c.size) == "PACK" {
		c.head, c.data, c.left = append(c.head[:0], c.size...), true, math.MaxInt
		return
	}
	n, ok := pktLength(c.size)
	c.size = c.size[:0]
	if !ok {
		c.done = true // git will say what is wrong with it
		return
	}
	if !c.found {
		c.lines++
	}
	// Those up to 2 only separate others.
	c.left = max(n-4, 0)
	c.fresh = c.left > 0
}

// count looks at the head of the pack.
func (c *packCounter) count() error {
	c.found = true
	if string(c.head[:4]) != "PACK" {
		c.done = true // git will say what is wrong with it
		return nil
	}
	if int64(binary.BigEndian.Uint32(c.head[8:])) > c.most {
		return errObjects
	}
	if c.pack == nil {
		c.done = true
		return nil
	}
	return c.pack(c.head)
}

// pktLength reads four hex digits.
func pktLength(b []byte) (n int, ok bool) {
	for _, c := range b {
		n <<= 4
		switch {
		case c >= '0' && c <= '9':
			n |= int(c - '0')
		case c >= 'a' && c <= 'f':
			n |= int(c-'a') + 10
		case c >= 'A' && c <= 'F':
			n |= int(c-'A') + 10
		default:
			return 0, false
		}
	}
	return n, n != 3
}
