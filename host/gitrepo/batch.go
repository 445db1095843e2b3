package gitrepo

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	maxBatches = 24          // idle processes that are kept
	batchIdle  = time.Minute // after which a process that nobody asks ends
	maxPeels   = 20_000      // objects whose kind is kept
)

// ask asks git for the names of objects. It answers with a line for each question. A process
// that was kept may have ended since: then ask starts another one, once.
func (r *Repo) ask(ctx context.Context, questions []string) ([]string, error) {
	b, err := r.batches.acquire(ctx, r, names)
	if err != nil {
		return nil, r.orGone(err)
	}
	answers, err := r.askBatch(ctx, b, questions)
	if err == nil || ctx.Err() != nil || r.mustExist() != nil {
		return answers, r.orGone(err)
	}
	if b, err = openBatch(r, names); err != nil {
		return nil, r.orGone(err)
	}
	answers, err = r.askBatch(ctx, b, questions)
	return answers, r.orGone(err)
}

// askBatch asks one process and gives it back.
func (r *Repo) askBatch(ctx context.Context, b *batch, questions []string) ([]string, error) {
	answers, usable, err := b.ask(ctx, questions)
	if usable {
		r.batches.release(b)
		return answers, err
	}
	ended := b.close()
	if err != nil && ctx.Err() == nil {
		err = errors.Join(err, ended)
	}
	return answers, err
}

// batchUse is what a batch answers.
type batchUse uint8

const (
	names    batchUse = iota // the ids of objects
	contents                 // whole objects, see ObjectReader
)

// args returns the arguments of the git for a use. A reader of contents may live long, so that it
// keeps little of what it has read.
func (u batchUse) args() []string {
	if u == names {
		return []string{"--git-dir=.", "cat-file", "--batch-check=%(objectname)"}
	}
	return []string{
		"-c", "core.deltaBaseCacheLimit=16m", "-c", "core.packedGitWindowSize=4m", "-c", "core.packedGitLimit=32m",
		"--git-dir=.", "cat-file", "--batch-command",
	}
}

// batch is a running git cat-file. One goroutine uses it at a time.
type batch struct {
	dir    string
	use    batchUse
	of     fs.FileInfo // of dir, where another node may have replaced it; nil else
	p      *Process
	out    *bufio.Reader
	cancel context.CancelFunc
	expiry *time.Timer // nil before its first release
}

func openBatch(r *Repo, use batchUse) (*batch, error) {
	ctx, end := context.WithCancel(context.Background())
	p, err := r.git.start(ctx, r.dir, nil, use.args()...)
	if err != nil {
		end()
		return nil, err
	}
	b := &batch{dir: r.dir, of: r.locks.peers.identity(r.dir), use: use, p: p, out: bufio.NewReader(p.Out), cancel: end}
	if use == contents { // of objects that strangers made, for pages
		limitMemory(p.cmd.Process.Pid, r.git.options.AllocBytes)
		p.lower(maintenanceNice)
	}
	return b, nil
}

// close ends the process. Its error may say why the process had ended before.
func (b *batch) close() error {
	b.cancel()
	return b.p.Wait()
}

// ask asks the process. It reports whether the process can be asked again. The end of ctx ends
// the process, also if that comes with the last answer: usable is false then, without an error.
func (b *batch) ask(ctx context.Context, questions []string) (answers []string, usable bool, err error) {
	stop := context.AfterFunc(ctx, b.cancel)
	answers, err = b.exchange(questions)
	ending := !stop()
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return answers, err == nil && !ending, err
}

// exchange writes questions and reads their answers. The process ends on an error.
func (b *batch) exchange(questions []string) ([]string, error) {
	written := make(chan error, 1)
	go func() {
		_, err := io.WriteString(b.p.In, strings.Join(questions, "\n")+strings.Repeat("\n", min(1, len(questions))))
		written <- err
	}()
	answers := make([]string, 0, len(questions))
	for range questions {
		line, err := b.out.ReadString('\n')
		if err != nil {
			b.cancel()
			<-written
			return nil, fmt.Errorf("read git cat-file: %w", err)
		}
		answers = append(answers, strings.TrimSuffix(line, "\n"))
	}
	if err := <-written; err != nil {
		return nil, fmt.Errorf("write to git cat-file: %w", err)
	}
	return answers, nil
}

// batches keeps the processes of the repositories that were asked last, and what
// they said that is true for ever. A process that nobody asks for batchIdle ends.
type batches struct {
	keep time.Duration // instead of batchIdle; 0 for that

	mu     sync.Mutex // guards what follows
	idle   []*batch   // the last used is the last
	closed bool
	peels  map[string]string // what objects are tags of; empty if they are no tags
}

// peeled returns what an object is a tag of, if that was asked before.
func (s *batches) peeled(id string) (string, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	peeled, ok := s.peels[id]
	return peeled, ok
}

func (s *batches) keepPeeled(id, peeled string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.peels == nil || len(s.peels) >= maxPeels {
		s.peels = map[string]string{}
	}
	s.peels[id] = peeled
}

// acquire returns the idle process of a repository for a use, or a new one.
func (s *batches) acquire(ctx context.Context, r *Repo, use batchUse) (*batch, error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	b := s.take(func(b *batch) bool { return b.dir == r.dir && b.use == use })
	if b == nil {
		return openBatch(r, use)
	}
	if b.of == nil || os.SameFile(b.of, r.locks.peers.identity(r.dir)) {
		return b, nil
	}
	_ = b.close()
	return openBatch(r, use)
}

// take removes the first idle process that which chooses, and returns it. It returns nil if
// there is none.
func (s *batches) take(which func(*batch) bool) *batch {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.idle, which)
	if i < 0 {
		return nil
	}
	b := s.idle[i]
	s.idle = slices.Delete(s.idle, i, i+1)
	b.expiry.Stop()
	return b
}

// release keeps a process for the next question. It ends the one that was used longest ago if
// there are too many.
func (s *batches) release(b *batch) {
	s.mu.Lock()
	old := b
	if !s.closed {
		old = nil
		b.expiry = time.AfterFunc(cmp.Or(s.keep, batchIdle), func() { s.expire(b) })
		s.idle = append(s.idle, b)
		if len(s.idle) > maxBatches {
			old = s.idle[0]
			s.idle = slices.Delete(s.idle, 0, 1)
			old.expiry.Stop()
		}
	}
	s.mu.Unlock()
	if old != nil {
		_ = old.close()
	}
}

// expire ends a process if it is idle.
func (s *batches) expire(b *batch) {
	if s.take(func(o *batch) bool { return o == b }) != nil {
		_ = b.close()
	}
}

// closeIdle ends the idle processes of a repository.
func (s *batches) closeIdle(dir string) {
	for {
		b := s.take(func(b *batch) bool { return b.dir == dir })
		if b == nil {
			return
		}
		_ = b.close()
	}
}

func (s *batches) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	for {
		b := s.take(func(*batch) bool { return true })
		if b == nil {
			return
		}
		_ = b.close()
	}
}
