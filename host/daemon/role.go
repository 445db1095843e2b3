package daemon

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"talon/host/cluster"
	"talon/host/gitrepo"
)

// part is what a role runs.
type part interface {
	comparable
	Run(ctx context.Context) error
	Collectors() []prometheus.Collector
}

// role is a part that one node at a time runs. It is made again for each term, with the
// world as it is. Where there is one node, the only term begins with the start.
type role[P part] struct {
	name string
	node *cluster.Cluster // nil: alone
	make func(ctx context.Context) (P, error)
	now  atomic.Pointer[P] // of the present term; nil if another node has the role
}

// openRole sets up a role. It makes the part where this process is alone.
func openRole[P part](ctx context.Context, name string, node *cluster.Cluster, make func(ctx context.Context) (P, error)) (*role[P], error) {
	r := &role[P]{name: name, node: node, make: make}
	if node != nil {
		return r, nil
	}
	p, err := make(ctx)
	if err != nil {
		return nil, err
	}
	r.now.Store(&p)
	return r, nil
}

// Run runs the part whenever this node has the role, until ctx ends.
func (r *role[P]) Run(ctx context.Context) error {
	if r.node == nil {
		return (*r.now.Load()).Run(ctx)
	}
	return r.node.RunAs(ctx, r.name, func(ctx context.Context) error {
		p, err := r.make(ctx)
		if err != nil {
			return err
		}
		r.now.Store(&p)
		defer r.now.Store(nil)
		return p.Run(ctx)
	})
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

// Collectors returns the metrics: those of the present term, if there can be several.
func (r *role[P]) Collectors() []prometheus.Collector {
	if r.node == nil {
		return r.part().Collectors()
	}
	return []prometheus.Collector{termMetrics(func() []prometheus.Collector {
		if p := r.part(); p != *new(P) {
			return p.Collectors()
		}
		return nil
	})}
}

// termMetrics are metrics that are there as long as a term.
type termMetrics func() []prometheus.Collector

// Describe sends no descriptions: the metrics are known only when they are collected.
func (termMetrics) Describe(chan<- *prometheus.Desc) {}

func (m termMetrics) Collect(to chan<- prometheus.Metric) {
	for _, c := range m() {
		c.Collect(to)
	}
}

// gitNodes are the nodes as repositories see them.
type gitNodes struct{ *cluster.Cluster }

func (n gitNodes) Lock(ctx context.Context, name string) (gitrepo.Hold, error) {
	h, err := n.Cluster.Lock(ctx, name)
	if err != nil {
		return nil, err
	}
	return h, nil
}
