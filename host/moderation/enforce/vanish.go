package enforce

import (
	"context"
	"fmt"

	"talon/host"
	"talon/host/store/semantics"
)

// vanishedAtOnce is how many requests to vanish are read in one step.
const vanishedAtOnce = 100

// carryOutVanished removes the events that requests to vanish concern, from the last request on that
// was carried out. Ingest has obeyed them since they were noted.
func (e *Enforcer) carryOutVanished(ctx context.Context) error {
	done, err := e.loadNumber(ctx, "vanished")
	if err != nil {
		return err
	}
	for {
		list, err := e.cfg.Store.VanishedAfter(ctx, done, vanishedAtOnce)
		if err != nil || len(list) == 0 {
			return err
		}
		for i := range list {
			var sum Progress
			report := func(p Progress) {
				sum.Events, sum.Bytes, sum.Repositories = sum.Events+p.Events, sum.Bytes+p.Bytes, sum.Repositories+p.Repositories
			}
			if err := e.takeDown(ctx, e.scopeOfVanished(&list[i]), true, report); err != nil {
				return fmt.Errorf("carry out the request %s to vanish: %w", list[i].ID, err)
			}
			if sum.Events > 0 {
				e.cfg.Logger.Info("an author has vanished", "author", list[i].PubKey, "request", list[i].ID, "events", sum.Events, "bytes", sum.Bytes, "repositories", sum.Repositories)
			}
		}
		done = list[len(list)-1].Number
		if err := e.saveNumber(ctx, "vanished", done); err != nil {
			return err
		}
	}
}

// scopeOfVanished returns what a request to vanish is about: the events of its author, and the gift
// wraps that are addressed to the author.
func (e *Enforcer) scopeOfVanished(v *host.VanishRequest) *scope {
	until, author := v.Until, v.PubKey
	return &scope{
		filters: []host.Filter{
			{Authors: []host.PubKey{author}, Until: &until, Limit: -1},
			{Kinds: []host.Kind{host.KindGiftWrap}, Tags: []host.TagFilter{{Name: 'p', Values: []string{author.String()}}}, Until: &until, Limit: -1},
		},
		concerns: v.Concerns,
		hidden: []hiddenAfter{
			func(ctx context.Context, number int64, limit int) ([]semantics.Hidden, error) {
				return e.cfg.Store.HiddenOf(ctx, &author, 0, number, limit)
			},
			func(ctx context.Context, number int64, limit int) ([]semantics.Hidden, error) {
				return e.cfg.Store.HiddenOf(ctx, nil, host.KindGiftWrap, number, limit)
			},
		},
	}
}
