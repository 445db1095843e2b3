package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"talon/host/config"
	"talon/host/metrics"
	"talon/host/relay"
	"talon/host/schnorr"
)

// Daemon is a running relay.
type Daemon struct {
	cfg     *config.Config
	version string
	log     *slog.Logger
}

// New returns a daemon. It does nothing until Run.
func New(cfg *config.Config, version string, log *slog.Logger) *Daemon {
	return &Daemon{cfg: cfg, version: version, log: log}
}

// Run serves until ctx ends. It returns nil after an orderly stop, and an error
// when it could not start or a part of it failed.
func (d *Daemon) Run(ctx context.Context) (err error) {
	// The database first: a second server on the same data must fail before it
	// takes the address.
	core, err := OpenCore(ctx, d.cfg, d.log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, core.Close(context.WithoutCancel(ctx))) }()

	registry := metrics.New(d.version)
	front, err := relay.New(d.relayConfig(d.mux(registry)), relay.Deps{
		Ingest: core.Pipeline,
		Store:  core.Store,
		Verify: schnorr.Verify,
	})
	if err != nil {
		return fmt.Errorf("set up the relay: %w", err)
	}
	if err := registry.Register(append(core.Collectors(), front.Collectors()...)...); err != nil {
		return err
	}

	listeners, err := d.listen(ctx)
	if err != nil {
		return err
	}
	servers := []*http.Server{d.server(front)}
	if d.cfg.MetricsListen != "" {
		servers = append(servers, d.server(d.admin(registry)))
	}

	// Each part runs in a context of its own, so that they can stop one after the
	// other; the group's context ends when any of them fails.
	g, failed := errgroup.WithContext(ctx)
	pipelineCtx, stopPipeline := context.WithCancel(context.WithoutCancel(ctx))
	relayCtx, stopRelay := context.WithCancel(context.WithoutCancel(ctx))
	defer stopPipeline()
	defer stopRelay()
	relayStopped := make(chan struct{})

	g.Go(func() error { return core.Pipeline.Run(pipelineCtx, front) })
	g.Go(func() error {
		defer close(relayStopped)
		return front.Run(relayCtx)
	})
	for i, s := range servers {
		g.Go(func() error {
			if err := s.Serve(listeners[i]); !errors.Is(err, http.ErrServerClosed) {
				return fmt.Errorf("serve %s: %w", listeners[i].Addr(), err)
			}
			return nil
		})
	}
	d.log.Info("serving", "addr", "ws://"+listeners[0].Addr().String(), "data", d.cfg.Data, "policy", d.cfg.Policy, "version", d.version)

	g.Go(func() error {
		<-failed.Done()
		d.log.Info("stopping")
		// 1. No new connections.
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), d.cfg.Shutdown+time.Second)
		defer cancel()
		for _, s := range servers {
			if err := s.Shutdown(closing); err != nil {
				_ = s.Close()
			}
		}
		// 2. Open ones get the answers that are under way, which need the pipeline.
		stopRelay()
		<-relayStopped
		// 3. What is queued is committed. Then Close releases modules and database.
		stopPipeline()
		return nil
	})
	return g.Wait()
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

func (d *Daemon) server(h http.Handler) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    32 << 10,
		ErrorLog:          slog.NewLogLogger(d.log.Handler(), slog.LevelDebug),
	}
}
