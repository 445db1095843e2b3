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

	"github.com/fiatjaf/khatru"
	"github.com/nbd-wtf/go-nostr"
	"golang.org/x/sync/errgroup"

	"talon/host"
	"talon/host/gitrepo"
	"talon/host/negentropy"
	"talon/host/relayclient"
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

// createRepositories makes all repositories. What one is does not depend on the others.
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

// live is who wants to hear of new events at a relay. khatru's own list is read without
// its lock, and is added to only after the stored events were looked up: events that
// come in between are lost, and now and then the process. So no event ever reaches
// that list (see newRelay), and this one is used.
type live struct {
	mu   sync.Mutex // guards subs
	subs map[subKey]*sub
}

type subKey struct {
	ws *khatru.WebSocket
	id string
}

type sub struct {
	ctx     context.Context // of its REQ, which tells one from another
	filters []nostr.Filter
}

// add begins one filter of a REQ. The context ends with the subscription.
func (l *live) add(ctx context.Context, f nostr.Filter) {
	key := subKey{khatru.GetConnection(ctx), khatru.GetSubscriptionID(ctx)}
	f.Limit, f.LimitZero = 0, false
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.subs[key]
	if s == nil || s.ctx != ctx { // the first filter; a REQ replaces one of its name
		s = &sub{ctx: ctx}
		l.subs[key] = s
		context.AfterFunc(ctx, func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			if l.subs[key] == s {
				delete(l.subs, key)
			}
		})
	}
	s.filters = append(s.filters, f)
}

// publish sends an event to whom it may concern.
func (l *live) publish(e *nostr.Event, lose float64) {
	l.mu.Lock()
	var to []subKey
	for key, s := range l.subs {
		if nostr.Filters(s.filters).Match(e) && (lose == 0 || rand.Float64() >= lose) { //nolint:gosec // no secret
			to = append(to, key)
		}
	}
	l.mu.Unlock()
	for _, key := range to {
		_ = key.ws.WriteJSON(nostr.EventEnvelope{SubscriptionID: &key.id, Event: *e})
	}
}

// watched reports whether somebody wants to hear of an event.
func (l *live) watched(e *nostr.Event) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.subs {
		if nostr.Filters(s.filters).Match(e) {
			return true
		}
	}
	return false
}

// count returns how many subscriptions and filters there are.
func (l *live) count() (subs, filters int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.subs {
		filters += len(s.filters)
	}
	return len(l.subs), filters
}

// Expected returns the events that Talon must have in the end, with their times.
func (n *Net) Expected() map[host.ID]int64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	set := make(map[host.ID]int64, len(n.posts))
	for id, p := range n.posts {
		set[id] = int64(p.event.CreatedAt)
	}
	return set
}

// Comparison is the difference between the events that Talon has and those that it must
// have.
type Comparison struct {
	Expected int       // events that it is to have
	Lacks    []host.ID // of these
	Beside   []host.ID // that it has and is not to have
	LacksOf  []int     // by relay: events that the relay has and Talon lacks
	Repos    int       // repositories whose state is served, and so can be cloned
}

// Compare compares these events with those of a Talon (NIP-77), at the address that it
// serves on.
func (n *Net) Compare(ctx context.Context, address string) (Comparison, error) {
	expected := n.Expected()
	var b negentropy.Builder
	for id, at := range expected {
		b.Add(negentropy.Item{CreatedAt: uint64(max(0, at)), ID: id})
	}
	c := Comparison{Expected: len(expected), LacksOf: make([]int, len(n.Relays))}
	conn, err := relayclient.Dial(ctx, address, relayclient.Options{MessageBytes: 16 << 20})
	if err == nil {
		defer func() { _ = conn.Close() }()
		limits := negentropy.ClientLimits{IDs: 10_000_000, Rounds: 10_000}
		c.Lacks, c.Beside, err = conn.Reconcile(ctx, []byte("{}"), b.Build(), limits)
	}
	if err != nil {
		return c, fmt.Errorf("compare with Talon: %w", err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	c.Repos = len(n.repos)
	for _, id := range c.Lacks {
		p := n.posts[id]
		if p == nil {
			continue // a relay may name what it likes
		}
		if p.event.Kind == 30618 {
			c.Repos--
		}
		for _, k := range p.relays {
			c.LacksOf[k]++
		}
	}
	return c, nil
}

// Event returns an event that Talon must have, and the relays that have it; nil if it is
// not one of these.
func (n *Net) Event(id host.ID) (e *nostr.Event, relays []int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if p := n.posts[id]; p != nil {
		return p.event, p.relays
	}
	return nil, nil
}

// Watched reports whether a subscription at the relay is for such an event.
func (r *Relay) Watched(e *nostr.Event) bool {
	parsed, err := parse(e)
	return err == nil && r.backend.watched(&script{event: e, parsed: parsed})
}

// RelayStatus is the status of a relay.
type RelayStatus struct {
	URL           string `json:"url"`
	Profile       string `json:"profile"`
	Negentropy    bool   `json:"negentropy"`
	Up            bool   `json:"up"`
	Events        int    `json:"events"`
	Connections   int    `json:"connections"`
	Subscriptions int    `json:"subscriptions"` // open
	Filters       int    `json:"filters"`
	Requests      int64  `json:"requests"`    // filters of REQs
	Comparisons   int64  `json:"comparisons"` // NEG-OPENs
	Refused       int64  `json:"refused"`     // messages
	Dropped       int64  `json:"dropped"`     // connections that broke
	Sent          int64  `json:"sent_bytes"`
}

// Status returns the status of the relay.
func (r *Relay) Status() RelayStatus {
	s := RelayStatus{
		URL: r.URL, Profile: r.Profile, Negentropy: r.Negentropy, Dropped: r.exchange.dropped.Load(), Sent: r.exchange.sent.Load(),
	}
	s.Up, s.Connections = r.exchange.state()
	r.backend.fill(&s)
	return s
}

// GitStatus is the status of a git server.
type GitStatus struct {
	URL    string `json:"url"`
	Now    string `json:"now"`    // works, or how it fails
	Served int64  `json:"served"` // requests
	Failed int64  `json:"failed"`
}

// Status returns the status of the git server.
func (g *GitServer) Status() GitStatus {
	f, _ := g.fault(time.Now())
	return GitStatus{URL: g.URL, Now: f.String(), Served: g.served.Load(), Failed: g.failed.Load()}
}
