package repos

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"talon/host"
	"talon/host/githttp"
	"talon/host/gitrepo"
	"talon/host/maintainers"
	"talon/sdk/grasp"
	"talon/sdk/nip19"
)

// Disk holds the folders of repositories.
type Disk struct {
	Announced *gitrepo.Root
	PRs       *gitrepo.Root // under /prs/; nil: there are none

	purgatory Purgatory
	none      *gitrepo.Root    // has the empty ones
	empty     [2]*gitrepo.Repo // by format: the answer where nothing was pushed
}

// Purgatory says which announcements wait for git data.
type Purgatory interface {
	HeldBy(ctx context.Context, f host.Filter) ([][]byte, error)
	HeldEvent(ctx context.Context, id host.ID) (e host.HeldEvent, ok bool, err error)
}

// location is a repository, be it there or not.
type location struct {
	grasp.Repo
	prs bool // under /prs/
}

func (p location) String() string {
	prefix := ""
	if p.prs {
		prefix = "prs/"
	}
	return prefix + p.Repo.Path()[1:]
}

// LogValue returns the path, for log lines of every format.
func (p location) LogValue() slog.Value { return slog.StringValue(p.String()) }

func (p location) address() host.Address {
	return host.Address{Kind: grasp.KindAnnouncement, PubKey: p.PubKey, D: p.Identifier}
}

// OpenRoot opens a folder of repositories.
type OpenRoot func(git *gitrepo.Git, dir string) (*gitrepo.Root, error)

// OpenDisk opens the repositories in a data folder, and makes the folders that are
// absent. Without prs there is nothing under /prs/. open opens each folder: [gitrepo.Open] if
// nobody else has it open.
func OpenDisk(ctx context.Context, git *gitrepo.Git, data string, prs bool, purgatory Purgatory, open OpenRoot) (d *Disk, err error) {
	d = &Disk{purgatory: purgatory}
	defer func() {
		if err != nil {
			d.Close()
		}
	}()
	if d.Announced, err = open(git, filepath.Join(data, "git")); err != nil {
		return d, err
	}
	if prs {
		if d.PRs, err = open(git, filepath.Join(data, "git-prs")); err != nil {
			return d, err
		}
	}
	return d, d.makeEmpty(ctx, git, filepath.Join(data, "git-empty"), open)
}

// makeEmpty makes the repositories that are shown where nothing was pushed: of announcements
// that wait for git data, and under /prs/ (GRASP-06). They have a folder of their own, so that
// no path leads to them.
func (d *Disk) makeEmpty(ctx context.Context, git *gitrepo.Git, dir string, open OpenRoot) error {
	root, err := open(git, dir)
	if err != nil {
		return err
	}
	d.none = root
	for format, identifier := range map[gitrepo.Format]string{gitrepo.SHA1: "empty", gitrepo.SHA256: "empty-sha256"} {
		name, err := gitrepo.ParseName(nip19.EncodeNpub([32]byte{}), identifier)
		if err != nil {
			return fmt.Errorf("name an empty repository: %w", err)
		}
		repo := root.Repo(name)
		unlock, err := repo.Lock(ctx)
		if err != nil {
			return err
		}
		err = repo.Init(ctx, format)
		unlock()
		if err != nil {
			return err
		}
		d.empty[format] = repo
	}
	return nil
}

// waits reports whether the announcement of a repository is held and waits for git data. Such a
// repository has no folder until its first push is authorised, or a hunt has found data. It is
// empty until then.
func (d *Disk) waits(ctx context.Context, a host.Address) (bool, error) {
	var id host.ID
	found := false
	filter := host.Filter{Tags: []host.TagFilter{{Name: host.AddressOf, Values: []string{a.String()}}}, Limit: 1, Header: true}
	err := maintainers.Read(ctx, d.purgatory.HeldBy, filter, func(e *host.Event) { id, found = e.ID, true })
	if err != nil || !found {
		return false, err
	}
	return d.heldWaits(ctx, id)
}

// heldWaits reports whether an event is held and waits for git data itself.
func (d *Disk) heldWaits(ctx context.Context, id host.ID) (bool, error) {
	e, ok, err := d.purgatory.HeldEvent(ctx, id)
	return ok && !e.Dormant && !e.Dependent, err
}

// Close ends the git processes for look-ups.
func (d *Disk) Close() {
	for _, root := range []*gitrepo.Root{d.Announced, d.PRs, d.none} {
		if root != nil {
			root.Close()
		}
	}
}

