package code

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// maxSeek is the largest file of which a client gets a part. Git has to read all that is before it:
// for this size it takes a quarter of a second.
const maxSeek = 256 << 20

// span is a part of a file.
type span struct {
	from, length int64
}

// contentRange returns the header of that name for the part of a file of a size.
func (s span) contentRange(size int64) string {
	return fmt.Sprintf("bytes %d-%d/%d", s.from, s.from+s.length-1, size)
}

// errSpan says that a file has no byte of the part that a client asked for.
var errSpan = errors.New("the file has no such part")

// spanOf returns the part of a file that a request asks for (RFC 9110, section 14). It returns false
// for the whole file. That is also the answer to what this server does not understand, to several
// parts, and to a client that has a part of another version. It fails with errSpan.
func spanOf(r *http.Request, size int64, etag string) (s span, ok bool, err error) {
	unit, list, found := strings.Cut(r.Header.Get("Range"), "=")
	if !found || r.Method != http.MethodGet || size > maxSeek || !strings.EqualFold(unit, "bytes") {
		return span{}, false, nil
	}
	if version := r.Header.Get("If-Range"); version != "" && version != etag {
		return span{}, false, nil
	}
	first, last, found := strings.Cut(strings.TrimSpace(list), "-")
	if !found {
		return span{}, false, nil
	}
	from, hasFrom := offset(first)
	to, hasTo := offset(last)
	switch {
	case hasFrom && last == "": // from there on
		to = size - 1
	case hasFrom && hasTo && to >= from:
		to = min(to, size-1)
	case first == "" && hasTo: // the last bytes
		if to == 0 {
			return span{}, false, errSpan
		}
		from, to = max(0, size-to), size-1
	default:
		return span{}, false, nil
	}
	if from >= size {
		return span{}, false, errSpan
	}
	return span{from, to - from + 1}, true, nil
}

// offset parses a number of digits.
func offset(text string) (n int64, ok bool) {
	if text == "" || strings.Trim(text, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil
}
