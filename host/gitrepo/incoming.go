package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"talon/host"
)

// Refused is the reason why a push fails: a fault of the push, or a concurrent change.
type Refused struct {
	Reason string
	Refs   map[string]string // reasons of single refs

	Missing bool // the push refers to objects that it does not bring and that are not here
}

func (r *Refused) Error() string { return r.Reason }

// NotReceived begins git's reason for a pack with an object that refers to one that is nowhere.
const NotReceived = "did not receive expected object"

// Incoming is a push on its way. Its objects are in a quarantine. Its user calls Index if the
// push has a pack with objects, Check, and then, under the lock, ApplyRefs. Remove is always the
// last call. It belongs to one goroutine.
type Incoming struct {
	quarantine // its folder is empty before Index

	format  Format
	updates []host.RefUpdate
	gcEpoch uint64 // of the root, when Check began

	size    atomic.Int64  // of the pack, once all of it is there
	scanned atomic.Int64  // bytes that a scan of it has inflated
	indexer *Process      // git index-pack; nil before Index
	task    *Task         // nil without one
	cpu     time.Duration // processor time of the gits that have ended

	synced func() error // waits until the pack is durable; nil without one

	thin      ThinLimit
	tooThin   bool         // it is refused for that
	sent      atomic.Int64 // bytes written to the indexer
	stored    int64        // bytes of the pack with its index, once Indexed
	completed int64        // of them, that git appended to a thin pack
	redundant int64        // of them, that a repack may save
}

// Receive begins a push of these updates, of which no two are of the same ref. It does
// not need the lock.
func (r *Repo) Receive(ctx context.Context, updates []host.RefUpdate) (*Incoming, error) {
	if err := r.mustExist(); err != nil {
		return nil, err
	}
	format, err := r.Format(ctx)
	if err != nil {
		return nil, err
	}
	for _, u := range updates {
		if len(u.New) != idLength(format) {
			return nil, &Refused{Reason: "this repository names its objects by " + format.String()}
		}
	}
	return &Incoming{quarantine: quarantine{repo: r}, format: format, updates: updates}, nil
}

// Format returns the hash that the push names its objects by.
func (q *Incoming) Format() Format { return q.format }

// Schedule has the processes of the push work for a task from now on. REQUIRES: the contexts
// of Index and Check end with that of the task.
func (q *Incoming) Schedule(t *Task) { q.task = t }

func (q *Incoming) attach(p *Process) {
	if q.task != nil {
		q.task.Attach(p)
	}
}

// Index starts git index-pack, which reads the pack from In. Its user reads Out to the
// end and then calls Indexed. Git's messages go to progress, if there is one,
// which must not block. The limit is of what git may append to the pack.
func (q *Incoming) Index(ctx context.Context, progress io.Writer, limit ThinLimit) (*Process, error) {
	if err := q.make(q.format, "push-"); err != nil {
		return nil, fmt.Errorf("make a quarantine: %w", err)
	}
	options := q.repo.git.options
	// Its bytes are made durable while the next git works; see Indexed.
	args := []string{
		"-c", "core.fsync=none", "--git-dir=.", "index-pack", "--stdin", "--fix-thin", fmt.Sprintf("--max-input-size=%d", options.MaxInput), fsckArgument(),
	}
	if progress != nil {
		args = append(args, "--show-resolving-progress")
	}
	p, err := q.repo.git.startWith(ctx, q.dir, nil, progress, args...)
	if err != nil {
		return nil, err
	}
	// It starts no other process.
	limitMemory(p.cmd.Process.Pid, 4*options.AllocBytes)
	limitCPU(p.cmd.Process.Pid, q.cpuLimit(options.MaxInput))
	q.attach(p)
	q.indexer, q.thin = p, limit
	p.In = &packInput{WriteCloser: p.In, incoming: q}
	return p, nil
}

// Sized sets the size of the pack, once all of it was written to git: git's limits from
// then on depend on it. Any goroutine may call it.
func (q *Incoming) Sized(bytes int64) {
	q.size.Store(bytes)
	if q.indexer != nil {
		q.indexer.limitCPU(q.cpuLimit(bytes))
	}
}

// cpuLimit returns the processor time of a git for a pack of the given size, in seconds.
func (q *Incoming) cpuLimit(bytes int64) int64 {
	return int64(q.repo.git.options.CPU.Seconds()) + 1 + bytes>>19
}

// Scanned reports the end of a scan of the pack. Any goroutine may call it.
func (q *Incoming) Scanned(s *PackScan) { q.scanned.Store(s.worked) }

// scanTime is how long the scan of a pack takes for a byte that it inflates.
const scanTime = 3 * time.Nanosecond

