package devnet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/nbd-wtf/go-nostr"
	"golang.org/x/sync/errgroup"

	"talon/cmd/internal/lab/world"
	"talon/host"
	"talon/host/gitrepo"
)

// Net is a network.
type Net struct {
	Relays []*Relay
	Git    []*GitServer

	cfg     Config
	secrets map[host.PubKey]string
	data    *gitData
	began   time.Time
	closed  sync.Once

	mu    sync.Mutex // guards the fields below
	world *world.World
	posts map[host.ID]*post // of the events that relays have
}

// Open creates a network: its keys, events and repositories. It listens on its ports, and
// Run serves them.
func Open(ctx context.Context, cfg Config) (n *Net, err error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	s := cfg.Scenario
	if s == nil {
		if s, err = cfg.scenario(); err != nil {
			return nil, err
		}
	} else {
		now := *s // a world of its own time would be one of old dates
		s, now.Start = &now, int(time.Now().Unix())
	}
	if err := checkPlayable(s); err != nil {
		return nil, err
	}
	n = &Net{cfg: cfg, posts: map[host.ID]*post{}, secrets: map[host.PubKey]string{}, began: time.Now()}
	defer func() {
		if err != nil {
			err = errors.Join(err, n.Close())
		}
	}()
	n.world, err = world.DrawReal(s, cfg.Seed, reality{n, func(w *world.World) error { return n.listen(ctx, w) }})
	if err != nil {
		return n, err
	}
	if n.data, err = newGitData(ctx, cfg.Dir); err != nil {
		return n, err
	}
	var pushed []*world.Event
	for _, e := range n.world.Events {
		if e.Data != nil && e.Data.At <= 0 {
			pushed = append(pushed, e)
		}
	}
	if err := n.pushAll(ctx, pushed); err != nil {
		return n, err
	}
	for _, e := range n.world.Events {
		for _, c := range e.Copies {
			if c.At < 0 {
				if err := n.deliver(e, int(c.Place)); err != nil {
					return n, err
				}
			}
		}
	}
	return n, nil
}

// now is the time of the world: milliseconds from its begin.
func (n *Net) now() int64 { return time.Now().UnixMilli() - n.world.Start }

// listen opens all servers, and tells the world where they are.
func (n *Net) listen(ctx context.Context, w *world.World) error {
	git, err := gitrepo.Find(ctx, "git", gitrepo.DefaultOptions)
	if err != nil {
		return err
	}
	port := n.cfg.Port
	open := func() (net.Listener, error) {
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			return nil, fmt.Errorf("listen for the network (option port): %w", err)
		}
		if n.cfg.Port > 0 {
			port++
		}
		return l, nil
	}
	for _, r := range w.Relays {
		l, err := open()
		if err != nil {
			return err
		}
		relay := newRelay(&n.cfg, l, w.Scenario, r)
		r.URL = relay.URL
		n.Relays = append(n.Relays, relay)
	}
	for i, g := range w.Git {
		dir := filepath.Join(n.cfg.Dir, fmt.Sprintf("git-%02d", i))
		if err := os.Mkdir(dir, 0o755); err != nil {
			return fmt.Errorf("make the folder of a git server: %w", err)
		}
		l, err := open()
		if err != nil {
			return err
		}
		server, err := newGitServer(&n.cfg, git, dir, l, lateness(g.Latency))
		if err != nil {
			return errors.Join(err, l.Close())
		}
		server.fault = func(now time.Time) (fault, time.Duration) { return n.fault(i, now) }
		g.URL = server.URL
		n.Git = append(n.Git, server)
	}
	w.Talons[0].URL, w.Talons[0].Web = "ws://"+n.cfg.Talon, "http://"+n.cfg.Talon
	return nil
}

// lateness is how late a server is with all that it sends. The least latency of a world is none.
func lateness(ms float64) time.Duration {
	if ms <= 0.5 {
		return 0
	}
	return time.Duration(ms * float64(time.Millisecond))
}

