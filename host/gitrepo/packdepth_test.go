package gitrepo

import (
	"bytes"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"talon/host"
	"talon/internal/testkit"
)

// blobID is the id that git gives to a blob.
func blobID(content string) [sha1.Size]byte {
	return sha1.Sum(fmt.Appendf(nil, "blob %d\x00%s", len(content), content))
}

// deltasByID is a pack as libgit2 writes them: what a commit reaches as it is, and blobs of
// which each names the one before it as its base, by id, to the given depth. They stand
// after their bases, or before them.
func deltasByID(t testing.TB, dir, commit string, deltas int, before bool) []byte {
	t.Helper()
	ids := strings.Fields(git(t, dir, "rev-list", "--objects", "--no-object-names", commit))
	w := newPack(len(ids) + deltas + 1)
	kinds := map[string]byte{"commit": 1, "tree": 2, "blob": 3}
	for _, id := range ids {
		kind := git(t, dir, "cat-file", "-t", id)
		cmd := exec.CommandContext(t.Context(), "git", "cat-file", kind, id)
		cmd.Dir = dir
		content, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		w.object(kinds[kind], len(content), nil, content)
	}
	text := "the end of a chain\n"
	w.object(3, len(text), nil, []byte(text))
	objects := make([]func(), deltas)
	for i := range objects {
		base, size := blobID(text), byte(len(text))
		next := fmt.Sprintf("%04d", i)
		delta := append([]byte{size, 4, 4}, next...)
		objects[i] = func() { w.object(objIDDelta, len(delta), base[:], delta) }
		text = next
	}
	for i := range objects {
		if before {
			i = len(objects) - 1 - i
		}
		objects[i]()
	}
	sum := sha1.Sum(w.Bytes())
	return append(w.Bytes(), sum[:]...)
}

// Deltas that name their bases by id are as deep as they may be, whichever way they stand,
// and a push with deeper ones is refused and leaves nothing.
func TestDeltasByID(t *testing.T) {
	testkit.SkipRace(t)
	root := newRoot(t)
	dir, _, second := work(t, SHA1)
	for _, before := range []bool{false, true} {
		for deltas, says := range map[int]string{50: "", 500: "", 501: "deltas are more than 500 deep", 3000: "deltas are more than 500 deep"} {
			r := newRepo(t, root, alice, fmt.Sprint(deltas, before), SHA1)
			pack := deltasByID(t, dir, second, deltas, before)
			if err := scanPack(DefaultPackLimits, pack, 1<<10); err != nil {
				t.Errorf("%d deltas are refused as they pass: %v", deltas, err)
			}
			err := push(t, r, pack, host.RefUpdate{Ref: "refs/heads/main", Old: strings.Repeat("0", 40), New: second})
			refused := (*Refused)(nil)
			if says == "" && err != nil || says != "" && (!errors.As(err, &refused) || !strings.Contains(refused.Reason, says)) {
				t.Errorf("%d deltas, before their bases: %t: %v, want %q", deltas, before, err, says)
			}
			if there, err := r.Has(t.Context(), second); err != nil || there[0] != (says == "") {
				t.Errorf("%d deltas: the commit is there: %v, %v", deltas, there, err)
			}
			if left := quarantines(t, root); len(left) > 0 {
				t.Errorf("%d deltas leave %v", deltas, left)
			}
		}
	}
}

// TestFetchOfDeltasByID: a fetch has the same bound on depth, and no object of a deeper pack
// lands.
func TestFetchOfDeltasByID(t *testing.T) {
	dir, _, second := work(t, SHA1)
	good := strings.TrimSuffix(served(t, dir), "/.git")
	for deltas, says := range map[int]string{50: "", 500: "", 501: "deltas are more than 500 deep"} {
		pack := deltasByID(t, dir, second, deltas, true)
		url := server(t, func(w http.ResponseWriter, r *http.Request) {
			asks, _ := io.ReadAll(r.Body)
			if bytes.Contains(asks, []byte("command=fetch")) {
				w.Header().Set("Content-Type", "application/x-git-upload-pack-result")
				_, _ = io.WriteString(w, "000dpackfile\n")
				for b := range slices.Chunk(pack, 60_000) {
					_, _ = fmt.Fprintf(w, "%04x\x01%s", len(b)+5, b)
				}
				_, _ = io.WriteString(w, "0000")
				return
			}
			r.Body = io.NopCloser(bytes.NewReader(asks))
			testkit.Forward(w, r, good, func(body []byte) []byte { return body })
		})
		root := newRoot(t)
		r := newRepo(t, root, alice, "project", SHA1)
		found, err := fetch(t, r, url+"/.git", second)
		refused := (*Refused)(nil)
		if says == "" && (err != nil || len(found) != 1) || says != "" && (!errors.As(err, &refused) || !strings.Contains(refused.Reason, says) || len(found) != 0) {
			t.Errorf("%d deltas: %v, %v, want %q", deltas, found, err, says)
		}
		if there, err := r.Has(t.Context(), second); err != nil || there[0] != (says == "") {
			t.Errorf("%d deltas: the commit is there: %v, %v", deltas, there, err)
		}
		clean(t, root)
	}
}

