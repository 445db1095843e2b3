package attack

import (
	"context"
	"fmt"
	"sync/atomic"

	"talon/host/relayclient"
)

// fanout makes the server send each event many times over one connection.
func fanout() []Attack {
	return []Attack{{
		Name: "fan-out", Text: "64 equal subscriptions of each connection get 64 copies of an event, from 34 addresses",
		Count: 400, Unit: "connections", Prepare: prepareFanout,
	}}
}

func prepareFanout(_ context.Context, t *Target, count int) (Run, error) {
	return func(ctx context.Context) Outcome {
		var events, bytes atomic.Int64
		f := t.holdSockets(ctx, count, 34, func(s *relayclient.Socket, _ int) error {
			for k := range perConnection {
				if err := s.Write(fmt.Appendf(nil, `["REQ","s%d",{"limit":0}]`, k)); err != nil {
					return err
				}
			}
			return nil
		}, func(text []byte) {
			events.Add(1)
			bytes.Add(int64(len(text)))
		})
		f["messages"], f["received"] = events.Load(), bytes.Load()
		return Outcome{Figures: f}
	}, nil
}
