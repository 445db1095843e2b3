package store

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"slices"
)

// Events are stored packed. A quarter of the text of an ordinary event is lower-case hex, of
// which packing saves half, and a tenth is the names of its fields. Unpacking returns any text
// byte for byte.
//
// A packed text begins with packedMark and the length of the text as a varint. Pieces follow.
// The upper two bits of a piece's first byte are its sort. The lower six are a number; if they
// are 0, the number follows as a varint:
//
//	00  number bytes of text
// 	01  number bytes, each for two characters of hex
//	10  the fragment with that number, counted from 1
//
// A row that does not begin with packedMark is the text as it is: older versions wrote
// such rows, and JSON begins with another byte.

const (
	packedMark = 1

	pieceText     = 0 << 6
	pieceHex      = 1 << 6
	pieceFragment = 2 << 6

	// minHex is how many characters of hex make a piece.
	minHex = 16

	// maxPacked bounds the text that a row may claim to have.
	maxPacked = 1 << 30
)

// fragments are texts that most events have. Their numbers are in the database: more may
// be added at the end, up to 63, and none changed.
var fragments = [...]string{
	`{"id":"`, `","pubkey":"`, `","created_at":`, `,"kind":`, `,"tags":[["`, `,"tags":[],"content":"`,
	`"]],"content":"`, `","sig":"`, `"}`, `"],["e","`, `"],["p","`, `"],["a","`, `"],["t","`, `"],["`,
	`","","`, `,"content":"`, `,"created_at":`, `,"pubkey":"`, `","tags":[["`, `","tags":[],"`, `"]]`, `"]],"`,
	`{"kind":`, `,"id":"`, `{"created_at":`, `{"content":"`, `{"pubkey":"`, `{"tags":[["`, `,"sig":"`, `"],["q","`, `"],["r","`,
	`","wss://`, `","reply"],["p","`, `","root"],["e","`, `","root"]`, `","reply"]`, `"],["E","`, `"],["P","`, `"],["K","`, `"],["k","`, `"],["A","`,
	`e","`, `p","`, `d","`, `a","`, `:30617:`, `30617:`, `https://`, `wss://`, `"kind":`, `"content":"`, `"tags":[`, `refs/heads/`, `client","`, `nostr:`,
}

// fragmentsBy lists the fragments by a hash of their first two bytes, the longest first.
var fragmentsBy = func() (by [256][]byte) {
	for i, f := range fragments {
		list := append(by[firstTwo(f[0], f[1])], byte(i))
		for j := len(list) - 1; j > 0 && len(fragments[list[j-1]]) < len(f); j-- {
			list[j-1], list[j] = list[j], list[j-1]
		}
		by[firstTwo(f[0], f[1])] = list
	}
	return by
}()

func firstTwo(a, b byte) byte { return a*31 + b }

// boundary has the bytes at which a fragment may begin, and after which hex may.
var boundary = func() (is [256]bool) {
	for _, c := range []byte(`"{,:`) {
		is[c] = true
	}
	return is
}()

// pack appends the packed text.
func pack(b, text []byte) []byte {
	b = append(b, packedMark)
	b = binary.AppendUvarint(b, uint64(len(text)))
	plain := 0 // where the text begins that is in no piece yet
	flush := func(end int) {
		if end > plain {
			b = append(appendPiece(b, pieceText, end-plain), text[plain:end]...)
		}
	}
	after := false // what comes before may be followed by hex
	for i := 0; i < len(text); {
		if after {
			if n := hexLength(text[i:]); n >= minHex {
				flush(i)
				b = appendPiece(b, pieceHex, n/2)
				b, _ = hex.AppendDecode(b, text[i:i+n])
				i += n
				plain = i
				continue
			}
		}
		if c := text[i]; !boundary[c] && !after {
			i++
			continue
		}
		if f, n := fragmentAt(text[i:]); n > 0 {
			flush(i)
			b = appendPiece(b, pieceFragment, f)
			i += n
			plain = i
			after = true
			continue
		}
		after = boundary[text[i]]
		i++
	}
	flush(len(text))
	return b
}

