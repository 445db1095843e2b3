package repos

import (
	"context"
	"fmt"

	"talon/host"
	"talon/host/githttp"
	"talon/host/gitrepo"
	"talon/host/moderation"
	"talon/host/wire"
	"talon/sdk/grasp"
)

// A hidden repository keeps its folder and its refs, and is brought in line as any other, so that
// the branches of other maintainers stay where they are. Nothing of it is served, pushed or
// hunted.

// hidden returns the row of the moderation log that hides a repository, nil for none: a row about the
// repository or its owner, or one that bars its only announcement, such as a ban of that event.
func (f *Reconciler) hidden(ctx context.Context, p location) (*moderation.Row, error) {
	now := f.cfg.Now().Unix()
	if r := f.cfg.Moderation.Repository(host.PubKey(p.PubKey), p.Identifier, now); r != nil {
		return r, nil
	}
	if f.cfg.Moderation.Number() == 0 {
		return nil, nil
	}
	// The store also has hidden announcements: see [WithHidden].
	texts, err := f.cfg.Store.Query(ctx, host.Filter{
		Kinds: []host.Kind{host.KindAnnouncement}, Authors: []host.PubKey{host.PubKey(p.PubKey)},
		Tags: []host.TagFilter{{Name: 'd', Values: []string{p.Identifier}}}, Limit: -1,
	})
	if err != nil {
		return nil, fmt.Errorf("read the announcement of %s: %w", p, err)
	}
	var bars *moderation.Row
	for _, text := range texts {
		e, err := wire.ParseEvent(text)
		if err != nil {
			return nil, fmt.Errorf("read the announcement of %s: %w", p, err)
		}
		r := f.cfg.Moderation.Event(e, now)
		if r == nil {
			return nil, nil
		}
		bars = r
	}
	return bars, nil
}

// purged reports whether the operator has removed a repository.
func (f *Reconciler) purged(p location) bool {
	return f.cfg.Moderation.Purged(host.PubKey(p.PubKey), p.Identifier, f.cfg.Now().Unix()) != nil
}

// takenDown is the answer to git about a repository that the operator has taken down.
func takenDown(r *moderation.Row) *githttp.Refusal {
	return &githttp.Refusal{Reason: "this repository was " + r.Text()}
}

// HiddenStore is a [Store] that also has hidden events.
type HiddenStore interface {
	Store
	HiddenBy(ctx context.Context, f host.Filter) ([][]byte, error)
}

// WithHidden returns a store whose queries also find hidden announcements and states. That holds
// for queries by address, and for announcements by maintainer. So hiding an event does not change
// who maintains a repository, or its refs.
func WithHidden(s HiddenStore) Store { return hiddenToo{s} }

type hiddenToo struct{ HiddenStore }

// Query returns the events that match, hidden ones last.
func (s hiddenToo) Query(ctx context.Context, f host.Filter) ([][]byte, error) {
	found, err := s.HiddenStore.Query(ctx, f)
	if err != nil || f.IDs != nil {
		return found, err
	}
	hidden, err := s.HiddenBy(ctx, f)
	if err != nil || len(hidden) == 0 {
		return found, err
	}
	return append(found[:len(found):len(found)], hidden...), nil
}

// Purged waits until the folder of a repository is gone whose announcement the operator has removed,
// and drops the objects that no other repository of the identifier reaches.
func (f *Reconciler) Purged(ctx context.Context, a host.Address) error {
	p := location{Repo: grasp.Repo{PubKey: grasp.PubKey(a.PubKey), Identifier: a.D}}
	repo, err := f.disk.repo(p)
	if err != nil {
		return nil // no repository can have the name
	}
	if err := f.await(ctx, f.jobs.enqueue(p, task{removed: true})); err != nil {
		return err
	}
	if there, err := repo.Exists(); err != nil || there {
		return err // it is announced again
	}
	for _, format := range []gitrepo.Format{gitrepo.SHA1, gitrepo.SHA256} {
		if err := f.disk.Announced.Collect(ctx, a.D, format, 0); err != nil {
			return fmt.Errorf("drop the objects of %s: %w", p, err)
		}
	}
	return nil
}
