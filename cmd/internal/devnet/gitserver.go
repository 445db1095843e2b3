package devnet

import (
	"context"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"talon/host/githttp"
	"talon/host/gitrepo"
)

// GitServer is one git server of the network.
type GitServer struct {
	URL string

	site
	dir     string
	folder  *gitrepo.Folder
	handler http.Handler
	fault   func(now time.Time) (fault, time.Duration) // and how long it lasts
	served  atomic.Int64
	failed  atomic.Int64
}

// fault is how a git server fails.
type fault uint8

const (
	works fault = iota
	missing
	broken
	silent
	resets
)

func (f fault) String() string {
	return [...]string{"works", "404", "500", "slow", "reset"}[f]
}

// faultAt returns how one of several servers fails in a turn. In each turn, failing of them
// fail. The order and the faults change, so that a client that returns at intervals does
// not meet the same fault each time. In as many turns as there are servers, each works at
// least once, unless failing is all of them.
func faultAt(server, servers, failing int, seed uint64, turn int64) fault {
	n := int64(servers)
	rng := rand.New(rand.NewPCG(seed, uint64(turn/n))) //nolint:gosec // the same each time
	place := int64(rng.Perm(servers)[server])
	if (place+turn)%n >= int64(failing) {
		return works
	}
	return missing + fault(rand.NewPCG(uint64(turn), uint64(server)).Uint64()%4)
}

func newGitServer(cfg *Config, git *gitrepo.Git, dir string, l net.Listener, late time.Duration) (*GitServer, error) {
	folder, err := gitrepo.OpenFolder(git, dir)
	if err != nil {
		return nil, err
	}
	g := &GitServer{URL: "http://" + l.Addr().String(), dir: dir, folder: folder}
	g.handler, err = githttp.New(githttp.Config{Prefix: "/", Limits: githttp.DefaultLimits, Log: cfg.Log, Scheduler: git.Scheduler()}, everyRepository{folder}, nil)
	if err != nil {
		folder.Close()
		return nil, err
	}
	g.site = newSite(newExchange(l, late, 0), g)
	return g, nil
}

func (g *GitServer) close() error {
	err := g.site.close()
	g.folder.Close()
	return err
}

// everyRepository finds every repository of a folder.
type everyRepository struct{ folder *gitrepo.Folder }

func (r everyRepository) Find(_ context.Context, parts []string, _ githttp.Use) (*gitrepo.Repo, error) {
	return r.folder.Find(parts)
}

func (g *GitServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f, lasts := g.fault(time.Now())
	if f != works {
		g.failed.Add(1)
	}
	switch f {
	case missing:
		http.NotFound(w, r)
		return
	case broken:
		http.Error(w, "it does not work", http.StatusInternalServerError)
		return
	case resets:
		if h, ok := w.(http.Hijacker); ok {
			if c, _, err := h.Hijack(); err == nil {
				_, _ = io.Copy(c, strings.NewReader("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n001e"))
				if l, ok := c.(*line); ok {
					reset(l.Conn)
				}
				_ = c.Close()
			}
		}
		return
	case silent: // until its turn is over
		select {
		case <-r.Context().Done():
			return
		case <-time.After(lasts):
		}
	case works:
	}
	g.served.Add(1)
	g.handler.ServeHTTP(w, r)
}
