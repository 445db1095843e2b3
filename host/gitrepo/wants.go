package gitrepo

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Repositories of an identifier share a store of objects, and upload-pack checks wants of
// version 2 of the protocol against nothing: whatever is in the store, it sends. So Talon checks
// what a request wants before git gets it, in every version, by one rule: this repository's own
// refs point to it, or reach it.

// NotOurs reports an object that a request wants and that no ref of the repository reaches. Its
// text is that of git, by which clients know the object.
type NotOurs struct{ ID string }

func (n *NotOurs) Error() string { return "upload-pack: not our ref " + n.ID }

// Wants are the objects that a request wants and that need a walk.
type Wants struct {
	repo *Repo
	open []string // what is neither a tip nor known to be reached, each once
	tips tipsKey

	asked  []string // all wants, sorted, if there are barred objects
	barred []string // objects in the store that the operator has taken down, sorted
}

// Open reports whether a walk is needed; see Walk.
func (w *Wants) Open() bool { return len(w.open) > 0 || len(w.barred) > 0 }

// Wants reads what a request of upload-pack wants, and checks it without a process. It fails with
// a *NotOurs if one of the objects is known not to be reached. Repositories that share no objects
// are as git serves them.
func (r *Repo) Wants(ctx context.Context, request io.Reader) (*Wants, error) {
	barred, err := r.HasBarred(ctx)
	if err != nil {
		return nil, err
	}
	alone := r.git.plain || r.root == nil
	if alone && len(barred) == 0 {
		return new(Wants), nil
	}
	format, err := r.Format(ctx)
	if err != nil {
		return nil, err
	}
	asked := readWants(request, idLength(format))
	if len(asked) == 0 {
		return new(Wants), nil
	}
	w := &Wants{repo: r}
	if len(barred) > 0 {
		w.barred, w.asked = barred, slices.Compact(slices.Sorted(slices.Values(asked)))
	}
	if alone {
		return w, nil
	}
	tips, err := r.tipIDs(ctx)
	if err != nil {
		return nil, err
	}
	w.tips = keyOf(tips)
	for _, id := range asked {
		if _, ok := slices.BinarySearch(tips, id); !ok {
			w.open = append(w.open, id)
		}
	}
	slices.Sort(w.open)
	w.open = slices.Compact(w.open)
	if known := r.root.reach.get(w.tips); len(w.open) > 0 && known != nil && !known.tooMany {
		err := w.lookUp(known)
		w.open = nil
		return w, err
	}
	return w, nil
}

// lookUp fails with a *NotOurs if one of the wants is not reached.
func (w *Wants) lookUp(known *reached) error {
	for _, id := range w.open {
		if !known.has(id) {
			return &NotOurs{ID: id}
		}
	}
	return nil
}

// tipIDs returns what the refs and HEAD point to, sorted.
func (r *Repo) tipIDs(ctx context.Context) ([]string, error) {
	list, head, err := r.refFiles(ctx)
	var ids []string
	switch {
	case errors.Is(err, errUnusual) || err == nil && head == "":
		refs, err := r.askRefs(ctx)
		if err != nil {
			return nil, err
		}
		for _, ref := range refs.List {
			ids = append(ids, ref.ID)
		}
	case err != nil:
		return nil, fmt.Errorf("read the refs: %w", err)
	}
	for _, ref := range list {
		ids = append(ids, ref.ID)
	}
	slices.Sort(ids)
	return slices.Compact(ids), nil
}

// readWants returns the ids that a request of upload-pack wants, in all versions of the protocol.
// It finds each want that git finds: it reads pkt-lines as git does, and stops only where git
// gives up.
func readWants(request io.Reader, digits int) (ids []string) {
	in := bufio.NewReader(request)
	for {
		var head [4]byte
		if _, err := io.ReadFull(in, head[:]); err != nil {
			return ids
		}
		// Git takes digits of upper case as well.
		n, err := strconv.ParseUint(string(head[:]), 16, 16)
		if err != nil || n == 3 {
			return ids
		}
		if n <= 4 {
			continue // flush, delimiter, end of a response, or an empty line
		}
		const want = "want "
		line, err := in.Peek(min(int(n)-4, len(want)+digits))
		if err != nil {
			return ids
		}
		if id, ok := bytes.CutPrefix(line, []byte(want)); ok {
			if id := strings.ToLower(string(id)); len(id) == digits && IsID(id) {
				ids = append(ids, id)
			}
		}
		if _, err := in.Discard(int(n) - 4); err != nil {
			return ids
		}
	}
}