// Bootstrap returns the relays that Talon begins with.
func (n *Net) Bootstrap() (urls []string) {
	for _, r := range n.world.Relays {
		if r.Bootstrap {
			urls = append(urls, r.URL)
		}
	}
	return urls
}

// fault says how a git server fails now, and how long it will.
func (n *Net) fault(server int, now time.Time) (fault, time.Duration) {
	if n.cfg.GitFailing == 0 {
		return works, 0
	}
	since := now.Sub(n.began)
	turn := int64(since / n.cfg.GitTurn)
	return faultAt(server, len(n.Git), n.cfg.GitFailing, n.cfg.Seed, turn), n.cfg.GitTurn - since%n.cfg.GitTurn
}

// post is an event that relays have.
type post struct {
	event  *nostr.Event
	parsed *host.Event // the same
	of     *world.Event
	relays []int // so far
}

// deliver gives an event to a relay.
func (n *Net) deliver(e *world.Event, relay int) error {
	n.mu.Lock()
	p := n.posts[e.ID]
	if p == nil {
		p = &post{event: new(nostr.Event), parsed: e.Event, of: e}
		if err := json.Unmarshal(e.JSON, p.event); err != nil {
			n.mu.Unlock()
			return fmt.Errorf("publish an event: %w", err)
		}
		n.posts[e.ID] = p
	}
	p.relays = append(p.relays, relay)
	n.mu.Unlock()
	n.Relays[relay].backend.add(p)
	return nil
}

// Print publishes a new event of somebody: an issue, or a reply to an event.
func (n *Net) Print() error {
	n.mu.Lock()
	if len(n.world.Repos) == 0 {
		n.mu.Unlock()
		return nil
	}
	e, err := n.world.Say(n.now())
	n.mu.Unlock()
	if err != nil {
		return err
	}
	if e.Data != nil {
		if err := n.push(context.Background(), e); err != nil {
			return err
		}
	}
	for _, c := range e.Copies {
		if err := n.deliver(e, int(c.Place)); err != nil {
			return err
		}
	}
	return nil
}

// Run serves until the context ends, and creates the traffic and faults of the
// configuration.
func (n *Net) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, r := range n.Relays {
		g.Go(r.serve)
	}
	for _, s := range n.Git {
		g.Go(s.serve)
	}
	g.Go(func() error { return n.play(ctx) })
	if n.cfg.OutageEvery > 0 {
		g.Go(func() error { return n.outages(ctx) })
	}
	if n.cfg.Rate > 0 {
		g.Go(func() error {
			const rarest = 365 * 24 * time.Hour // what is longer than a Duration is never
			return every(ctx, time.Duration(min(float64(time.Second)/n.cfg.Rate, float64(rarest))), n.Print)
		})
	}
	g.Go(func() error {
		<-ctx.Done()
		return n.Close()
	})
	return g.Wait()
}

// outages cuts off one relay after the other.
func (n *Net) outages(ctx context.Context) error {
	next := 0
	return every(ctx, n.cfg.OutageEvery, func() error {
		r := n.Relays[next%len(n.Relays)]
		next++
		r.Cut(true)
		defer r.Cut(false)
		select {
		case <-ctx.Done():
		case <-time.After(n.cfg.OutageFor):
		}
		return nil
	})
}

// every calls f in intervals, until the context ends or f fails.
func every(ctx context.Context, interval time.Duration, f func() error) error {
	t := time.NewTicker(interval)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
			if err := f(); err != nil {
				return err
			}
		}
	}
}

// Cut disconnects the relay from the network, or connects it again.
func (r *Relay) Cut(down bool) { r.exchange.cut(down) }

// Close ends all servers.
func (n *Net) Close() (err error) {
	n.closed.Do(func() {
		for _, r := range n.Relays {
			err = errors.Join(err, r.close())
		}
		for _, g := range n.Git {
			err = errors.Join(err, g.close())
		}
	})
	return err
}
