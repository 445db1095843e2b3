package gitrepo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// The commit-graph file of a shared store has the parents, trees and times of commits, and for each
// commit a filter of the paths that it changed. Git and pages walk over history by it.
//
// Git trusts the file: it assumes that the store has each commit in it. So Collect writes the file
// with exactly the commits that the refs reach before it drops objects, under a lock of the file.

// graphCPU bounds the processor time of one commit-graph.
const graphCPU = 10 * time.Minute

// graphKey is the lock of the commit-graph of a store. It is taken before all others.
func (s *store) graphKey() string { return filepath.Join(s.dir, "commit-graph") }

// WriteCommitGraph adds what the refs of the repository reach to the commit-graph of its store.
// With paths, each commit gets a filter of the paths that it changed, which takes about eight times
// as long the first time. It holds no lock of the repository. REQUIRES: the caller holds no lock.
func (r *Repo) WriteCommitGraph(ctx context.Context, paths bool) error {
	s, borrows, err := r.shared()
	if err != nil || !borrows {
		return err
	}
	unlock, err := r.locks.lock(ctx, s.graphKey())
	if err != nil {
		return err
	}
	defer unlock()
	return s.growGraph(ctx, []*Repo{r}, paths)
}

// growGraph adds what the refs of repositories reach to the commit-graph. REQUIRES: the lock of the
// graph.
func (s *store) growGraph(ctx context.Context, repos []*Repo, paths bool) error {
	var ids []string
	for _, r := range repos {
		refs, err := r.Refs(ctx)
		if err != nil {
			return err
		}
		for _, ref := range refs.List {
			ids = append(ids, cmp.Or(ref.Peeled, ref.ID))
		}
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	// Objects that were not shared yet come into the graph later.
	found, ok := lookNative([]string{filepath.Join(s.dir, "objects")}, idLength(s.format)/2, ids)
	if !ok {
		return nil
	}
	var tips strings.Builder
	for i, id := range ids {
		if found[i] {
			tips.WriteString(id + "\n")
		}
	}
	if tips.Len() == 0 {
		return nil
	}
	args := []string{"--stdin-commits", "--split"}
	if paths {
		// A layer without filters is made once more.
		args = append(args, "--changed-paths")
		if filtered, err := s.hasFilters(); err != nil || !filtered {
			args[1] = "--split=replace"
		}
	}
	return s.writeGraph(ctx, tips.String(), args...)
}

// replaceGraph writes the commit-graph of what the refs of the store reach, and of nothing else.
// Without refs there is no graph. REQUIRES: the locks of the graph and of the store.
func (s *store) replaceGraph(ctx context.Context, empty bool) error {
	if !empty {
		return s.writeGraph(ctx, "", "--reachable", "--changed-paths", "--split=replace")
	}
	info := filepath.Join(s.dir, "objects", "info")
	err := errors.Join(os.RemoveAll(filepath.Join(info, "commit-graph")), os.RemoveAll(filepath.Join(info, "commit-graphs")))
	if err != nil {
		return fmt.Errorf("remove the commit-graph: %w", err)
	}
	return nil
}

// writeGraph runs git commit-graph write. REQUIRES: the lock of the graph.
func (s *store) writeGraph(ctx context.Context, in string, args ...string) error {
	// Locks that are there now were left by a git that was killed.
	for _, name := range [...]string{"commit-graph.lock", "commit-graphs/commit-graph-chain.lock"} {
		if err := os.Remove(filepath.Join(s.dir, "objects", "info", name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("write a commit-graph: %w", err)
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	p, err := s.root.git.start(ctx, s.dir, nil, append([]string{"--git-dir=.", "commit-graph", "write", "--no-progress"}, args...)...)
	if err != nil {
		return fmt.Errorf("write a commit-graph: %w", err)
	}
	p.lower(maintenanceNice)
	limitMemory(p.cmd.Process.Pid, 4*s.root.git.options.AllocBytes)
	p.limitCPU(int64(graphCPU / time.Second))
	if _, err := p.exchange([]byte(in), cancel); err != nil {
		return fmt.Errorf("write a commit-graph: %w", err)
	}
	return nil
}

// hasFilters reports whether each layer of the commit-graph has filters of changed paths.
func (s *store) hasFilters() (bool, error) {
	files, err := graphFiles(filepath.Join(s.dir, "objects"))
	if err != nil || len(files) == 0 {
		return false, err
	}
	for _, file := range files {
		f, err := os.Open(file)
		if err != nil {
			return false, err
		}
		head := make([]byte, 8+12*16)
		n, _ := f.ReadAt(head, 0)
		_ = f.Close()
		if !strings.Contains(string(head[:n]), "BDAT") {
			return false, nil
		}
	}
	return true, nil
}

// graphFiles returns the layers of the commit-graph of a folder of objects, the lowest first. It
// returns none if there is no commit-graph.
func graphFiles(objects string) ([]string, error) {
	one := filepath.Join(objects, "info", "commit-graph")
	if _, err := os.Stat(one); err == nil {
		return []string{one}, nil
	}
	dir := filepath.Join(objects, "info", "commit-graphs")
	text, err := os.ReadFile(filepath.Join(dir, "commit-graph-chain"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("find the commit-graph: %w", err)
	}
	var files []string
	for _, name := range strings.Fields(string(text)) {
		if !IsID(name) {
			return nil, fmt.Errorf("find the commit-graph: %s names %.100q", dir, name)
		}
		files = append(files, filepath.Join(dir, "graph-"+name+".graph"))
	}
	return files, nil
}

// CommitGraph returns the files of the commit-graph that the repository borrows, the lowest layer
// first, and the number of bytes of an id. It returns no files if there is none.
func (r *Repo) CommitGraph(ctx context.Context) (files []string, idBytes int, err error) {
	format, err := r.Format(ctx)
	if err != nil {
		return nil, 0, err
	}
	s, borrows, err := r.shared()
	if err != nil || !borrows {
		return nil, idLength(format) / 2, err
	}
	files, err = graphFiles(filepath.Join(s.dir, "objects"))
	return files, idLength(format) / 2, err
}
