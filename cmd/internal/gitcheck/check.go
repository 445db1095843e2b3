// Package gitcheck compares the repositories of a GRASP service with its events. With
// package store, it does the work of talon check.
//
// For each repository on disk it checks that an announcement explains it, and that HEAD,
// heads and tags are those of the newest state of the maintainers. It checks that each ref
// under refs/nostr/ is the commit of its event or waits for that, and that all objects that
// the refs reach are there. It also finds files that a killed process left. A held
// announcement needs no repository: it gets one with its first git data.
//
// Invariants:
//
//  1. It changes nothing and takes no lock, so that a server may run at the same time. It
//     never opens a folder with gitrepo.Open, which deletes the files that a server is
//     making at that moment.
//  2. It reports a problem if two looks find it, some time apart: the effect of a push or a
//     release in between is no problem. It marks a problem that a slow push may still
//     explain ([Problem.InFlight]).
//  3. Damage to one repository is a problem and never ends the check of others.
//  4. No path leads out of the folder, through names or links.
//
// It does not verify events, and runs git only through package gitrepo and the
// function it is given.
package gitcheck

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"talon/host"
	"talon/host/gitrepo"
	"talon/host/maintainers"
	"talon/host/wire"
	"talon/sdk/grasp"
	"talon/sdk/nip19"
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

	// Service is where the server is reached: an announcement that lists it has a repository.
	Service grasp.Service

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

	// Lost is the repository whose git data is not here, zero for other problems. Other servers
	// may have the data.
	Lost grasp.Repo
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
	if err := l.announcements(ctx); err != nil {
		return nil, 0, err
	}
	return l.list, l.count, nil
}

func (l *looker) problem(where string, inFlight bool, format string, args ...any) {
	l.list = append(l.list, Problem{Where: where, What: fmt.Sprintf(format, args...), InFlight: inFlight})
}

// lost reports that git data of a repository is not here.
func (l *looker) lost(p *location, format string, args ...any) {
	l.problem(p.where, true, format, args...)
	l.list[len(l.list)-1].Lost = p.Repo
}

const (
	maxStates = 10_000 // of a repository's maintainers that one look reads
	idsAtOnce = 200

	rowsAtOnce = 200

	maxPullRequests = 10_000 // of a repository, whose refs one look searches for
)

// standing is how an announcement stands that is in purgatory.
type standing struct {
	dormant bool // its repository has gone, or is to
}

// readHeld reads what one look needs of everything that waits.
func (l *looker) readHeld(ctx context.Context) error {
	l.held = make(map[string]standing)
	err := l.cfg.Events.EachHeld(ctx, func(h host.HeldEvent) error {
		e, err := wire.ParseEvent(h.JSON)
		if err != nil {
			return nil // the check of events says so
		}
		if a, err := e.Announcement(); err == nil {
			l.held[key(a.Repo(), false)] = standing{dormant: h.Dormant}
		}
		return nil
	})
	if err != nil {
		return err
	}
	l.waits = make(map[placeholder]bool)
	return l.cfg.Events.Placeholders(ctx, func(repo string, id host.ID, _ int64) error {
		l.waits[placeholder{repo, id}] = true
		return nil
	})
}

