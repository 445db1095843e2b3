package attack

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"talon/host/relayclient"
	"talon/host/wire"
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

// sessionsEach is how many negentropy sessions a connection of attackers opens.
const sessionsEach = 8

func prepareNegentropy(_ context.Context, t *Target, count int) (Run, error) {
	return func(ctx context.Context) Outcome {
		var answers, refused atomic.Int64
		f := t.holdSockets(ctx, (count+sessionsEach-1)/sessionsEach, 1, func(s *relayclient.Socket, i int) error {
			for k := range sessionsEach {
				if err := s.Write(fmt.Appendf(nil, `["NEG-OPEN","n%d",{"kinds":[%d]},"%s"]`, k, 30000+i*sessionsEach+k, emptySet)); err != nil {
					return err
				}
			}
			go keepSessions(ctx, s)
			return nil
		}, func(text []byte) {
			switch verb, _, _, _ := wire.NegAnswer(text); verb {
			case "NEG-MSG":
				answers.Add(1)
			case "NEG-ERR":
				refused.Add(1)
			}
		})
		f["answers"], f["refused"] = answers.Load(), refused.Load()
		return Outcome{Figures: f}
	}, nil
}

// keepSessions sends a message in each session from time to time, until the socket closes.
func keepSessions(ctx context.Context, s *relayclient.Socket) {
	for ctx.Err() == nil {
		pause(ctx, 20*time.Second)
		for k := range sessionsEach {
			if s.Write(fmt.Appendf(nil, `["NEG-MSG","n%d","%s"]`, k, emptySet)) != nil {
				return
			}
		}
	}
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
