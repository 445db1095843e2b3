package gitread

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"talon/host/gitrepo"
)

const (
	maxGrep = 200 // lines
	grepCPU = 4 * time.Second
)

// Match is a line of a file that a search has found.
type Match struct {
	Path string
	Line int
	Text string
}

// Grep looks for a text in the files of a commit, whatever its case. It returns a bounded number of
// lines, and whether there may be more. Files that the operator has taken down are left out. REQUIRES:
// the refs of the repository reach the commit.
func (r *Repository) Grep(commit, text string) (matches []Match, more bool, err error) {
	if strings.ContainsAny(text, "\n\x00") || len(text) < 2 || len(text) > 200 {
		return nil, false, fmt.Errorf("%w: a search for %.100q", ErrNotFound, text)
	}
	release, err := r.costly()
	if err != nil {
		return nil, false, err
	}
	defer release()
	args := []string{
		"-c", "grep.threads=1", "grep", "-z", "-n", "-I", "-i", "-F", "--no-color", "--full-name", "--no-textconv", "--max-depth=-1", "-e", text, commit,
	}
	err = r.run(gitrepo.Command{Args: args, CPU: grepCPU, Output: 4 << 20}, func(out io.Reader) error {
		matches, more = parseGrep(out, len(commit)+1)
		return nil
	})
	if err != nil && (isExit(err, 1) || isTooMuch(err)) { // 1: it has found nothing
		more, err = more || isTooMuch(err), nil
	}
	if err == nil {
		matches, err = r.shownMatches(commit, matches)
	}
	return matches, more, err
}

// parseGrep parses the output of git grep -z -n: a commit and a path, a number, and the line.
func parseGrep(out io.Reader, prefix int) (matches []Match, more bool) {
	in := bufio.NewReaderSize(out, 64<<10)
	for {
		name, err := in.ReadString(0)
		if err != nil || len(name) <= prefix {
			return matches, false
		}
		number, err := in.ReadString(0)
		if err != nil {
			return matches, false
		}
		text, err := in.ReadSlice('\n')
		line := cut(strings.TrimSuffix(string(text), "\n"), 400)
		for err == bufio.ErrBufferFull {
			_, err = in.ReadSlice('\n')
		}
		if len(matches) == maxGrep {
			return matches, true
		}
		n, _ := strconv.Atoi(strings.TrimSuffix(number, "\x00"))
		matches = append(matches, Match{Path: strings.TrimSuffix(name[prefix:], "\x00"), Line: n, Text: line})
		if err != nil {
			return matches, false
		}
	}
}
