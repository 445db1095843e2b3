package githttp

import (
	"bytes"
	"compress/zlib"
	"context"
	"crypto/sha1"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"talon/host/gitrepo"
	"talon/internal/testkit"
)

// bomb writes packs that no git would: what it says of sizes need not be so.
type bomb struct {
	bytes.Buffer
	last int          // where the last object starts
	zip  *zlib.Writer // one for all objects: to make one takes longer than most objects
}

const (
	packBlob  = 3
	packTree  = 2
	packDelta = 6 // of an object earlier in the pack

	packDeltaByID = 7

	// copyAll is the longest piece that an instruction of a delta copies.
	copyAll = 0xffffff
)

func newBomb(objects uint32) *bomb {
	b := new(bomb)
	b.WriteString("PACK\x00\x00\x00\x02")
	_ = binary.Write(b, binary.BigEndian, objects)
	return b
}

// object appends an object that says it has size bytes.
func (b *bomb) object(kind byte, size int, base int, content []byte) {
	at := b.Len()
	c := kind<<4 | byte(size&15)
	for size >>= 4; size > 0; size >>= 7 {
		b.WriteByte(c | 0x80)
		c = byte(size & 0x7f)
	}
	b.WriteByte(c)
	if kind == packDelta {
		distance := at - base
		text := []byte{byte(distance & 0x7f)}
		for distance >>= 7; distance > 0; distance >>= 7 {
			distance--
			text = append([]byte{0x80 | byte(distance&0x7f)}, text...)
		}
		b.Write(text)
	}
	if b.zip == nil {
		b.zip = zlib.NewWriter(nil)
	}
	b.zip.Reset(b)
	_, _ = b.zip.Write(content)
	_ = b.zip.Close()
	b.last = at
}

// delta appends an object that copies its base, which is the object before it, the given
// number of times, and ends in a number.
func (b *bomb) delta(size, copies, number int) (next int) {
	next = copies*copyAll + 4
	var text []byte
	for _, n := range []int{size, next} {
		for ; n > 0x7f; n >>= 7 {
			text = append(text, byte(n)|0x80)
		}
		text = append(text, byte(n))
	}
	for range copies {
		text = append(text, 0xf0, 0xff, 0xff, 0xff)
	}
	text = append(text, 4)
	text = binary.BigEndian.AppendUint32(text, uint32(number))
	b.object(packDelta, len(text), b.last, text)
	return next
}

// zeros appends a blob of zeros that deltas can copy.
func (b *bomb) zeros() int {
	b.object(packBlob, copyAll, 0, make([]byte, copyAll))
	return copyAll
}

func (b *bomb) pack() []byte {
	sum := sha1.Sum(b.Bytes())
	return append(b.Bytes(), sum[:]...)
}

// halfPack is the beginning of a pack: more than is looked at before git is started.
func halfPack() string {
	b := newBomb(9)
	b.object(packBlob, firstPiece, 0, noise(firstPiece))
	return b.String()
}

// A pack of a few kB becomes gigabytes, or hours of work. It ends within the limits
// of memory and time, says so, and leaves nothing; the server goes on.
func TestPackBombs(t *testing.T) {
	testkit.SkipRace(t) // TestSmallBombs is watched
	options := gitrepo.DefaultOptions
	options.AllocBytes, options.MaxInput = 64<<20, 4<<20
	s := newSiteOf(t, "git", options, func(l *Limits) { l.GitTime = 3 * time.Second })
	r, url := s.repo("x", gitrepo.SHA1)
	dir := work(t, gitrepo.SHA1)
	id := git(t, dir, "rev-parse", "main")

	// Each delta is within the limit, and there are ever more of them.
	chain := newBomb(2001)
	size := chain.zeros()
	for i := range 2000 {
		size = chain.delta(size, 3, i)
	}
	huge := newBomb(2)
	huge.delta(huge.zeros(), 700, 1) // 11 GB
	wide := newBomb(400)
	base := wide.zeros()
	at := wide.last
	for i := range 399 {
		wide.last = at
		wide.delta(base, 3, i)
	}
	tree := newBomb(1)
	tree.object(packTree, 1<<40, 0, make([]byte, 1<<20))
	many := newBomb(0xffffffff)
	many.zeros()
	blob := newBomb(1)
	blob.object(packBlob, 3<<30, 0, make([]byte, 80<<20))

	command := create(id, "refs/heads/bomb")
	for name, b := range map[string]*bomb{
		"a chain of deltas": chain, "a delta of 11 GB": huge, "many deltas of one object": wide, "a tree of a terabyte": tree,
		"four billion objects": many, "a blob of 3 GB that is none": blob,
	} {
		pack := b.pack()
		memory := watchMemory(t, r.Dir())
		answer := s.post(command + string(pack))
		if maximum := memory(); maximum > 4*64+64 {
			t.Errorf("%s: a process had %d MB", name, maximum)
		} else {
			t.Logf("%s: a process had %d MB", name, maximum)
		}
		if strings.Contains(answer, "ok refs/heads/bomb") || !strings.Contains(answer, "ng refs/heads/bomb") {
			t.Errorf("%s: %q", name, answer)
		}
		t.Logf("%s: %d bytes: %q", name, len(pack), answer)
		if n := children(t, r.Dir()); n > 0 {
			t.Errorf("%s: %d git processes are left", name, n)
		}
		if left := leftovers(t, r); len(left) > 0 {
			t.Errorf("%s: it leaves %v", name, left)
		}
	}
	s.limit(func(l *Limits) { l.GitTime = time.Minute }) // it is for bombs that it was so short
	git(t, dir, "push", "-q", url, "main")
	if _, found, err := r.Ref(context.Background(), "refs/heads/main"); !found || err != nil {
		t.Errorf("a push after the bombs: %t, %v", found, err)
	}
}

