package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"talon/cmd/internal/gitremote"
)

// manyRefs is the number of local branches and tags from which git's own pushes over HTTP
// take noticeable time, which grows with their square.
const manyRefs = 1000

// remoteHelper is what has git push by package gitremote. The zero value leaves git as it is.
type remoteHelper struct {
	dir      string   // has a link to this program under the name that git looks for
	settings []string // options of git
}

// newRemoteHelper returns the helper for a push with arguments from a repository of many
// branches and tags. Where it cannot stand in for git's own, because of settings that only
// git knows or of names that no option can hold, it leaves git as it is.
func newRemoteHelper(ctx context.Context, repository string, args []string) remoteHelper {
	var h remoteHelper
	list, err := runGit(ctx, repository, "for-each-ref", "--count="+strconv.Itoa(manyRefs+1), "--format=x", "refs/heads", "refs/tags")
	if err != nil || strings.Count(list, "\n") <= manyRefs || ownHTTP(ctx, repository) {
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
