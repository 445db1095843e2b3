package gitfetch

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"testing"
)

func pkt(payload string) string { return fmt.Sprintf("%04x%s", len(payload)+4, payload) }

func packOf(objects uint32) string {
	return "PACK\x00\x00\x00\x02" + string(binary.BigEndian.AppendUint32(nil, objects)) + "the objects"
}

// deltas is a pack of a blob and deltas, each on the object before it, that say what they
// make.
func deltas(n int, size uint64) []byte {
	pack := []byte("PACK\x00\x00\x00\x02")
	pack = binary.BigEndian.AppendUint32(pack, uint32(n+1))
	object := func(kind byte, distance int, content []byte) {
		var packed bytes.Buffer
		z := zlib.NewWriter(&packed)
		_, _ = z.Write(content)
		_ = z.Close()
		pack = append(pack, kind<<4|byte(len(content)&15)|0x80, byte(len(content)>>4))
		if distance > 0 {
			pack = append(pack, byte(distance))
		}
		pack = append(pack, packed.Bytes()...)
	}
	object(3, 0, []byte("base"))
	last := 12
	for range n {
		at := len(pack)
		// It copies its base, of four bytes.
		object(6, at-last, append(binary.AppendUvarint([]byte{4}, size), 0x90, 4))
		last = at
	}
	sum := sha1.Sum(pack)
	return append(pack, sum[:]...)
}

// sends answers a request for objects with a pack, in many lines.
func sends(pack []byte) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, pkt("packfile\n"))
		for b := pack; len(b) > 0; b = b[min(len(b), 50):] {
			_, _ = io.WriteString(w, pkt("\x01"+string(b[:min(len(b), 50)])))
		}
		_, _ = io.WriteString(w, "0000")
	}
}

// TestPackCounter finds the head of a pack in all forms that an answer has, however
// its bytes are cut.
func TestPackCounter(t *testing.T) {
	for name, form := range map[string]func(pack string) string{
		"version 2": func(p string) string { return pkt("packfile\n") + pkt("\x02counting") + pkt("\x01"+p) + "0000" },
		"with acknowledgments": func(p string) string {
			return pkt("acknowledgments\n") + pkt("ready\n") + "0001" + pkt("packfile\n") + pkt("\x01"+p) + "0000"
		},
		"version 0":           func(p string) string { return pkt("NAK\n") + pkt("\x01"+p) + "0000" },
		"without a side band": func(p string) string { return pkt("NAK\n") + p },
		"without anything":    func(p string) string { return p },
		"in small pieces": func(p string) string {
			return pkt("NAK\n") + pkt("\x01"+p[:2]) + pkt("\x01") + pkt("\x01"+p[2:9]) + pkt("\x01"+p[9:])
		},
		"with keepalives": func(p string) string { return pkt("packfile\n") + pkt("\x01") + "0004" + pkt("\x01"+p) },
		"with progress between": func(p string) string {
			return pkt("packfile\n") + pkt("\x01"+p[:5]) + pkt("\x02PACK") + pkt("\x01"+p[5:])
		},
	} {
		for _, size := range []int{1, 2, 3, 5, 7, 64, 1000} {
			for objects, want := range map[uint32]bool{0: true, 100: true, 101: false, 1<<32 - 1: false} {
				c := packCounter{max: 100}
				ok := true
				for b := []byte(form(packOf(objects))); len(b) > 0; b = b[min(size, len(b)):] {
					ok = c.read(b[:min(size, len(b))]) == nil && ok
				}
				if ok != want || !c.found {
					t.Errorf("%s in pieces of %d, %d objects: %v, found %v", name, size, objects, ok, c.found)
				}
			}
		}
	}
	for name, text := range map[string]string{
		"an error": pkt("ERR no"), "garbage": "<html>PACK", "nothing": "", "a reserved length": "0003PACK", "not a pack": pkt("\x01" + string(make([]byte, 40))),
	} {
		c := packCounter{max: 0}
		if c.read([]byte(text)) != nil {
			t.Errorf("%s is a pack that is too large", name)
		}
	}
}

func FuzzPackCounter(f *testing.F) {
	f.Add([]byte(pkt("packfile\n")+pkt("\x01"+packOf(7))), byte(3))
	f.Fuzz(func(t *testing.T, b []byte, cut byte) {
		whole, parts := packCounter{max: 5}, packCounter{max: 5}
		want, got := whole.read(bytes.Clone(b)) == nil, true
		for size := int(cut)%16 + 1; len(b) > 0; b = b[min(size, len(b)):] {
			got = parts.read(b[:min(size, len(b))]) == nil && got
		}
		if want != got {
			t.Fatalf("in one piece %v, in parts %v", want, got)
		}
	})
}
