package githttp

import (
	"errors"
	"fmt"
	"io"
)

// maxPkt is the longest pkt-line, its length included.
const maxPkt = 65520

var errPkt = errors.New("a length that no pkt-line has")

// readPkt reads a pkt-line onto the end of buf. The payload is nil for a flush
// packet. What the line takes of the input is len(line) more of buf.
func readPkt(r io.Reader, buf []byte) (line, payload []byte, err error) {
	at := len(buf)
	buf = append(buf, 0, 0, 0, 0)
	if _, err := io.ReadFull(r, buf[at:]); err != nil {
		return buf[:at], nil, err
	}
	n := 0
	for _, c := range buf[at:] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return buf, nil, errPkt
		}
		n = n<<4 | int(c)
	}
	if n == 0 {
		return buf, nil, nil
	}
	if n < 4 || n > maxPkt {
		return buf, nil, errPkt
	}
	at += 4
	buf = append(buf, make([]byte, n-4)...)
	if _, err := io.ReadFull(r, buf[at:]); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return buf[:at], nil, err
	}
	return buf, buf[at:], nil
}

const flushPkt = "0000"

// appendPkt appends a pkt-line. REQUIRES: the parts fit in one.
func appendPkt(buf []byte, parts ...string) []byte {
	n := 4
	for _, part := range parts {
		n += len(part)
	}
	buf = fmt.Appendf(buf, "%04x", n)
	for _, part := range parts {
		buf = append(buf, part...)
	}
	return buf
}
