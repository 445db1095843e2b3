package gitfetch

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"
)

func pkt(payload string) string { return fmt.Sprintf("%04x%s", len(payload)+4, payload) }

func packOf(objects uint32) string {
	return "PACK\x00\x00\x00\x02" + string(binary.BigEndian.AppendUint32(nil, objects)) + "the objects"
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
				c := packCounter{most: 100}
				ok := true
				for b := []byte(form(packOf(objects))); len(b) > 0; b = b[min(size, len(b)):] {
					ok = ok && c.ok(b[:min(size, len(b))])
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
		c := packCounter{most: 0}
		if !c.ok([]byte(text)) {
			t.Errorf("%s is a pack that is too large", name)
		}
	}
}

func FuzzPackCounter(f *testing.F) {
	f.Add([]byte(pkt("packfile\n")+pkt("\x01"+packOf(7))), byte(3))
	f.Fuzz(func(t *testing.T, b []byte, cut byte) {
		whole, parts := packCounter{most: 5}, packCounter{most: 5}
		want, got := whole.ok(bytes.Clone(b)), true
		for size := int(cut)%16 + 1; len(b) > 0; b = b[min(size, len(b)):] {
			got = got && parts.ok(b[:min(size, len(b))])
		}
		if want != got {
			t.Fatalf("in one piece %v, in parts %v", want, got)
		}
	})
}
