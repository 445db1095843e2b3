// Package daemon puts the parts of Talon together. It is the only package that
// knows them all; it holds no behaviour of its own beyond the order in which
// things start and stop.
//
// [Core] decides and stores. The command import uses it alone. [Daemon] adds the
// interfaces for clients.
package daemon

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"talon/host"
	"talon/host/admin"
	"talon/host/config"
	"talon/host/contain"
	"talon/host/counter"
	"talon/host/githttp"
	"talon/host/ingest/retry"
	"talon/host/moderation/enforce"
	"talon/host/plugin/guest"
	"talon/host/relay"
	"talon/host/relaysync"
	"talon/host/repos"
	"talon/host/schnorr"
	"talon/host/web"
)

// Daemon is a running relay.
type Daemon struct {
	cfg     *config.Config
	version string
	log     *slog.Logger
	every   time.Duration // between two ticks of the throttle
	conns   *connections
	tls     *tls.Config // of the relay's own address; nil: it speaks plain HTTP

	proxyWarning sync.Once

	// Guards, each registered once. Those of parts that are made again outlive them.
	http, git, hunt, sync, admin, parts *contain.Guard

	draining atomic.Bool // it is about to stop
	reload   reloading
}

// New returns a daemon. It does nothing until Run.
func New(cfg *config.Config, version string, log *slog.Logger) *Daemon {
	return &Daemon{
		cfg: cfg, version: version, log: log, every: tickEvery,
		conns: newConnections(cfg.Connections, cfg.Proxies, log), tls: certificates(cfg, &http.Client{Timeout: acmeTime}),
		http: contain.New(contain.HTTP, log), git: contain.New(contain.Git, log),
		hunt: contain.New(contain.Hunt, log), sync: contain.New(contain.Sync, log),
		admin: contain.New(contain.Admin, log), parts: contain.New(contain.Daemon, log),
	}
}

// Run serves until ctx ends. It returns nil after an orderly stop, and an error
// when it could not start or a part of it failed.
func (d *Daemon) Run(ctx context.Context) (err error) {
	if err := errors.Join(checkMemory(d.cfg), CheckPlugins(d.cfg), guest.CheckExecutable()); err != nil {
		return err
	}
	// 1. The database: a second server on the same data must fail before it takes the address.
	db, err := openNodeStore(ctx, d.cfg, d.log)
	if err != nil {
		return err
	}
	// 2. The addresses: what follows may take a minute, in which clients get an answer that
	// says so.
	listeners, err := d.listen(ctx)
	if err != nil {
		return errors.Join(err, db.Close())
	}
	front := d.startListeners(listeners, startPatience)
	defer front.close() // where it does not come to serve; else they are closed by then
	// 3. The other nodes, which must know of this one before it touches what they share.
	node, err := d.join(ctx, db, listeners[0].Addr())
	if err != nil {
		return unlessStopped(ctx, errors.Join(err, db.Close()))
	}
	// 4. The pipeline with its modules and stores.
	core, err := openCore(ctx, d.cfg, d.log, db, node, true)
	if err != nil {
		return unlessStopped(ctx, err)
	}
	defer func() { err = errors.Join(err, core.Close(context.WithoutCancel(ctx))) }()
	// 5. All parts for other people, and the operator's socket.
	p, operators, err := d.open(ctx, core, listeners)
	if err != nil {
		return unlessStopped(ctx, err)
	}
	// 6. Memory limits, from the memory that the loaded modules leave.
	limitMemory(d.cfg, d.log)
	// 7. Serve, and stop in order.
	return d.serve(ctx, p, front, operators)
}

// unlessStopped returns the error with which the daemon failed to start. It returns nil if the
// daemon was stopped during the start.
func unlessStopped(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil
	}
	return err
}

