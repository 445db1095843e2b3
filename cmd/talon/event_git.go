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
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"talon/cmd/internal/gitremote"
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

// readRefs returns the branches, tags and HEAD of a repository. An annotated tag counts as
// the tag object, not as its commit: git push sends it like that.
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

// remoteRefs returns the refs of the repository at an address, objects by name.
func (p *pushing) remoteRefs(ctx context.Context, address string) (map[string]string, error) {
	list, err := runGit(ctx, p.dir, "ls-remote", "--refs", "--", address)
	if err != nil {
		return nil, err
	}
	there := map[string]string{}
	for line := range strings.Lines(list) {
		object, ref, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		there[ref] = object
	}
	return there, nil
}

// isStateRef reports whether a state says where a ref of this name is.
func isStateRef(ref string) bool {
	return strings.HasPrefix(ref, "refs/heads/") || strings.HasPrefix(ref, "refs/tags/")
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

// contains reports whether the commits behind old are among those behind new. If the
// repository lacks one of the two, the answer is false.
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

// manyRefs is the number of refs from which git's own pushes over HTTP take noticeable time, which
// grows with their square. The command does not ask how many refs a server has: with --prune, the
// helper does no harm if they are few.
const manyRefs = 1000

// remoteHelper is what has git push by package gitremote. The zero value leaves git as it is.
type remoteHelper struct {
	dir      string   // has a link to this program under the name that git looks for
	settings []string // options of git
}

// newRemoteHelper returns the helper for a push with arguments that may name many refs: those of a
// repository of many branches and tags, or with --prune those of the server. It cannot replace
// git's own helper if there are settings that only git knows, or names that no option can hold.
// Then it leaves git as it is.
func newRemoteHelper(ctx context.Context, repository string, args []string, prunes bool) remoteHelper {
	var h remoteHelper
	list, err := runGit(ctx, repository, "for-each-ref", "--count="+strconv.Itoa(manyRefs+1), "--format=x", "refs/heads", "refs/tags")
	few := strings.Count(list, "\n") <= manyRefs && !prunes && len(args) <= manyRefs
	if err != nil || few || ownHTTP(ctx, repository) {
		return h
	}
	names := args[:min(1, len(args))]
	remotes, err := runGit(ctx, repository, "remote")
	if err != nil {
		return h
	}
	known := strings.Fields(remotes)
	if len(names) == 0 {
		names = known
	}
	for _, name := range names {
		if strings.ContainsAny(name, "=\n") || len(h.settings) > 200 {
			return remoteHelper{}
		}
		h.settings = append(h.settings, "-c", "remote."+name+".vcs="+gitremote.Protocol)
		if !slices.Contains(known, name) {
			h.settings = append(h.settings, "-c", "remote."+name+".url="+name)
		}
	}
	program, err := os.Executable()
	if err != nil {
		return remoteHelper{}
	}
	if h.dir, err = os.MkdirTemp("", "talon-"); err != nil {
		return remoteHelper{}
	}
	if err := os.Symlink(program, filepath.Join(h.dir, gitremote.Name)); err != nil {
		h.close()
		return remoteHelper{}
	}
	return h
}

// use has a git process push by the helper.
func (h *remoteHelper) use(git *exec.Cmd) {
	if h.dir != "" {
		git.Env = append(git.Env, "PATH="+h.dir+string(filepath.ListSeparator)+os.Getenv("PATH"))
		if file := os.Getenv(authorities); file != "" {
			git.Env = append(git.Env, systemAuthorities+"="+file)
		}
	}
}

func (h *remoteHelper) close() {
	if h.dir != "" {
		_ = os.RemoveAll(h.dir)
	}
}

// remoteHelps is this program as the helper, which git starts with the name of a remote and
// its URL.
func remoteHelps(ctx context.Context) error {
	if len(os.Args) != 3 {
		return errors.New(gitremote.Name + " is started by git")
	}
	return gitremote.Serve(ctx, os.Args[2], os.Stdin, os.Stdout)
}

// settingsOfHTTP are the names of settings of git that say how to reach a server, and
// certificates its variables of the environment.
var (
	settingsOfHTTP = regexp.MustCompile(`(?im)^http\..*(proxy|ssl|header|cookie|auth|resolve|pinned)|^remote\..*\.(proxy|proxyauthmethod|vcs)$`)
	certificates   = regexp.MustCompile(`^GIT_(SSL|PROXY_SSL)_[A-Z_]+=.`)
)

// ownHTTP reports whether git has settings for HTTP that the helper does not know.
func ownHTTP(ctx context.Context, repository string) bool {
	if slices.ContainsFunc(os.Environ(), func(variable string) bool {
		return certificates.MatchString(variable) && !strings.HasPrefix(variable, authorities+"=")
	}) {
		return true
	}
	names, err := runGit(ctx, repository, "config", "--name-only", "--list")
	return err != nil || settingsOfHTTP.MatchString(names)
}

// authorities is the variable by which git knows who signs certificates, and
// systemAuthorities the one that the helper knows.
const (
	authorities       = "GIT_SSL_CAINFO"
	systemAuthorities = "SSL_CERT_FILE"
)
