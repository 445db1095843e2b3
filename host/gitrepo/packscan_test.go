package gitrepo

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"

	"talon/internal/testkit"
)

// packWriter writes packs that no git would.
type packWriter struct {
	bytes.Buffer
	at  []int        // where the objects begin
	zip *zlib.Writer // one for all objects: to make one takes longer than most objects
}

func newPack(objects int) *packWriter {
	w := &packWriter{zip: zlib.NewWriter(nil)}
	w.WriteString("PACK\x00\x00\x00\x02")
	_ = binary.Write(w, binary.BigEndian, uint32(objects))
	return w
}

// object appends an object of a kind, with what stands between its size and its content.
func (w *packWriter) object(kind byte, size int, between, content []byte) {
	w.at = append(w.at, w.Len())
	c := kind<<4 | byte(size&15)
	for size >>= 4; size > 0; size >>= 7 {
		w.WriteByte(c | 0x80)
		c = byte(size & 0x7f)
	}
	w.WriteByte(c)
	w.Write(between)
	w.zip.Reset(w)
	_, _ = w.zip.Write(content)
	_ = w.zip.Close()
}

// delta appends a delta of an earlier object that says what it makes.
func (w *packWriter) delta(base int, from, made uint64) {
	n := w.Len() - w.at[base]
	distance := []byte{byte(n & 0x7f)}
	for n >>= 7; n > 0; n >>= 7 {
		n--
		distance = append([]byte{0x80 | byte(n&0x7f)}, distance...)
	}
	text := deltaText(from, made)
	w.object(objOffsetDelta, len(text), distance, text)
}

func deltaText(from, made uint64) []byte {
	return append(binary.AppendUvarint(binary.AppendUvarint(nil, from), made), 1, 'x')
}

// scan reads a pack as one that is n bytes a Write.
func scanPack(limits PackLimits, pack []byte, n int) error {
	var r io.Reader = bytes.NewReader(pack)
	if n == 1 {
		r = iotest.OneByteReader(r)
	}
	return newPackReader(r, limits, SHA1).read()
}

// TestPackScan: the scan knows the cost of a pack before git has it.
func TestPackScan(t *testing.T) {
	limits := PackLimits{Objects: 1000, Depth: 50, Inflated: 2 << 30, Free: 512 << 20, Expansion: 100}
	chain := func(deltas int) []byte {
		w := newPack(deltas + 1)
		w.object(3, 4, nil, []byte("base"))
		for i := range deltas {
			w.delta(i, 4, 4)
		}
		return w.Bytes()
	}
	wide := func(deltas int, made uint64) []byte {
		w := newPack(deltas + 1)
		w.object(3, 4, nil, []byte("base"))
		for range deltas {
			w.delta(0, 4, made)
		}
		return w.Bytes()
	}
	byID := newPack(1)
	byID.object(objIDDelta, len(deltaText(4<<30, 1)), make([]byte, sha1.Size), deltaText(4<<30, 1))
	long := newPack(1)
	long.object(3, 5, nil, []byte("longer than five bytes"))
	short := newPack(1)
	short.object(3, 50, nil, []byte("short"))
	nothing := newPack(2)
	nothing.object(3, 4, nil, []byte("base"))
	nothing.object(objOffsetDelta, 4, []byte{7}, deltaText(1, 1))
	for name, c := range map[string]struct {
		pack []byte
		says string // empty if it passes; "-" if git is to say what is wrong
	}{
		"nothing":             {newPack(0).Bytes(), ""},
		"as deep as it goes":  {chain(50), ""},
		"deeper":              {chain(51), "deltas are more than 50 deep"},
		"many objects":        {newPack(1001).Bytes(), "it has 1001 objects, and may have 1000"},
		"what it may":         {wide(10, 50<<20), ""},
		"for its size":        {wide(20, 50<<20), "more than 512 MiB and 100 times its own size"},
		"in all":              {wide(1, 3<<30), "more than 2147483648 bytes"},
		"a large base":        {byID.Bytes(), "more than 2147483648 bytes"},
		"a huge delta":        {wide(5, 1<<62), "more than 2147483648 bytes"},
		"no pack":             {[]byte("GIF89a and more"), "-"},
		"longer than it is":   {long.Bytes(), "-"},
		"short of what it is": {short.Bytes(), "-"},
		"a base in between":   {nothing.Bytes(), "-"},
		"cut off":             {chain(5)[:60], "-"},
	} {
		for _, n := range []int{1, 1 << 10} {
			err := scanPack(limits, c.pack, n)
			refused := (*Refused)(nil)
			errors.As(err, &refused)
			switch {
			case c.says == "" && err == nil, c.says == "-" && err == errNotPack:
			case refused == nil || c.says == "-" || c.says == "" || !strings.Contains(refused.Reason, c.says):
				t.Errorf("%s: %v, want %q", name, err, c.says)
			}
		}
	}
}

