package match

import (
	"encoding/binary"
	"math"
	"slices"
	"strings"

	"talon/host"
)

// Append appends the digest as bytes, to be read by [Decode]. They mean something under the
// same key only.
func (d *Digest) Append(b []byte) []byte {
	b = append(b, d.ID[:]...)
	b = binary.AppendVarint(b, d.CreatedAt)
	b = binary.BigEndian.AppendUint32(b, uint32(d.author))
	b = binary.BigEndian.AppendUint16(b, uint16(d.kind))
	b = binary.AppendUvarint(b, uint64(len(d.tags)))
	for _, t := range d.tags {
		b = append(b, t.name)
		b = binary.BigEndian.AppendUint32(b, uint32(t.value))
	}
	return b
}

// Decode reads a digest and returns what follows it.
func Decode(b []byte) (d Digest, rest []byte, ok bool) {
	if len(b) < len(d.ID) {
		return d, nil, false
	}
	b = b[copy(d.ID[:], b):]
	at, n := binary.Varint(b)
	if n <= 0 || len(b) < n+6 {
		return d, nil, false
	}
	b = b[n:]
	d.CreatedAt, d.author, d.kind = at, mark(binary.BigEndian.Uint32(b)), host.Kind(binary.BigEndian.Uint16(b[4:]))
	b = b[6:]
	const size = 5
	count, n := binary.Uvarint(b)
	if n <= 0 || count > math.MaxInt32 || len(b)-n < size*int(count) {
		return d, nil, false
	}
	b = b[n:]
	if count > 0 {
		d.tags = make([]tagMark, count)
	}
	for i := range d.tags {
		d.tags[i] = tagMark{b[0], mark(binary.BigEndian.Uint32(b[1:]))}
		b = b[size:]
	}
	return d, b, slices.IsSortedFunc(d.tags, tagMark.compare)
}

// Tags returns how many tags filters look at.
func (d *Digest) Tags() int { return len(d.tags) }

// Waits returns the marks of what an event that was refused may wait for: what it names, what
// is called like it, and, of what an author says of itself, anything else of the author's.
func (d *Digest) Waits() (marks []uint32) {
	for _, t := range d.tags {
		if t.name == 'd' || strings.IndexByte(host.ReferenceTags, t.name) >= 0 {
			marks = append(marks, uint32(t.value))
		}
	}
	switch d.kind {
	case 0, 3, 10002, 10317: // profile, contacts, relays, grasp servers
		marks = append(marks, uint32(d.author))
	}
	return marks
}

// Answers returns the marks of what an event that was accepted may have been waited for as,
// and the ids that it names.
func (h Hash) Answers(e *host.Event) (marks []uint32, ids []host.ID) {
	add := func(text string) { marks = append(marks, uint32(sum(h, text))) }
	add(e.ID.String())
	marks = append(marks, uint32(sum(h, e.PubKey[:])))
	if a, ok := e.Address(); ok {
		add(a.String())
	}
	if e.Kind == host.KindAnnouncement {
		add(e.D())
		for _, m := range e.Maintainers() {
			marks = append(marks, uint32(sum(h, m[:])))
		}
	}
	for _, tag := range e.Tags {
		if len(tag) < 2 || len(tag[0]) != 1 || !strings.Contains(host.ReferenceTags, tag[0]) {
			continue
		}
		var id host.ID
		if host.ParseHex(id[:], tag[1]) {
			ids = append(ids, id)
		} else if a, ok := host.ParseAddress(tag[1]); ok {
			add(a.D)
		}
	}
	return marks, ids
}