// The depth is that which git says, however bases are named.
func TestDepthOfGit(t *testing.T) {
	testkit.SkipRace(t)
	for _, format := range []Format{SHA1, SHA256} {
		dir := t.TempDir()
		git(t, dir, "init", "-q", "-b", "main", "--object-format="+format.String())
		random := rand.New(rand.NewPCG(1, 2))
		lines := make([]string, 200)
		for range 80 {
			for range 8 {
				lines[random.IntN(len(lines))] = strconv.FormatUint(random.Uint64(), 36) + "\n"
			}
			if err := os.WriteFile(filepath.Join(dir, "file"), []byte(strings.Join(lines, "")), 0o644); err != nil {
				t.Fatal(err)
			}
			git(t, dir, "add", ".")
			git(t, dir, "commit", "-q", "-m", "more")
		}
		tip := git(t, dir, "rev-parse", "HEAD")
		for _, args := range [][]string{{"--depth=4095"}, {"--depth=4095", "--delta-base-offset"}} {
			cmd := exec.CommandContext(t.Context(), "git", append([]string{"pack-objects", "--revs", "--stdout", "-q", "--window=5"}, args...)...)
			cmd.Dir, cmd.Stdin = dir, strings.NewReader(tip+"\n")
			pack, err := cmd.Output()
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(t.TempDir(), "pack-x")
			if err := os.WriteFile(path+".pack", pack, 0o644); err != nil {
				t.Fatal(err)
			}
			git(t, dir, "index-pack", path+".pack")
			depth := 0
			for line := range strings.Lines(git(t, dir, "verify-pack", "--stat-only", path+".idx")) {
				if after, ok := strings.CutPrefix(line, "chain length = "); ok {
					n, _, _ := strings.Cut(after, ":")
					depth, _ = strconv.Atoi(n)
				}
			}
			if depth < 5 {
				t.Fatalf("%s %v: deltas are only %d deep", format, args, depth)
			}
			if err := checkDepth(t.Context(), path, idLength(format)/2, depth); err != nil {
				t.Errorf("%s %v: %v, and they are %d deep", format, args, err, depth)
			}
			if err := checkDepth(t.Context(), path, idLength(format)/2, depth-1); err == nil {
				t.Errorf("%s %v: deltas pass that are %d deep", format, args, depth)
			}
		}
	}
}

// Deltas in a circle, places beyond 2 GiB, and indexes that are none, come to an end.
func TestDepthOfRuins(t *testing.T) {
	w := newPack(3)
	w.object(3, 4, nil, []byte("base"))
	one, two := bytes.Repeat([]byte{1}, sha1.Size), bytes.Repeat([]byte{2}, sha1.Size)
	w.object(objIDDelta, 4, two, deltaText(4, 1))
	w.object(objIDDelta, 4, one, deltaText(4, 1))
	index := func(far bool, ids ...string) []byte {
		b := []byte(indexMagic)
		for first := range 256 {
			b = append(b, 0, 0, 0, byte(min(first, len(ids)-1)+1))
		}
		var places, list []byte
		for i, id := range ids {
			name, _ := hex.DecodeString(id)
			b = append(b, name...)
			if far {
				places = append(places, 0x80, 0, 0, byte(i))
				list = append(list, 0, 0, 0, 0, 0, 0, 0, byte(w.at[i]))
			} else {
				places = append(places, 0, 0, 0, byte(w.at[i]))
			}
		}
		return append(append(append(b, make([]byte, 4*len(ids))...), places...), list...)
	}
	ids := []string{strings.Repeat("00", sha1.Size), hex.EncodeToString(one), hex.EncodeToString(two)}
	for name, c := range map[string]struct {
		index []byte
		says  string // empty if it passes
	}{
		"a circle":          {index(false, ids...), "deltas are more than 50 deep"},
		"a circle far away": {index(true, ids...), "deltas are more than 50 deep"},
		"one object":        {index(true, ids[0]), ""},
		"a base not there":  {index(false, ids[:2]...), errNotPack.Error()},
		"no list of places": {index(true, ids...)[:indexHead+3*(sha1.Size+8)], "negative offset"},
		"no places":         {index(false, ids...)[:indexHead+3*sha1.Size], errIndex.Error()},
		"nothing":           {nil, errIndex.Error()},
		"something else":    {make([]byte, 2000), errIndex.Error()},
		"a place not in it": {bytes.Replace(index(false, ids[0]), []byte{0, 0, 0, byte(w.at[0])}, []byte{0, 1, 0, 0}, 1), errNotPack.Error()},
	} {
		path := filepath.Join(t.TempDir(), "pack-x")
		if err := errors.Join(os.WriteFile(path+".pack", w.Bytes(), 0o644), os.WriteFile(path+".idx", c.index, 0o644)); err != nil {
			t.Fatal(err)
		}
		err := checkDepth(t.Context(), path, sha1.Size, 50)
		if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
}
