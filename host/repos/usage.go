package repos

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"

	"talon/host"
	"talon/host/gitfetch"
	"talon/host/githttp"
	"talon/host/gitrepo"
	"talon/sdk/grasp"
	"talon/sdk/nip19"
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

// limitWants notes how many bytes may be fetched for a repository: for its states, and for pull
// requests, which strangers write. The policies say it as for a push.
func (f *Reconciler) limitWants(ctx context.Context, p location, maintainers []grasp.PubKey, states, pulls []gitfetch.Want) error {
	if len(states)+len(pulls) == 0 {
		return nil
	}
	ruling, err := f.cfg.Policy.Push(ctx, &host.Push{
		Client: &host.Client{}, Repo: p.address(), PRs: p.prs, Maintainers: host.PubKeys(maintainers), Fetch: true,
	})
	if err != nil {
		return fmt.Errorf("ask the policies about a fetch: %w", err)
	}
	for _, part := range []struct {
		wants    []gitfetch.Want
		stranger bool
	}{{states, false}, {pulls, true}} {
		room, err := f.room(ctx, p, ruling.Limits, part.stranger)
		if err != nil {
			return err
		}
		for i := range part.wants {
			if w := &part.wants[i]; room != nil {
				w.MaxBytes, w.Full = room.Bytes, room.Bytes == 0
			}
		}
	}
	return nil
}

// setRoom notes how many bytes a push may add.
func (f *Reconciler) setRoom(ctx context.Context, push *githttp.Push, c checked) (err error) {
	maintained := byMaintainer(push, c.ask.Maintainers)
	if push.Room, err = f.room(ctx, c.place, c.limits, !maintained); push.Room != nil {
		push.Room.Reported = maintained
	}
	return err
}

// limited is a part of what is here that has a limit.
type limited struct {
	what        string
	used, limit int64 // bytes; 0 is no limit
}

// limitedBy returns what the git data of a repository, and all of its owner, take of limits.
func (f *Reconciler) limitedBy(ctx context.Context, repository host.UsageKey, limits host.UsageLimits) ([]limited, error) {
	used, err := f.cfg.Store.Usage(ctx, repository, host.UsageOfAuthor(repository.PubKey()))
	if err != nil {
		return nil, err
	}
	return []limited{
		{"the git data of this repository takes", used[0].Git, limits.Repository},
		{"the events and git data of its owner take", used[1].Total(), limits.Author},
	}, nil
}

// usageNote says how much of its limits a repository takes, "" if it has none.
func (f *Reconciler) usageNote(ctx context.Context, p location, limits host.UsageLimits) (string, error) {
	repository, ok := host.UsageOfRepository(host.PubKey(p.PubKey), p.Identifier)
	if !ok {
		return "", nil
	}
	parts, err := f.limitedBy(ctx, repository, limits)
	if err != nil {
		return "", err
	}
	var texts []string
	for _, part := range parts {
		if part.limit > 0 {
			texts = append(texts, host.QuotaText(part.what, part.used, part.limit))
		}
	}
	return strings.Join(texts, ", and "), nil
}

// UsageOf says to an author what takes how much here: all that is theirs, and each of their
// repositories. It names limits that the policies have set.
func (f *Reconciler) UsageOf(ctx context.Context, author host.PubKey, repositories []host.Address) (lines []string, err error) {
	ask := &host.Push{
		Client: &host.Client{}, Repo: host.Address{Kind: grasp.KindAnnouncement, PubKey: author}, Maintainers: []host.PubKey{author}, Fetch: true,
	}
	if len(repositories) > 0 {
		ask.Repo = repositories[0]
	}
	ruling, err := f.cfg.Policy.Push(ctx, ask)
	if err != nil {
		return nil, fmt.Errorf("ask the policies about limits: %w", err)
	}
	keys, names := []host.UsageKey{host.UsageOfAuthor(author)}, []string{"Your events and git data take"}
	for _, a := range repositories {
		if key, ok := host.UsageOfRepository(a.PubKey, a.D); ok {
			keys, names = append(keys, key), append(names, "The git data of "+a.D+" takes")
		}
	}
	used, err := f.cfg.Store.Usage(ctx, keys...)
	if err != nil {
		return nil, err
	}
	for i := range used {
		bytes, limit := used[i].Git, ruling.Limits.Repository
		if i == 0 {
			bytes, limit = used[i].Total(), ruling.Limits.Author
		}
		text := names[i] + " " + host.BytesText(bytes)
		if limit > 0 {
			text = host.QuotaText(names[i], bytes, limit)
		}
		lines = append(lines, text+".")
	}
	return lines, nil
}

// room returns how many bytes a repository may get, nil for no limit. Git data counts for the
// owner of the repository.
//
// Anybody can push the branch of a pull request. What no maintainer signed may use three quarters
// of a limit, so that strangers cannot fill it for maintainers.
func (f *Reconciler) room(ctx context.Context, p location, limits host.UsageLimits, stranger bool) (*githttp.Room, error) {
	repository, ok := host.UsageOfRepository(host.PubKey(p.PubKey), p.Identifier)
	if limits == (host.UsageLimits{}) || !ok {
		return nil, nil
	}
	if stranger {
		limits.Author -= limits.Author / 4
		limits.Repository -= limits.Repository / 4
	}
	parts, err := f.limitedBy(ctx, repository, limits)
	if err != nil {
		return nil, err
	}
	room := &githttp.Room{Bytes: math.MaxInt64, Limits: limits}
	for _, part := range parts {
		if left := part.limit - part.used; part.limit > 0 && left < room.Bytes {
			room.Bytes, room.Reason = max(left, 0), "over quota: "+host.QuotaText(part.what, part.used, part.limit)+", and this push adds more than is left"
		}
	}
	return room, nil
}

// byMaintainer reports whether a maintainer has asked for a push: the owner, by a state, or the
// author of a pull request who is one.
func byMaintainer(push *githttp.Push, maintainers []host.PubKey) bool {
	return push.Author == githttp.OwnerOf(push.Repo) ||
		slices.ContainsFunc(maintainers, func(p host.PubKey) bool { return push.Author == nip19.EncodeNpub(p) })
}

// charge counts the bytes of a push for the repository, if it has a limit: pushes to other
// repositories of the owner may have come since. The measure after the push corrects them.
// REQUIRES: the lock of the repository.
func (f *Reconciler) charge(ctx context.Context, p location, push *githttp.Push) error {
	repository, ok := host.UsageOfRepository(host.PubKey(p.PubKey), p.Identifier)
	if push.Room == nil || push.Stored == 0 || !ok {
		return nil
	}
	used, err := f.cfg.Store.Usage(ctx, repository)
	if err != nil {
		return err
	}
	err = f.cfg.Store.SetGitUsage(ctx, repository, used[0].Git+push.Stored, push.Room.Limits)
	if errors.Is(err, host.ErrQuota) {
		return &githttp.Refusal{Reason: push.Room.Reason}
	}
	push.Charged = err == nil
	return err
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
