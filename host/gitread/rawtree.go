package gitread

import (
	"bytes"
	"encoding/hex"
	"strconv"
)

// rawEntry is the first entry of a tree as git has it.
type rawEntry struct {
	mode, name, id []byte
	size           int // of all
}

// cutEntry returns the first entry of a tree whose ids have idBytes bytes. It reports false at the
// end of the tree, and where it is damaged.
func cutEntry(raw []byte, idBytes int) (e rawEntry, ok bool) {
	blank := bytes.IndexByte(raw[:min(len(raw), 8)], ' ')
	if blank < 0 {
		return e, false
	}
	end := bytes.IndexByte(raw[blank:], 0)
	if end < 0 || blank+end+1+idBytes > len(raw) {
		return e, false
	}
	end += blank
	return rawEntry{raw[:blank], raw[blank+1 : end], raw[end+1 : end+1+idBytes], end + 1 + idBytes}, true
}

// canonicalMode returns the mode as git takes it.
func (e rawEntry) canonicalMode() Mode {
	m, err := strconv.ParseUint(string(e.mode), 8, 32)
	if err != nil {
		return 0
	}
	return Mode(m).canonical()
}

// entryOf returns the entry that a tree has under a name.
func entryOf(raw []byte, name string, idBytes int) (e rawEntry, ok bool) {
	for len(raw) > 0 {
		if e, ok = cutEntry(raw, idBytes); !ok {
			break
		}
		if string(e.name) == name {
			return e, true
		}
		raw = raw[e.size:]
	}
	return rawEntry{}, false
}

// subtree returns the id of the folder that a tree has under a name, "" if there is none.
func subtree(raw []byte, name string, idBytes int) string {
	e, ok := entryOf(raw, name, idBytes)
	if !ok || e.canonicalMode() != ModeTree {
		return ""
	}
	return hex.EncodeToString(e.id)
}

// differences returns the names whose entries differ in two trees. It skips what is the same in both
// without a look at its entries.
func differences(a, b []byte, idBytes int) map[string]bool {
	differ := make(map[string]bool)
	for {
		same := commonPrefix(a, b)
		for {
			e, ok := cutEntry(a, idBytes)
			if !ok || e.size > same {
				break
			}
			a, b, same = a[e.size:], b[e.size:], same-e.size
		}
		x, inA := cutEntry(a, idBytes)
		y, inB := cutEntry(b, idBytes)
		order := 0
		switch {
		case !inA && !inB:
			return differ
		case !inB:
			order = -1
		case !inA:
			order = 1
		case !bytes.Equal(x.name, y.name):
			order = bytes.Compare(x.sortKey(), y.sortKey())
		}
		if order < 0 {
			differ[string(x.name)] = true
			a = a[x.size:]
			continue
		}
		if order > 0 {
			differ[string(y.name)] = true
			b = b[y.size:]
			continue
		}
		if !sameEntry(x, y) {
			differ[string(x.name)] = true
		}
		a, b = a[x.size:], b[y.size:]
	}
}

// sortKey is what git sorts an entry by.
func (e rawEntry) sortKey() []byte {
	if e.canonicalMode() == ModeTree {
		return append(e.name[:len(e.name):len(e.name)], '/')
	}
	return e.name
}

// commonPrefix returns how many bytes are the same at the start.
func commonPrefix(a, b []byte) int {
	const block = 256
	n, end := 0, min(len(a), len(b))
	for n+block <= end && bytes.Equal(a[n:n+block], b[n:n+block]) {
		n += block
	}
	for n < end && a[n] == b[n] {
		n++
	}
	return n
}

func sameEntry(x, y rawEntry) bool {
	return bytes.Equal(x.id, y.id) && (bytes.Equal(x.mode, y.mode) || x.canonicalMode() == y.canonicalMode())
}
