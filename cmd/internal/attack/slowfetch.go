package attack

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"time"
)

// slowFetches hold the places of fetches.
func slowFetches() []Attack {
	return []Attack{
		{
			Name: "slow-request", Text: "fetches announce a long request and send nothing of it, from one address",
			Count: 4, Unit: "requests at once", Prepare: prepareSlowRequests,
		},
		{
			Name: "slow-download", Text: "downloads read a kilobyte each second, from one address",
			Count: 4, Unit: "downloads at once", Disk: 128 << 20, Prepare: prepareSlowDownloads,
		},
	}
}

func prepareSlowRequests(_ context.Context, t *Target, count int) (Run, error) {
	return func(ctx context.Context) Outcome {
		return Outcome{Figures: t.bodiless(ctx, count, t.Repo, "git-upload-pack", 1, 1<<20)}
	}, nil
}

// bodiless keeps n requests open that have no body, and makes a new one for each that ends.
func (t *Target) bodiless(ctx context.Context, n int, path, kind string, addresses int, length int64) Figures {
	return holdAll(ctx, n, func(ctx context.Context, i int, opened func()) error {
		first := true
		for ctx.Err() == nil {
			c, err := t.post(ctx, attacker(i%addresses), i, path, kind, length, nil)
			if err != nil {
				pause(ctx, 100*time.Millisecond)
				continue
			}
			if first {
				opened()
				first = false
			}
			untilEnd(ctx, c, func() { _, _ = io.Copy(io.Discard, c) })
			pause(ctx, 20*time.Millisecond)
		}
		return nil
	})
}

// untilEnd runs f, and closes the connection when the context ends or f returns.
func untilEnd(ctx context.Context, c net.Conn, f func()) {
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer c.Close()
	defer stop()
	f()
}

// downloadBytes is more than the buffers of a connection hold.
const downloadBytes = 30 << 20

func prepareSlowDownloads(ctx context.Context, t *Target, count int) (Run, error) {
	large := make([]byte, downloadBytes)
	_, _ = rand.Read(large)
	p, commit, err := ownRepository(ctx, t, "download", large)
	if err != nil {
		return nil, err
	}
	request := []byte(fmt.Sprintf("0032want %s\n00000009done\n", commit))
	path := p.repo("download").Path()
	return func(ctx context.Context) Outcome {
		return Outcome{Figures: holdAll(ctx, count, func(ctx context.Context, i int, opened func()) error {
			first := true
			for ctx.Err() == nil {
				c, err := t.post(ctx, attacker(0), i, path, "git-upload-pack", int64(len(request)), request)
				if err != nil {
					pause(ctx, 100*time.Millisecond)
					continue
				}
				if first {
					opened()
					first = false
				}
				if tcp, ok := c.(*net.TCPConn); ok {
					_ = tcp.SetReadBuffer(4 << 10)
				}
				untilEnd(ctx, c, func() {
					for buf := make([]byte, 1024); ctx.Err() == nil; pause(ctx, time.Second) {
						if _, err := io.ReadFull(c, buf); err != nil {
							return
						}
					}
				})
				pause(ctx, 20*time.Millisecond)
			}
			return nil
		})}
	}, nil
}
