package gitrepo

import (
	"context"
	"fmt"
)

// IsCommit reports whether an object is in the repository, or in what it borrows from,
// and is a commit: not a tag of one.
func (r *Repo) IsCommit(ctx context.Context, id string) (bool, error) {
	// Most that are asked for are not there, which needs no process of git.
	found, err := r.Has(ctx, id)
	if err != nil || !found[0] {
		return false, err
	}
	answers, err := r.ask(ctx, []string{id + "^{commit}"})
	if err != nil {
		return false, fmt.Errorf("look for a commit: %w", err)
	}
	return answers[0] == id, nil
}