// open sets up all that a daemon runs, and the operator's socket.
func (d *Daemon) open(ctx context.Context, core *Core, listeners []net.Listener) (*parts, net.Listener, error) {
	p, err := d.assemble(ctx, core)
	if err != nil {
		return nil, nil, err
	}
	operators, err := d.listenAdmin()
	if err == nil {
		p.sync, err = d.openSync(ctx, core, p.ingest, p.key, addresses(listeners))
	}
	if err == nil {
		err = p.registry.Register(p.collectors()...)
	}
	if err != nil && operators != nil {
		_ = operators.Close()
	}
	return p, operators, err
}

// parts are what a daemon runs.
type parts struct {
	core       *Core
	conns      *connections
	ingest     *retry.Queue
	counter    *counter.Counter // the way into the pipeline
	registry   *registry
	key        *relaysync.Key
	reconciler *repos.Reconciler
	hunter     *huntRole // nil if nothing is fetched
	orphans    *orphanRole
	wake       *wakeRole
	git        *githttp.Handler
	pages      *web.Handler
	relay      *relay.Relay
	ticks      *ticks
	sync       *syncRole // nil if nothing is synced
	backups    *backups
	enforcer   *enforce.Enforcer
	database   reachability
	guards     []*contain.Guard
}

func (d *Daemon) assemble(ctx context.Context, core *Core) (p *parts, err error) {
	p = &parts{core: core, conns: d.conns, ingest: retry.New(core.Pipeline), guards: []*contain.Guard{d.http, d.git, d.admin, d.parts}}
	if db, ok := core.Store.(pg); ok {
		p.database.ping = db.Ping
	}
	p.registry = newRegistry(d.version, d.cfg.MetricsPrefix, core.node.Name())
	if p.key, err = d.openKey(); err != nil {
		return nil, err
	}
	d.conns.users.Store(core.Users)
	if p.reconciler, err = d.openReconciler(ctx, core, p.ingest); err != nil {
		return nil, err
	}
	if p.hunter, err = d.openHunt(ctx, core, p.reconciler); err != nil {
		return nil, err
	}
	if p.orphans, err = d.openOrphans(ctx, core); err != nil {
		return nil, err
	}
	if p.wake, err = d.openWake(ctx, core); err != nil {
		return nil, err
	}
	if p.pages, err = d.openPages(core, p.reconciler, p.hunter); err != nil {
		return nil, err
	}
	if p.git, err = d.openGit(core, p.reconciler, p.pages); err != nil {
		return nil, err
	}
	if p.backups, err = openBackups(d.cfg, core.Store, core.Disk, d.version, d.log); err != nil {
		return nil, err
	}
	p.backups.full = core.Space.Full
	p.enforcer = core.newEnforcer(func(ctx context.Context, repo host.Address) error {
		return errors.Join(p.reconciler.Purged(ctx, repo), p.pages.Purged())
	})
	confirmed := newConfirmation(core.Store, d.cfg.Confirm)
	p.ticks = d.openTicks(core)
	proven := proof{services: d.cfg.Names(), verify: schnorr.Verify, now: time.Now}
	front := &authGit{
		proof: proven, signIn: newSignIn(proven, core.Store, d.readerHolder(core)), reader: core.Plugins.Reader,
		next: d.front(confirmed.handler(p.git), confirmed.handler(p.pages), p.registry, p.health),
	}
	rc := d.relayConfig(d.withManagement(core, front), describe(d.cfg, core.Plugins), p.key.PubKey())
	rc.Clients = p.ticks.Limits
	rc.Banned = core.banned
	if d.managed() {
		rc.Info.NIPs = []int{managementNIP}
	}
	p.counter = counter.New(p.ingest, d.log, time.Now)
	p.relay, err = relay.New(rc, relay.Deps{
		Ingest: p.counter,
		Store:  core.Store,
		Verify: schnorr.Verify,
		Policy: confirmed.policy(core.Plugins),
		Holder: core.Users.Holder,

		Audiences: core.Plugins,
	})
	if err != nil {
		return nil, fmt.Errorf("set up the relay: %w", err)
	}
	return p, nil
}

// health says what is wrong with the server.
func (p *parts) health() condition {
	wrong := p.core.Plugins.Health()
	if away := p.database.away(); away != "" {
		wrong = append(wrong, away)
	}
	return condition{wrong: wrong, full: p.core.Space.Full()}
}

