package repos

import (
	"context"
	"time"

	"talon/host"
	"talon/host/githttp"
	"talon/host/gitrepo"
	rules "talon/sdk/grasp"
)

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
	if !p.prs {
		return nil, gitrepo.ErrNotFound
	}
	if use == githttp.PushTo {
		return repo, nil // Authorize makes it
	}
	return f.disk.empty, nil
}

// Here reports whether there is the repository of an announcement. It waits for the
// job that makes it.
func (f *Reconciler) Here(ctx context.Context, a host.Address) (bool, error) {
	here, err := f.disk.Here(ctx, a)
	if here || err != nil {
		return here, err
	}
	f.jobs.waitIdle(ctx, location{Repo: rules.Repo{PubKey: a.PubKey, Identifier: a.D}}, updateTime)
	return f.disk.Here(ctx, a)
}

// Refs returns the refs of the repository of an announcement: see Disk.Refs.
func (f *Reconciler) Refs(ctx context.Context, a host.Address) (refs []rules.Ref, head string, here bool, err error) {
	f.jobs.waitIdle(ctx, location{Repo: rules.Repo{PubKey: a.PubKey, Identifier: a.D}}, updateTime)
	return f.disk.Refs(ctx, a)
}

// locationOfPath returns the place that the decoded parts of a path name.
func (f *Reconciler) locationOfPath(parts []string) (location, bool) {
	prs := len(parts) == 3 && parts[0] == "prs" && f.disk.PRs != nil
	if prs {
		parts = parts[1:]
	}
	name, err := gitrepo.ParsePath(parts)
	if err != nil {
		return location{}, false
	}
	return locationOf(name, prs)
}