// CPU returns the processor time that git has worked for the push so far, and the scan of
// its pack, if that has ended.
func (q *Incoming) CPU() time.Duration { return q.cpu + time.Duration(q.scanned.Load())*scanTime }

// tooMuchWork is the answer to a push whose git ran out of processor time.
const tooMuchWork = "the push takes more work than its size allows"

// Indexed waits for the end of index-pack. A *Refused says what is wrong with the pack,
// or that there is no room for it.
func (q *Incoming) Indexed(p *Process) error {
	err := p.Wait()
	q.cpu += p.cpuTime()
	if outOfCPU(err) {
		return &Refused{Reason: tooMuchWork}
	}
	if err == nil {
		if err = q.measure(); err == nil {
			err = checkDepths(p.ctx, q.dir, q.format, q.repo.git.options.Pack.Depth)
		}
		if err == nil {
			err = q.repo.git.checkBarred(q.dir, q.format)
		}
		if err == nil {
			q.sync()
		}
		return err
	}
	if p.ctx.Err() != nil {
		return err
	}
	if outOfFile(err) {
		return q.refuseThin()
	}
	reason := complaint(err, q.dir+"/")
	if reason == "" {
		reason = "the pack is damaged, or the server cannot store it"
	}
	return &Refused{Reason: reason}
}

// sync begins to make the pack durable.
func (q *Incoming) sync() {
	done := make(chan error, 1)
	go func() { done <- syncTree(filepath.Join(q.dir, "objects", "pack")) }()
	q.synced = sync.OnceValue(func() error { return <-done })
}

// complaint is what git found wrong with an object, or what it said at its end, without
// the path of a folder.
func complaint(err error, dir string) string {
	failure := new(Failure)
	if !errors.As(err, &failure) {
		return ""
	}
	if failure.fault != "" {
		return failure.fault
	}
	const fatal = "fatal: "
	at := strings.LastIndex(failure.Stderr, fatal)
	if at < 0 {
		return ""
	}
	return strings.ReplaceAll(failure.Stderr[at+len(fatal):], dir, "")
}

// Remove deletes the quarantine, with all that was not moved to the repository. No
// process of it may run.
func (q *Incoming) Remove() { q.remove() }

// Check checks that the new values of the refs are here with all that they refer to; it
// trusts the present values. A *Refused says that something is missing. It needs no lock:
// as long as nothing is dropped, see [Root.Collect], what it found stays true.
func (q *Incoming) Check(ctx context.Context) error {
	if err := q.checkConnectivity(ctx); err != nil || q.synced == nil {
		return err
	}
	if err := q.synced(); err != nil {
		return fmt.Errorf("make a pack durable: %w", err)
	}
	return nil
}