func (p *parts) collectors() []prometheus.Collector {
	list := slices.Concat(p.core.Collectors(), p.conns.Collectors(), p.ingest.Collectors(), p.relay.Collectors(), p.reconciler.Collectors(), p.git.Collectors(), p.ticks.Collectors(), p.backups.history.Collectors(), p.wake.Collectors())
	for _, g := range p.guards {
		list = append(list, g.Collector())
	}
	if p.hunter != nil {
		list = append(list, p.hunter.Collectors()...)
	}
	if p.sync != nil {
		list = append(list, p.sync.Collectors()...)
	}
	return list
}

// followers returns the parts that get each commit.
func (p *parts) followers() []follower {
	list := []follower{
		{publish: p.relay.Publish, takenDown: p.relay.TakenDown, missed: p.relay.Missed},
		{publish: p.pages.Publish, follow: p.pages.Follow},
		{publish: p.core.Users.Publish, follow: p.core.Users.Follow},
		{publish: p.reconciler.Publish, follow: p.reconciler.Follow, ownOnly: true},
	}
	list = append(list, follower{publish: p.orphans.Publish, follow: p.orphans.Follow})
	list = append(list, follower{publish: p.wake.Publish, follow: p.wake.Follow, missed: p.wake.Missed})
	if p.hunter != nil {
		list = append(list, follower{follow: repos.Hunt{Hunter: *p.hunter}.Follow})
	}
	if p.sync != nil {
		list = append(list, follower{publish: p.sync.Publish, follow: p.sync.Follow})
	}
	return list
}

// startGroup returns what runs parts in a group, and what stops them together: it ends their context,
// and returns when they have ended.
//
// A part that panics has failed as one that returns an error: the server ends in order.
func startGroup(parent context.Context, g *errgroup.Group, panics *contain.Guard) (run func(part func(context.Context) error), stop func()) {
	ctx, end := context.WithCancel(parent)
	var parts sync.WaitGroup
	run = func(part func(context.Context) error) {
		parts.Add(1)
		g.Go(func() error {
			defer parts.Done()
			return panics.Run(func() error { return part(ctx) })
		})
	}
	return run, func() {
		end()
		parts.Wait()
	}
}

