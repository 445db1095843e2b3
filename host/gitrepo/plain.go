package gitrepo

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"strconv"
)

// inherited are the variables of our own environment that a plain git has, as git
// http-backend has those of a web server: who a push is by in reflogs, below which
// refs/namespaces/ all refs are, and where the keys for signed pushes are.
var inherited = []string{"GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL", "GIT_NAMESPACE", "GNUPGHOME"}

// Plain returns a git for a Folder whose repositories are served as git http-backend
// serves them, with and without a work tree, by what their own configuration says. It
// runs no hooks, for those are programs, serves no repository of another user, whose
// configuration could name others, and nothing goes on when a push has ended.
func (g *Git) Plain() *Git {
	plain := *g
	plain.plain = true
	plain.config = [][2]string{
		{"receive.maxInputSize", strconv.FormatInt(g.options.MaxInput, 10)},
		{"gc.autoDetach", "false"},
		{"maintenance.autoDetach", "false"},
	}
	plain.env = environment(plain.config, imposed, g.options)
	for _, name := range inherited {
		if value, ok := os.LookupEnv(name); ok {
			plain.env = append(plain.env, name+"="+value)
		}
	}
	return &plain
}

// ReceivePack starts receive-pack to answer one push, which its user writes to In. In
// reflogs it is anonymous, from an address, where our environment names nobody.
// REQUIRES: the repository is served by a plain git.
func (r *Repo) ReceivePack(ctx context.Context, v Protocol, from netip.Addr) (*Process, error) {
	if err := r.mustExist(); err != nil {
		return nil, err
	}
	env := v.env()
	if _, ok := os.LookupEnv("GIT_COMMITTER_NAME"); !ok {
		env = append(env, "GIT_COMMITTER_NAME=anonymous")
	}
	if _, ok := os.LookupEnv("GIT_COMMITTER_EMAIL"); !ok {
		env = append(env, fmt.Sprintf("GIT_COMMITTER_EMAIL=anonymous@http.%s", from))
	}
	p, err := r.git.start(ctx, r.dir, env, ReceivePack.String(), "--stateless-rpc", ".")
	return p, r.orGone(err)
}
