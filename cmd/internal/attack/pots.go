package attack

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"talon/host/relayclient"
)

// pots fill what all clients share.
func pots() []Attack {
	return []Attack{
		{
			Name: "negentropy", Text: "negentropy sessions of one address, with a message from time to time",
			Count: 256, Unit: "sessions", Prepare: prepareNegentropy,
		},
		{
			Name: "subscriptions", Text: "subscriptions of 34 addresses that match nothing",
			Count: 200_000, Unit: "subscriptions", Prepare: prepareSubscriptions,
		},
		{
			Name: "websockets", Text: "websockets of 106 addresses that say nothing",
			Count: 10_000, Unit: "websockets", Prepare: prepareWebsockets,
		},
		{
			Name: "idle-connections", Text: "HTTP connections of 100 addresses that stay open after one request",
			Count: 21_000, Unit: "connections", Prepare: prepareIdle,
		},
	}
}

// perConnection is how many subscriptions or sessions a connection takes.
const perConnection = 64

// holdSockets keeps websockets open from a number of addresses, says something on each, and
// reads what arrives.
func (t *Target) holdSockets(ctx context.Context, n, addresses int, say func(s *relayclient.Socket, i int) error, received func(text []byte)) Figures {
	return holdAll(ctx, n, func(ctx context.Context, i int, opened func()) error {
		first := true
		for ctx.Err() == nil {
			s, err := t.dial(ctx, attacker(i%addresses))
			if err != nil {
				pause(ctx, time.Second)
				continue
			}
			stop := context.AfterFunc(ctx, func() { _ = s.Close() })
			if first {
				opened()
				first = false
			}
			err = say(s, i)
			for err == nil {
				var text []byte
				if text, err = s.Read(); err == nil && received != nil {
					received(text)
				}
			}
			stop()
			_ = s.Close()
			pause(ctx, time.Second)
		}
		return nil
	})
}

func prepareNegentropy(_ context.Context, t *Target, count int) (Run, error) {
	const each = 8 // sessions of a connection
	return func(ctx context.Context) Outcome {
		return Outcome{Figures: t.holdSockets(ctx, (count+each-1)/each, 1, func(s *relayclient.Socket, i int) error {
			for k := range each {
				if err := s.Write(fmt.Appendf(nil, `["NEG-OPEN","n%d",{"kinds":[%d]},"6100000200"]`, k, 30000+i*each+k)); err != nil {
					return err
				}
			}
			go func() {
				for {
					pause(ctx, 20*time.Second)
					for k := range each {
						if s.Write(fmt.Appendf(nil, `["NEG-MSG","n%d","6100000200"]`, k)) != nil {
							return
						}
					}
				}
			}()
			return nil
		}, nil)}
	}, nil
}

func prepareSubscriptions(_ context.Context, t *Target, count int) (Run, error) {
	return func(ctx context.Context) Outcome {
		return Outcome{Figures: t.holdSockets(ctx, (count+perConnection-1)/perConnection, 34, func(s *relayclient.Socket, i int) error {
			for k := range perConnection {
				filter := fmt.Sprintf(`{"authors":["%064x"],"limit":0}`, i*perConnection+k+1)
				if err := s.Write(fmt.Appendf(nil, `["REQ","s%d",%s]`, k, filter)); err != nil {
					return err
				}
			}
			return nil
		}, nil)}
	}, nil
}

func prepareWebsockets(_ context.Context, t *Target, count int) (Run, error) {
	return func(ctx context.Context) Outcome {
		return Outcome{Figures: t.holdSockets(ctx, count, 106, func(*relayclient.Socket, int) error { return nil }, nil)}
	}, nil
}

func prepareIdle(_ context.Context, t *Target, count int) (Run, error) {
	return func(ctx context.Context) Outcome {
		return Outcome{Figures: holdAll(ctx, count, func(ctx context.Context, i int, opened func()) error {
			first := true
			for ctx.Err() == nil {
				c, err := t.connect(ctx, i)
				if err != nil {
					pause(ctx, time.Second)
					continue
				}
				untilEnd(ctx, c, func() {
					_, err := fmt.Fprintf(c, "GET /healthz HTTP/1.1\r\nHost: %s\r\nX-Forwarded-For: %s\r\n\r\n", t.Listen, attacker(i%100))
					if err != nil {
						return
					}
					in := bufio.NewReader(c)
					resp, err := http.ReadResponse(in, nil)
					if err != nil {
						return
					}
					_, _ = io.Copy(io.Discard, resp.Body)
					if first {
						opened()
						first = false
					}
					_, _ = io.Copy(io.Discard, in)
				})
				pause(ctx, time.Second)
			}
			return nil
		})}
	}, nil
}
