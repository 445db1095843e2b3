package relaysync

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"talon/host/relaysync/holdings"
	"talon/host/relaysync/relaysynctest"
)

// What a line has put is there for the next one immediately, whether it is written
// already, being written, or could not be.
func TestBeliefs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keep := new(relaysynctest.Holdings)
		b := newBeliefs(keep, 10)
		relay := "wss://a"
		there := func(when string, want int) {
			t.Helper()
			if set, err := b.get(t.Context(), relay); err != nil || set.Len() != want {
				t.Errorf("%s: %d events, %v; want %d", when, set.Len(), err, want)
			}
		}
		put := func(n int) {
			set := holdings.New(10)
			set.Keep()
			for i := range n {
				set.Add([32]byte{byte(i)})
			}
			b.put(relay, set.Encode())
		}
		there("nothing", 0)
		put(1)
		there("put", 1)
		keep.Fail(func() { there("while it is written", 1) }, nil)
		ctx, stop := context.WithCancel(t.Context())
		var failures []error
		go b.run(ctx, time.Minute, func(err error) { failures = append(failures, err) })
		time.Sleep(61 * time.Second)
		synctest.Wait()
		there("written", 1)
		put(2)
		keep.Fail(func() { put(3) }, errors.New("no space"))
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(failures) != 1 {
			t.Errorf("failures: %v", failures)
		}
		keep.Fail(nil, errors.New("no space"))
		there("not written", 3)
		keep.Fail(nil, nil)
		time.Sleep(time.Minute)
		synctest.Wait()
		if set := holdings.Decode(keep.Rows()[relay], 10); set.Len() != 3 {
			t.Errorf("%d events are written", set.Len())
		}
		b.put(relay, nil)
		there("forgotten", 0)
		stop()
		synctest.Wait()
		if err := b.flush(t.Context()); err != nil || keep.Rows()[relay] != nil {
			t.Errorf("it is not forgotten: %v", err)
		}
	})
}