// maxWalk bounds the processor time of one walk.
const maxWalk = 2 * time.Minute

// Walk checks the wants that are open, with processes that work for a task. It returns the
// processor time that they took. It fails with a *NotOurs if no ref reaches one of the wants, and
// with a *TakenDown if one of them reaches an object that the operator has taken down.
func (w *Wants) Walk(t *Task) (took time.Duration, err error) {
	if took, err = w.walkOpen(t); err != nil {
		return took, err
	}
	more, err := w.walkBarred(t)
	return took + more, err
}

// walkOpen fails with a *NotOurs if no ref reaches one of the wants. A few commits are looked for from
// the tips on, which is short where they are new. For other objects walkOpen lists all that the tips
// reach, and remembers it for the next request.
func (w *Wants) walkOpen(t *Task) (took time.Duration, err error) {
	if len(w.open) == 0 {
		return 0, nil
	}
	ctx, r := t.Context(), w.repo
	commits := false
	if len(w.open) <= fewObjects {
		found, err := r.Has(ctx, w.open...)
		if err != nil {
			return 0, err
		}
		if i := slices.Index(found, false); i >= 0 {
			return 0, &NotOurs{ID: w.open[i]}
		}
		if commits, err = r.areCommits(ctx, w.open); err != nil {
			return 0, err
		}
	}
	if commits {
		return w.walkCommits(t)
	}
	return r.root.reach.fill(t, w)
}

// areCommits reports whether all of the objects are commits.
func (r *Repo) areCommits(ctx context.Context, ids []string) (bool, error) {
	questions := make([]string, len(ids))
	for i, id := range ids {
		questions[i] = id + "^{commit}"
	}
	answers, err := r.ask(ctx, questions)
	if err != nil {
		return false, fmt.Errorf("look for commits: %w", err)
	}
	return slices.Equal(answers, ids), nil
}

// walkCommits walks from wants that are commits to what the refs reach. It fails with a *NotOurs
// if the walk meets a want: then the refs do not reach it.
func (w *Wants) walkCommits(t *Task) (time.Duration, error) {
	var met error
	took, err := w.repo.walk(t, strings.Join(w.open, "\n")+"\n", func(id string) bool {
		if _, wanted := slices.BinarySearch(w.open, id); wanted {
			met = &NotOurs{ID: id}
		}
		return met == nil
	}, "rev-list", "--stdin", "--not", "--all")
	if met != nil {
		return took, met
	}
	return took, err
}

// walk calls yield with each object that a rev-list names, until yield returns false. It returns
// the processor time that git took.
func (r *Repo) walk(t *Task, in string, yield func(id string) bool, args ...string) (time.Duration, error) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	p, err := r.git.start(ctx, r.dir, nil, append([]string{"--git-dir=."}, args...)...)
	if err != nil {
		return 0, r.orGone(err)
	}
	limitMemory(p.cmd.Process.Pid, 4*r.git.options.AllocBytes)
	p.limitCPU(int64(maxWalk / time.Second))
	t.Attach(p)
	p.feed([]byte(in))
	enough := false
	lines := bufio.NewScanner(p.Out)
	for !enough && lines.Scan() {
		enough = !yield(lines.Text())
	}
	failed := lines.Err()
	if enough || failed != nil {
		cancel()
		_, _ = io.Copy(io.Discard, p.Out)
	}
	err = p.Wait()
	took := p.cpuTime()
	switch {
	case enough:
		return took, nil
	case t.Context().Err() != nil:
		return took, context.Cause(t.Context())
	case outOfCPU(err):
		return took, fmt.Errorf("the objects that the refs reach could not be listed in %v of processor time", maxWalk)
	case failed != nil || err != nil:
		return took, r.orGone(errors.Join(failed, err))
	}
	return took, nil
}
