package gitread

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"talon/host/gitrepo"
)

// Bounds of a diff.
const (
	maxDiffBytes = 300 << 10 // of its text
	maxDiffFiles = 100       // with their lines
	maxFileLines = 1000      // of one file
	maxStatFiles = 1000      // in the list of files
)

// Diff is what changed between two commits.
type Diff struct {
	Files   []*FileDiff
	Count   int // files that changed
	Added   int // lines, of all files
	Removed int
	Cut     bool // there is more than Files has
	NoLines bool // the diff was too much work; Files have no lines
}

// FileDiff is what changed in one file.
type FileDiff struct {
	Old, New   string // names; "" if there is none
	Status     byte   // A, M, D, R (renamed), C (copied) or T (type)
	OldMode    Mode
	NewMode    Mode
	OldID      string
	NewID      string
	Similarity int // of a rename, in percent

	Added, Removed int
	Binary         bool
	Hunks          []Hunk
	Cut            bool // there are more lines
}

// Name returns the name of the file, that before if it was deleted.
func (f *FileDiff) Name() string {
	if f.New == "" {
		return f.Old
	}
	return f.New
}

// Hunk is a run of lines of a diff.
type Hunk struct {
	OldStart, NewStart int
	Section            string // the function that git found
	Lines              []DiffLine
}

// DiffLine is a line of a diff.
type DiffLine struct {
	Kind byte // ' ', '+', '-' or '\\' (no line break at the end)
	Text string
}

// diffArgs are the arguments of each diff. They name no program.
var diffArgs = []string{
	"--no-ext-diff", "--no-textconv", "--no-color", "--submodule=short", "--ignore-submodules=none", "--src-prefix=a/", "--dst-prefix=b/",
	"--diff-algorithm=myers", "--indent-heuristic", "-M", "-l100", "--full-index",
}

// CommitDiff returns what a commit changed against its first parent. REQUIRES: the refs of the
// repository reach the commit.
func (r *Repository) CommitDiff(c *Commit) (*Diff, error) {
	if len(c.Parents) == 0 {
		return r.diff("", c.ID)
	}
	return r.diff(c.Parents[0], c.ID)
}

// Diff returns what changed between two commits that the refs of the repository reach.
func (r *Repository) Diff(from, to string) (*Diff, error) { return r.diff(from, to) }

// diff returns what changed from one commit to another; "" is an empty tree. It fails with a
// *TakenDown.
func (r *Repository) diff(from, to string) (*Diff, error) {
	d, err := r.keptDiff(from, to)
	if err == nil {
		err = r.checkDiff(d, from, to)
	}
	return d, err
}

// keptDiff is diff, also of objects that the operator has taken down.
func (r *Repository) keptDiff(from, to string) (*Diff, error) {
	key := from + ".." + to
	all := r.reader
	all.mu.Lock()
	d, aging, ok := all.diffs.Get(key)
	if ok && aging {
		all.diffs.Add(key, d, d.cost())
	}
	all.mu.Unlock()
	if ok {
		return d, nil
	}
	d, err := r.makeDiff(from, to)
	if err != nil {
		return nil, err
	}
	all.mu.Lock()
	all.diffs.Add(key, d, d.cost())
	all.mu.Unlock()
	return d, nil
}

// diffBytes is the size of the diffs that are kept; twice as much for those used last.
const diffBytes = 16 << 20

// cost is about how much memory a diff takes.
func (d *Diff) cost() int {
	n := 256
	for _, f := range d.Files {
		n += 256 + len(f.Old) + len(f.New)
		for _, h := range f.Hunks {
			n += 64
			for _, l := range h.Lines {
				n += 32 + len(l.Text)
			}
		}
	}
	return n
}

// makeDiff has git compare. One process lists the files and counts, and writes the lines.
func (r *Repository) makeDiff(from, to string) (*Diff, error) {
	t, err := r.task(r.ctx)
	if err != nil {
		return nil, err
	}
	defer t.End()
	// First the list alone, without renames: it says how much there is.
	list := &Diff{}
	args := append([]string{"diff-tree", "-r", "-z", "--raw", "--no-renames", "--full-index", "--no-commit-id"}, between(from, to)...)
	err = r.runIn(t, gitrepo.Command{Args: args, CPU: pageCPU, Output: maxRaw}, list.readRaw)
	if err != nil && !errors.Is(err, ErrTooLarge) {
		return nil, err
	}
	if err != nil || list.Count > maxStatFiles {
		list.Cut, list.NoLines = true, true
		return list, nil
	}
	d := &Diff{}
	args = append(append([]string{"diff-tree", "-r", "-z", "--raw", "--numstat", "--patch", "--no-commit-id"}, diffArgs...), between(from, to)...)
	err = r.runIn(t, gitrepo.Command{Args: args, CPU: pageCPU, Output: maxRaw + maxDiffBytes}, d.read)
	switch {
	case errors.Is(err, ErrTooLarge):
		d.Cut = true
	case errors.Is(err, gitrepo.ErrCPU):
		list.NoLines = true
		return list, nil
	case err != nil:
		return nil, err
	}
	return d, nil
}

