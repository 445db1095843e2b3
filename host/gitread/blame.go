package gitread

import (
	"bufio"
	"cmp"
	"context"
	"io"
	"strconv"
	"strings"
	"time"

	"talon/host/gitrepo"
)

// Bounds of costly answers.
const (
	costlyCPU  = 8 * time.Second
	costlyWait = 2 * time.Second
)

// BlameLine says which commit a line of a file comes from.
type BlameLine struct {
	Commit   string
	Line     int    // in the file of that commit
	Previous string // the commit before that change, "" if there is none
	OldName  string // the file in Previous
}

// costly waits a moment for one of the few turns of costly answers. The caller calls release.
func (r *Repository) costly() (release func(), err error) {
	ctx, cancel := context.WithTimeout(r.ctx, costlyWait)
	defer cancel()
	if err := r.reader.costly.Acquire(ctx, r.by); err != nil {
		if r.ctx.Err() == nil {
			return nil, ErrBusy
		}
		return nil, err
	}
	return r.reader.costly.Release, nil
}

// Blame returns for each line of a file the commit that it comes from. REQUIRES: the refs of the
// repository reach the commit.
func (r *Repository) Blame(commit string, path []string) ([]BlameLine, error) {
	name := strings.Join(path, "/")
	// The answer is the same for all commits that have the same last change of the file.
	last, err := r.findLastCommit(commit, path)
	if err != nil {
		return nil, err
	}
	key := "blame " + cmp.Or(last, commit) + " " + name
	all := r.reader
	all.mu.Lock()
	lines, aging, ok := all.blames.Get(key)
	if ok && aging {
		all.blames.Add(key, lines, blameCost*len(lines))
	}
	all.mu.Unlock()
	if ok {
		return lines, nil
	}
	release, err := r.costly()
	if err != nil {
		return nil, err
	}
	defer release()
	args := []string{"--literal-pathspecs", "blame", "--porcelain", commit, "--", name}
	err = r.run(gitrepo.Command{Args: args, CPU: costlyCPU, Output: 32 << 20}, func(out io.Reader) error {
		lines, err = parseBlame(out)
		return err
	})
	if err != nil {
		return nil, err
	}
	all.mu.Lock()
	all.blames.Add(key, lines, blameCost*len(lines))
	all.mu.Unlock()
	return lines, nil
}

// blameBytes is the size of the answers that are kept; twice as much for those used last.
const (
	blameBytes = 16 << 20
	blameCost  = 64 // of a line; commits and names are shared
)

// parseBlame parses the output of git blame --porcelain.
func parseBlame(out io.Reader) ([]BlameLine, error) {
	type before struct{ commit, name string }
	known := make(map[string]before)
	names := make(map[string]string)
	var lines []BlameLine
	current := ""
	in := bufio.NewReaderSize(out, 64<<10)
	for {
		text, err := in.ReadSlice('\n')
		line := string(text)
		for err == bufio.ErrBufferFull {
			_, err = in.ReadSlice('\n')
		}
		if line == "" {
			break
		}
		switch {
		case line[0] == '\t':
			l := &lines[len(lines)-1]
			l.Previous, l.OldName = known[current].commit, known[current].name
		case len(line) > 41 && gitrepo.IsID(line[:strings.IndexByte(line+" ", ' ')]):
			fields := strings.Fields(line)
			id := fields[0]
			if shared, ok := names[id]; ok {
				id = shared
			} else {
				names[id] = id
			}
			current = id
			n, _ := strconv.Atoi(fields[1])
			lines = append(lines, BlameLine{Commit: id, Line: n})
		case strings.HasPrefix(line, "previous "):
			id, name, _ := strings.Cut(strings.TrimSuffix(line[len("previous "):], "\n"), " ")
			known[current] = before{id, unquote(name)}
		}
		if err != nil {
			break
		}
	}
	for i := range lines {
		if b := known[lines[i].Commit]; b.commit != "" {
			lines[i].Previous, lines[i].OldName = b.commit, b.name
		}
	}
	return lines, nil
}

// unquote returns a name as git has it: one with odd characters is quoted as in C.
func unquote(name string) string {
	if !strings.HasPrefix(name, `"`) {
		return name
	}
	var b strings.Builder
	for i := 1; i < len(name)-1; i++ {
		c := name[i]
		if c != '\\' || i+1 >= len(name)-1 {
			b.WriteByte(c)
			continue
		}
		i++
		switch c = name[i]; c {
		case 'n':
			b.WriteByte('\n')
		case 't':
			b.WriteByte('\t')
		case 'r':
			b.WriteByte('\r')
		case 'a', 'b', 'f', 'v':
			b.WriteByte(map[byte]byte{'a': 7, 'b': 8, 'f': 12, 'v': 11}[c])
		case '0', '1', '2', '3':
			if n, err := strconv.ParseUint(name[i:min(i+3, len(name))], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 2
			}
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}
