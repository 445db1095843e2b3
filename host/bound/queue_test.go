package bound

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
)

func newTestQueue(slots int) *Queue {
	return NewQueue(Spec{Name: "test", Unit: "requests", Total: 16, Network: 8, Yields: "the next one waits"}, slots)
}

// TestQueue shows in which order those who wait get a place.
func TestQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queue := newTestQueue(1)
		if err := queue.Acquire(t.Context(), Holder{}); err != nil {
			t.Fatal(err)
		}
		order := make(chan string, 16)
		wait := func(addr, name string) {
			go func() {
				if err := queue.Acquire(t.Context(), Holder{Addr: netip.MustParseAddr(addr)}); err != nil {
					name = err.Error()
				}
				order <- name
			}()
			synctest.Wait()
		}
		for _, name := range []string{"a1", "a2", "a3"} {
			wait("192.0.2."+name[1:], name)
		}
		wait("198.51.100.1", "b1")
		wait("198.51.100.1", "b2")
		wait("::1", "c1")
		var got []string
		for range 6 {
			queue.Release()
			got = append(got, <-order)
		}
		if want := []string{"a1", "b1", "c1", "a2", "b2", "a3"}; !slices.Equal(got, want) {
			t.Errorf("the order is %s, want %s", strings.Join(got, " "), strings.Join(want, " "))
		}
		queue.Release()
		if n := queue.Busy(); n != 0 {
			t.Errorf("%d places are taken, want 0", n)
		}
	})
}

// TestQueueIsBounded shows how many of a network may wait, and that nothing is left of those who
// have gone.
func TestQueueIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queue := newTestQueue(1)
		ctx, cancel := context.WithCancel(t.Context())
		failed := make(chan error, 32)
		acquire := func(addr string) {
			go func() { failed <- queue.Acquire(ctx, Holder{Addr: netip.MustParseAddr(addr)}) }()
			synctest.Wait()
		}
		acquire("192.0.2.1")
		if err := <-failed; err != nil {
			t.Fatal(err)
		}
		for range 9 {
			acquire("192.0.2.2")
		}
		if err := <-failed; !errors.Is(err, ErrShare) {
			t.Errorf("the ninth of a network gets %v, want ErrShare", err)
		}
		for range 8 {
			acquire("198.51.100.1")
		}
		acquire("203.0.113.1")
		if err := <-failed; !errors.Is(err, ErrFull) {
			t.Errorf("the seventeenth gets %v, want ErrFull", err)
		}
		cancel()
		for range 16 {
			if err := <-failed; !errors.Is(err, context.Canceled) {
				t.Errorf("one who has gone gets %v", err)
			}
		}
		queue.Release()
		if queue.Busy() != 0 || queue.waiting != 0 || len(queue.lines)+len(queue.next) != 0 {
			t.Errorf("%d work, %d wait in %d lines, want none", queue.Busy(), queue.waiting, len(queue.lines))
		}
	})
}
