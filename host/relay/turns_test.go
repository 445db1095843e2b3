package relay

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gobwas/ws"

	"talon/host"
)

// TestConnectionsTakeTurns has connections with many messages that have arrived, and one
// processor. Each lets the others go on after a few messages, and does not handle all it has.
func TestConnectionsTakeTurns(t *testing.T) {
	const connections, messages, most = 8, 40, 3
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	var mu sync.Mutex // guards order
	var order []host.Kind
	var arrived sync.WaitGroup
	arrived.Add(connections)
	begin := make(chan struct{})
	var clock atomic.Int64
	start := time.Now()
	w := newWorld(t, func(c *Config, _ *world) {
		c.Now = func() time.Time { return start.Add(time.Duration(clock.Load())) }
	}, policy(&fakePolicy{query: func(_ context.Context, q *host.Query) (host.Ruling, error) {
		if q.Filters[0].Limit == 0 { // the first of a connection
			arrived.Done()
			<-begin
			return host.Ruling{Action: host.Reject}, nil
		}
		clock.Add(int64(yieldAfter)) // so long it takes
		mu.Lock()
		defer mu.Unlock()
		order = append(order, q.Filters[0].Kinds[0])
		return host.Ruling{Action: host.Reject}, nil
	}}))
	var clients []*client
	for i := range connections {
		c := w.dial()
		var all []byte
		for n := range messages + 1 {
			text := fmt.Appendf(nil, `["REQ","q",{"kinds":[%d],"limit":%d}]`, i, n)
			all = append(all, ws.MustCompileFrame(ws.MaskFrame(ws.NewTextFrame(text)))...)
		}
		c.write(all)
		clients = append(clients, c)
	}
	arrived.Wait()
	runtime.GOMAXPROCS(1)
	close(begin)
	for _, c := range clients {
		for range messages + 1 {
			c.recv()
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if len(order) != connections*messages {
		t.Fatalf("%d messages were handled, want %d", len(order), connections*messages)
	}
	handled, row := map[host.Kind]int{}, 0
	for i, kind := range order {
		if i > 0 && order[i-1] == kind {
			row++
		} else {
			row = 1
		}
		handled[kind]++
		left := 0
		for k := range host.Kind(connections) {
			if handled[k] < messages {
				left++
			}
		}
		if row > most && left > 2 {
			t.Fatalf("connection %d handled %d messages in a row while %d connections had some", kind, row, left)
		}
	}
}
