package gitread

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"talon/host/gitrepo"
	"talon/internal/heap"
)

// Log returns the ids of commits that a commit reaches, in the order of git log, from a position on,
// and how many there are in all.
func (r *Repository) Log(tip string, from, limit int) (ids []string, count int, err error) {
	h, err := r.history()
	if err != nil {
		return nil, 0, err
	}
	n, ok := h.reaches(tip)
	if !ok {
		return nil, 0, fmt.Errorf("%w: no ref reaches %s", ErrNotFound, tip)
	}
	list := r.list(h, n)
	from = min(max(from, 0), len(list))
	for _, n := range list[from:min(from+limit, len(list))] {
		ids = append(ids, h.id(n))
	}
	return ids, len(list), nil
}

// Neighbours returns the ids of the commits before and after a commit in the log of a tip: newer comes
// before it, older after it. Either is "" if there is none, both if the tip does not reach the commit.
func (r *Repository) Neighbours(tip, commit string) (newer, older string, err error) {
	h, err := r.history()
	if err != nil {
		return "", "", err
	}
	from, ok := h.reaches(tip)
	n, also := h.reaches(commit)
	if !ok || !also {
		return "", "", nil
	}
	list := r.list(h, from)
	at := slices.Index(list, n)
	if at > 0 {
		newer = h.id(list[at-1])
	}
	if at >= 0 && at+1 < len(list) {
		older = h.id(list[at+1])
	}
	return newer, older, nil
}

// AuthorLog is Log for the commits whose author has a text in the name or the address, in any case. It
// returns whether there are more. Git reads each commit for it. REQUIRES: the refs of the repository
// reach the tip.
func (r *Repository) AuthorLog(tip, author string, from, limit int) (ids []string, more bool, err error) {
	if author == "" || len(author) > 200 || strings.ContainsAny(author, "\n\x00") {
		return nil, false, fmt.Errorf("%w: commits of %.100q", ErrNotFound, author)
	}
	release, err := r.costly()
	if err != nil {
		return nil, false, err
	}
	defer release()
	args := []string{
		"rev-list", "--fixed-strings", "--regexp-ignore-case", "--author=" + author, "--max-count=" + strconv.Itoa(limit+1), "--skip=" + strconv.Itoa(from), tip,
	}
	err = r.run(gitrepo.Command{Args: args, CPU: costlyCPU, Output: 1 << 20}, func(out io.Reader) error {
		ids, err = readIDs(out)
		return err
	})
	if len(ids) > limit {
		return ids[:limit], true, err
	}
	return ids, false, err
}

func readIDs(out io.Reader) (ids []string, err error) {
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if id := lines.Text(); gitrepo.IsID(id) {
			ids = append(ids, id)
		}
	}
	return ids, lines.Err()
}

// list returns all that a commit reaches, in the order of git log.
func (r *Repository) list(h *history, tip uint32) []uint32 {
	all := r.reader.histories
	key := listKey{h.key, tip}
	all.mu.Lock()
	list, aging, ok := all.lists.Get(key)
	if ok && aging {
		all.lists.Add(key, list, 64+4*len(list))
	}
	all.mu.Unlock()
	if ok {
		return list
	}
	list = h.walk(tip)
	all.mu.Lock()
	all.lists.Add(key, list, 64+4*len(list))
	all.mu.Unlock()
	return list
}

// walk lists what a commit reaches: of the commits whose children are listed, the newest comes
// first, and of those of one second the one that was met first.
func (h *history) walk(tip uint32) []uint32 {
	seen := make([]uint64, len(h.reached))
	var list, parents []uint32
	seen[tip/64] |= 1 << (tip % 64)
	q := newDateQueue()
	at, ok, met := dated{n: tip, when: h.when(tip)}, true, uint32(0)
	for ; ok; at, ok = q.take() {
		list = append(list, at.n)
		parents = h.parents(parents[:0], at.n)
		for _, p := range parents {
			if seen[p/64]&(1<<(p%64)) != 0 {
				continue
			}
			seen[p/64] |= 1 << (p % 64)
			met++
			q.add(dated{p, met, h.when(p)})
		}
	}
	return slices.Clip(list)
}

// dated is a commit in a dateQueue.
type dated struct {
	n, met uint32
	when   int64
}

// before reports whether git takes a commit first: the newer one, and of one second the one that was
// met first.
func (d dated) before(other dated) bool {
	return d.when > other.when || d.when == other.when && d.met < other.met
}

// dateQueue gives the commit first that is before all others. Most commits have one parent, which
// comes next: it does not go through the heap.
type dateQueue struct {
	front    dated // is before all of the heap
	hasFront bool
	rest     heap.Heap[dated]
}

func newDateQueue() *dateQueue { return &dateQueue{rest: heap.New(dated.before, nil)} }

func (q *dateQueue) add(d dated) {
	switch {
	case q.hasFront && d.before(q.front):
		q.rest.Push(q.front)
		q.front = d
	case q.hasFront || q.rest.Len() > 0 && q.rest.Top().before(d):
		q.rest.Push(d)
	default:
		q.front, q.hasFront = d, true
	}
}

func (q *dateQueue) empty() bool { return !q.hasFront && q.rest.Len() == 0 }

// take takes out the first commit. It reports false if there is none.
func (q *dateQueue) take() (first dated, ok bool) {
	switch {
	case q.hasFront:
		q.hasFront = false
		return q.front, true
	case q.rest.Len() > 0:
		return q.rest.Pop(), true
	}
	return first, false
}
