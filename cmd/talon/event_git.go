package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"talon/sdk/grasp"
)

// Bounds of what git is asked.
const (
	refsTime  = time.Minute
	refsBytes = inputBytes
)

// localRefs are the branches, the tags and HEAD of a local repository.
type localRefs struct {
	refs map[string]string // object by name
	head string            // the branch that HEAD names, "" if it is detached
}

// readRefs returns the branches, tags and HEAD of a repository. An annotated tag
// stands for itself, as git push sends it.
func readRefs(ctx context.Context, dir string) (localRefs, error) {
	list, err := runGit(ctx, dir, "for-each-ref", "--format=%(objectname) %(refname)", "refs/heads", "refs/tags")
	if err != nil {
		return localRefs{}, err
	}
	local := localRefs{refs: map[string]string{}}
	for line := range strings.Lines(list) {
		oid, ref, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if !ok {
			return localRefs{}, fmt.Errorf("git for-each-ref printed %q, which is no ref", line)
		}
		local.refs[ref] = oid
	}
	if len(local.refs) == 0 {
		return localRefs{}, errors.New("it has no branches and no tags: commit something first")
	}
	local.head, err = readHead(ctx, dir)
	return local, err
}

// readHead returns the branch that HEAD names, "" if it is detached.
func readHead(ctx context.Context, dir string) (string, error) {
	head, err := runGit(ctx, dir, "symbolic-ref", "--quiet", "HEAD")
	if status, ok := errors.AsType[*exec.ExitError](err); ok && status.ExitCode() == 1 {
		return "", nil
	}
	return strings.TrimSuffix(head, "\n"), err
}

// readObjects returns the objects that names of a repository lead to, in their order.
func readObjects(ctx context.Context, dir string, names []string) ([]string, error) {
	list, err := runGitWith(ctx, dir, strings.NewReader(strings.Join(names, "\n")+"\n"), "cat-file", "--batch-check=%(objectname)")
	if err != nil {
		return nil, err
	}
	objects := strings.Split(strings.TrimSuffix(list, "\n"), "\n")
	if len(objects) != len(names) {
		return nil, fmt.Errorf("git cat-file printed %d lines for %d names", len(objects), len(names))
	}
	for i, object := range objects {
		if _, ok := grasp.ParseObject(object); !ok {
			return nil, fmt.Errorf("%q is no object of the repository", names[i])
		}
	}
	return objects, nil
}

// contains reports whether the commits behind old are among those behind new. What is
// not here is not among them.
func contains(ctx context.Context, dir, old, new string) bool {
	_, err := runGit(ctx, dir, "merge-base", "--is-ancestor", old, new)
	return err == nil
}

// earliestCommit returns the first commit of the repository in a folder, which tells
// it from others (NIP-34). It is "" where there is no repository, no commit yet, or
// only the end of the history.
func earliestCommit(ctx context.Context, dir string) string {
	shallow, err := runGit(ctx, dir, "rev-parse", "--is-shallow-repository")
	if err != nil || strings.TrimSpace(shallow) != "false" {
		return ""
	}
	// Of several roots the oldest comes last.
	roots, err := runGit(ctx, dir, "rev-list", "--max-parents=0", "--date-order", "HEAD")
	if err != nil {
		return ""
	}
	list := strings.Fields(roots)
	if len(list) == 0 {
		return ""
	}
	return list[len(list)-1]
}

// warnKeyInRepository says so if the key file would be committed with the files around it.
func warnKeyInRepository(cmd *cobra.Command, flag string) {
	path := keyFile(flag)
	if path == "" {
		return
	}
	dir, name := filepath.Split(path)
	if dir == "" {
		dir = "."
	}
	inside, err := runGit(cmd.Context(), dir, "rev-parse", "--is-inside-work-tree")
	if err != nil || strings.TrimSpace(inside) != "true" {
		return
	}
	if _, err := runGit(cmd.Context(), dir, "check-ignore", "--quiet", "--", name); err == nil {
		return
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "warning: the key file %s lies in the work tree of a git repository: git add and git push would give it to everybody. Move it elsewhere\n", path)
}

// runGit returns what git prints about a repository.
func runGit(ctx context.Context, dir string, args ...string) (string, error) {
	return runGitWith(ctx, dir, nil, args...)
}

// runGitWith is runGit with standard input.
func runGitWith(ctx context.Context, dir string, in io.Reader, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, refsTime)
	defer cancel()
	cmd := gitProcess(ctx, dir, args...)
	cmd.Env = append(cmd.Env, "LC_ALL=C")
	out, errOut := &bounded{max: refsBytes}, &bounded{max: 4096}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, out, errOut
	err := cmd.Run()
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return "", errNoGit
	case err == nil && out.over:
		return "", errors.New("it has more refs than an event can hold")
	case err == nil:
		return out.kept.String(), nil
	case ctx.Err() != nil:
		return "", fmt.Errorf("git %s: %w", args[0], ctx.Err())
	}
	if text := strings.TrimSpace(errOut.kept.String()); text != "" {
		return "", fmt.Errorf("git %s: %w: %s", args[0], err, plain(text))
	}
	return "", fmt.Errorf("git %s: %w", args[0], err)
}

var errNoGit = errors.New("the program git is not installed, or not in the PATH")

// gitProcess is git in a folder; it asks nobody for a password.
func gitProcess(ctx context.Context, dir string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "git", append([]string{"-C", dir}, args...)...)
	cmd.Env = append(os.Environ(), "GIT_TERMINAL_PROMPT=0")
	return cmd
}

// bounded keeps the beginning of what is written.
type bounded struct {
	kept bytes.Buffer
	max  int
	over bool
}

func (b *bounded) Write(p []byte) (int, error) {
	room := b.max - b.kept.Len()
	if len(p) > room {
		b.over = true
	}
	_, _ = b.kept.Write(p[:min(len(p), room)])
	return len(p), nil
}
