package web

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"talon/host"
	"talon/sdk/grasp"
)

// Repositories are the git repositories on disk.
type Repositories interface {
	// Here reports whether the repository is here. It is asked often, and is cheap.
	Here(ctx context.Context, repo host.Address) (bool, error)

	// Refs returns the refs of a repository by name, and the ref that HEAD names,
	// which need not exist. It reports false if the repository is not here.
	Refs(ctx context.Context, repo host.Address) (refs []grasp.Ref, head string, here bool, err error)
}

// Deps are what the pages are made from.
type Deps struct {
	Facts host.RepoFacts
	Git   Repositories
}

// Config says what the pages say of the service.
type Config struct {
	Name        string
	Description string
	Contact     string // of the operator: a mailto, http, https or nostr URL becomes a link
	Service     string // host[:port] where the service is reached from outside
	PRs         bool   // whether there are repositories under /prs/ (GRASP-06)
	NIPs        []int  // that the relay supports, beyond what the policy makes of it

	// About returns what the policy says of itself, now. Nil: nothing.
	About func() []host.Description

	// Hunt says how the search for git data of an identifier goes, and false if there is
	// none. Nil: there never is one.
	Hunt func(identifier string) (Hunt, bool)

	// Proxies are the reverse proxies whose X-Forwarded-Proto is believed.
	Proxies []netip.Prefix

	// CORS sets the headers that let any web page read an answer. Nil sets none.
	CORS func(http.Header)

	Log *slog.Logger
}

// Hunt is how a search for git data goes.
type Hunt struct {
	Missing int       // objects, at the latest look
	Asking  []string  // URLs that are being asked
	Next    time.Time // when others are; zero while some are
}

var errDeps = errors.New("pages need Facts and Git")

// New returns the handler of all pages. It answers every path: what is no page is
// answered with status 404, so that it may stand behind all other handlers.
func New(cfg Config, deps Deps) (*Handler, error) {
	if deps.Facts == nil || deps.Git == nil {
		return nil, errDeps
	}
	service, err := grasp.ParseService(cfg.Service)
	if err != nil {
		return nil, fmt.Errorf("set up pages for %q: %w", cfg.Service, err)
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Hunt == nil {
		cfg.Hunt = func(string) (Hunt, bool) { return Hunt{}, false }
	}
	if cfg.About == nil {
		cfg.About = func() []host.Description { return nil }
	}
	return &Handler{
		cfg: cfg, service: service,
		read:  reader{deps.Facts},
		git:   deps.Git,
		turns: make(chan struct{}, maxTurns),
	}, nil
}
