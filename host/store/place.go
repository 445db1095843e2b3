package store

import (
	"bytes"
	"encoding/binary"
	"math"

	"talon/host"
)

// place is where an event stands in an answer. In table posting it is bytes that
// sort like answers, newest first, ties by lowest id:
//
//	8  created_at, all bits inverted
//	8  the first bytes of the id     or   32  the id
//	8  seq                            or    8  seq
//
// The long form is that of time, kinds and authors, so that a scan finds the ids
// there. Tags, most of the cost of a write, have the short one. Where it leaves an
// order open, which takes two events of one second whose ids start alike, the ids
// are looked up.
type place struct {
	at     int64
	prefix uint64
	seq    int64
}

const (
	shortPlace = 24
	longPlace  = 48
)

func (p place) compare(q place) int {
	switch {
	case p.at > q.at:
		return -1
	case p.at < q.at:
		return 1
	case p.prefix < q.prefix:
		return -1
	case p.prefix > q.prefix:
		return 1
	case p.seq < q.seq:
		return -1
	case p.seq > q.seq:
		return 1
	}
	return 0
}

// before reports whether p comes before q, as far as a place says it.
func (p place) before(q place) bool {
	return p.at > q.at || p.at == q.at && p.prefix < q.prefix
}

// alike reports whether the ids must be looked at to order p and q.
func (p place) alike(q place) bool { return p.at == q.at && p.prefix == q.prefix }

func placeOf(createdAt int64, id []byte, seq int64) place {
	return place{createdAt, binary.BigEndian.Uint64(id), seq}
}

// parsePlace reads either form.
func parsePlace(b []byte) place {
	return place{
		at:     int64(^binary.BigEndian.Uint64(b)),
		prefix: binary.BigEndian.Uint64(b[8:]),
		seq:    int64(binary.BigEndian.Uint64(b[len(b)-8:])),
	}
}

// idOf returns the id in a long place.
func idOf(long []byte) host.ID { return host.ID(long[8:40]) }

func appendPlace(b []byte, createdAt int64, id []byte, seq int64) []byte {
	b = binary.BigEndian.AppendUint64(b, ^uint64(createdAt))
	b = append(b, id...)
	return binary.BigEndian.AppendUint64(b, uint64(seq))
}

// above sorts before every place at or before newest, and after all others.
func above(newest int64) []byte {
	return binary.BigEndian.AppendUint64(nil, ^uint64(max(newest, 0)))
}

// under sorts after every place at or after oldest, and before all others.
func under(oldest int64) []byte {
	b := binary.BigEndian.AppendUint64(nil, ^uint64(max(oldest, 0)))
	return append(b, bytes.Repeat([]byte{math.MaxUint8}, longPlace)...)
}
