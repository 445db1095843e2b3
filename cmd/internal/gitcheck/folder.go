package gitcheck

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"talon/host/gitrepo"
	"talon/sdk/grasp"
	"talon/sdk/nip19"
)

// The layout of a folder is described in package gitrepo.
const (
	sharedDir = ".shared"
	trashDir  = ".trash"
)

// location is a repository on disk.
type location struct {
	grasp.Repo
	prs   bool
	where string // as problems name it
	parts []string
	dir   string
}

// key is what placeholders name the repository by (package repos).
func key(r grasp.Repo, prs bool) string {
	if prs {
		return "prs" + r.Path()
	}
	return r.Path()[1:]
}

// folder looks at one folder of repositories.
func (l *looker) folder(ctx context.Context, dir string, prs bool) error {
	opened, err := gitrepo.OpenFolder(l.cfg.Git, dir)
	if err != nil {
		return err
	}
	defer opened.Close()
	l.trash(dir)
	places, err := l.locations(dir, prs)
	if err != nil {
		return err
	}
	for _, p := range places {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		l.count++
		if l.wanted(p.where) {
			if err := l.repository(ctx, opened, &p); err != nil {
				return err
			}
		}
		if l.cfg.Progress != nil {
			l.cfg.Progress(l.count)
		}
	}
	return l.stores(ctx, dir)
}

func (l *looker) wanted(where string) bool { return l.only == nil || l.only[where] }

// locations returns the repositories of a folder, in the order of identifiers.
func (l *looker) locations(dir string, prs bool) (list []location, err error) {
	owners, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	top := filepath.Base(dir)
	for _, owner := range owners {
		if !strings.HasPrefix(owner.Name(), "npub1") {
			continue
		}
		if !owner.IsDir() {
			l.problem(top+"/"+owner.Name(), false, "not a folder; links are not followed")
			continue
		}
		pubkey, err := nip19.DecodeNpub(owner.Name())
		if err != nil || owner.Name() != strings.ToLower(owner.Name()) {
			l.problem(top+"/"+owner.Name(), false, "not the npub of an owner")
			continue
		}
		files, err := os.ReadDir(filepath.Join(dir, owner.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue // it went with its last repository
		}
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			p := location{
				prs:   prs,
				where: top + "/" + owner.Name() + "/" + file.Name(),
				parts: []string{owner.Name(), file.Name()},
				dir:   filepath.Join(dir, owner.Name(), file.Name()),
			}
			if !file.IsDir() {
				l.problem(p.where, false, "not a folder; links are not followed")
				continue
			}
			identifier, err := gitrepo.IdentifierOf(p.dir)
			switch {
			case errors.Is(err, fs.ErrNotExist):
				l.problem(p.where, true, "not whole: %v: restore it from a backup", err)
			case err != nil:
				l.problem(p.where, true, "%v: restore it from a backup, or move it away", err)
			default:
				p.Repo = grasp.Repo{PubKey: pubkey, Identifier: identifier}
				list = append(list, p)
			}
		}
	}
	slices.SortFunc(list, func(a, b location) int {
		return cmp.Or(strings.Compare(a.Identifier, b.Identifier), strings.Compare(a.where, b.where))
	})
	return list, nil
}

// trash finds what a crash left half made or half removed.
func (l *looker) trash(dir string) { l.trashOf(dir, trashDir) }

// trashOf looks into the trash, or into what one of several nodes has there.
func (l *looker) trashOf(dir, trash string) {
	entries, err := os.ReadDir(filepath.Join(dir, trash))
	if err != nil {
		return // the next start makes it
	}
	for _, e := range entries {
		if trash == trashDir && strings.HasPrefix(e.Name(), "node-") {
			l.trashOf(dir, trash+"/"+e.Name())
			continue
		}
		l.problem(filepath.Base(dir)+"/"+trash+"/"+e.Name(), true, "left half made or half removed: the next start of the server takes it away")
	}
}

// leftovers finds what git leaves when it is killed.
func (l *looker) leftovers(where, dir string) {
	left := func(path string) {
		l.problem(where, true, "%s is left from a git that was killed: the next start of the server takes it away", path)
	}
	in := func(sub string, is func(name string) bool) {
		entries, _ := os.ReadDir(filepath.Join(dir, sub)) // that it is absent is not for here
		for _, e := range entries {
			if is(e.Name()) {
				left(filepath.ToSlash(filepath.Join(sub, e.Name())))
			}
		}
	}
	in(".", func(name string) bool { return strings.HasSuffix(name, ".lock") })
	_ = filepath.WalkDir(filepath.Join(dir, "refs"), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return fs.SkipDir // it goes this very moment, or Refs has said what is wrong
		}
		if !d.IsDir() && strings.HasSuffix(d.Name(), ".lock") {
			if rel, err := filepath.Rel(dir, path); err == nil {
				left(filepath.ToSlash(rel))
			}
		}
		return nil
	})
	in("objects", func(name string) bool { return strings.HasPrefix(name, "tmp_") })
	in("objects/pack", func(name string) bool { return strings.HasPrefix(name, "tmp_") || strings.HasPrefix(name, ".tmp-") })
}

// stores looks at what the repositories of a folder share.
func (l *looker) stores(ctx context.Context, dir string) error {
	for _, format := range []gitrepo.Format{gitrepo.SHA1, gitrepo.SHA256} {
		parent := filepath.Join(dir, sharedDir, format.String())
		entries, err := os.ReadDir(parent)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		for _, e := range entries {
			where := filepath.Base(dir) + "/" + sharedDir + "/" + format.String() + "/" + e.Name()
			if !e.IsDir() || !l.wanted(where) {
				continue
			}
			store := filepath.Join(parent, e.Name())
			l.leftovers(where, store)
			if err := l.objects(ctx, where, store, l.cfg.Intact); err != nil {
				return err
			}
		}
	}
	return nil
}
