package store

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"talon/host"
)

// packCases are texts at the borders of what packing treats in its own way.
var packCases = []string{
	"", "{", "{}", `{"id":"`, `"}`, "\x01", "abcdef0123456789", `"abcdef0123456789`, `"abcdef012345678`, `"abcdef01234567890"`, `:ABCDEF0123456789`,
	`{"id":"` + strings.Repeat("0f", 32) + `","pubkey":"` + strings.Repeat("a1", 32) + `","created_at":1,"kind":1,"tags":[],"content":"","sig":"` + strings.Repeat("00", 64) + `"}`,
	`"` + strings.Repeat("ab", 5000), strings.Repeat("x", 63), strings.Repeat("x", 64), strings.Repeat("x", 100_000), `""""""""`, strings.Repeat(`"e","`, 100), "\"\xff\x00\x80",
}

// TestPackTells holds back a change of what is in databases: of a fragment, or of a piece.
func TestPackTells(t *testing.T) {
	const text = `{"id":"00112233445566778899aabbccddeeff","kind":30617,"tags":[["d","x"],["zz","y"]],"content":"hm","sig":"beef"}`
	const want = "\x01\x70\x81\x50\x00\x11\x22\x33\x44\x55\x66\x77\x88\x99\xaa\xbb\xcc\xdd\xee\xff\x01\"\x84\x0530617\x85\xac\x01x\x8e\x06zz\",\"y\x87\x02hm\x88\x04beef\x89"
	if got := pack(nil, []byte(text)); string(got) != want {
		t.Errorf("got %q", got)
	}
}

func TestPack(t *testing.T) {
	for _, text := range packCases {
		packed := pack(nil, []byte(text))
		if got, err := unpack(nil, packed); err != nil || string(got) != text {
			t.Errorf("%.60q: got %.60q, %v", text, got, err)
		}
	}
	// Damaged data results in an error or another text, never in more than it claims.
	rnd := rand.New(rand.NewPCG(1, 1))
	packed := pack(nil, []byte(packCases[11]))
	for range 20_000 {
		damaged := bytes.Clone(packed)
		for range 1 + rnd.IntN(3) {
			damaged[rnd.IntN(len(damaged))] ^= byte(1 << rnd.IntN(8))
		}
		damaged = damaged[:len(damaged)-rnd.IntN(4)]
		if text, err := unpack(nil, damaged); err == nil && len(text) > 32*len(damaged) {
			t.Fatalf("%d bytes of %d", len(text), len(damaged))
		}
	}
}

// TestPackReal packs events of the field.
func TestPackReal(t *testing.T) {
	files, err := filepath.Glob("../../../shared/data/*.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Skip("no data")
	}
	was, is := 0, 0
	for _, name := range files {
		all, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(all) {
			line = bytes.TrimSpace(line)
			packed := pack(nil, line)
			if got, err := unpack(nil, packed); err != nil || !bytes.Equal(got, line) {
				t.Fatalf("%s: %v", line, err)
			}
			was += len(line)
			is += len(packed)
		}
	}
	t.Logf("%d bytes of %d", is, was)
	if is > was*9/10 {
		t.Errorf("packed to %d of %d bytes", is, was)
	}
}

func FuzzPack(f *testing.F) {
	for _, text := range packCases {
		f.Add([]byte(text))
		f.Add(pack(nil, []byte(text)))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if got, err := unpack(nil, pack(nil, b)); err != nil || !bytes.Equal(got, b) {
			t.Errorf("%q: got %q, %v", b, got, err)
		}
		if text, err := unpack(nil, b); err == nil && len(text) > 32*len(b) {
			t.Errorf("%d bytes of %d", len(text), len(b))
		}
	})
}

func BenchmarkPack(b *testing.B) {
	text := newLoad(1).event().JSON
	packed := pack(nil, text)
	b.Run("pack", func(b *testing.B) {
		buf := make([]byte, 0, 2*len(text))
		for b.Loop() {
			pack(buf, text)
		}
		b.ReportMetric(float64(len(packed))/float64(len(text)), "size")
	})
	b.Run("unpack", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := unpack(nil, packed); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// TestPlainRows opens a database of the version that did not pack events. The plain rows are
// read as they are, together with new ones.
func TestPlainRows(t *testing.T) {
	dir := t.TempDir()
	s := merged(t, dir)
	var events []*host.Event
	old := ""
	for n := range 40 {
		e := fake(n, byte(n), host.Kind(1+n%2*30000), int64(n), host.Tag{"d", "x"}, host.Tag{"e", fake(n+1, 1, 1, 1).ID.String()})
		put(t, s, 0, e)
		if n < 30 {
			old += fmt.Sprintf(`UPDATE event SET json = x'%x' WHERE id = x'%x';`, e.JSON, e.ID[:])
		}
		events = append(events, e)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	raw(t, s.Path(), old+noMerge+`UPDATE meta SET value = 6 WHERE name = 'version'`)
	s = reopen(t, dir)
	check(t, s)
	if got, want := selected(t, s, 0, host.Filter{Limit: -1}), texts(events...); !slices.Equal(got, want) {
		t.Errorf("got %d events, want %d", len(got), len(want))
	}
	// One is replaced, one deleted.
	put(t, s, 0, fake(100, 1, 30001, 1000, host.Tag{"d", "x"}), fake(101, 2, 5, 1000, host.Tag{"e", events[2].ID.String()}))
	for _, e := range events[1:3] {
		if got, err := s.Get(t.Context(), e.ID); err != nil || got != nil {
			t.Errorf("got %s, %v", got, err)
		}
	}
	if got, err := s.Get(t.Context(), events[0].ID); err != nil || !bytes.Equal(got, events[0].JSON) {
		t.Errorf("got %s, %v", got, err)
	}
	check(t, s)
}

// TestDamagedRow reads and removes an event whose row is damaged.
func TestDamagedRow(t *testing.T) {
	dir := t.TempDir()
	s := reopen(t, dir)
	e := fake(1, 1, 30001, 1, host.Tag{"d", "x"}, host.Tag{"e", "y"})
	put(t, s, 0, e, fake(2, 2, 1, 1))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	raw(t, s.Path(), `UPDATE event SET json = substr(json, 1, length(json) - 3) WHERE seq = 1`)
	s = reopen(t, dir)
	if _, err := s.Get(t.Context(), e.ID); err == nil || !strings.Contains(err.Error(), "talon check") {
		t.Errorf("got %v", err)
	}
	var problems []string
	if _, err := s.Check(t.Context(), func(*host.Event) error { return nil }, func(p string) { problems = append(problems, p) }); err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(problems, func(p string) bool { return strings.Contains(p, "its text cannot be read") }) {
		t.Errorf("got %q", problems)
	}
	put(t, s, 0, fake(3, 1, 30001, 2, host.Tag{"d", "x"}))
	check(t, s)
}
