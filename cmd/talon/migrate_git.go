package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"talon/sdk/grasp"
)

// gitOrigin is where a repository comes from: a folder, or the URL of a server.
type gitOrigin struct{ dir, url string }

// at returns what git calls the repository.
func (o gitOrigin) at() string {
	if o.dir != "" {
		return o.dir
	}
	return o.url
}

// git runs git in a folder. The repository may belong to the user of the old server. Its hooks do not
// run.
func (m *migration) git(ctx context.Context, dir string, args ...string) (string, error) {
	out, err := runGit(ctx, dir, append([]string{"-c", "safe.directory=*", "-c", "core.hooksPath=" + os.DevNull, "-c", "credential.helper="}, args...)...)
	if err != nil {
		err = fmt.Errorf("git %s: %s", args[0], strings.TrimPrefix(err.Error(), "git -c: "))
	}
	return out, err
}

// refs returns the refs of a repository, and with HEAD the branch that it names.
func (m *migration) refs(ctx context.Context, at string) (map[string]string, error) {
	// Of a folder, ls-remote starts a git of its own, which does not get the settings of the first.
	list, err := m.git(ctx, ".", "ls-remote", "--symref", "--upload-pack=git -c 'safe.directory=*' upload-pack", "--", at)
	if err != nil {
		return nil, err
	}
	refs := map[string]string{}
	for line := range strings.Lines(list) {
		value, name, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		branch, symbolic := strings.CutPrefix(value, "ref: ")
		switch {
		case symbolic && name == "HEAD":
			refs[name] = branch
		case isStateRef(name) && !strings.HasSuffix(name, "^{}"), isPullRef(name):
			refs[name] = value
		}
	}
	return refs, nil
}

// isPullRef reports whether a ref is the commit of a pull request.
func isPullRef(ref string) bool { return strings.HasPrefix(ref, "refs/nostr/") }

// pushAtOnce bounds how many refs one push has.
const pushAtOnce = 500

// push brings refs of a repository to the new server. It leaves out refs that no state signs: a server
// accepts none of these.
func (m *migration) push(ctx context.Context, path string, which func(ref string) bool) error {
	p, err := grasp.ParsePath(path)
	if err != nil {
		return err
	}
	origin := m.repos[path]
	have, err := m.refs(ctx, origin.at())
	if err != nil {
		m.differ("%s cannot be read: %v", origin.at(), err)
		return ctx.Err()
	}
	there, err := m.refs(ctx, m.web+path)
	if err != nil {
		there = nil // the new server does not have it yet
	}
	var specs []string
	for _, name := range slices.Sorted(maps.Keys(have)) {
		object := have[name]
		if !which(name) || there[name] == object || isStateRef(name) && !m.signed[signedRef{p.Repo.Identifier, name, object}] {
			continue
		}
		specs = append(specs, "+"+object+":"+name)
	}
	if len(specs) == 0 {
		return ctx.Err()
	}
	dir := origin.dir
	if dir == "" {
		work, err := os.MkdirTemp("", "talon-migrate-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(work)
		dir = filepath.Join(work, "repository.git")
		if _, err := m.git(ctx, work, "clone", "--quiet", "--mirror", "--", origin.url, dir); err != nil {
			m.differ("%s cannot be cloned: %v", origin.url, err)
			return ctx.Err()
		}
	}
	for part := range slices.Chunk(specs, pushAtOnce) {
		if _, err := m.git(ctx, dir, append([]string{"push", "--quiet", m.web + path}, part...)...); err != nil {
			m.differ("the push to %s failed: %v", path, err)
		}
	}
	return ctx.Err()
}

// compareClones clones each repository from the new server, and compares its refs.
func (m *migration) compareClones(ctx context.Context) error {
	same := 0
	for n, path := range slices.Sorted(maps.Keys(m.repos)) {
		if err := ctx.Err(); err != nil {
			return err
		}
		differs, err := m.compareClone(ctx, path)
		if err != nil {
			differs = []string{err.Error()}
		}
		for _, d := range differs {
			m.differ("%s: %s", path, d)
		}
		if len(differs) == 0 {
			same++
		}
		m.progress.show(func() string { return fmt.Sprintf("%d of %d clones compared", n+1, len(m.repos)) })
	}
	m.progress.end()
	fmt.Fprintf(m.out, "%d of %d clones are the same\n", same, len(m.repos))
	return nil
}

// compareClone returns how a clone from the new server differs from the origin. Git checks that
// a clone has all objects that its refs reach.
func (m *migration) compareClone(ctx context.Context, path string) (differs []string, err error) {
	work, err := os.MkdirTemp("", "talon-migrate-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(work)
	want, err := m.refs(ctx, m.repos[path].at())
	if err != nil {
		return nil, err
	}
	if _, err := m.git(ctx, work, "clone", "--quiet", "--mirror", "--", m.web+path, "clone.git"); err != nil {
		return nil, err
	}
	got, err := m.refs(ctx, filepath.Join(work, "clone.git"))
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if name == "HEAD" && want[want[name]] == "" {
			continue // it names a branch that is not there
		}
		if got[name] != want[name] {
			differs = append(differs, fmt.Sprintf("%s is %q, want %s", name, got[name], want[name]))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(got)) {
		if want[name] == "" && isStateRef(name) {
			differs = append(differs, fmt.Sprintf("%s is %s, and not in the old repository", name, got[name]))
		}
	}
	return differs, nil
}