// maxRaw bounds the list of files of a diff, in bytes.
const maxRaw = 4 << 20

// between returns the arguments for the trees that a diff compares.
func between(from, to string) []string {
	if from == "" {
		return []string{"--root", to}
	}
	return []string{from, to}
}

// readRaw reads the output of --raw -z.
func (d *Diff) readRaw(out io.Reader) error {
	in := bufio.NewReader(out)
	for {
		head, err := in.ReadString(0)
		if err != nil || !strings.HasPrefix(head, ":") {
			return nil
		}
		f, err := parseRaw(in, head)
		if err != nil {
			return nil
		}
		if d.Count++; d.Count <= maxStatFiles {
			d.Files = append(d.Files, f)
		}
	}
}

// parseRaw parses an entry of --raw -z whose first field was read.
func parseRaw(in *bufio.Reader, head string) (*FileDiff, error) {
	fields := strings.Fields(strings.TrimRight(head[1:], "\x00"))
	if len(fields) != 5 || fields[4] == "" {
		return nil, fmt.Errorf("read git diff-tree: %.100q", head)
	}
	f := &FileDiff{OldMode: parseMode(fields[0]), NewMode: parseMode(fields[1]), OldID: fields[2], NewID: fields[3], Status: fields[4][0]}
	f.Similarity, _ = strconv.Atoi(fields[4][1:])
	first, err := in.ReadString(0)
	if err != nil {
		return nil, err
	}
	first = strings.TrimSuffix(first, "\x00")
	switch f.Status {
	case 'R', 'C':
		second, err := in.ReadString(0)
		if err != nil {
			return nil, err
		}
		f.Old, f.New = first, strings.TrimSuffix(second, "\x00")
	case 'A':
		f.New = first
	case 'D':
		f.Old = first
	default:
		f.Old, f.New = first, first
	}
	return f, nil
}

func parseMode(s string) Mode {
	m, _ := strconv.ParseUint(s, 8, 32)
	if m == 0 {
		return 0
	}
	return Mode(m).canonical()
}

// read reads the output of --raw --numstat --patch -z: entries of files, their numbers of lines, an
// empty field, then the lines of each.
func (d *Diff) read(out io.Reader) error {
	in := bufio.NewReader(out)
	for {
		first, err := in.Peek(1)
		if err != nil {
			return nil // it was cut, and the caller knows
		}
		if first[0] != ':' {
			break
		}
		head, err := in.ReadString(0)
		if err != nil {
			return nil
		}
		f, err := parseRaw(in, head)
		if err != nil {
			return nil
		}
		d.Count++
		d.Files = append(d.Files, f)
	}
	for _, f := range d.Files {
		if err := f.readCounts(in); err != nil {
			return nil
		}
		d.Added += f.Added
		d.Removed += f.Removed
	}
	if sep, err := in.ReadByte(); err != nil || sep != 0 {
		return nil
	}
	d.readPatch(in)
	return nil
}

// readCounts reads an entry of --numstat -z.
func (f *FileDiff) readCounts(in *bufio.Reader) error {
	field, err := in.ReadString(0)
	if err != nil {
		return err
	}
	added, rest, _ := strings.Cut(strings.TrimSuffix(field, "\x00"), "\t")
	removed, name, _ := strings.Cut(rest, "\t")
	if name == "" { // a rename has both names in fields of their own
		for range 2 {
			if _, err := in.ReadString(0); err != nil {
				return err
			}
		}
	}
	f.Binary = added == "-"
	f.Added, _ = strconv.Atoi(added)
	f.Removed, _ = strconv.Atoi(removed)
	return nil
}

