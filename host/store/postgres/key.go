package postgres

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"math"
	"slices"

	"talon/host"
	"talon/host/store/semantics"
)

const (
	secretSize = 16
	keySize    = 16
)

// nameAddress stands where a tag's name would, as a byte that no tag has, like
// host.MaintainerOf.
const nameAddress = 0

// keyring makes the index keys of one database.
type keyring struct {
	secret [secretSize]byte
}

func (k *keyring) key(name byte, value string) []byte {
	b := make([]byte, 0, 256)
	b = append(b, k.secret[:]...)
	b = append(b, name)
	b = append(b, value...)
	sum := sha256.Sum256(b)
	return sum[:keySize:keySize]
}

// address is the key of the event's address, nil if it has none.
func (k *keyring) address(e *host.Event) []byte {
	a, ok := e.Address()
	if !ok {
		return nil
	}
	return k.key(nameAddress, a.String())
}

// keys are those of several values under one name, each once.
func (k *keyring) keys(name byte, values []string) [][]byte {
	if name == host.AddressOf {
		name = nameAddress
	}
	keys := make([][]byte, len(values))
	for i, v := range values {
		keys[i] = k.key(name, v)
	}
	return unique(keys)
}

func unique(keys [][]byte) [][]byte {
	slices.SortFunc(keys, bytes.Compare)
	return slices.CompactFunc(keys, bytes.Equal)
}

// tagRows are rows of a tag table, a slice for each column.
type tagRows struct {
	key, place [][]byte
	kind       []int32
	seq        []int64
	expires    []*int64
}

// add appends the rows of an event.
func (r *tagRows) add(k *keyring, e *host.Event, seq int64) {
	place, expires := placeOf(e), expiry(e)
	one := func(key []byte) {
		r.key, r.place = append(r.key, key), append(r.place, place)
		r.kind, r.seq, r.expires = append(r.kind, int32(e.Kind)), append(r.seq, seq), append(r.expires, expires)
	}
	semantics.Tags(e, func(name byte, value string) { one(k.key(name, value)) })
	semantics.Maintained(e, func(value string) { one(k.key(host.MaintainerOf, value)) })
}

// expiry is when the event expires, nil if it does not.
func expiry(e *host.Event) *int64 {
	if at, ok := e.Expiration(); ok {
		return &at
	}
	return nil
}

const placeSize = 40

func placeOf(e *host.Event) []byte {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, placeSize), ^uint64(e.CreatedAt))
	return append(b, e.ID[:]...)
}

// parsePlace returns what a place is made of.
func parsePlace(b []byte) (createdAt int64, id host.ID) {
	return int64(^binary.BigEndian.Uint64(b)), host.ID(b[8:])
}

// above sorts before every place at or before newest, and after all others.
func above(newest int64) []byte {
	return binary.BigEndian.AppendUint64(nil, ^uint64(max(newest, 0)))
}

// under sorts after every place at or after oldest, and before all others.
func under(oldest int64) []byte {
	b := binary.BigEndian.AppendUint64(nil, ^uint64(max(oldest, 0)))
	return append(b, bytes.Repeat([]byte{math.MaxUint8}, placeSize)...)
}
