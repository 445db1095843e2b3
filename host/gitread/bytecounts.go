package gitread

import (
	"bufio"
	"errors"
	"io"
	"strconv"
	"strings"

	"talon/host/gitrepo"
)

const (
	// byteCountsBytes is the size of the byteCounts that are kept; twice as much for those used last.
	byteCountsBytes = 1 << 20

	// maxCounted bounds the list of files of which a byte counts is made, in bytes: about 500,000 files.
	maxCounted = 64 << 20
)

// ByteCounts returns how many bytes the files of a target have by what classify returns for their paths,
// such as a language. Files for which it returns "" do not count. ByteCounts returns nil if that is not
// known yet. Then it is counted in the background, and a later call has it. REQUIRES: classify
// always returns the same.
func (r *Repository) ByteCounts(t Target, classify func(path string) string) (map[string]int64, error) {
	tree, err := r.RootTree(t)
	if err != nil {
		return nil, err
	}
	if found, ok := r.reader.knownByteCounts(tree); ok {
		return found, nil
	}
	r.reader.later(r.repo, r.by, "bytes "+tree, func(later *Repository) error { return later.countBytes(t, classify) })
	return nil, nil
}

// knownByteCounts returns the byte counts of a tree if they are known.
func (r *Reader) knownByteCounts(tree string) (map[string]int64, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	found, aging, ok := r.byteCounts.Get(tree)
	if ok && aging {
		r.byteCounts.Add(tree, found, byteCountsCost(found))
	}
	return found, ok
}

func byteCountsCost(found map[string]int64) int { return 256 + 64*len(found) }

// countBytes makes the byte counts of a target and keeps it. That of a tree with too many files is empty.
func (r *Repository) countBytes(t Target, classify func(path string) string) error {
	tree, err := r.RootTree(t)
	if err != nil {
		return err
	}
	if _, ok := r.reader.knownByteCounts(tree); ok {
		return nil
	}
	task, err := r.task(r.ctx)
	if err != nil {
		return err
	}
	defer task.End()
	found := make(map[string]int64)
	err = r.eachFile(task, tree, maxCounted, func(path string, size int64) error {
		if class := classify(path); class != "" {
			found[class] += size
		}
		return nil
	})
	if errors.Is(err, ErrTooLarge) || errors.Is(err, ErrCPU) {
		found, err = make(map[string]int64), nil
	}
	if err != nil {
		return err
	}
	r.reader.mu.Lock()
	defer r.reader.mu.Unlock()
	r.reader.byteCounts.Add(tree, found, byteCountsCost(found))
	return nil
}

// eachFile calls yield with each file below a tree or a commit, until it fails. The list has at most
// a number of bytes.
func (r *Repository) eachFile(t *gitrepo.Task, tree string, maxBytes int64, yield func(path string, size int64) error) error {
	args := []string{"ls-tree", "-r", "-l", "-z", "--full-tree", tree}
	return r.runIn(t, gitrepo.Command{Args: args, CPU: pageCPU, Output: maxBytes}, func(out io.Reader) error {
		in := bufio.NewReader(out)
		for {
			row, err := in.ReadString(0)
			if err != nil {
				return nil
			}
			head, path, _ := strings.Cut(strings.TrimSuffix(row, "\x00"), "\t")
			fields := strings.Fields(head)
			if len(fields) != 4 {
				continue
			}
			size, _ := strconv.ParseInt(fields[3], 10, 64) // a submodule has none
			if err := yield(path, size); err != nil {
				return err
			}
		}
	})
}
