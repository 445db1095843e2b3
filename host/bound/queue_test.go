package bound

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"talon/host"
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
		if queue.Busy() != 0 || queue.waiting != 0 || len(queue.others.lines)+len(queue.others.next) != 0 {
			t.Errorf("%d work, %d wait in %d lines, want none", queue.Busy(), queue.waiting, len(queue.others.lines))
		}
	})
}

// TestQueueOfKnownPeople has forty networks of strangers wait, and then known people. These get
// every second place, and one of them does not get all of their part.
func TestQueueOfKnownPeople(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queue := NewQueue(Spec{Name: "test", Unit: "requests", Total: 64, Known: 16, Network: 8, Yields: "the next one waits"}, 1)
		if err := queue.Acquire(t.Context(), Holder{}); err != nil {
			t.Fatal(err)
		}
		order := make(chan string, 64)
		wait := func(by Holder, name string) {
			go func() {
				if err := queue.Acquire(t.Context(), by); err != nil {
					name = err.Error()
				}
				order <- name
			}()
			synctest.Wait()
		}
		for n := range 48 {
			wait(Holder{Addr: netip.AddrFrom4([4]byte{10, 0, byte(n), 1})}, "stranger")
		}
		wait(Holder{Addr: netip.MustParseAddr("10.0.99.1")}, "stranger")
		if got := <-order; got != ErrFull.Error() {
			t.Errorf("a stranger in the part for known people gets %q", got)
		}
		home := netip.MustParseAddr("192.0.2.1")
		for range 3 { // two fit in the part of one network
			wait(Holder{Addr: home, Known: true}, "network")
		}
		if got := <-order; got != ErrFull.Error() {
			t.Errorf("the third of a known network gets %q", got)
		}
		wait(Holder{Addr: home, Known: true, Key: host.PubKey{1}}, "key")
		var got []string
		for range 8 {
			queue.Release()
			got = append(got, <-order)
		}
		if want := []string{"stranger", "network", "stranger", "key", "stranger", "network", "stranger", "stranger"}; !slices.Equal(got, want) {
			t.Errorf("the order is %s, want %s", strings.Join(got, " "), strings.Join(want, " "))
		}
		for queue.Busy() > 0 {
			queue.Release()
		}
		if queue.waiting != 0 || queue.known.waiting != 0 || queue.others.waiting != 0 || len(queue.others.lines)+len(queue.known.lines) != 0 {
			t.Errorf("something is left: %+v", queue)
		}
	})
}
