package attack

import (
	"bytes"
	"context"
	"fmt"
	"sync/atomic"

	"talon/host/relayclient"
)

// fanout makes the server send each event many times over one connection.
func fanout() []Attack {
	return []Attack{{
		Name: "fan-out", Text: "64 equal subscriptions of each connection get 64 copies of an event, from 34 addresses",
		Count: 400, Unit: "connections",
		// The fifth equal subscription is refused.
		Max:     map[string]int64{"copies": 4},
		Prepare: prepareFanout,
	}}
}

func prepareFanout(_ context.Context, t *Target, count int) (Run, error) {
	return func(ctx context.Context) Outcome {
		var all, first, size atomic.Int64
		f := t.holdSockets(ctx, count, 34, func(s *relayclient.Socket, _ int) error {
			for k := range perConnection {
				if err := s.Write(fmt.Appendf(nil, `["REQ","s%d",{"limit":0}]`, k)); err != nil {
					return err
				}
			}
			return nil
		}, func(text []byte) {
			if !bytes.HasPrefix(text, []byte(`["EVENT",`)) {
				return
			}
			all.Add(1)
			size.Add(int64(len(text)))
			if bytes.HasPrefix(text, []byte(`["EVENT","s0"`)) {
				first.Add(1)
			}
		})
		f["messages"], f["received"] = all.Load(), size.Load()
		f["copies"] = (all.Load() + first.Load()/2) / max(first.Load(), 1) // of an event on one connection
		return Outcome{Figures: f}
	}, nil
}
