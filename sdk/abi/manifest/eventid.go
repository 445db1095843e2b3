package manifest

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
)

// canonicalID returns the id that the event has by its other fields (NIP-01): the
// SHA-256 of [0,pubkey,created_at,kind,tags,content] without white space.
func (e *VectorEvent) canonicalID() Key {
	b := append([]byte(nil), `[0,"`...)
	b = append(hex.AppendEncode(b, e.PubKey[:]), `",`...)
	b = append(strconv.AppendInt(b, e.CreatedAt, 10), ',')
	b = append(strconv.AppendUint(b, uint64(e.Kind), 10), ",["...)
	for i, tag := range e.Tags {
		b = append(appendComma(b, i), '[')
		for j, item := range tag {
			b = appendQuoted(appendComma(b, j), item)
		}
		b = append(b, ']')
	}
	b = appendQuoted(append(b, "],"...), e.Content)
	return sha256.Sum256(append(b, ']'))
}

// appendComma appends what stands before an item of a list.
func appendComma(b []byte, index int) []byte {
	if index > 0 {
		b = append(b, ',')
	}
	return b
}

// appendQuoted appends a string with the escapes that NIP-01 prescribes for ids, which
// are fewer than those of encoding/json.
func appendQuoted(b []byte, s string) []byte {
	const short = "\"\"\\\\\nn\rr\tt\bb\ff" // a character, and what stands for it after a backslash
	b = append(b, '"')
next:
	for i := range len(s) {
		for j := 0; j < len(short); j += 2 {
			if s[i] == short[j] {
				b = append(b, '\\', short[j+1])
				continue next
			}
		}
		if s[i] < 0x20 {
			b = append(b, `\u00`...)
			b = hex.AppendEncode(b, []byte{s[i]})
			continue
		}
		b = append(b, s[i])
	}
	return append(b, '"')
}
