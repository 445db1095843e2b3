package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// Node is the state of a node as others see it.
type Node struct {
	Name    string    `json:"name"`
	Number  int64     `json:"number"` // of its session
	Address string    `json:"address"`
	Release string    `json:"release"`
	State   State     `json:"state"`
	Roles   []string  `json:"roles"`
	Started time.Time `json:"started"`
	Seen    time.Time `json:"seen"`
	Alive   bool      `json:"alive"` // its session was renewed in time

	Unseen time.Duration `json:"-"` // since the last renewal, by the clock of the database
}

// Nodes returns the nodes by name: those that are alive, and those that were lost in the
// last day.
func (c *Cluster) Nodes(ctx context.Context) (list []Node, err error) {
	s, err := c.current(ctx)
	if err != nil {
		return nil, err
	}
	err = s.exchange(func(ctx context.Context, conn *pgx.Conn) error {
		list, err = readNodes(ctx, conn)
		return err
	})
	return list, err
}

// Nodes returns the same as [Cluster.Nodes], for a process that is not a node.
func Nodes(ctx context.Context, connection string) ([]Node, error) {
	cfg, err := configure(connection, "talon cluster")
	if err != nil {
		return nil, err
	}
	conn, err := connect(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("read the nodes: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	var made bool
	if err := conn.QueryRow(ctx, `SELECT to_regclass('node') IS NOT NULL`).Scan(&made); err != nil || !made {
		return nil, err
	}
	return readNodes(ctx, conn)
}

func readNodes(ctx context.Context, conn *pgx.Conn) ([]Node, error) {
	const sql = `
		SELECT number, name, address, release, state, roles, started, seen, seen > clock_timestamp() - lease,
			extract(epoch FROM clock_timestamp() - seen)::float8
		FROM node ORDER BY name`
	rows, err := conn.Query(ctx, sql)
	if err != nil {
		return nil, fmt.Errorf("read the nodes: %w", err)
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (n Node, err error) {
		var state, roles string
		var unseen float64
		err = row.Scan(&n.Number, &n.Name, &n.Address, &n.Release, &state, &roles, &n.Started, &n.Seen, &n.Alive, &unseen)
		n.State, n.Roles, n.Unseen = State(state), strings.Fields(roles), time.Duration(unseen*float64(time.Second))
		return n, err
	})
}

// EachLoss calls do when it starts and again after each loss of a node, until ctx ends or
// do fails. do finishes the work of a lost node.
func (c *Cluster) EachLoss(ctx context.Context, do func(context.Context) error) error {
	known := map[int64]bool{}
	for first := true; ctx.Err() == nil; {
		list, err := c.Nodes(ctx)
		if err != nil && ctx.Err() == nil {
			c.log.Warn("look for lost nodes", "err", err)
		}
		lost := first && err == nil
		for _, n := range list {
			if !n.Alive && !known[n.Number] {
				known[n.Number] = true
				c.log.Info("a node was lost", "node", n.Name, "number", n.Number)
				lost = true
			}
		}
		if lost {
			first = false
			if err := do(ctx); err != nil {
				return err
			}
		}
		pause(ctx, c.options.Lease/renewals)
	}
	return nil
}

// Alive reports whether a node of a name is alive.
func (c *Cluster) Alive(ctx context.Context) (func(name string) bool, error) {
	list, err := c.Nodes(ctx)
	alive := map[string]bool{}
	for _, n := range list {
		alive[n.Name] = n.Alive
	}
	return func(name string) bool { return alive[name] }, err
}

// Who returns the node that has a role; empty if none has it.
func (c *Cluster) Who(ctx context.Context, role string) (Node, error) {
	list, err := c.Nodes(ctx)
	for _, n := range list {
		if n.Alive && slices.Contains(n.Roles, role) {
			return n, nil
		}
	}
	return Node{}, err
}