// readPatch reads the lines of the files, which come in the order of the list. Each file begins with
// "diff --git", which no other line does.
func (d *Diff) readPatch(in *bufio.Reader) {
	at := -1
	total, lines := 0, 0
	var hunk *Hunk
	for {
		text, err := in.ReadSlice('\n')
		long := errors.Is(err, bufio.ErrBufferFull)
		line := strings.TrimSuffix(string(text), "\n")
		for errors.Is(err, bufio.ErrBufferFull) { // a longer line than a page shows
			_, err = in.ReadSlice('\n')
		}
		if len(text) == 0 || err != nil && !long && len(line) == 0 {
			return
		}
		total += len(line)
		if strings.HasPrefix(line, "diff --git ") {
			at, lines, hunk = at+1, 0, nil
			if at >= len(d.Files) {
				return
			}
			if at >= maxDiffFiles {
				d.Cut = true
				for _, f := range d.Files[at:] {
					f.Cut = true
				}
				return
			}
			continue
		}
		if at < 0 {
			continue
		}
		f := d.Files[at]
		switch {
		case strings.HasPrefix(line, "@@ "):
			if lines >= maxFileLines {
				f.Cut, hunk = true, nil
				continue
			}
			f.Hunks = append(f.Hunks, parseHunk(line))
			hunk = &f.Hunks[len(f.Hunks)-1]
		case hunk == nil || line == "":
		case lines >= maxFileLines:
			f.Cut = true
		default:
			hunk.Lines = append(hunk.Lines, DiffLine{line[0], line[1:]})
			lines++
		}
		if err != nil && !long {
			return
		}
	}
}

// parseHunk parses "@@ -1,2 +3,4 @@ section".
func parseHunk(line string) (h Hunk) {
	ranges, section, _ := strings.Cut(strings.TrimPrefix(line, "@@ "), " @@")
	h.Section = strings.TrimSpace(section)
	for field := range strings.FieldsSeq(ranges) {
		start, _, _ := strings.Cut(field[1:], ",")
		n, _ := strconv.Atoi(start)
		if field[0] == '-' {
			h.OldStart = n
		} else {
			h.NewStart = n
		}
	}
	return h
}

// MergeBase returns the best common ancestor of two commits, "" if there is none.
func (r *Repository) MergeBase(a, b string) (string, error) {
	var base string
	err := r.run(gitrepo.Command{Args: []string{"merge-base", a, b}, CPU: pageCPU, Output: 1 << 10}, func(out io.Reader) error {
		text, err := io.ReadAll(out)
		base = string(bytes.TrimSpace(text))
		return err
	})
	if err != nil && base == "" && isExit(err, 1) {
		return "", nil
	}
	return base, err
}

// Range returns the ids of the commits that one commit reaches and another does not, the newest
// first, and how many there are; at most limit of each.
func (r *Repository) Range(from, to string, limit int) (ids []string, more bool, err error) {
	args := []string{"rev-list", "--max-count=" + strconv.Itoa(limit+1), to, "--not", from}
	err = r.run(gitrepo.Command{Args: args, CPU: pageCPU, Output: 1 << 20}, func(out io.Reader) error {
		ids, err = readIDs(out)
		return err
	})
	if len(ids) > limit {
		return ids[:limit], true, err
	}
	return ids, false, err
}

// PatchStream returns the patch of a commit as git format-patch writes it, or its diff alone.
// REQUIRES: the refs of the repository reach the commit.
// It fails with a *TakenDown.
func (r *Repository) PatchStream(c *Commit, mail bool) (*Stream, error) {
	if barred, err := r.present(); err != nil {
		return nil, err
	} else if len(barred) > 0 {
		// The list of the diff says which files the patch has.
		if d, err := r.CommitDiff(c); err != nil {
			return nil, err
		} else if d.Count > len(d.Files) {
			return nil, fmt.Errorf("look for objects that were taken down in a patch of %d files: %w", d.Count, ErrTooLarge)
		}
	}
	args := append([]string{"diff-tree", "-r", "--patch", "--binary", "--no-commit-id", "--root"}, diffArgs...)
	if mail {
		args = append([]string{"diff-tree", "-r", "--patch", "--binary", "--stat", "--pretty=email", "--root"}, diffArgs...)
	}
	if len(c.Parents) > 1 {
		args = append(args, "-m", "--first-parent")
	}
	t, err := r.task(r.ctx)
	if err != nil {
		return nil, err
	}
	return r.stream(t, gitrepo.Command{Args: append(args, c.ID), CPU: 2 * pageCPU, Output: 64 << 20}), nil
}
