package plugin

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"talon/host"
)

// Chain asks modules in order about each item. It may be used by many
// goroutines at once.
type Chain struct {
	modules  []*Module
	metrics  *metrics
	requests sync.Pool // of *request
}

// noneAccepts is the ruling where every module passes.
var noneAccepts = host.Ruling{
	Action: host.Reject, Rule: "default", Reason: "blocked: no policy accepts this event",
}

// Open loads the modules of the chain. An error names the module, and says in a
// sentence what is wrong with it or with its configuration.
func Open(ctx context.Context, o Options) (*Chain, error) {
	return open(ctx, o, time.Now)
}

func open(ctx context.Context, o Options, clock func() time.Time) (_ *Chain, err error) {
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	c := &Chain{
		modules:  make([]*Module, len(o.Chain)),
		metrics:  newMetrics(),
		requests: sync.Pool{New: func() any { return new(request) }},
	}
	defer func() {
		if err != nil {
			c.Close(context.WithoutCancel(ctx))
		}
	}()
	l := &loader{options: &o, metrics: c.metrics, clock: clock}
	var group errgroup.Group
	for i, name := range o.Chain {
		group.Go(func() error {
			wasm, err := l.read(name)
			if err != nil {
				return fmt.Errorf("load policy %s: %w", name, err)
			}
			if c.modules[i], err = l.load(ctx, name, wasm); err != nil {
				return fmt.Errorf("load policy %s: %w", name, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	if o.CacheDir != "" {
		inUse := make([]string, len(c.modules))
		for i, m := range c.modules {
			inUse[i] = m.code.dir
		}
		if err := pruneCode(o.CacheDir, inUse); err != nil {
			o.Log.Warn("old compiled policies are not removed", "err", err)
		}
	}
	return c, nil
}

// Admit decides about an item whose event has been verified, with the facts as
// they are now; now is in unix seconds. A module that fails decides as
// [Options.OnFailure] says. An error means that ctx was done, or that facts
// could not be read: nothing was decided.
func (c *Chain) Admit(ctx context.Context, it *host.Item, facts host.Facts, now int64) (host.Ruling, error) {
	q := c.requests.Get().(*request)
	q.encode(it, now)
	ruling, err := c.ask(ctx, q.b, facts, now)
	if cap(q.b) <= keepRequest {
		c.requests.Put(q)
	}
	return ruling, err
}

func (c *Chain) ask(ctx context.Context, request []byte, facts host.Facts, now int64) (host.Ruling, error) {
	for _, m := range c.modules {
		ruling, err := m.admit(ctx, request, facts, now)
		if err != nil {
			return host.Ruling{}, fmt.Errorf("policy %s: %w", m.name, err)
		}
		if ruling.Action != host.Pass {
			return ruling, nil
		}
	}
	return noneAccepts, nil
}

// Collectors returns the metrics of all modules.
func (c *Chain) Collectors() []prometheus.Collector { return c.metrics.collectors() }

// Close waits until ctx is done for decisions under way and releases everything.
// Admit must not be called afterwards.
func (c *Chain) Close(ctx context.Context) error {
	var first error
	for _, m := range c.modules {
		if m != nil {
			first = cmpErr(first, m.close(ctx))
		}
	}
	return first
}
