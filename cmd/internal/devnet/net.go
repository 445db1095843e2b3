package devnet

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"time"

	"github.com/nbd-wtf/go-nostr"
	"golang.org/x/sync/errgroup"

	"talon/host"
	"talon/host/gitrepo"
)

// Net is a network.
type Net struct {
	Relays []*Relay
	Git    []*GitServer

	cfg     Config
	users   []user
	fixture *gitFixture
	began   time.Time
	closed  sync.Once

	repos []*repository
	mu    sync.Mutex          // guards the fields below, and what is said next of repositories
	posts map[host.ID]*script // that Talon is to have
}

// Open creates a network: its keys, events and repositories. It listens on its ports, and
// Run serves them.
func Open(ctx context.Context, cfg Config) (n *Net, err error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	n = &Net{cfg: cfg, posts: map[host.ID]*script{}, began: time.Now()}
	defer func() {
		if err != nil {
			err = errors.Join(err, n.Close())
		}
	}()
	if n.users, err = users(cfg.Seed, max(8, cfg.Repos/4)); err != nil {
		return n, err
	}
	if err := n.listen(ctx); err != nil {
		return n, err
	}
	if n.fixture, err = newGitFixture(ctx, cfg.Dir); err != nil {
		return n, err
	}
	return n, n.createRepositories(ctx)
}

// listen opens all servers.
func (n *Net) listen(ctx context.Context) error {
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
	for i := range n.cfg.Relays {
		l, err := open()
		if err != nil {
			return err
		}
		// Spread evenly: each share of the first i has it.
		share := func(i int) int { return int(float64(i)*n.cfg.Negentropy + 0.5) }
		n.Relays = append(n.Relays, newRelay(&n.cfg, l, share(i+1) > share(i), nil))
	}
	for i := range n.cfg.Foreign {
		for range n.cfg.Foreign[i].Count {
			l, err := open()
			if err != nil {
				return err
			}
			n.Relays = append(n.Relays, newRelay(&n.cfg, l, false, &n.cfg.Foreign[i]))
		}
	}
	for i := range n.cfg.GitServers {
		dir := filepath.Join(n.cfg.Dir, fmt.Sprintf("git-%02d", i))
		if err := os.Mkdir(dir, 0o755); err != nil {
			return fmt.Errorf("make the folder of a git server: %w", err)
		}
		l, err := open()
		if err != nil {
			return err
		}
		g, err := newGitServer(&n.cfg, git, dir, l)
		if err != nil {
			return errors.Join(err, l.Close())
		}
		g.fault = func(now time.Time) (fault, time.Duration) { return n.fault(i, now) }
		n.Git = append(n.Git, g)
	}
	return nil
}

// fault says how a git server fails now, and how long it will.
func (n *Net) fault(server int, now time.Time) (fault, time.Duration) {
	if n.cfg.GitFailing == 0 {
		return works, 0
	}
	since := now.Sub(n.began)
	turn := int64(since / n.cfg.GitTurn)
	return faultAt(server, n.cfg.GitServers, n.cfg.GitFailing, n.cfg.Seed, turn), n.cfg.GitTurn - since%n.cfg.GitTurn
}

// createRepositories makes all repositories. Each one is independent of the others.
func (n *Net) createRepositories(ctx context.Context) error {
	type founded struct {
		r     *repository
		posts []script
	}
	list := make([]founded, n.cfg.Repos)
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.NumCPU())
	for i := range list {
		g.Go(func() (err error) {
			list[i].r, list[i].posts, err = n.found(ctx, i)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for _, f := range list {
		n.repos = append(n.repos, f.r)
		for i := range f.posts {
			if err := n.publish(&f.posts[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// publish gives an event to its relays.
func (n *Net) publish(p *script) error {
	var id host.ID
	if !host.ParseHex(id[:], p.event.ID) {
		return fmt.Errorf("publish an event: its id is %q", p.event.ID)
	}
	n.mu.Lock()
	if p.hosted {
		n.posts[id] = p
	}
	n.mu.Unlock()
	for _, k := range p.relays {
		n.Relays[k].backend.add(p)
	}
	return nil
}

// Print publishes a new event of a user: an issue, or a reply to an event.
func (n *Net) Print() error {
	if len(n.repos) == 0 {
		return nil
	}
	n.mu.Lock()
	r := n.repos[rand.IntN(len(n.repos))] //nolint:gosec // no secret
	w := &writer{net: n, r: r}
	who, now := n.anyone(r.rng), time.Now()
	text := "Now, at " + now.Format(time.RFC3339Nano) + ". " + prose
	if len(r.roots) == 0 || r.rng.IntN(4) == 0 {
		w.put(who, 1621, text, now.Unix(), true, nostr.Tag{"a", r.address()}, nostr.Tag{"p", r.owner.public})
		r.roots = append(r.roots, w.last())
	} else {
		root := r.roots[r.rng.IntN(len(r.roots))]
		w.comment(who, text, root, root, now.Unix())
	}
	n.mu.Unlock()
	if w.err != nil {
		return w.err
	}
	return n.publish(&w.posts[0])
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