// TestSmallBombs: a pack that is refused for its beginning starts no git. The time of that check
// counts.
func TestSmallBombs(t *testing.T) {
	testkit.SkipRace(t)
	started := filepath.Join(t.TempDir(), "started")
	program := gitThat(t, "index-pack", "touch "+started)
	s := newSiteOf(t, program, gitrepo.DefaultOptions, func(l *Limits) { l.CPU = 100 * time.Millisecond })
	s.from("192.0.2.1")
	_, url := s.repo("x", gitrepo.SHA1)
	dir := work(t, gitrepo.SHA1)
	b := newBomb(2)
	const zeros = 48 << 20
	b.object(packBlob, zeros, 0, make([]byte, zeros))
	b.delta(zeros, 50, 1)
	if b.Len() > firstPiece {
		t.Fatalf("the pack has %d bytes", b.Len())
	}
	command := create(git(t, dir, "rev-parse", "main"), "refs/heads/main")
	for i, says := range []string{"the pack takes more work than it may", "pushes from your address have taken all the time"} {
		answer := s.post(command + string(b.pack()))
		if !strings.Contains(answer, says) || !strings.Contains(answer, "ng refs/heads/main") {
			t.Errorf("push %d: %q", i, answer)
		}
	}
	if _, err := os.Stat(started); err == nil {
		t.Error("git was started")
	}
	s.from("198.51.100.1")
	git(t, dir, "push", "-q", url, "main")
	if _, err := os.Stat(started); err != nil {
		t.Error("no git was started for an honest push", err)
	}
}

// A pack whose refs no event here vouches for may inflate to less, whatever it holds.
func TestEarlyPacks(t *testing.T) {
	testkit.SkipRace(t)
	s := newSite(t, nil)
	s.repo("x", gitrepo.SHA1)
	dir := work(t, gitrepo.SHA1)
	b := newBomb(2)
	b.delta(b.zeros(), 4, 1)
	command := create(git(t, dir, "rev-parse", "main"), "refs/heads/main")
	for early, says := range map[bool]string{
		true:  "unpack the pack takes more work than it may: its objects have more than 64 MiB and 200 times its own size; once the event",
		false: "ng refs/heads/main missing necessary objects",
	} {
		s.authorize.set(func(p *Push) error {
			p.Early = early
			return nil
		})
		answer := s.post(command + string(b.pack()))
		if !strings.Contains(answer, says) {
			t.Errorf("early %t: %q", early, answer)
		}
	}
}

// Deltas that name their bases by id are known to be deep only when git has indexed them:
// the push is refused then, in the words of a pack that is refused as it passes.
func TestDeepDeltasByID(t *testing.T) {
	s := newSite(t, nil)
	r, url := s.repo("x", gitrepo.SHA1)
	dir := work(t, gitrepo.SHA1)
	const deltas = 501
	b := newBomb(deltas + 1)
	content := "base"
	b.object(packBlob, len(content), 0, []byte(content))
	for i := range deltas {
		base := sha1.Sum(fmt.Appendf(nil, "blob %d\x00%s", len(content), content))
		content = fmt.Sprintf("%04d", i)
		delta := append([]byte{4, 4, 4}, content...)
		b.WriteByte(packDeltaByID<<4 | byte(len(delta)))
		b.Write(base[:])
		z := zlib.NewWriter(b)
		_, _ = z.Write(delta)
		_ = z.Close()
	}
	command := create(git(t, dir, "rev-parse", "main"), "refs/heads/main")
	answer := s.post(command + string(b.pack()))
	if !strings.Contains(answer, "unpack the pack takes more work than it may: deltas are more than 500 deep") || !strings.Contains(answer, "ng refs/heads/main") {
		t.Errorf("%q", answer)
	}
	if left := leftovers(t, r); len(left) > 0 {
		t.Errorf("it leaves %v", left)
	}
	git(t, dir, "push", "-q", url, "main")
}

// watchMemory returns a function that returns the peak memory, in MB, of the git processes of
// the repository since then.
func watchMemory(t testing.TB, dir string) (end func() int) {
	t.Helper()
	done, limit := make(chan struct{}), make(chan int)
	go func() {
		n := 0
		defer func() { limit <- n }()
		for {
			for _, pid := range processes(t, dir) {
				n = max(n, peakOf(pid)>>10)
			}
			select {
			case <-done:
				return
			case <-time.After(10 * time.Millisecond):
			}
		}
	}()
	return func() int {
		close(done)
		return <-limit
	}
}
