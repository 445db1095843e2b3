package daemon

import (
	"context"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"talon/host/cluster"
	"talon/host/config"
	"talon/host/gitrepo"
	"talon/host/plugin"
	"talon/host/store/postgres"
)

// member is the node of a process that is one relay with others, on one database.
type member struct {
	*cluster.Cluster
	store *postgres.Store
}

// join makes this process a node, if the events are in PostgreSQL; else it is alone.
func (d *Daemon) join(ctx context.Context, db Store, listen net.Addr) (node, error) {
	shared, ok := db.(pg)
	if !ok {
		return alone{}, nil
	}
	url, err := d.cfg.Postgres()
	if err != nil {
		return nil, err
	}
	name, err := nodeName(d.cfg, listen.String())
	if err != nil {
		return nil, err
	}
	c, err := cluster.Join(ctx, url, cluster.Options{Name: name, Address: listen.String(), Release: d.version, Log: d.log})
	if err != nil {
		return nil, err
	}
	return member{c, shared.Store}, nil
}

// nodeName returns the name of this process among the nodes: that of the option, or else the host's
// with the port on which it listens.
func nodeName(cfg *config.Config, listen string) (string, error) {
	if cfg.Node != "" {
		return cfg.Node, nil
	}
	name, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("name this node (option node): %w", err)
	}
	_, port, _ := net.SplitHostPort(listen)
	return name + ":" + port, nil
}

func (m member) setReady()    { m.SetState(cluster.Ready) }
func (m member) setDraining() { m.SetState(cluster.Draining) }

// Others reports that there may be other nodes.
func (m member) Others() bool { return true }

func (m member) openRoot(git *gitrepo.Git, dir string) (*gitrepo.Root, error) {
	return gitrepo.OpenShared(git, dir, gitNodes{m.Cluster})
}

func (m member) plugins(pluginsNode string) (plugin.Nodes, bool) {
	return &pluginNodes{Store: m.store, node: m.Cluster}, pluginsNode == m.Name()
}

// gitNodes are the nodes as repositories see them.
type gitNodes struct{ *cluster.Cluster }

func (n gitNodes) Lock(ctx context.Context, name string) (gitrepo.HeldLock, error) {
	h, err := n.Cluster.Lock(ctx, name)
	if err != nil {
		return nil, err
	}
	return h, nil
}

const (
	// proposalTime is how long nodes may take to load and test plugins that are proposed.
	proposalTime = 90 * time.Second

	// answerPoll is how often the answers of the nodes are looked for.
	answerPoll = 20 * time.Millisecond
)

// pluginNodes are the nodes as plugins see them.
type pluginNodes struct {
	*postgres.Store
	node *cluster.Cluster
	mu   sync.Mutex // held by who proposes
}

// Propose proposes a generation of plugins and waits for the nodes.
func (p *pluginNodes) Propose(ctx context.Context, base int64, records []byte, modules map[string][]byte, keep []string) (int64, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	hold, err := p.node.Lock(ctx, "plugins")
	if err != nil {
		return 0, err
	}
	defer hold.Unlock()
	n, err := p.ProposePlugins(ctx, p.node.Name(), base, records, modules)
	if err != nil {
		return 0, err
	}
	waiting, cancel := context.WithTimeout(ctx, proposalTime)
	defer cancel()
	var problem string
	if base > 0 { // else no node has plugins yet that it shares
		problem, err = p.await(waiting, n)
	}
	if err != nil {
		problem = "the node that proposed it could not wait for the others"
	}
	if failed := p.SettlePlugins(context.WithoutCancel(ctx), n, problem, keep); err == nil {
		err = failed
	}
	if err == nil && problem != "" {
		err = fmt.Errorf("%w: %s", plugin.ErrRefused, problem)
	}
	return n, err
}

// Answer tells whether this node can run a generation.
func (p *pluginNodes) Answer(ctx context.Context, n int64, problem string) error {
	return p.AnswerPlugins(ctx, n, p.node.Name(), problem)
}

// await returns when all nodes that serve can run a generation, or with what is wrong.
func (p *pluginNodes) await(ctx context.Context, n int64) (problem string, err error) {
	tick := time.NewTicker(answerPoll)
	defer tick.Stop()
	for {
		answers, err := p.PluginAnswers(ctx, n)
		var nodes []cluster.Node
		if err == nil {
			nodes, err = p.node.Nodes(ctx)
		}
		missing := map[string]bool{}
		for _, other := range nodes {
			if !other.Alive || other.State == cluster.Starting {
				continue // it reads what decides before it serves
			}
			answer, ok := answers[other.Name]
			switch {
			case !ok:
				missing[other.Name] = true
			case answer != "" && other.Name == p.node.Name():
				return answer, nil
			case answer != "":
				return "node " + other.Name + ": " + answer, nil
			}
		}
		if err == nil && len(missing) == 0 {
			return "", nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			if err == nil && ctx.Err() == context.DeadlineExceeded {
				names := strings.Join(slices.Sorted(maps.Keys(missing)), ", ")
				return fmt.Sprintf("no answer within %v from %s", proposalTime, names), nil
			}
			return "", context.Cause(ctx)
		}
	}
}
