package textcache

import (
	"bytes"
	"testing"
	"unsafe"
)

func TestTexts(t *testing.T) {
	if size := unsafe.Sizeof([ways]place{}); size != setSize {
		t.Errorf("a set has %d bytes, not %d", size, setSize)
	}
	const maximum = 1 << 20
	c := New(maximum)
	json := bytes.Repeat([]byte("x"), 600)
	for seq := range int64(10_000) {
		c.Add(seq, json)
	}
	if c.Get(9_999) == nil {
		t.Error("the last text is forgotten")
	}
	if c.Get(0) != nil {
		t.Error("the first of ten thousand texts is still there")
	}
	var size int64
	kept := 0
	for i := range c.shards {
		s := &c.shards[i]
		size += int64(len(s.sets)) * setSize
		for _, piece := range s.pieces {
			size += int64(cap(piece))
		}
	}
	if size > maximum {
		t.Errorf("%d bytes are remembered, more than %d", size, maximum)
	}
	for seq := range int64(10_000) {
		if c.Get(seq) != nil {
			kept++
		}
	}
	if kept < maximum/len(json)*2/3 {
		t.Errorf("%d texts of %d bytes are remembered in %d", kept, len(json), maximum)
	}
	c.Add(1, make([]byte, maximum))
	if c.Get(1) != nil || c.Get(9_998) == nil {
		t.Error("one giant pushed out the others")
	}
	// Texts that are asked for repeatedly outlive texts that are asked for once.
	const next = run * shards // the next row in the same shard
	forgotten := 0
	c.Add(next, json)
	for seq := int64(2 * next); seq < 1000*next; seq += next {
		c.Add(seq, json)
		if c.Get(next) == nil {
			forgotten++
			c.Add(next, json)
		}
	}
	if forgotten > 20 {
		t.Errorf("what is asked for all the time was forgotten %d times in 1000", forgotten)
	}
	// The cache evicts texts to make room for the memory that it lends.
	c.Lend(maximum / 2)
	for seq := range int64(10_000) {
		c.Add(20_000+seq, json)
	}
	size = 0
	for i := range c.shards {
		size += c.shards[i].size
	}
	if size > maximum/2 {
		t.Errorf("%d bytes of texts are remembered, with %d lent of %d", size, maximum/2, maximum)
	}
	none := New(-1)
	none.Add(1, json)
	if none.Get(1) != nil {
		t.Error("a cache of nothing remembers")
	}
}

// TestTextsAreCopies finds texts of all lengths as they were.
func TestTextsAreCopies(t *testing.T) {
	c := New(64 << 20)
	text := func(seq int64) []byte { return bytes.Repeat([]byte{byte('a' + seq%26)}, int(seq*seq)) }
	for seq := range int64(200) {
		json := text(seq)
		kept := c.Add(seq, json)
		clear(json)
		if want := text(seq); !bytes.Equal(kept, want) || kept == nil {
			t.Fatalf("%d is kept as %d bytes, want %d", seq, len(kept), len(want))
		}
		_ = append(kept, "more"...)
		if c.Add(seq, []byte("other")); !bytes.Equal(c.Get(seq), text(seq)) {
			t.Fatalf("%d was replaced", seq)
		}
	}
	for seq := range int64(200) {
		if got, want := c.Get(seq), text(seq); !bytes.Equal(got, want) || got == nil {
			t.Errorf("%d is %d bytes, want %d", seq, len(got), len(want))
		}
	}
}
