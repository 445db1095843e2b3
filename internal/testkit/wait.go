package testkit

import (
	"testing"
	"time"
)

// margin is what is left for a test that has failed to say so, and to clean up.
const margin = 5 * time.Second

// Deadline returns the time by which a wait has failed: a little before go test
// ends the binary, or a day from now if it never does.
func Deadline(t testing.TB) time.Time {
	if t, ok := t.(interface{ Deadline() (time.Time, bool) }); ok {
		if at, ok := t.Deadline(); ok {
			return at.Add(-margin)
		}
	}
	return time.Now().Add(24 * time.Hour)
}

// Eventually waits until done reports true. It is for what other processes and
// the network do; inside a bubble of testing/synctest, time does not pass while
// something is done, and synctest.Wait says when all of it is.
func Eventually(t testing.TB, what string, done func() bool) {
	t.Helper()
	for deadline := Deadline(t); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it does not happen: %s", what)
		}
	}
}

// Receive returns what comes out of a channel, the zero value when it is closed.
func Receive[T any](t testing.TB, what string, from <-chan T) T {
	t.Helper()
	late := time.NewTimer(time.Until(Deadline(t)))
	defer late.Stop()
	select {
	case v := <-from:
		return v
	case <-late.C:
		t.Fatalf("it does not happen: %s", what)
		panic("not reached")
	}
}