// announcements looks for the repository of each stored announcement that lists the service.
func (l *looker) announcements(ctx context.Context) error {
	sel, err := l.cfg.Events.Select(ctx, []host.Filter{{Kinds: []host.Kind{grasp.KindAnnouncement}, Limit: -1}}, l.now)
	if err != nil {
		return err
	}
	for rows := range slices.Chunk(sel.Rows, rowsAtOnce) {
		err := l.cfg.Events.Fetch(ctx, rows, func(_ int64, text []byte) error {
			e, err := wire.ParseEvent(text)
			if err != nil {
				return nil // the check of events says so
			}
			if a, err := e.Announcement(); err == nil && a.ListsService(l.cfg.Service) {
				return l.exists(a.Repo())
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// exists looks for the folder of a repository that is served.
func (l *looker) exists(repo grasp.Repo) error {
	name, err := gitrepo.ParseName(nip19.EncodeNpub(repo.PubKey), repo.Identifier)
	if err != nil {
		return nil // no repository can have the name
	}
	path := name.Path()
	p := location{Repo: repo, where: filepath.Base(l.cfg.Announced) + "/" + path, dir: filepath.Join(l.cfg.Announced, path)}
	if !l.wanted(p.where) {
		return nil
	}
	if _, err := os.Lstat(p.dir); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	l.lost(&p, "it is announced and served, and it is not here: restore it from a backup, or have it searched for with --repair")
	return nil
}

// announced returns who maintains the repository of a place, and whether its owner's
// announcement is stored.
func (l *looker) announced(ctx context.Context, p *location) (all []grasp.PubKey, stored bool, err error) {
	list, err := maintainers.Below(ctx, l, p.Identifier, p.PubKey)
	for _, a := range list {
		stored = stored || a.PubKey == p.PubKey && !a.Held
	}
	return maintainers.Graph(list).Maintainers(p.PubKey), stored, err
}

// states returns the states of a repository by its maintainers: the newest that is
// stored, nil if there is none, and held ones that are newer.
func (l *looker) states(ctx context.Context, identifier string, maintainers []grasp.PubKey) (newest *grasp.State, held []*grasp.State, err error) {
	if len(maintainers) == 0 {
		return nil, nil, nil
	}
	filter := ofIdentifier(grasp.KindState, identifier)
	for _, key := range maintainers {
		filter.Authors = append(filter.Authors, key)
	}
	filter.Limit = maxStates
	var stored, waiting []*grasp.State
	err = l.events(ctx, filter, func(e *host.Event, held bool) {
		s, err := e.State()
		switch {
		case err != nil || !s.Tracks():
		case held:
			waiting = append(waiting, s)
		default:
			stored = append(stored, s)
		}
	})
	newest = grasp.Latest(stored, maintainers)
	for _, s := range waiting {
		if newest == nil || s.Newer(&newest.Stamp) {
			held = append(held, s)
		}
	}
	return newest, held, err
}

// tip is the event that says which commit a ref under refs/nostr/ should name.
type tip struct {
	*grasp.PullRequest // nil if the event is none
}

// tips returns the events with these ids, as far as they are here.
func (l *looker) tips(ctx context.Context, ids []host.ID) (map[host.ID]tip, error) {
	found := make(map[host.ID]tip, len(ids))
	for len(ids) > 0 {
		n := min(len(ids), idsAtOnce)
		err := l.events(ctx, host.Filter{IDs: ids[:n], Limit: -1}, func(e *host.Event, _ bool) {
			pr, err := e.PullRequest()
			if err != nil {
				pr = nil
			}
			found[e.ID] = tip{pr}
		})
		if err != nil {
			return nil, err
		}
		ids = ids[n:]
	}
	return found, nil
}

func ofIdentifier(kind host.Kind, identifier string) host.Filter {
	return host.Filter{Kinds: []host.Kind{kind}, Tags: []host.TagFilter{{Name: 'd', Values: []string{identifier}}}}
}

// events calls yield with each event that matches, held or stored.
func (l *looker) events(ctx context.Context, filter host.Filter, yield func(e *host.Event, held bool)) error {
	return maintainers.ReadAll(ctx, l, filter, yield)
}

// Query returns the stored events that match. It leaves out what cannot be read, which the check
// of events reports.
func (l *looker) Query(ctx context.Context, filter host.Filter) (texts [][]byte, err error) {
	filter.Reader = host.Everything
	sel, err := l.cfg.Events.Select(ctx, []host.Filter{filter}, l.now)
	if err != nil {
		return nil, err
	}
	err = l.cfg.Events.Fetch(ctx, sel.Rows, func(_ int64, text []byte) error {
		texts = append(texts, bytes.Clone(text))
		return nil
	})
	return slices.DeleteFunc(texts, unreadable), err
}

// HeldBy returns the held events that match, and leaves out the same ones.
func (l *looker) HeldBy(ctx context.Context, filter host.Filter) ([][]byte, error) {
	texts, err := l.cfg.Events.HeldBy(ctx, filter)
	return slices.DeleteFunc(texts, unreadable), err
}

func unreadable(text []byte) bool {
	_, err := wire.ParseEvent(text)
	return err != nil
}