var errNoPRs = errors.New("there are no repositories under /prs/ here")

// root is the folder of what is under /prs/, which may be nil, or of the others.
func (d *Disk) root(prs bool) *gitrepo.Root {
	if prs {
		return d.PRs
	}
	return d.Announced
}

// repo returns the repository of a place.
func (d *Disk) repo(p location) (*gitrepo.Repo, error) {
	root := d.root(p.prs)
	if root == nil {
		return nil, errNoPRs
	}
	name, err := gitrepo.ParseName(nip19.EncodeNpub(p.PubKey), p.Identifier)
	if err != nil {
		return nil, err
	}
	return root.Repo(name), nil
}

// hasFolder reports whether a repository has a folder. It reports true if it cannot tell.
func (d *Disk) hasFolder(p location) bool {
	repo, err := d.repo(p)
	if err != nil {
		return false // no repository can have the name
	}
	there, err := repo.Exists()
	return there || err != nil
}

// locationOf is the place of a repository.
func locationOf(name gitrepo.Name, prs bool) (location, bool) {
	key, err := nip19.DecodeNpub(name.Npub())
	if err != nil {
		return location{}, false
	}
	return location{Repo: grasp.Repo{PubKey: key, Identifier: name.Identifier()}, prs: prs}, true
}

// parseLocation is the inverse of String.
func parseLocation(s string) (location, bool) {
	path, err := grasp.ParsePath("/" + s)
	if err != nil || path.Rest != "" {
		return location{}, false
	}
	return location{Repo: path.Repo, prs: path.PRs}, true
}

// Has answers policies: it reports whether the repository of an announcement has an
// object, or, with the suffix ofCommit, a commit. An empty object asks whether the
// repository exists. That of a held announcement exists while the announcement waits for git
// data.
func (d *Disk) Has(ctx context.Context, a host.Address, object string) (bool, error) {
	repo, err := d.announced(ctx, a)
	if repo == nil || err != nil {
		return false, err
	}
	if object == "" {
		return true, nil
	}
	var found bool
	if id, ok := strings.CutSuffix(object, ofCommit); ok {
		found, err = repo.IsCommit(ctx, id)
	} else {
		var list []bool
		if list, err = repo.Has(ctx, object); err == nil {
			found = list[0]
		}
	}
	if errors.Is(err, gitrepo.ErrNotFound) {
		return false, nil
	}
	return found, err
}

const ofCommit = "^{commit}"

// Ref returns the object that a ref of the repository of an announcement names.
func (d *Disk) Ref(ctx context.Context, a host.Address, ref string) (object string, ok bool, err error) {
	repo, err := d.announced(ctx, a)
	if repo == nil || err != nil {
		return "", false, err
	}
	object, ok, err = repo.Ref(ctx, ref)
	if errors.Is(err, gitrepo.ErrNotFound) {
		return "", false, nil
	}
	return object, ok, err
}

// Here reports whether the repository of an announcement exists.
func (d *Disk) Here(ctx context.Context, a host.Address) (bool, error) {
	repo, err := d.announced(ctx, a)
	return repo != nil, err
}

// Refs returns the refs of the repository of an announcement by name, the ref that
// HEAD names, which need not exist, and whether there is the repository.
func (d *Disk) Refs(ctx context.Context, a host.Address) (refs []grasp.Ref, head string, here bool, err error) {
	repo, err := d.announced(ctx, a)
	if repo == nil || err != nil {
		return nil, "", false, err
	}
	all, err := repo.Refs(ctx)
	if errors.Is(err, gitrepo.ErrNotFound) {
		return nil, "", false, nil
	}
	return tracked(all), all.HEAD, err == nil, err
}

// Repository returns the repository of an announcement, nil if there is none to show.
func (d *Disk) Repository(ctx context.Context, a host.Address) (*gitrepo.Repo, error) {
	return d.announced(ctx, a)
}

// announced returns the repository of an announcement, nil if there is none. It returns an
// empty one for an announcement that waits for git data and has no folder.
func (d *Disk) announced(ctx context.Context, a host.Address) (*gitrepo.Repo, error) {
	if a.Kind != grasp.KindAnnouncement || strings.TrimSpace(a.D) == "" {
		return nil, nil
	}
	repo, err := d.repo(location{Repo: grasp.Repo{PubKey: a.PubKey, Identifier: a.D}})
	if err != nil {
		return nil, nil // no repository can have the name
	}
	there, err := repo.Exists()
	if err != nil {
		return nil, err
	}
	if there {
		return repo, nil
	}
	waits, err := d.waits(ctx, a)
	if err != nil || !waits {
		return nil, err
	}
	return d.empty[gitrepo.SHA1], nil
}

