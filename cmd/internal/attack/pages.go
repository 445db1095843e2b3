package attack

import (
	"context"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// pages keep the server busy with pages.
func pages() []Attack {
	return []Attack{{
		Name: "pages", Text: "connections of four addresses ask for a page again and again",
		Count: 2000, Unit: "connections", Prepare: preparePages,
	}}
}

func preparePages(_ context.Context, t *Target, count int) (Run, error) {
	return func(ctx context.Context) Outcome {
		client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{
			MaxIdleConnsPerHost: count,
			DialContext:         (&net.Dialer{Timeout: dialTime}).DialContext,
		}}
		var served, refused atomic.Int64
		f := holdAll(ctx, count, func(ctx context.Context, i int, opened func()) error {
			opened()
			for ctx.Err() == nil {
				status, _, err := get(ctx, client, t.url(t.Repo), attacker(i%4))
				switch {
				case err == nil && status == http.StatusOK:
					served.Add(1)
				case ctx.Err() == nil:
					refused.Add(1)
					pause(ctx, 100*time.Millisecond)
				}
			}
			return nil
		})
		f["served"], f["refused"] = served.Load(), refused.Load()
		return Outcome{Figures: f}
	}, nil
}
