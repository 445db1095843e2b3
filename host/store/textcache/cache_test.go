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
		size += int64(len(s.young)+len(s.old)) * (int64(len(json)) + textCost)
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
