// Package gitread reads git repositories for pages: refs, trees, files, commits, their history and
// the differences between them.
//
// Strangers ask, so each question has a bound of time, memory and output. There are four ways to an
// answer, the cheapest first:
//
//   - Caches by object id, each bounded in bytes.
//   - A git that runs already ([gitrepo.ObjectReader]), for trees, files and commits.
//   - Git's commit-graph file, which package gitread reads itself (graph.go, history.go): the log
//     (log.go), the log of a path (pathlog.go), ahead and behind (apart.go), and the last change of
//     each entry of a folder (change.go).
//   - A git of its own in a slot of [gitrepo.ClassPage], for diffs, blame, archives, searches and
//     the log of an author. Those that take long share one turn.
//
// Work that a request leaves for later, and pages that are prepared after a push, share that turn in
// the background (background.go).
//
// Invariants:
//
//  1. A repository shows only what its own refs reach. Objects that it shares with others of its
//     identifier are not found by their ids otherwise.
//  2. The caller has checked that the repository may be seen. Caches are by object id, and are
//     asked only for a [Repository].
//  3. No answer shows an object that the operator has taken down (barred.go). What only follows the
//     history reads such objects: so the answers about others stay right.
//  4. Answers equal those of git: the history of a path and the last change of an entry equal
//     git log's.
package gitread

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"talon/host/bound"
	"talon/host/contain"
	"talon/host/gitrepo"
	"talon/internal/recent"
)

// ErrNotFound says that there is no such ref, commit or path.
var ErrNotFound = errors.New("not found in the repository")

// ErrTooLarge says that something is larger than a page shows.
var ErrTooLarge = gitrepo.ErrTooLarge

// ErrCPU says that an answer was too much work.
var ErrCPU = gitrepo.ErrCPU

// ErrBusy says that too many others are being served.
var ErrBusy = gitrepo.ErrBusy

// Bounds of one answer.
const (
	maxTreeBytes   = 4 << 20 // a tree of 100,000 entries
	maxCommitBytes = 1 << 20
	maxDepth       = 64 // of a path
)

// Reader reads repositories. It is safe for concurrent use.
type Reader struct {
	scheduler *gitrepo.Scheduler
	log       *slog.Logger
	panics    *contain.Guard
	costly    *bound.Queue // for what takes long
	cpu       *bound.Rate
	histories *histories
	archives  *archives
	indexer   *indexer
	changes   *changes

	background background

	mu         sync.Mutex // guards the fields below
	trees      recent.Map[string, []Entry]
	sizes      recent.Map[sizesKey, map[string]int64]
	diffs      recent.Map[string, *Diff]
	blames     recent.Map[string, []BlameLine]
	byteCounts recent.Map[string, map[string]int64] // by tree

	commits *notes[Commit]
	tags    *notes[Tag]
}

// treeBytes is the size of the trees that are remembered; twice as much for those used last.
const treeBytes = 8 << 20

// costlySlots is how many costly answers are made at a time, of all networks together.
const costlySlots = 1

// Options configure a Reader.
type Options struct {
	Scheduler *gitrepo.Scheduler // gives slots to the git processes
	Log       *slog.Logger       // nil: nothing is logged
	Panics    *contain.Guard     // is around work in the background; it may be nil
	Archives  string             // a folder for archives, which Open empties; "" for no archives
}

// Open returns a reader.
func Open(o Options) (*Reader, error) {
	archives, err := openArchives(o.Archives)
	if err != nil {
		return nil, err
	}
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	return &Reader{
		archives: archives, scheduler: o.Scheduler, log: o.Log, panics: o.Panics,
		costly: bound.NewQueue(bound.Spec{
			Name: "costly pages that wait: blame, archives, searches and last changes", Unit: "requests", Total: 16, Known: 4,
			Yields: "nobody; networks take turns, and the next request gets status 503",
		}, costlySlots),
		cpu: bound.NewRate(bound.Spec{
			Name: "processor time of pages that git makes", Unit: "milliseconds an hour", Network: (2 * time.Minute).Milliseconds(),
			Yields: "the network that is over its share, while others wait",
		}, time.Now),
		histories: newHistories(), indexer: newIndexer(o.Log, o.Panics), changes: newChanges(),
		trees:      recent.Map[string, []Entry]{Size: treeBytes},
		blames:     recent.Map[string, []BlameLine]{Size: blameBytes},
		diffs:      recent.Map[string, *Diff]{Size: diffBytes},
		byteCounts: recent.Map[string, map[string]int64]{Size: byteCountsBytes},
		sizes:      recent.Map[sizesKey, map[string]int64]{Size: treeBytes},
		commits:    newNotes[Commit](), tags: newNotes[Tag](),
	}, nil
}

// Bounds returns the rows of the table of bounds.
func (r *Reader) Bounds() []bound.Spec { return []bound.Spec{r.costly.Spec(), r.cpu.Spec()} }

// Repository is one repository as it was when it was opened. It is for one goroutine, and its user
// closes it.
type Repository struct {
	reader *Reader
	repo   *gitrepo.Repo
	by     bound.Holder
	ctx    context.Context
	refs   gitrepo.Refs
	byName map[string]int    // of refs.List
	barred map[string]string // objects that the operator has taken down, with a text

	objects *gitrepo.ObjectReader // nil before the first question
	past    *history              // nil before the first question
	apart   int                   // steps of AheadBehind so far
}

// Open opens a repository for a client until ctx ends.
func (r *Reader) Open(ctx context.Context, repo *gitrepo.Repo, by bound.Holder) (*Repository, error) {
	refs, err := repo.Refs(ctx)
	if err != nil {
		return nil, fmt.Errorf("open a repository: %w", err)
	}
	o := &Repository{reader: r, repo: repo, by: by, ctx: ctx, refs: refs, byName: make(map[string]int, len(refs.List)), barred: repo.Barred()}
	for i, ref := range refs.List {
		o.byName[ref.Name] = i
	}
	return o, nil
}

// Close gives back what the repository uses.
func (r *Repository) Close() {
	if r.objects != nil {
		r.objects.Close()
	}
}

// object returns an object of a kind, of at most limit bytes.
func (r *Repository) object(kind, id string, limit int64) ([]byte, error) {
	if err := r.openObjects(); err != nil {
		return nil, err
	}
	got, content, err := r.objects.Object(id, limit)
	if errors.Is(err, gitrepo.ErrNoObject) {
		return nil, fmt.Errorf("%w: %w", ErrNotFound, err)
	}
	if err == nil && got != kind {
		return nil, fmt.Errorf("%w: %s is a %s and no %s", ErrNotFound, id, got, kind)
	}
	return content, err
}

func (r *Repository) openObjects() (err error) {
	if r.objects == nil {
		r.objects, err = r.repo.ObjectReader(r.ctx)
	}
	return err
}

func isIndexing(err error) bool { return errors.Is(err, ErrIndexing) }
