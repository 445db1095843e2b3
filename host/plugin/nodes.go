package plugin

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"sync"
	"sync/atomic"

	"talon/host"
	"talon/host/plugin/folder"
)

// Several servers can run the same plugins: all change them at one point of the order in
// which they commit events, or none does. The plugins that run are then a list of records in the
// database, one for each name. A change is a proposal: every node loads and tests it,
// and says whether it can. When all can, the database says that it decides, which each node
// learns before it commits anything after that.

// Nodes are the servers that run the same plugins.
type Nodes interface {
	// Plugins returns the generation that decides, and the one that is proposed.
	Plugins(ctx context.Context) (current, next host.PluginSet, err error)

	// PluginModule returns the module with a SHA-256.
	PluginModule(ctx context.Context, sha string) ([]byte, error)

	// Propose returns when the generation decides, with its number. It returns an error when
	// the generation does not: [ErrRefused] if a node cannot run it. The modules may be new.
	// Those to keep from then on are named by their SHA-256.
	Propose(ctx context.Context, base int64, records []byte, modules map[string][]byte, keep []string) (n int64, err error)

	// Answer tells the node that proposes why this one cannot run a generation; an empty
	// problem says that it can.
	Answer(ctx context.Context, n int64, problem string) error

	// PluginsChanged receives after Plugins may return something else.
	PluginsChanged() <-chan struct{}
}

// shared is what a registry knows of the generations of all nodes. It is the [others] of a server
// that runs the same plugins as these.
type shared struct {
	r     *Registry
	nodes Nodes
	wake  chan struct{} // there is something to do for followOthers

	records map[string]folder.Record // of the generation in the slots; guarded by Registry.changing
	placed  int64                    // its number; likewise
	asked   int64                    // the last proposal that was answered; likewise

	behind atomic.Bool // another generation decides than the one that runs here

	mu       sync.Mutex    // guards what follows
	running  int64         // number of the generation that runs here
	wanted   int64         // that decides
	problem  string        // why it does not run here
	next     *prepared     // nil: none
	switched []*prepared   // that run, and are not in the slots yet
	changed  chan struct{} // closed when there are other slots
}

// prepared is a generation of all plugins that has passed every check here.
type prepared struct {
	number     int64
	records    map[string]folder.Record
	candidates []*candidate // what is new of it
	set        *activeSet
}

func newShared(r *Registry, nodes Nodes) *shared {
	return &shared{r: r, nodes: nodes, wake: make(chan struct{}, 1), changed: make(chan struct{})}
}

func (h *shared) there() bool { return true }

func (h *shared) agreed(name string) *folder.Generation { return h.records[name].Current }

// notCurrent says that this server must not decide, because another generation does than
// the one that runs here.
func (h *shared) notCurrent() error {
	if !h.behind.Load() {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	problem := h.problem
	if problem == "" {
		problem = "it is being loaded"
	}
	return fmt.Errorf("generation %d of the plugins of all nodes does not run here: %s", h.wanted, problem)
}

func (h *shared) module(ctx context.Context, sha string) ([]byte, error) {
	wasm, err := h.nodes.PluginModule(ctx, sha)
	if sum := sha256.Sum256(wasm); err == nil && hex.EncodeToString(sum[:]) != sha {
		err = fmt.Errorf("module %s is damaged in the database", sha)
	}
	return wasm, err
}
