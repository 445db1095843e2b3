package devnet

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"strings"

	"talon/cmd/internal/lab/world"
)

// A commit of a repository follows from its address, branch and number: its id is in events before git
// has made it. Each has one file.

// content is the file and the message of a commit.
func content(address, branch string, number int) string {
	return fmt.Sprintf("commit %d of %s of %s", number, branch, address)
}

// madeAt is the time of a commit.
func madeAt(number int) int64 { return epoch + int64(number) }

// parent returns the commit before one, and false if it is the first of all.
func parent(branch string, number int) (before string, n int, ok bool) {
	switch {
	case branch != world.Main:
		return world.Main, 0, true
	case number == 0:
		return "", 0, false
	}
	return world.Main, number - 1, true
}

// commitID returns the id that git gives a commit.
func commitID(address, branch string, number int) string {
	chain := [][2]any{{branch, number}}
	for b, n, ok := parent(branch, number); ok; b, n, ok = parent(b, n) {
		chain = append(chain, [2]any{b, n})
	}
	id := ""
	for i := len(chain) - 1; i >= 0; i-- {
		branch, number := chain[i][0].(string), chain[i][1].(int)
		text := content(address, branch, number)
		blob, _ := hex.DecodeString(objectID("blob", text))
		tree := objectID("tree", "100644 "+file+"\x00"+string(blob))
		var b strings.Builder
		fmt.Fprintf(&b, "tree %s\n", tree)
		if id != "" {
			fmt.Fprintf(&b, "parent %s\n", id)
		}
		for _, who := range []string{"author", "committer"} {
			fmt.Fprintf(&b, "%s %s %d +0000\n", who, committer, madeAt(number))
		}
		fmt.Fprintf(&b, "\n%s", text)
		id = objectID("commit", b.String())
	}
	return id
}

const (
	file      = "file"
	committer = "Devnet <devnet@example.com>"
)

func objectID(kind, content string) string {
	sum := sha1.Sum(fmt.Appendf(nil, "%s %d\x00%s", kind, len(content), content))
	return hex.EncodeToString(sum[:])
}

// stream is what git fast-import reads.
type stream struct {
	b       strings.Builder
	address string
	made    map[string]int // marks of the commits in it
}

func newStream(address string) *stream { return &stream{address: address, made: map[string]int{}} }

// commit adds a commit and all before it, and returns its mark.
func (s *stream) commit(branch string, number int) int {
	key := fmt.Sprint(branch, number)
	if mark := s.made[key]; mark > 0 {
		return mark
	}
	from := 0
	if b, n, ok := parent(branch, number); ok {
		from = s.commit(b, n)
	}
	mark := len(s.made) + 1
	s.made[key] = mark
	text := content(s.address, branch, number)
	fmt.Fprintf(&s.b, "commit refs/devnet/%d\nmark :%d\n", mark, mark)
	for _, who := range []string{"author", "committer"} {
		fmt.Fprintf(&s.b, "%s %s %d +0000\n", who, committer, madeAt(number))
	}
	fmt.Fprintf(&s.b, "data %d\n%s\n", len(text), text)
	if from > 0 {
		fmt.Fprintf(&s.b, "from :%d\n", from)
	}
	fmt.Fprintf(&s.b, "M 100644 inline %s\ndata %d\n%s\n\n", file, len(text), text)
	fmt.Fprintf(&s.b, "reset refs/devnet/%d\nfrom 0000000000000000000000000000000000000000\n\n", mark)
	return mark
}

// ref sets a ref to a commit.
func (s *stream) ref(name, branch string, number int) {
	fmt.Fprintf(&s.b, "reset %s\nfrom :%d\n\n", name, s.commit(branch, number))
}
