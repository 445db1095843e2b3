package web

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"talon/internal/testkit"
)

// BenchmarkRefs makes the page of 10 branches and 1,000 annotated tags.
func BenchmarkRefs(b *testing.B) {
	w := newWorld(&testing.T{})
	dir := b.TempDir()
	testkit.Git(b, dir, "init", "-q", "-b", "main")
	var in strings.Builder
	for i := range 1000 {
		at := 1_700_000_000 + 1000*i
		fmt.Fprintf(&in, "commit refs/heads/main\nmark :%d\ncommitter C <c@example.com> %d +0000\ndata <<END\nSubject %d\n\nThe body.\nEND\n\n", i+1, at, i)
		fmt.Fprintf(&in, "tag v1.%d\nfrom :%d\ntagger C <c@example.com> %d +0000\ndata <<END\nVersion %d of the program\nEND\n\n", i, i+1, at, i)
	}
	for i := range 9 {
		fmt.Fprintf(&in, "reset refs/heads/topic/%d\nfrom :%d\n\n", i, 100*i+1)
	}
	stream := filepath.Join(b.TempDir(), "stream")
	if err := os.WriteFile(stream, []byte(in.String()), 0o644); err != nil {
		b.Fatal(err)
	}
	testkit.Git(b, dir, "-c", "alias.feed=!f() { git fast-import --quiet --force < \"$1\"; }; f", "feed", stream)
	w.serveCodeIn(b, "nest", dir)
	b.ReportAllocs()
	began := ownTime()
	for i := range b.N {
		if got := w.raw("/" + npub("owl") + "/nest/refs?n=" + itoa(i)); got.Code != 200 { // not the page that was kept
			b.Fatal(got.Code)
		}
	}
	b.ReportMetric(float64((ownTime()-began).Microseconds())/1000/float64(b.N), "cpu-ms/op")
}
