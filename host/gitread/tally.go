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
	// tallyBytes is the size of the tallies that are kept; twice as much for those used last.
	tallyBytes = 1 << 20

	// maxTally bounds the list of files of which a tally is made, in bytes: about 500,000 files.
	maxTally = 64 << 20
)

// Tally returns how many bytes the files of a target have by what classify returns for their paths,
// such as a language. Files for which it returns "" do not count. Tally returns nil if that is not
// known yet. Then it is counted in the background, and a later call has it. REQUIRES: classify
// always returns the same.
func (r *Repository) Tally(t Target, classify func(path string) string) (map[string]int64, error) {
	tree, err := r.RootTree(t)
	if err != nil {
		return nil, err
	}
	if found, ok := r.reader.tally(tree); ok {
		return found, nil
	}
	r.reader.later(r.repo, r.by, "tally "+tree, func(later *Repository) error { return later.findTally(t, classify) })
	return nil, nil
}

// tally returns the tally of a tree if it is known.
func (r *Reader) tally(tree string) (map[string]int64, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	found, aging, ok := r.tallies.Get(tree)
	if ok && aging {
		r.tallies.Add(tree, found, tallyCost(found))
	}
	return found, ok
}

func tallyCost(found map[string]int64) int { return 256 + 64*len(found) }

// findTally makes the tally of a target and keeps it. That of a tree with too many files is empty.
func (r *Repository) findTally(t Target, classify func(path string) string) error {
	tree, err := r.RootTree(t)
	if err != nil {
		return err
	}
	if _, ok := r.reader.tally(tree); ok {
		return nil
	}
	task, err := r.task(r.ctx)
	if err != nil {
		return err
	}
	defer task.End()
	found := make(map[string]int64)
	err = r.eachFile(task, tree, maxTally, func(path string, size int64) error {
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
	r.reader.tallies.Add(tree, found, tallyCost(found))
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
