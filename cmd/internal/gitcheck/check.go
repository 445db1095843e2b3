package gitcheck

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode"

	"talon/host"
	"talon/host/gitrepo"
)

// Events reads the events of the database. *store.Store implements it.
type Events interface {
	Select(ctx context.Context, filters []host.Filter, now int64) (host.Selection, error)
	Fetch(ctx context.Context, rows []int64, yield func(row int64, json []byte) error) error
	HeldBy(ctx context.Context, f host.Filter) ([][]byte, error)
	EachHeld(ctx context.Context, yield func(host.HeldEvent) error) error
	Placeholders(ctx context.Context, yield func(repo string, id host.ID, since int64) error) error
}

// Config says what to compare. All fields are required unless it says otherwise.
type Config struct {
	Git       *gitrepo.Git
	Announced string // folder of the repositories of announcements
	PRs       string // folder of those under /prs/ (GRASP-06)
	Events    Events

	// Connected returns what is wrong with the objects that the refs of the repository
	// in a folder reach, a line each. It may be called while a server changes the
	// repository.
	Connected func(ctx context.Context, dir string) ([]string, error)

	// Intact is like Connected, of the bytes of all objects in the folder. Nil leaves
	// them out.
	Intact func(ctx context.Context, dir string) ([]string, error)

	Limit        time.Duration // for the objects of one repository
	RecheckAfter time.Duration // between the two looks; may be 0
	Now          func() time.Time

	Progress func(repositories int) // called after each; may be nil
}

// Problem is one difference or fault that the check found.
type Problem struct {
	Where string // a path below the data folder
	What  string

	// InFlight says that a server that runs may be about to put it right.
	InFlight bool
}

// String returns the problem as one line, without anything that a terminal would
// obey.
func (p Problem) String() string {
	text := "repository " + p.Where + ": " + p.What
	if p.InFlight {
		text += " (may be in flight, if the server runs)"
	}
	return strings.Map(func(r rune) rune {
		if r == unicode.ReplacementChar || !strconv.IsPrint(r) {
			return '?'
		}
		return r
	}, text)
}

// Run compares repositories and events, calls report for each problem, and returns the
// number of repositories. An error means that the check is incomplete. A folder that is
// absent has no repositories.
func Run(ctx context.Context, cfg Config, report func(Problem)) (repositories int, err error) {
	first, repositories, err := inspect(ctx, &cfg, nil)
	if err == nil && len(first) > 0 {
		timer := time.NewTimer(cfg.RecheckAfter)
		defer timer.Stop()
		select {
		case <-ctx.Done():
			err = context.Cause(ctx)
		case <-timer.C:
		}
	}
	if err != nil {
		return repositories, fmt.Errorf("check the repositories: %w", err)
	}
	if len(first) == 0 {
		return repositories, nil
	}
	where := make(map[string]bool, len(first))
	for _, p := range first {
		where[p.Where] = true
	}
	again, _, err := inspect(ctx, &cfg, where)
	if err != nil {
		return repositories, fmt.Errorf("check the repositories: %w", err)
	}
	still := make(map[Problem]bool, len(again))
	for _, p := range again {
		still[p] = true
	}
	for _, p := range first {
		if still[p] {
			report(p)
		}
	}
	return repositories, nil
}

// looker is one look at everything.
type looker struct {
	cfg   *Config
	only  map[string]bool // the places to look at; nil for all
	now   int64
	held  map[string]standing // announcements in purgatory, by the key of their repository
	waits map[placeholder]bool
	list  []Problem
	count int

	// What is known of the identifier that was asked for last, for repositories come in
	// the order of identifiers.
	identifier string
	known      *announcements
}

type placeholder struct {
	repo string
	id   host.ID
}

func inspect(ctx context.Context, cfg *Config, only map[string]bool) ([]Problem, int, error) {
	l := &looker{cfg: cfg, only: only, now: cfg.Now().Unix()}
	if err := l.readHeld(ctx); err != nil {
		return nil, 0, err
	}
	for _, prs := range []bool{false, true} {
		dir := cfg.Announced
		if prs {
			dir = cfg.PRs
		}
		if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err := l.folder(ctx, dir, prs); err != nil {
			return nil, 0, err
		}
	}
	l.absent()
	return l.list, l.count, nil
}

func (l *looker) problem(where string, inFlight bool, format string, args ...any) {
	l.list = append(l.list, Problem{Where: where, What: fmt.Sprintf(format, args...), InFlight: inFlight})
}
