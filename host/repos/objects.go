package repos

import (
	"context"
	"errors"
	"fmt"

	"talon/host/gitrepo"
)

// Reaching returns the repositories that reach a git object, as their paths. With collect it first
// drops the objects that no repository reaches from the stores of those identifiers that have it.
func (d *Disk) Reaching(ctx context.Context, id string, collect bool) (list []string, err error) {
	for _, root := range []*gitrepo.Root{d.Announced, d.PRs} {
		if root == nil {
			continue
		}
		var names []gitrepo.Name
		err := root.List(func(name gitrepo.Name) bool {
			names = append(names, name)
			return ctx.Err() == nil
		})
		if err = errors.Join(err, context.Cause(ctx)); err != nil {
			return list, err
		}
		collected := make(map[string]bool)
		for _, name := range names {
			repo := root.Repo(name)
			has, err := repo.Has(ctx, id)
			switch {
			case errors.Is(err, gitrepo.ErrNotFound):
				continue
			case err != nil:
				return list, fmt.Errorf("look for an object in %s: %w", name, err)
			case !has[0]:
				continue
			}
			if collect && !collected[name.Identifier()] {
				collected[name.Identifier()] = true
				for _, format := range []gitrepo.Format{gitrepo.SHA1, gitrepo.SHA256} {
					if err := root.Collect(ctx, name.Identifier(), format, 0); err != nil {
						return list, fmt.Errorf("drop the objects of %s that nothing reaches: %w", name.Identifier(), err)
					}
				}
			}
			reaches, err := repo.Reaches(ctx, id)
			if err != nil && !errors.Is(err, gitrepo.ErrNotFound) {
				return list, fmt.Errorf("%s: %w", name, err)
			}
			if reaches {
				list = append(list, name.Path())
			}
		}
	}
	return list, nil
}
