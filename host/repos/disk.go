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
	none      *gitrepo.Root // has the empty one
	empty     *gitrepo.Repo // what is under /prs/ where nothing was pushed
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

// OpenDisk opens the repositories in a data folder, and makes the folders that are
// absent. Without prs there is nothing under /prs/. Nodes are nil if nobody else has the
// folder open.
func OpenDisk(ctx context.Context, git *gitrepo.Git, data string, prs bool, nodes gitrepo.Nodes) (d *Disk, err error) {
	d = new(Disk)
	defer func() {
		if err != nil {
			d.Close()
		}
	}()
	if d.Announced, err = gitrepo.OpenShared(git, filepath.Join(data, "git"), nodes); err != nil || !prs {
		return d, err
	}
	if d.PRs, err = gitrepo.OpenShared(git, filepath.Join(data, "git-prs"), nodes); err != nil {
		return d, err
	}
	return d, d.makeEmpty(ctx, git, filepath.Join(data, "git-empty"), nodes)
}

// makeEmpty makes the repository that is shown where nothing was pushed (GRASP-06).
// It has a folder of its own, so that no path leads to it.
func (d *Disk) makeEmpty(ctx context.Context, git *gitrepo.Git, dir string, nodes gitrepo.Nodes) error {
	root, err := gitrepo.OpenShared(git, dir, nodes)
	if err != nil {
		return err
	}
	d.none = root
	name, err := gitrepo.ParseName(nip19.EncodeNpub([32]byte{}), "empty")
	if err != nil {
		return fmt.Errorf("name the empty repository: %w", err)
	}
	d.empty = root.Repo(name)
	unlock, err := d.empty.Lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	return d.empty.Init(ctx, gitrepo.SHA1)
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
// repository exists.
func (d *Disk) Has(ctx context.Context, a host.Address, object string) (bool, error) {
	repo, err := d.announced(a)
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
	repo, err := d.announced(a)
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
func (d *Disk) Here(_ context.Context, a host.Address) (bool, error) {
	repo, err := d.announced(a)
	return repo != nil, err
}

// Refs returns the refs of the repository of an announcement by name, the ref that
// HEAD names, which need not exist, and whether there is the repository.
func (d *Disk) Refs(ctx context.Context, a host.Address) (refs []grasp.Ref, head string, here bool, err error) {
	repo, err := d.announced(a)
	if repo == nil || err != nil {
		return nil, "", false, err
	}
	all, err := repo.Refs(ctx)
	if errors.Is(err, gitrepo.ErrNotFound) {
		return nil, "", false, nil
	}
	return tracked(all), all.HEAD, err == nil, err
}

// announced returns the repository of an announcement, nil if there is none.
func (d *Disk) announced(a host.Address) (*gitrepo.Repo, error) {
	if a.Kind != grasp.KindAnnouncement || strings.TrimSpace(a.D) == "" {
		return nil, nil
	}
	repo, err := d.repo(location{Repo: grasp.Repo{PubKey: a.PubKey, Identifier: a.D}})
	if err != nil {
		return nil, nil // no repository can have the name
	}
	there, err := repo.Exists()
	if err != nil || !there {
		return nil, err
	}
	return repo, nil
}

// How long a request waits for jobs of its repository: to be made, or to be brought
// up to date.
const (
	makeTime   = 10 * time.Second
	updateTime = 250 * time.Millisecond
)

// Find returns the repository of a path (githttp.Repositories).
func (f *Reconciler) Find(ctx context.Context, parts []string, use githttp.Use) (*gitrepo.Repo, error) {
	p, ok := f.locationOfPath(parts)
	if !ok {
		return nil, gitrepo.ErrNotFound
	}
	repo, err := f.disk.repo(p)
	if err != nil {
		return nil, gitrepo.ErrNotFound
	}
	there, err := repo.Exists()
	if err != nil {
		return nil, err
	}
	wait := makeTime
	if there {
		wait = updateTime
	}
	f.jobs.waitIdle(ctx, identifier(p.Identifier), wait)
	f.jobs.waitIdle(ctx, p, wait)
	if there, err = repo.Exists(); err != nil || there {
		return repo, err
	}
	if !p.prs && f.cfg.Nodes != nil {
		if there, err = f.makeHere(ctx, p, repo); err != nil || there {
			return repo, err
		}
	}
	if !p.prs {
		return nil, gitrepo.ErrNotFound
	}
	if use == githttp.PushTo {
		return repo, nil // Authorize makes it
	}
	return f.disk.empty, nil
}

// makeHere makes a repository whose announcement came to another node a moment ago.
func (f *Reconciler) makeHere(ctx context.Context, p location, repo *gitrepo.Repo) (bool, error) {
	list, err := maintainers.Below(ctx, f.cfg.Store, p.Identifier, p.PubKey)
	if err != nil {
		return false, err
	}
	if mine := own(list, p.PubKey); mine == nil || !mine.Held {
		return false, nil
	}
	f.jobs.enqueue(p, task{})
	f.jobs.waitIdle(ctx, p, makeTime)
	return repo.Exists()
}

// Here reports whether the repository of an announcement exists. It waits for the job
// that makes it.
func (f *Reconciler) Here(ctx context.Context, a host.Address) (bool, error) {
	here, err := f.disk.Here(ctx, a)
	if here || err != nil {
		return here, err
	}
	f.jobs.waitIdle(ctx, location{Repo: grasp.Repo{PubKey: a.PubKey, Identifier: a.D}}, updateTime)
	return f.disk.Here(ctx, a)
}

// Refs returns the refs of the repository of an announcement: see Disk.Refs.
func (f *Reconciler) Refs(ctx context.Context, a host.Address) (refs []grasp.Ref, head string, here bool, err error) {
	f.jobs.waitIdle(ctx, location{Repo: grasp.Repo{PubKey: a.PubKey, Identifier: a.D}}, updateTime)
	return f.disk.Refs(ctx, a)
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
