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
}

func (r *Refused) Error() string { return r.Reason }

// Incoming is a push on its way. What it brings is in a quarantine. Its user calls Index if
// the push has a pack with objects, Check, and then, under the lock, Land; Remove is the last
// of all. It belongs to one goroutine.
type Incoming struct {
	quarantine // its folder is empty before Index

	format  Format
	updates []host.RefUpdate
	gcEpoch uint64 // of the root, when Check began

	size    atomic.Int64  // of the pack, once all of it is there
	scanned atomic.Int64  // bytes that a scan of it has inflated
	indexer *Process      // git index-pack; nil before Index
	cpu     time.Duration // processor time of the gits that have ended

	synced func() error // waits until the pack is durable; nil without one
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

// Index starts git index-pack, which reads the pack from In. Its user reads Out to the
// end and then calls Indexed. What git says meanwhile goes to progress, if there is one,
// which must not block.
func (q *Incoming) Index(ctx context.Context, progress io.Writer) (*Process, error) {
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
	yield(p.cmd.Process.Pid)
	q.indexer = p
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
		if err = checkDepths(p.ctx, q.dir, q.format, q.repo.git.options.Pack.Depth); err == nil {
			q.sync()
		}
		return err
	}
	if p.ctx.Err() != nil {
		return err
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
	if err := q.reach(ctx); err != nil || q.synced == nil {
		return err
	}
	if err := q.synced(); err != nil {
		return fmt.Errorf("make a pack durable: %w", err)
	}
	return nil
}

func (q *Incoming) reach(ctx context.Context) error {
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
		return &Refused{Reason: "missing necessary objects"}
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
	yield(p.cmd.Process.Pid)
	go func() {
		// A process that ends before it has read all says why itself.
		_, _ = io.WriteString(p.In, in.String())
		_ = p.In.Close()
	}()
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

// fsckIgnored are the faults of objects (fsck.<msg-id> of git-config) that a push or a
// fetch may bring. All others are refused on both ways, warnings of git too, as git does
// where transfer.fsckObjects is set:
//
//   - what attacks whoever checks it out or clones submodules: hasDot, hasDotdot,
//     hasDotgit, emptyName, fullPathname, duplicateEntries, treeNotSorted and
//     gitmodules* but Parse
//   - what overflows old clients: gitattributes* but Symlink
//   - what hides a part of a message from readers: nulInCommit
//   - what git cannot read, or would not write: the rest
//
// Here is what old programs and converters wrote into histories that people publish
// today, and what git itself only mentions. It hurts nobody: git shows such a date,
// name or mode as well as it can. A commit cannot be mended without a new id, and so
// without a new history.
var fsckIgnored = []string{
	// Authors, committers and taggers: of git before 1.5, of imports from Subversion,
	// Mercurial and Bazaar, and of names that were empty.
	"badDate", "badDateOverflow", "badEmail", "badName", "badTimezone", "missingEmail", "missingNameBeforeEmail",
	"missingSpaceBeforeDate", "missingSpaceBeforeEmail", "multipleAuthors", "zeroPaddedDate",

	// Modes of files: of git in 2005, and of other programs that write trees. What git
	// makes of them when it checks out is 644, 755 or a folder.
	"badFilemode", "zeroPaddedFilemode",

	// Tags from before 2005 have no tagger, and some have a name that is none today.
	"badTagName", "missingTaggerEntry",

	// Git mentions these and goes on; they would be a line for each commit. It reads no
	// such file through a link, and no submodule from what does not parse.
	"gitmodulesParse", "gitattributesSymlink", "gitignoreSymlink", "mailmapSymlink",
}

// fsckArgument has git index-pack check each object. Links between objects are checked
// as well; git checks no faults without.
func fsckArgument() string { return "--strict=" + strings.Join(fsckIgnored, "=ignore,") + "=ignore" }

// fsckConfig has git fetch check what fsckArgument does.
func fsckConfig() [][2]string {
	list := [][2]string{{"fetch.fsckObjects", "true"}}
	for _, fault := range fsckIgnored {
		list = append(list, [2]string{"fetch.fsck." + fault, "ignore"})
	}
	return list
}

// fsckFault returns what git found wrong with objects, if it ended because of that. What
// a server says, git writes behind "remote: ", so it counts for nothing here.
func fsckFault(stderr []byte) string {
	const fault, end = "error: ", "fatal: fsck error in pack"
	var faults []string
	ended := false
	for line := range strings.FieldsFuncSeq(string(stderr), func(r rune) bool { return r == '\n' || r == '\r' }) {
		if text, ok := strings.CutPrefix(line, fault+"object "); ok {
			faults = append(faults, "object "+text)
		}
		ended = ended || strings.HasPrefix(line, end)
	}
	switch {
	case !ended:
		return ""
	case len(faults) == 0: // they were too long to be kept
		return "fsck error in packed object"
	}
	return printable(strings.Join(faults, "; "))
}
