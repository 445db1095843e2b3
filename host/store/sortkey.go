package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"

	"talon/host"
)

// sortKey is the place of an event in an answer. In table posting it is bytes that sort like
// answers, newest first, ties by lowest id:
//
//	8  created_at, all bits inverted
//	8  the first bytes of the id     or   32  the id
//	8  seq                            or    8  seq
//
// The rows of time, kinds and authors have the long form, so that a scan finds the ids there.
// Tags, most of the cost of a write, have the short one. It leaves the order open only for two
// events of one second whose ids start alike. For those the ids are looked up.
type sortKey struct {
	at     int64
	prefix uint64
	seq    int64
}

const (
	shortSortKey = 24
	longSortKey  = 48
)

func (p sortKey) compare(q sortKey) int {
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

// before reports whether p comes before q, as far as a sort key says it.
func (p sortKey) before(q sortKey) bool {
	return p.at > q.at || p.at == q.at && p.prefix < q.prefix
}

// tied reports whether the ids must be looked at to order p and q.
func (p sortKey) tied(q sortKey) bool { return p.at == q.at && p.prefix == q.prefix }

func sortKeyOf(createdAt int64, id []byte, seq int64) sortKey {
	return sortKey{createdAt, binary.BigEndian.Uint64(id), seq}
}

// parseSortKey reads either form.
func parseSortKey(b []byte) sortKey {
	return sortKey{
		at:     int64(^binary.BigEndian.Uint64(b)),
		prefix: binary.BigEndian.Uint64(b[8:]),
		seq:    int64(binary.BigEndian.Uint64(b[len(b)-8:])),
	}
}

// idOf returns the id in a long sort key.
func idOf(long []byte) host.ID { return host.ID(long[8:40]) }

func appendSortKey(b []byte, createdAt int64, id []byte, seq int64) []byte {
	b = binary.BigEndian.AppendUint64(b, ^uint64(createdAt))
	b = append(b, id...)
	return binary.BigEndian.AppendUint64(b, uint64(seq))
}

// above sorts before every sort key at or before newest, and after all others.
func above(newest int64) []byte {
	return binary.BigEndian.AppendUint64(nil, ^uint64(max(newest, 0)))
}

// under sorts after every sort key at or after oldest, and before all others.
func under(oldest int64) []byte {
	b := binary.BigEndian.AppendUint64(nil, ^uint64(max(oldest, 0)))
	return append(b, bytes.Repeat([]byte{math.MaxUint8}, longSortKey)...)
}

var errSortKeys = errors.New("index rows are damaged: run `talon check`")
