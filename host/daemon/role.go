package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"talon/host/contain"
)

// part is what a role runs.
type part interface {
	comparable
	Run(ctx context.Context) error
	Collectors() []prometheus.Collector
}

// role is a part that one node at a time runs. It is made again for each term, with the
// world as it is. A node that is alone has the role from the start.
type role[P part] struct {
	name string
	node node
	make func(ctx context.Context) (P, error)
	now  atomic.Pointer[P] // of the present term; nil if another node has the role

	panics *contain.Guard
	log    *slog.Logger
}

// openRole sets up a role. It makes the part if this node has the role already.
func openRole[P part](ctx context.Context, name string, node node, panics *contain.Guard, log *slog.Logger, make func(ctx context.Context) (P, error)) (*role[P], error) {
	r := &role[P]{name: name, node: node, make: make, panics: panics, log: log}
	if node.Has(name) {
		if _, err := r.begin(ctx); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// begin makes the part of a term.
func (r *role[P]) begin(ctx context.Context) (p P, err error) {
	if p, err = r.make(ctx); err == nil {
		r.now.Store(&p)
	}
	return p, err
}

// Run runs the part whenever this node has the role, until ctx ends.
func (r *role[P]) Run(ctx context.Context) error {
	return r.node.RunAs(ctx, r.name, func(ctx context.Context) error {
		defer r.now.Store(nil)
		if first := r.now.Load(); first != nil {
			return r.runTerm(ctx, *first)
		}
		p, err := r.begin(ctx)
		if err != nil {
			return err
		}
		return r.runTerm(ctx, p)
	})
}

// madeAgainAfter is how long a part rests that panicked.
const madeAgainAfter = 5 * time.Second

// runTerm runs a part until ctx ends. A panic leaves a part in a state that nobody knows, so another
// one is made, with the world as it is: each term begins so.
func (r *role[P]) runTerm(ctx context.Context, p P) error {
	for {
		err := r.panics.Run(func() error { return p.Run(ctx) })
		if !contain.Panicked(err) {
			return err
		}
		r.now.Store(nil)
		for again := false; !again; {
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(madeAgainAfter):
			}
			if p, err = r.begin(ctx); err != nil {
				r.log.Error("begin again after a panic", "role", r.name, "err", err)
				continue
			}
			r.log.Warn("began again after a panic", "role", r.name)
			again = true
		}
	}
}

// part returns the part, the zero value if another node has the role.
func (r *role[P]) part() (p P) {
	if now := r.now.Load(); now != nil {
		p = *now
	}
	return p
}

// here returns the part, or an error if this node does not run it now.
func (r *role[P]) here() (p P, err error) {
	if p = r.part(); p == *new(P) {
		err = fmt.Errorf("this node is about to begin or end its role %s: try again in some seconds", r.name)
	}
	return p, err
}

// askPart asks the part, if this node runs it now.
func askPart[P part, T any](r *role[P], do func(P) (T, error)) (answer T, err error) {
	p, err := r.here()
	if err != nil {
		return answer, err
	}
	return do(p)
}

// Collectors returns the metrics of the present term, and the panics.
func (r *role[P]) Collectors() []prometheus.Collector {
	return []prometheus.Collector{r.panics.Collector(), r.termCollector()}
}

// termCollector returns the metrics of the present term.
func (r *role[P]) termCollector() prometheus.Collector {
	return termMetrics{r.node.Has(r.name), func() []prometheus.Collector {
		if p := r.part(); p != *new(P) {
			return p.Collectors()
		}
		return nil
	}}
}

// termMetrics are metrics that are there as long as a term.
type termMetrics struct {
	known bool // what they are is known before they are collected
	now   func() []prometheus.Collector
}

// Describe sends no descriptions where another node may have the role.
func (m termMetrics) Describe(to chan<- *prometheus.Desc) {
	if m.known {
		for _, c := range m.now() {
			c.Describe(to)
		}
	}
}

func (m termMetrics) Collect(to chan<- prometheus.Metric) {
	for _, c := range m.now() {
		c.Collect(to)
	}
}
