package repos

import (
	"context"
	"errors"
	"log/slog"

	"talon/host"
	"talon/host/gitrepo"
	"talon/sdk/grasp"
)

// Usages keeps how many bytes of git data repositories have.
type Usages interface {
	Usage(ctx context.Context, keys ...host.UsageKey) ([]host.Usage, error)
	SetGitUsage(ctx context.Context, repository host.UsageKey, bytes int64, limits host.UsageLimits) error
}

// measuring is the key of the job that notes how many bytes of git data a repository has.
type measuring grasp.Repo

// LogValue returns the address of the repository, for log lines of every format.
func (m measuring) LogValue() slog.Value { return slog.StringValue(grasp.Repo(m).Address()) }

// measure notes the bytes of git data of a repository, if they have changed. Data of the same
// author under /prs/ counts for the repository too.
func (f *Reconciler) measure(ctx context.Context, repo grasp.Repo) error {
	key, ok := host.UsageOfRepository(host.PubKey(repo.PubKey), repo.Identifier)
	if !ok {
		return nil
	}
	bytes, err := f.disk.usage(repo)
	if err != nil {
		return err
	}
	noted, err := f.cfg.Store.Usage(ctx, key)
	if err != nil || noted[0].Git == bytes {
		return err
	}
	return f.cfg.Store.SetGitUsage(ctx, key, bytes, host.UsageLimits{})
}

// usage returns how many bytes of git data a repository has.
func (d *Disk) usage(repo grasp.Repo) (bytes int64, err error) {
	for _, prs := range []bool{false, true} {
		r, err := d.repo(location{Repo: repo, prs: prs})
		if err != nil {
			continue // no repository can have the name, or nothing is under /prs/
		}
		there, err := r.Exists()
		if err != nil {
			return 0, err
		}
		if !there {
			continue
		}
		n, err := r.Usage()
		if err != nil {
			return 0, err
		}
		bytes += n
	}
	return bytes, nil
}

// settleUsage makes the bytes that count for repositories of a store those of its objects, once for
// each store: seen has those that are done.
func (f *Reconciler) settleUsage(ctx context.Context, repo *gitrepo.Repo, seen map[string]struct{}) error {
	store := repo.Store()
	if _, done := seen[store]; done {
		return nil
	}
	seen[store] = struct{}{}
	if err := repo.SettleUsage(ctx); err != nil && !errors.Is(err, gitrepo.ErrNotFound) {
		return err
	}
	return nil
}