// serve runs all parts until ctx ends or one of them fails, and then stops them in
// order.
func (d *Daemon) serve(ctx context.Context, p *parts, front *listeners, operators net.Listener) error {
	// The group's context ends when it is time to stop, or any part fails. The stages are
	// stopped after that, one after the other.
	lasting := context.WithoutCancel(ctx)
	serving, end := context.WithCancel(lasting)
	defer end()
	g, failed := errgroup.WithContext(serving)
	run := func(part func() error) { g.Go(func() error { return d.parts.Run(part) }) }
	g.Go(func() error {
		d.drain(ctx, failed, p.core.node)
		end()
		return nil
	})
	decide, stopPipeline := startGroup(lasting, g, d.parts)
	decide(func(ctx context.Context) error { return p.core.Run(ctx, p.followers()...) })
	reconcile, stopRepositories := startGroup(lasting, g, d.parts)
	reconcile(p.reconciler.Run)
	answer, stopRelay := startGroup(lasting, g, d.parts)
	answer(p.relay.Run)
	answer(func(ctx context.Context) error { return p.core.closeBanned(ctx, p.relay) })

	// The parts that get events and git data from elsewhere end first. The others finish what
	// these brought in.
	bring, stopBringing := startGroup(failed, g, d.parts)
	bring(p.ingest.Run)
	bring(p.core.Users.Run)
	bring(p.orphans.Run)
	bring(p.wake.Run)
	bring(p.enforcer.Run)
	api := admin.API{Nodes: p.core.node, Plugins: p.core.Plugins, Backups: p.backups, Moderator: p.core.newModerator(d.cfg, p.enforcer), Reload: d.Reload, Addresses: p.addresses, Top: p.top, Panics: d.admin}
	if p.hunter != nil {
		api.Hunt = p.hunter
		bring(p.hunter.Run)
	}
	if p.sync != nil {
		api.Sync = p.sync
		bring(p.sync.Run)
	}
	run(func() error { return p.core.node.Answer(failed, admin.Answer(api, d.log)) })
	run(func() error { return p.ticks.Run(failed, p.relay.Telemetry, d.every) })
	run(func() error { return runScavenger(failed) })
	run(func() error { return p.counter.Run(failed) })
	run(func() error { return p.core.Space.Run(failed) })
	run(func() error { return runWatchdog(failed, d.log) })
	d.reload.watchSpace(p.core.Space)
	if operators != nil {
		// A change that is under way must not meet closed plugins.
		run(func() error { return admin.Serve(failed, operators, api, d.log) })
	}
	for _, ended := range front.ended {
		g.Go(func() error { return <-ended })
	}
	handlers := []http.Handler{p.relay}
	if d.cfg.MetricsListen != "" {
		handlers = append(handlers, d.operators(p.registry, p.health))
	}
	front.open(handlers...)
	p.core.node.setReady()
	at := front.sockets[0].Addr().String()
	secure := ""
	if d.tls != nil {
		secure = "s"
	}
	d.log.Info("serving", "addr", "ws"+secure+"://"+at, "http", "http"+secure+"://"+at, "data", d.cfg.Data, "version", d.version)
	notifyReady(d.log)

	g.Go(func() error {
		<-failed.Done()
		d.log.Info("stopping")
		notifyStopping(d.log)
		// 1. No new connections.
		closing, cancel := context.WithTimeout(lasting, d.cfg.Shutdown+time.Second)
		defer cancel()
		for _, s := range front.servers {
			if err := s.Shutdown(closing); err != nil {
				_ = s.Close()
			}
		}
		// 2. Open ones get the answers that are under way, which need the pipeline.
		stopRelay()
		stopBringing()
		// 3. Repositories that were about to release events do so.
		stopRepositories()
		// 4. Commit the queued items. Then Close releases modules and database.
		stopPipeline()
		return nil
	})
	return g.Wait()
}

// drain returns when it is time to stop. It says so when ctx ends, and serves on for as long
// as others need to learn it, who send clients here.
func (d *Daemon) drain(ctx, failed context.Context, node node) {
	select {
	case <-ctx.Done():
	case <-failed.Done():
		return
	}
	d.draining.Store(true)
	node.setDraining()
	if d.cfg.Drain == 0 {
		return
	}
	d.log.Info("draining", "time", d.cfg.Drain)
	select {
	case <-time.After(d.cfg.Drain):
	case <-failed.Done():
	}
}

// listen opens the addresses, the relay's own first.
func (d *Daemon) listen(ctx context.Context) ([]net.Listener, error) {
	var list []net.Listener
	for _, at := range []struct{ option, addr string }{{"listen", d.cfg.Listen}, {"metrics-listen", d.cfg.MetricsListen}} {
		if at.addr == "" {
			continue
		}
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", at.addr)
		if err != nil {
			for _, open := range list {
				_ = open.Close()
			}
			return nil, fmt.Errorf("listen on %s (option %s): %w", at.addr, at.option, err)
		}
		list = append(list, l)
	}
	return list, nil
}

// listenAdmin opens the socket for talon plugin. It returns nil if the configuration has none.
func (d *Daemon) listenAdmin() (net.Listener, error) {
	path := d.cfg.Admin()
	if path == "" {
		return nil, nil
	}
	l, err := admin.Listen(path)
	if err != nil {
		return nil, fmt.Errorf("listen for talon plugin (option admin-socket): %w", err)
	}
	return l, nil
}

func (d *Daemon) server(h http.Handler) *http.Server {
	return &http.Server{
		Handler:           inTime(d.conns.streams(d.http.Handler(d.warnOfProxies(h))), answerTime),
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: maxStreams},
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    32 << 10,
		ErrorLog:          slog.NewLogLogger(d.log.Handler(), slog.LevelDebug),
	}
}
