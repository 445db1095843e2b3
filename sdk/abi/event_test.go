package abi

import (
	"bytes"
	"strings"
	"testing"
)

// TestEventLengths writes events and tags whose lengths take one byte and more, in buffers
// with room and without, and compares them with what any message is written by.
func TestEventLengths(t *testing.T) {
	long := strings.Repeat("x", 1<<14)
	for _, size := range []int{0, 1, 50, 59, 60, 61, 62, 63, 119, 120, 121, 122, 123, 124, 125, 126, 127, 128, 129, 200, 16_000, 16_383, 16_384} {
		for _, e := range []*Event[[]string]{
			{Content: long[:size]},
			{Tags: [][]string{{long[:size]}, {}, {"t", long[:size]}, {long[:size], long[:size], ""}}},
			{ID: make([]byte, 32), Content: long[:max(size-36, 0)]},
			{ID: make([]byte, 32), Content: long[:max(size-37, 0)], Tags: [][]string{{}}},
		} {
			var inside []byte
			inside = appendNonEmpty(inside, 1, e.ID)
			for _, tag := range e.Tags {
				var text []byte
				for _, item := range tag {
					text = appendField(text, 1, item)
				}
				inside = appendField(inside, 5, text)
			}
			inside = appendNonEmpty(inside, 6, e.Content)
			want := appendField([]byte("before"), 1, inside)
			if got := AppendEventOf([]byte("before"), e); !bytes.Equal(got, want) {
				t.Errorf("size %d: an event in a list is not what it should be", size)
			}
			room := append(make([]byte, 0, 1<<17), "before"...)
			if got := AppendEventOf(room, e); !bytes.Equal(got, want) {
				t.Errorf("size %d: an event in a list is not what it should be where there is room", size)
			}
		}
	}
}
