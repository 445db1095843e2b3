package gitrepo

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// idleBatch returns the one idle process of a root.
func idleBatch(t *testing.T, root *Root) *batch {
	t.Helper()
	root.batches.mu.Lock()
	defer root.batches.mu.Unlock()
	if len(root.batches.idle) != 1 {
		t.Fatalf("%d processes are idle, want 1", len(root.batches.idle))
	}
	return root.batches.idle[0]
}

// A process whose asker went away with the last answer is not asked again.
func TestBatchOfAskerThatLeaves(t *testing.T) {
	root := newRoot(t)
	r := newRepo(t, root, alice, "x", SHA1)
	b, err := openBatch(r, names)
	if err != nil {
		t.Fatal(err)
	}
	ctx, leave := context.WithCancel(t.Context())
	// The answer is there before the asker leaves, and read afterwards.
	b.out.Reset(&hook{Reader: b.p.Out, f: leave})
	answers, err := r.askBatch(ctx, b, []string{"HEAD"})
	if err != nil || len(answers) != 1 {
		t.Fatalf("got %q, %v", answers, err)
	}
	root.batches.mu.Lock()
	defer root.batches.mu.Unlock()
	if n := len(root.batches.idle); n != 0 {
		t.Errorf("%d processes are kept that end", n)
	}
}

// hook calls a function after each Read.
type hook struct {
	io.Reader
	f func()
}

func (h *hook) Read(p []byte) (int, error) {
	n, err := h.Reader.Read(p)
	h.f()
	return n, err
}

// A process that has ended while it was idle is replaced, and nobody notices.
func TestBatchThatDies(t *testing.T) {
	root := newRoot(t)
	r := newRepo(t, root, alice, "x", SHA1)
	dir, first, _ := work(t, SHA1)
	git(t, dir, "push", "-q", r.Dir(), "main")
	for range 2 {
		if _, err := r.ask(t.Context(), []string{first}); err != nil {
			t.Fatal(err)
		}
		b := idleBatch(t, root)
		if err := syscall.Kill(b.p.cmd.Process.Pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		answers, err := r.ask(t.Context(), []string{first, strings.Repeat("0", 40)})
		if err != nil || len(answers) != 2 || answers[0] != first {
			t.Fatalf("got %q, %v", answers, err)
		}
	}
}

// One that dies each time is an error, which says why.
func TestBatchThatCannotLive(t *testing.T) {
	root := newRoot(t)
	r := newRepo(t, root, alice, "x", SHA1)
	if err := appendFile(r.dir+"/config", "[broken\n"); err != nil {
		t.Fatal(err)
	}
	_, err := r.ask(t.Context(), []string{"HEAD"})
	if !errors.Is(err, io.EOF) || !strings.Contains(err.Error(), "config") {
		t.Errorf("got %v", err)
	}
	if err := os.RemoveAll(r.dir); err != nil {
		t.Fatal(err)
	}
	if _, err := r.ask(t.Context(), []string{"HEAD"}); !errors.Is(err, ErrNotFound) {
		t.Errorf("without the repository, got %v", err)
	}
}

// Processes that nobody asks end.
func TestIdleBatchesEnd(t *testing.T) {
	root := newRoot(t)
	root.batches.keep = time.Millisecond
	var all []*batch
	for _, name := range []string{"a", "b", "c"} {
		r := newRepo(t, root, alice, name, SHA1)
		b, err := openBatch(r, names)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, b)
		if _, err := r.askBatch(t.Context(), b, []string{"HEAD"}); err != nil {
			t.Fatal(err)
		}
	}
	for _, b := range all {
		for !b.p.hasEnded() {
			if t.Context().Err() != nil {
				t.Fatal("the process does not end")
			}
			time.Sleep(time.Millisecond)
		}
	}
}

func (p *Process) hasEnded() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ended
}
