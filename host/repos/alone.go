package repos

import "context"

// Alone is the [Nodes] of a process that shares its folders with no other.
type Alone struct{}

// RunAs calls run: this process has every role.
func (Alone) RunAs(ctx context.Context, _ string, run func(context.Context) error) error {
	return run(ctx)
}

// EachLoss calls do once, since no node is lost later.
func (Alone) EachLoss(ctx context.Context, do func(context.Context) error) error { return do(ctx) }

// Alive reports that no other node is alive.
func (Alone) Alive(context.Context) (func(name string) bool, error) {
	return func(string) bool { return false }, nil
}

// Others reports that there are none.
func (Alone) Others() bool { return false }