func (q *Incoming) checkConnectivity(ctx context.Context) error {
	q.gcEpoch = q.repo.gcEpoch()
	refs, err := q.repo.tips(ctx)
	if err != nil && !(errors.Is(err, ErrNotFound) && q.dir != "") {
		return err
	}
	known := slices.Compact(slices.Sorted(maps.Values(refs)))
	var ids []string
	for _, u := range q.updates {
		if _, is := slices.BinarySearch(known, u.New); !is && !IsZero(u.New) {
			ids = append(ids, u.New)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	err = q.walk(ctx, ids, known)
	if exitCode(err) == 128 && len(known) > 0 {
		// It may be a broken ref that git did not like.
		if known, err = q.repo.present(ctx, known); err == nil {
			err = q.walk(ctx, ids, known)
		}
	}
	if outOfCPU(err) {
		return &Refused{Reason: tooMuchWork}
	}
	if code := exitCode(err); code == 1 || code == 128 {
		return &Refused{Reason: "missing necessary objects", Missing: true}
	}
	if err != nil {
		return fmt.Errorf("walk the objects of a push: %w", err)
	}
	return nil
}

// walk visits all that objects refer to, but for what known ones reach.
func (q *Incoming) walk(ctx context.Context, ids, known []string) error {
	var in strings.Builder
	for _, id := range ids {
		in.WriteString(id + "\n")
	}
	for _, id := range known {
		in.WriteString("^" + id + "\n")
	}
	dir := q.dir
	if dir == "" {
		dir = q.repo.dir
	}
	p, err := q.repo.git.start(ctx, dir, nil, "--git-dir=.", "rev-list", "--objects", "--stdin", "--quiet")
	if err != nil {
		return err
	}
	limitMemory(p.cmd.Process.Pid, 4*q.repo.git.options.AllocBytes)
	limitCPU(p.cmd.Process.Pid, q.cpuLimit(q.size.Load()))
	q.attach(p)
	p.feed([]byte(in.String()))
	_, _ = io.Copy(io.Discard, p.Out)
	err = p.Wait()
	q.cpu += p.cpuTime()
	return err
}

// tips returns all refs by name, and what they point to.
func (r *Repo) tips(ctx context.Context) (map[string]string, error) {
	tips := make(map[string]string)
	list, _, err := r.refFiles(ctx)
	if errors.Is(err, errUnusual) {
		var refs Refs
		refs, err = r.askRefs(ctx)
		for _, ref := range refs.List {
			tips[ref.Name] = ref.ID
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read the refs: %w", err)
	}
	for _, ref := range list {
		tips[ref.Name] = ref.ID
	}
	return tips, nil
}

// gcEpoch changes whenever objects may have gone from the root of the repository.
func (r *Repo) gcEpoch() uint64 {
	if r.root == nil {
		return 0 // somebody else's git gc has its own time of grace
	}
	return r.root.epoch()
}

// ApplyRefs moves the objects of the push to the repository and changes its refs: all of
// them or none. A *Refused has the reason if not. First the objects go to where all
// repositories of the identifier see them, which are nobody's until a ref reaches them;
// then the refs change. A crash leaves the first, or both. It returns the updates that it
// had nothing to do for, as their refs were in place whatever they say was there.
// REQUIRES: the lock, and a Check that found all.
func (q *Incoming) ApplyRefs(ctx context.Context) (inPlace []host.RefUpdate, err error) {
	r := q.repo
	if err := r.mustExist(); err != nil {
		return nil, err
	}
	format, err := r.Format(ctx)
	if err != nil {
		return nil, err
	}
	if format != q.format {
		return nil, &Refused{Reason: "the repository was made anew meanwhile: push again"}
	}
	refs, err := r.tips(ctx)
	if err != nil {
		return nil, err
	}
	var updates []host.RefUpdate
	for _, u := range q.updates {
		if id, there := refs[u.Ref]; there && id == u.New || !there && IsZero(u.New) {
			inPlace = append(inPlace, u)
		} else {
			updates = append(updates, u)
		}
	}
	if err := compare(refs, updates); err != nil {
		return nil, err
	}
	if q.gcEpoch != r.gcEpoch() {
		// Objects that it needs may have gone since its check.
		if err := q.Check(ctx); err != nil {
			return nil, err
		}
	}
	if err := q.move(ctx); err != nil {
		return nil, err
	}
	if err := r.ChangeRefs(ctx, updates); err != nil {
		if errors.Is(err, ErrOvertaken) {
			return nil, &Refused{Reason: ErrOvertaken.Error()}
		}
		if reason := complaint(err, r.dir+"/"); reason != "" && ctx.Err() == nil {
			return nil, &Refused{Reason: reason}
		}
		return nil, err
	}
	return inPlace, nil
}

// move moves the packs to the shared store, or to the repository if it shares nothing.
func (q *Incoming) move(ctx context.Context) error {
	if q.dir == "" {
		return nil
	}
	to := q.repo.dir
	s, borrows, err := q.repo.shared()
	if err != nil {
		return err
	}
	if borrows {
		unlock, err := q.repo.locks.lock(ctx, s.dir)
		if err != nil {
			return err
		}
		defer unlock()
		to = s.dir
	}
	moved, err := movePacks(filepath.Join(q.dir, "objects", "pack"), filepath.Join(to, "objects", "pack"))
	if err != nil {
		return err
	}
	if borrows {
		if err := s.charge(q.repo.name.npub, moved); err != nil {
			return err
		}
		s.root.redundant.add(s.dir, q.redundant)
	}
	return nil
}

// compare finds the refs that are not what updates say that they are, and those that
// would be in the way of each other: a ref is a file, and refs/heads/a a folder for
// refs/heads/a/b.
func compare(refs map[string]string, updates []host.RefUpdate) error {
	wrong := make(map[string]string)
	made := false
	for _, u := range updates {
		id, there := refs[u.Ref]
		switch {
		case IsZero(u.Old) && there:
			wrong[u.Ref] = "it is there already: fetch, and push again"
		case !IsZero(u.Old) && !there:
			wrong[u.Ref] = "it is not there any more: fetch, and push again"
		case there && id != u.Old:
			wrong[u.Ref] = "it has moved meanwhile: fetch, and push again"
		}
		made = made || !there
	}
	if made && len(wrong) == 0 {
		inTheWay(refs, updates, wrong)
	}
	if len(wrong) == 0 {
		return nil
	}
	return &Refused{Reason: "nothing of the push is done, as some of its refs cannot change", Refs: wrong}
}