func appendPiece(b []byte, piece byte, n int) []byte {
	if n < 64 {
		return append(b, piece|byte(n))
	}
	return binary.AppendUvarint(append(b, piece), uint64(n))
}

// fragmentAt returns the number and the length of the longest fragment with which text
// begins, and 0 if there is none.
func fragmentAt(text []byte) (number, length int) {
	if len(text) < 2 {
		return 0, 0
	}
	for _, i := range fragmentsBy[firstTwo(text[0], text[1])] {
		if f := fragments[i]; len(text) >= len(f) && string(text[:len(f)]) == f {
			return int(i) + 1, len(f)
		}
	}
	return 0, 0
}

// hexLength is how many characters of lower-case hex text begins with, an even number.
func hexLength(text []byte) int {
	n := 0
	for n < len(text) && ('0' <= text[n] && text[n] <= '9' || 'a' <= text[n] && text[n] <= 'f') {
		n++
	}
	return n &^ 1
}

// textSize is the length of the text of a row.
func textSize(row []byte) int64 {
	if len(row) > 0 && row[0] == packedMark {
		if size, n := binary.Uvarint(row[1:]); n > 0 && size <= maxPacked {
			return int64(size)
		}
	}
	return int64(len(row))
}

// hexOf has the two characters of each byte, the first in the lower half.
var hexOf = func() (of [256]uint16) {
	for i := range of {
		of[i] = binary.LittleEndian.Uint16(hex.AppendEncode(nil, []byte{byte(i)}))
	}
	return of
}()

// encodeHex writes the hex of from, which is nearly half of what unpack does: four bytes at a
// time. REQUIRES: to is twice as long.
func encodeHex(to, from []byte) {
	for len(from) >= 4 && len(to) >= 8 {
		four := uint64(hexOf[from[0]]) | uint64(hexOf[from[1]])<<16 | uint64(hexOf[from[2]])<<32 | uint64(hexOf[from[3]])<<48
		binary.LittleEndian.PutUint64(to, four)
		to, from = to[8:], from[4:]
	}
	for i, c := range from {
		binary.LittleEndian.PutUint16(to[2*i:], hexOf[c])
	}
}

var errPacked = errors.New("a packed text is damaged: run `talon check`")

// unpack appends the text of a row to b, which is empty but may have room.
func unpack(b, row []byte) ([]byte, error) {
	if len(row) == 0 || row[0] != packedMark {
		return append(b, row...), nil
	}
	size, n := binary.Uvarint(row[1:])
	// Nothing grows by more than a fragment for each byte.
	if n <= 0 || size > maxPacked || size > uint64(len(row))*32 {
		return nil, errPacked
	}
	text := slices.Grow(b, int(size))[:0:size]
	for row = row[1+n:]; len(row) > 0; {
		piece, number := row[0]&(3<<6), uint64(row[0]&63)
		row = row[1:]
		if number == 0 {
			if number, n = binary.Uvarint(row); n <= 0 {
				return nil, errPacked
			}
			row = row[n:]
		}
		room := uint64(cap(text) - len(text))
		switch piece {
		case pieceText:
			if number > uint64(len(row)) || number > room {
				return nil, errPacked
			}
			text = append(text, row[:number]...)
			row = row[number:]
		case pieceHex:
			if number > uint64(len(row)) || 2*number > room {
				return nil, errPacked
			}
			start := len(text)
			text = text[:start+2*int(number)]
			encodeHex(text[start:], row[:number])
			row = row[number:]
		case pieceFragment:
			if number-1 >= uint64(len(fragments)) || uint64(len(fragments[number-1])) > room {
				return nil, errPacked
			}
			text = append(text, fragments[number-1]...)
		default:
			return nil, errPacked
		}
	}
	if uint64(len(text)) != size {
		return nil, errPacked
	}
	return text, nil
}