// TestPackScanOfGit: every pack of git passes, and each object has the right offset.
func TestPackScanOfGit(t *testing.T) {
	testkit.SkipRace(t)
	for _, format := range []Format{SHA1, SHA256} {
		dir, _, _ := work(t, format)
		text := strings.Repeat("a line that is there often\n", 2000)
		for i := range 30 {
			text = fmt.Sprint(i, "\n") + text
			if err := os.WriteFile(filepath.Join(dir, "big"), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			testkit.Commit(t, dir, "more")
		}
		tip := git(t, dir, "rev-parse", "HEAD")
		for _, args := range [][]string{{tip}, {tip, "^" + git(t, dir, "rev-parse", "HEAD~5")}} {
			pack := packOf(t, dir, args...)
			p := newPackReader(bytes.NewReader(pack), DefaultPackLimits, format)
			if err := p.read(); err != nil {
				t.Fatalf("%s: %v", format, err)
			}
			if rest := int64(len(pack)) - p.at(); rest != int64(idLength(format)/2) || len(p.offsets) < 10 || p.inflated < int64(len(text)) {
				t.Errorf("%s: %d objects, %d bytes inflated, %d bytes are left", format, len(p.offsets), p.inflated, rest)
			}
		}
	}
}

// A scan has looked at all that was written when Write returns, and at no piece twice.
func TestPackScanWrite(t *testing.T) {
	r := newRepo(t, newRoot(t), alice, "x", SHA1)
	w := newPack(1000)
	w.object(3, 4, nil, []byte("base"))
	good := w.Len()
	w.delta(0, 4, 1<<40+1)
	pack := w.Bytes()
	for _, n := range []int{1, 7, good, len(pack)} {
		s := r.ScanPack(SHA1, false)
		var err error
		at := 0
		for at < len(pack) && err == nil {
			end := min(at+n, len(pack))
			_, err = s.Write(pack[at:end])
			at = end
		}
		if refused := (*Refused)(nil); !errors.As(err, &refused) || at <= good {
			t.Errorf("in pieces of %d it ends after %d bytes: %v", n, at, err)
		}
		if _, err := s.Write(pack); err == nil {
			t.Error("it goes on")
		}
		s.Close()
	}
	s := r.ScanPack(SHA1, false)
	for _, text := range []string{"GIF8", "9a and ", "more"} {
		if _, err := s.Write([]byte(text)); err != nil {
			t.Errorf("what is no pack: %v", err)
		}
	}
	s.Close()
	s = r.ScanPack(SHA1, false)
	s.Close()
}

// Places beyond 4 GiB are found.
func TestPackScanPlaces(t *testing.T) {
	p := packReader{offsets: []uint32{12, 1 << 31, 5, 1 << 31, 7}, wraps: []int{2, 4}}
	for at, want := range map[int64]int{12: 0, 1 << 31: 1, 1<<32 + 5: 2, 1<<32 + 1<<31: 3, 2<<32 + 7: 4, 5: -1, 2<<32 + 5: -1, 3<<32 + 7: -1, -1: -1} {
		if got, found := p.find(at); found != (want >= 0) || found && got != want {
			t.Errorf("the object at %d is %d, %t; want %d", at, got, found, want)
		}
	}
}

func FuzzPackScan(f *testing.F) {
	w := newPack(3)
	w.object(3, 4, nil, []byte("base"))
	w.delta(0, 4, 5)
	w.delta(1, 5, 6)
	f.Add(w.Bytes())
	f.Add([]byte("PACK\x00\x00\x00\x02\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, pack []byte) {
		limits := PackLimits{Objects: 100, Depth: 5, Inflated: 1 << 30, Free: 512 << 20, Expansion: 10}
		if one, all := scanPack(limits, pack, 1), scanPack(limits, pack, 1<<10); fmt.Sprint(one) != fmt.Sprint(all) {
			t.Errorf("byte by byte %v, at once %v", one, all)
		}
	})
}

// BenchmarkPackScan is what a push pays for the look at its pack, to be compared with
// git index-pack of the same bytes.
func BenchmarkPackScan(b *testing.B) {
	dir := b.TempDir()
	git(b, dir, "init", "-q")
	random := rand.New(rand.NewPCG(1, 2))
	words := strings.Fields("func return if err nil range for the a of package string int byte object pack delta base size error limit push ref state")
	for range 2000 {
		var text strings.Builder
		for range 3000 {
			fmt.Fprintf(&text, "%s_%d ", words[random.IntN(len(words))], random.IntN(50))
		}
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint("f", random.Uint64())), []byte(text.String()), 0o644); err != nil {
			b.Fatal(err)
		}
	}
	testkit.Commit(b, dir, "files")
	pack := packOf(b, dir, git(b, dir, "rev-parse", "HEAD"))
	b.Run("scan", func(b *testing.B) {
		b.SetBytes(int64(len(pack)))
		began := cpuTime(b)
		for b.Loop() {
			if err := scanPack(DefaultPackLimits, pack, 1<<10); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(cpuTime(b)-began)/float64(b.N), "cpu-ns/op")
	})
	b.Run("index-pack", func(b *testing.B) {
		b.SetBytes(int64(len(pack)))
		r := newRepo(b, newRoot(b), alice, "x", SHA1)
		for b.Loop() {
			q, err := r.Receive(b.Context(), nil)
			if err != nil {
				b.Fatal(err)
			}
			if err := bring(b, q, pack); err != nil {
				b.Fatal(err)
			}
			q.Remove()
			b.ReportMetric(float64(q.CPU()), "cpu-ns/op")
		}
	})
}

// cpuTime is the processor time of this process so far: others may have the processor.
func cpuTime(b *testing.B) int64 {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return usage.Utime.Nano() + usage.Stime.Nano()
}
