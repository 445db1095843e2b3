package engine

import (
	"context"

	"talon/cmd/internal/lab/result"
	"talon/host/plugin/guest"
)

// Module is a strategy or a throttle under test. Runs at once share it.
type Module interface {
	About() result.Module

	// New makes an instance that has seen nothing.
	New(ctx context.Context) (Instance, error)
}

// Instance is one instance of a module. One goroutine uses it.
type Instance interface {
	// Call asks it; the answer is valid until the next call. After an error it has ended.
	// now is in unix seconds.
	Call(ctx context.Context, f guest.Func, request []byte, now int64) (answer []byte, fuel int64, err error)

	Memory() int64 // bytes
	Close()
}

// usage is what a module has used in a run.
type usage struct {
	steps, fuel, memory int64
	failures            int
}

// call asks an instance and counts.
func (u *usage) call(ctx context.Context, i Instance, f guest.Func, request []byte, now int64) ([]byte, error) {
	answer, fuel, err := i.Call(ctx, f, request, now)
	u.steps++
	u.fuel += fuel
	u.memory = max(u.memory, i.Memory())
	if err != nil {
		u.failures++
	}
	return answer, err
}