// updateTime is how long a request waits for the jobs of its repository.
const updateTime = 250 * time.Millisecond

// Find returns the repository of a path (githttp.Repositories). One that waits for git data and
// has no folder is empty for readers. For a push, it is the place that Authorize makes.
func (f *Reconciler) Find(ctx context.Context, parts []string, use githttp.Use) (*gitrepo.Repo, error) {
	p, ok := f.locationOfPath(parts)
	if !ok {
		return nil, gitrepo.ErrNotFound
	}
	repo, err := f.disk.repo(p)
	if err != nil {
		return nil, gitrepo.ErrNotFound
	}
	if r, err := f.hidden(ctx, p); err != nil {
		return nil, err
	} else if r != nil {
		return nil, takenDown(r)
	}
	f.waitUpdated(ctx, p)
	if there, err := repo.Exists(); err != nil || there {
		return repo, err
	}
	format := gitrepo.SHA1
	if !p.prs {
		waits, err := f.disk.waits(ctx, p.address())
		if err != nil {
			return nil, err
		}
		if !waits {
			if r := f.cfg.Moderation.Removed(host.PubKey(p.PubKey), p.Identifier, f.cfg.Now().Unix()); r != nil {
				return nil, takenDown(r)
			}
			return nil, gitrepo.ErrNotFound
		}
		if format, err = f.plannedFormat(ctx, p); err != nil {
			return nil, err
		}
	}
	if use == githttp.PushTo {
		return repo, nil
	}
	return f.disk.empty[format], nil
}

// waitUpdated waits a moment for the jobs that a repository is waiting for.
func (f *Reconciler) waitUpdated(ctx context.Context, p location) {
	ctx, cancel := context.WithTimeout(ctx, updateTime)
	defer cancel()
	f.jobs.waitIdle(ctx, identifier(p.Identifier))
	f.jobs.waitIdle(ctx, p)
}

// plannedFormat returns the format that a repository without a folder will have: that of the
// newest state of its maintainers.
func (f *Reconciler) plannedFormat(ctx context.Context, p location) (gitrepo.Format, error) {
	list, err := maintainers.Below(ctx, f.cfg.Store, p.Identifier, p.PubKey)
	if err != nil {
		return 0, err
	}
	states, err := f.trackedStates(ctx, p.Identifier, maintainers.Graph(list).Maintainers(p.PubKey))
	format, _ := formatOf(states)
	return format, err
}

// Here reports whether the repository of an announcement exists: see [Disk.Has].
func (f *Reconciler) Here(ctx context.Context, a host.Address) (bool, error) {
	return f.disk.Here(ctx, a)
}

// Repository returns the repository of an announcement: see [Disk.Repository].
func (f *Reconciler) Repository(ctx context.Context, a host.Address) (*gitrepo.Repo, error) {
	return f.disk.Repository(ctx, a)
}

// Refs returns the refs of the repository of an announcement: see Disk.Refs.
func (f *Reconciler) Refs(ctx context.Context, a host.Address) (refs []grasp.Ref, head string, here bool, err error) {
	waiting, cancel := context.WithTimeout(ctx, updateTime)
	f.jobs.waitIdle(waiting, location{Repo: grasp.Repo{PubKey: a.PubKey, Identifier: a.D}})
	cancel()
	return f.disk.Refs(ctx, a)
}

// IsPath reports whether the decoded parts of a path have the form of a repository's: an npub and
// an identifier, below prs or not.
func IsPath(parts []string) bool {
	if len(parts) == 3 && parts[0] == "prs" {
		parts = parts[1:]
	}
	return len(parts) == 2 && strings.HasPrefix(parts[0], "npub1")
}

// locationOfPath returns the place that the decoded parts of a path name.
func (f *Reconciler) locationOfPath(parts []string) (location, bool) {
	prs := len(parts) == 3 && parts[0] == "prs" && f.disk.PRs != nil
	if prs {
		parts = parts[1:]
	}
	if len(parts) == 2 && !strings.HasSuffix(parts[1], ".git") {
		parts = []string{parts[0], parts[1] + ".git"} // as people copy it from a browser
	}
	name, err := gitrepo.ParsePath(parts)
	if err != nil {
		return location{}, false
	}
	return locationOf(name, prs)
}
