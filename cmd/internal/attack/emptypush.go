package attack

import "context"

// emptyPushes hold the places of pushes.
func emptyPushes() []Attack {
	return []Attack{{
		Name: "empty-push", Text: "pushes without a body to a repository that does not exist, from two addresses",
		Count: 68, Unit: "requests at once", Prepare: prepareEmptyPushes,
	}}
}

func prepareEmptyPushes(_ context.Context, t *Target, count int) (Run, error) {
	path := newPerson("nobody").repo("nothing").Path()
	return func(ctx context.Context) Outcome {
		return Outcome{Figures: t.bodiless(ctx, count, path, "git-receive-pack", 2, 1<<20)}
	}, nil
}
