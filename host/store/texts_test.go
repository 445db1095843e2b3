package store

import (
	"bytes"
	"testing"
)

func TestTexts(t *testing.T) {
	const most = 64 << 10
	c := newTexts(most)
	json := bytes.Repeat([]byte("x"), 100)
	for seq := range int64(10_000) {
		c.add(seq, json)
	}
	if c.get(9_999) == nil {
		t.Error("the last text is forgotten")
	}
	if c.get(0) != nil {
		t.Error("the first of ten thousand texts is still there")
	}
	var size int64
	for i := range c.shards {
		s := &c.shards[i]
		size += int64(len(s.young)+len(s.old)) * (int64(len(json)) + textCost)
	}
	if size > most {
		t.Errorf("%d bytes are remembered, more than %d", size, most)
	}
	c.add(1, make([]byte, most))
	if c.get(1) != nil || c.get(9_998) == nil {
		t.Error("one giant pushed out the others")
	}
	// What is asked for again and again survives what is asked for once.
	c.add(16, json)
	for seq := int64(32); seq < 16*1000; seq += 16 {
		c.add(seq, json)
		if c.get(16) == nil {
			t.Fatalf("forgotten after %d others", seq/16)
		}
	}
	none := newTexts(-1)
	none.add(1, json)
	if none.get(1) != nil {
		t.Error("a cache of nothing remembers")
	}
}
