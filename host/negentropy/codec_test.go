package negentropy

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math"
	"strings"
	"testing"
)

func TestVarint(t *testing.T) {
	for _, tt := range []struct {
		v    uint64
		want string
	}{
		{0, "00"},
		{1, "01"},
		{0x7f, "7f"},
		{0x80, "8100"},
		{0x3fff, "ff7f"},
		{0x4000, "818000"},
		{1700000000, "86aacfe200"},
		{math.MaxInt64, "ffffffffffffffff7f"},
		{math.MaxInt64 + 1, "81808080808080808000"},
		{math.MaxUint64, "81ffffffffffffffff7f"},
	} {
		if got := hex.EncodeToString(appendVarint(nil, tt.v)); got != tt.want {
			t.Errorf("encode %d: got %s, want %s", tt.v, got, tt.want)
		}
		r := reader{b: append(unhex(t, tt.want), 0xaa)}
		if got, err := r.varint(); err != nil || got != tt.v || len(r.b) != 1 {
			t.Errorf("decode %s: got %d, %d bytes left, %v; want %d, 1 byte left", tt.want, got, len(r.b), err, tt.v)
		}
	}
}

func TestVarintRefused(t *testing.T) {
	for _, tt := range []struct {
		in   string
		want error
	}{
		{"", ErrTruncated},
		{"81", ErrTruncated},
		{"81ffffffffffffffff", ErrTruncated},
		{"8000", ErrVarint},
		{"8001", ErrVarint},
		{"82808080808080808000", ErrVarint},
		{"ffffffffffffffffff7f", ErrVarint},
		{"8180808080808080808000", ErrVarint},
		{strings.Repeat("ff", 1000), ErrVarint},
		{strings.Repeat("80", 1000), ErrVarint},
	} {
		r := reader{b: unhex(t, tt.in)}
		if v, err := r.varint(); !errors.Is(err, tt.want) {
			t.Errorf("decode %.40s: got %d, %v; want %v", tt.in, v, err, tt.want)
		}
	}
}

func TestBoundsRoundTrip(t *testing.T) {
	bounds := []bound{
		{},
		{time: 0, id: [32]byte{1}, size: 1},
		{time: 5},
		{time: 5, id: [32]byte{31: 9}, size: 32},
		{time: math.MaxInt64},
		{time: infinity},
		{time: infinity},
	}
	var w writer
	for i := range bounds {
		w.bound(&bounds[i])
	}
	r := reader{b: w.b}
	for i, want := range bounds {
		if got, err := r.bound(); err != nil || got != want {
			t.Errorf("bound %d: got %+v, %v; want %+v", i, got, err, want)
		}
	}
	if len(r.b) > 0 {
		t.Errorf("%d bytes left", len(r.b))
	}
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// message joins the version byte and pieces in hex.
func message(t testing.TB, pieces ...string) []byte {
	return bytes.Join([][]byte{{protocolVersion}, unhex(t, strings.Join(pieces, ""))}, nil)
}
