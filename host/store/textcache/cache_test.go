package textcache

import (
	"bytes"
	"testing"
)

func TestTexts(t *testing.T) {
	const maximum = 64 << 10
	c := New(maximum)
	json := bytes.Repeat([]byte("x"), 100)
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
	for i := range c.shards {
		s := &c.shards[i]
		for _, g := range []*generation{&s.young, &s.old} {
			size += int64(len(g.places)) * textCost
			for _, piece := range g.pieces {
				size += int64(cap(piece))
			}
		}
	}
	if size > maximum {
		t.Errorf("%d bytes are remembered, more than %d", size, maximum)
	}
	c.Add(1, make([]byte, maximum))
	if c.Get(1) != nil || c.Get(9_998) == nil {
		t.Error("one giant pushed out the others")
	}
	// What is asked for again and again survives what is asked for once.
	c.Add(16, json)
	for seq := int64(32); seq < 16*1000; seq += 16 {
		c.Add(seq, json)
		if c.Get(16) == nil {
			t.Fatalf("forgotten after %d others", seq/16)
		}
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
