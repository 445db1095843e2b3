package gitfetch

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"talon/host"
	"talon/internal/testkit"
)

// TestThinPacks shows that what git appends to thin packs of one server is bounded by the hour:
// a server sends a few hundred bytes for each copy of a large file. The hunt goes on later.
func TestThinPacks(t *testing.T) {
	const appended = 1 << 19 // for each edit, at least
	var later atomic.Int64
	f, r := newForge(t), newRemote(t)
	h := hunt(t, f, inAHurry(), func(c *Config) {
		c.Limits.Thin = 4 * appended
		c.Now = func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
	})
	dir, _ := work(t, "one")
	random := rand.NewChaCha8([32]byte{})
	raw := make([]byte, appended)
	_, _ = random.Read(raw)
	text := hex.EncodeToString(raw)
	edit := func(n int) (tip string) {
		t.Helper()
		text += fmt.Sprintln("edit", n)
		if err := os.WriteFile(filepath.Join(dir, "large"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return testkit.Commit(t, dir, fmt.Sprint(n))
	}
	tip := edit(0)
	url := r.add(t, "x", dir)
	repo := f.hold(alice, "x", []string{tip}, url)
	land := func(old string) {
		t.Helper()
		unlock, err := repo.Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer unlock()
		if err := repo.UpdateRefs(t.Context(), []host.RefUpdate{{Ref: "refs/heads/main", Old: old, New: tip}}); err != nil {
			t.Fatal(err)
		}
	}
	complete(t, f, h)
	land(strings.Repeat("0", len(tip)))
	for n := 1; ; n++ {
		old := tip
		tip = edit(n)
		testkit.Git(t, dir, "push", "-q", filepath.Join(r.dir, "x.git"), "main")
		f.hold(alice, "x", []string{tip}, url)
		if h.completed.Left("store "+repo.Store()) > 3*appended/2 {
			complete(t, f, h)
			land(old)
			continue
		}
		if n < 3 {
			t.Fatalf("after %d edits %d bytes are left", n, h.completed.Left("store "+repo.Store()))
		}
		before := r.asked()
		h.Held(synced("x"))
		testkit.Eventually(t, "a second request", func() bool { return r.asked() > before+1 })
		if left := f.missingOf("x"); len(left) != 1 {
			t.Errorf("beyond the bound, %v is missing", left)
		}
		later.Store(int64(time.Hour))
		h.Wake()
		over(t, h, "x") // it had its time, or has found all
		complete(t, f, h)
		break
	}
	for _, spec := range h.Bounds() {
		if spec.Key != 4*appended {
			t.Errorf("a bound is %+v", spec)
		}
	}
}
