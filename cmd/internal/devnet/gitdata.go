package devnet

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"talon/cmd/internal/lab/world"
	"talon/sdk/grasp"
)

// gitData makes the repositories of git servers with the git program.
type gitData struct {
	template string // an empty repository, to be copied

	mu    sync.Mutex // guards locks
	locks map[string]*sync.Mutex
}

func newGitData(ctx context.Context, dir string) (*gitData, error) {
	d := &gitData{template: filepath.Join(dir, "template"), locks: map[string]*sync.Mutex{}}
	_, err := runGit(ctx, "", "init", "-q", "--bare", "--template=", "--initial-branch="+world.Main, d.template)
	return d, err
}

// lock lets one push at a time into a folder.
func (d *gitData) lock(dir string) (unlock func()) {
	d.mu.Lock()
	l := d.locks[dir]
	if l == nil {
		l = new(sync.Mutex)
		d.locks[dir] = l
	}
	d.mu.Unlock()
	l.Lock()
	return l.Unlock
}

// push brings commits and refs into a repository, which it makes if there is none.
func (d *gitData) push(ctx context.Context, dir string, in *stream) error {
	defer d.lock(dir)()
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		if err := os.CopyFS(dir, os.DirFS(d.template)); err != nil {
			return fmt.Errorf("make a repository: %w", err)
		}
	}
	// Nothing is synced to the disk: after a power cut, the network is made again.
	_, err := runGit(ctx, in.b.String(), "--git-dir="+dir, "-c", "core.fsync=none", "fast-import", "--quiet", "--force")
	return err
}

// push brings the git data of an event to the servers that get it.
func (n *Net) push(ctx context.Context, e *world.Event) error {
	at := n.world.Place(e.Repo)
	if e.Kind != grasp.KindState {
		at = reality{}.Path(e.PubKey, e.Repo.D)
	}
	for i, g := range e.Data.Servers {
		s := newStream(e.Repo.Address)
		if e.Kind != grasp.KindState {
			s.ref(fmt.Sprintf("refs/heads/pull-%d", e.Data.Number), world.Pull, e.Data.Number)
		} else {
			// One of two parts, where servers have only a part each.
			part, parts := i%2, 1
			if len(e.Data.Servers) > 1 && n.split(e.Repo) {
				parts = 2
			}
			if part == 0 || parts == 1 {
				s.ref("refs/heads/"+world.Main, world.Main, e.Data.Number)
			}
			for k := range n.world.Scenario.Repositories.MoreRefs {
				name, branch, number := world.MoreRef(k)
				if parts == 1 || (branch == world.Main) == (part == 0) {
					s.ref(name, branch, number)
				}
			}
		}
		if err := n.data.push(ctx, filepath.Join(n.Git[g].dir, filepath.FromSlash(at)), s); err != nil {
			return err
		}
	}
	return nil
}

// split reports whether each git server of a repository has only a part of its objects.
func (n *Net) split(r *world.Repo) bool {
	return rand.New(rand.NewPCG(n.cfg.Seed, uint64(r.Number))).Float64() < n.cfg.Split //nolint:gosec // the same each time
}

// pushAll brings the git data of events to the servers, several at once.
func (n *Net) pushAll(ctx context.Context, list []*world.Event) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.NumCPU())
	for _, e := range list {
		g.Go(func() error { return n.push(ctx, e) })
	}
	return g.Wait()
}

// runGit runs git as somebody without a configuration.
func runGit(ctx context.Context, stdin string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.DevNull, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=" + os.DevNull, "LC_ALL=C"}
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("git %s: %w: %s", args[0], err, strings.TrimSpace(string(out)))
	}
	return string(out), nil
}
