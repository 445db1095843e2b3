package gitread

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"talon/internal/recent"
)

// ErrIndexing says that the history of a repository is being indexed. The answer comes later.
var ErrIndexing = errors.New("the history is being indexed")

const (
	// maxLoose is how many commits are read one by one that the commit-graph does not have, and
	// maxLooseParents how many parents they have. A commit may name 20,000 parents.
	maxLoose        = 3000
	maxLooseParents = 4 * maxLoose

	// graphBytes is the size of the commit-graphs in memory; twice as much for those used last.
	graphBytes = 24 << 20

	// historyBytes is the size of the histories, with the commit-graph that each keeps in memory.
	historyBytes = 32 << 20

	// listBytes is the size of the lists of commits, and of the commits that no graph has.
	listBytes = 16 << 20
)

// histories keeps the history of repositories. It is safe for concurrent use.
type histories struct {
	mu     sync.Mutex // guards the fields below
	graphs recent.Map[string, *graph]
	kept   recent.Map[historyKey, *history]
	lists  recent.Map[listKey, []uint32]
	nodes  recent.Map[string, *node] // of commits that no graph has
}

type historyKey struct {
	tips  [sha256.Size]byte
	state string // of the graph
}

// listKey names a list. It does not refer to the history itself, which the list would keep in memory.
// Equal keys of histories give equal numbers to commits.
type listKey struct {
	of  historyKey
	tip uint32
}

func newHistories() *histories {
	return &histories{
		graphs: recent.Map[string, *graph]{Size: graphBytes},
		kept:   recent.Map[historyKey, *history]{Size: historyBytes},
		lists:  recent.Map[listKey, []uint32]{Size: listBytes},
		nodes:  recent.Map[string, *node]{Size: listBytes},
	}
}

// node is a commit that the commit-graph does not have.
type node struct {
	id, tree string
	parents  []string
	when     int64
}

// cost is about how much memory a node takes.
func (n *node) cost() int { return 320 + 64*len(n.parents) }

// history is all that the refs of a repository reach. Commits are numbered: first those of the
// commit-graph, then the others. It does not change.
type history struct {
	key     historyKey
	graph   *graph // nil if there is none
	loose   []*node
	byID    map[string]uint32 // of loose
	edges   [][]uint32        // parents of loose
	depths  []uint32          // generations of loose
	reached []uint64          // a bit for each commit
}

// history returns the history of the repository. It fails with ErrIndexing if that has to be
// indexed first.
func (r *Repository) history() (*history, error) {
	if r.past != nil {
		return r.past, nil
	}
	g, err := r.graph()
	if err != nil {
		return nil, err
	}
	tips := r.tips()
	key := historyKey{tips: sha256.Sum256([]byte(strings.Join(tips, "\n")))}
	if g != nil {
		key.state = g.state
	}
	all := r.reader.histories
	all.mu.Lock()
	h, aging, ok := all.kept.Get(key)
	if ok && aging {
		all.kept.Add(key, h, h.cost())
	}
	all.mu.Unlock()
	if !ok {
		if h, err = r.makeHistory(key, g, tips); err != nil {
			return nil, err
		}
		all.mu.Lock()
		all.kept.Add(key, h, h.cost())
		all.mu.Unlock()
	}
	r.past = h
	return h, nil
}

// cost is about how much memory a history takes. It keeps its graph in memory, also when a newer one
// has replaced that.
func (h *history) cost() int {
	n := 1024 + 128*len(h.loose) + 8*len(h.reached)
	for _, edges := range h.edges {
		n += 4 * len(edges)
	}
	if h.graph != nil {
		n += h.graph.bytes
	}
	return n
}

// tips returns the objects that refs point to, sorted.
func (r *Repository) tips() []string {
	ids := make([]string, 0, len(r.refs.List))
	for _, ref := range r.refs.List {
		id := ref.ID
		if ref.Peeled != "" {
			id = ref.Peeled
		}
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// graph returns the commit-graph of the repository, nil if there is none.
func (r *Repository) graph() (*graph, error) {
	files, idBytes, err := r.repo.CommitGraph(r.ctx)
	if err != nil {
		return nil, fmt.Errorf("read the commit-graph: %w", err)
	}
	state, _, err := stateOf(files)
	if len(files) == 0 || err != nil {
		return nil, nil // git may be about to replace it
	}
	all := r.reader.histories
	all.mu.Lock()
	g, aging, ok := all.graphs.Get(state)
	if ok && aging {
		all.graphs.Add(state, g, g.bytes)
	}
	all.mu.Unlock()
	if ok {
		return g, nil
	}
	if g, err = openGraph(files, idBytes); err != nil || g == nil {
		return nil, err
	}
	all.mu.Lock()
	all.graphs.Add(state, g, g.bytes)
	all.mu.Unlock()
	return g, nil
}

// makeHistory reads the commits that the graph does not have, and notes what the tips reach.
func (r *Repository) makeHistory(key historyKey, g *graph, tips []string) (*history, error) {
	h := &history{key: key, graph: g, byID: make(map[string]uint32)}
	edges := 0
	var starts []uint32
	missing := make([]string, 0, len(tips))
	for _, id := range tips {
		if n, ok := g.find(id); ok {
			starts = append(starts, n)
		} else {
			missing = append(missing, id)
		}
	}
	base := uint32(0)
	if g != nil {
		base = g.count
	}
	for len(missing) > 0 {
		id := missing[len(missing)-1]
		missing = missing[:len(missing)-1]
		if _, ok := h.byID[id]; ok {
			continue
		}
		n, err := r.node(id)
		if errors.Is(err, ErrNotFound) { // a ref of a tree or a blob
			continue
		}
		if errors.Is(err, ErrTooLarge) { // git reads it
			r.reader.indexer.enqueue(r.repo, false)
			return nil, ErrIndexing
		}
		if err != nil {
			return nil, err
		}
		if edges += len(n.parents); len(h.loose) == maxLoose || edges > maxLooseParents {
			r.reader.indexer.enqueue(r.repo, false)
			return nil, ErrIndexing
		}
		h.byID[id] = base + uint32(len(h.loose))
		h.loose = append(h.loose, n)
		for _, parent := range n.parents {
			if _, ok := g.find(parent); !ok {
				missing = append(missing, parent)
			}
		}
	}
	h.edges = make([][]uint32, len(h.loose))
	for i, n := range h.loose {
		starts = append(starts, base+uint32(i))
		for _, parent := range n.parents {
			if p, ok := h.find(parent); ok {
				h.edges[i] = append(h.edges[i], p)
			}
		}
	}
	h.number()
	h.reach(starts)
	if len(h.loose) > fewLoose || g != nil && slices.ContainsFunc(g.layers, func(l *layer) bool { return l.filterEnds == nil }) {
		r.reader.indexer.enqueue(r.repo, true)
	}
	return h, nil
}

// fewLoose is how many commits may be missing from the graph of a repository before it is written
// again.
const fewLoose = 200

// node reads a commit that the graph does not have.
func (r *Repository) node(id string) (*node, error) {
	all := r.reader.histories
	all.mu.Lock()
	n, aging, ok := all.nodes.Get(id)
	if ok && aging {
		all.nodes.Add(id, n, n.cost())
	}
	all.mu.Unlock()
	if ok {
		return n, nil
	}
	c, err := r.commit(id)
	if err != nil {
		return nil, err
	}
	n = &node{id: id, tree: c.Tree, parents: c.Parents, when: c.Committer.When}
	all.mu.Lock()
	all.nodes.Add(id, n, n.cost())
	all.mu.Unlock()
	return n, nil
}

// base returns the number of the first commit that the graph does not have.
func (h *history) base() uint32 {
	if h.graph == nil {
		return 0
	}
	return h.graph.count
}

// count returns how many commits have a number.
func (h *history) count() int { return int(h.base()) + len(h.loose) }

// find returns the number of a commit, which the refs need not reach.
func (h *history) find(id string) (uint32, bool) {
	if n, ok := h.graph.find(id); ok {
		return n, true
	}
	n, ok := h.byID[id]
	return n, ok
}

func (h *history) id(n uint32) string {
	if n < h.base() {
		return h.graph.id(n)
	}
	return h.loose[n-h.base()].id
}

func (h *history) tree(n uint32) string {
	if n < h.base() {
		return h.graph.tree(n)
	}
	return h.loose[n-h.base()].tree
}

func (h *history) when(n uint32) int64 {
	if n < h.base() {
		return h.graph.when(n)
	}
	return h.loose[n-h.base()].when
}

// generation is larger than that of each parent.
func (h *history) generation(n uint32) uint32 {
	if n < h.base() {
		return h.graph.generation(n)
	}
	return h.depths[n-h.base()]
}

// number gives generations to the commits that the graph does not have.
func (h *history) number() {
	h.depths = make([]uint32, len(h.loose))
	base := h.base()
	for i := range h.loose {
		stack := []uint32{uint32(i)}
		for len(stack) > 0 {
			at := stack[len(stack)-1]
			depth, ready := uint32(0), true
			for _, p := range h.edges[at] {
				if p >= base && h.depths[p-base] == 0 {
					stack, ready = append(stack, p-base), false
					continue
				}
				depth = max(depth, h.generation(p))
			}
			if ready {
				h.depths[at] = depth + 1
				stack = stack[:len(stack)-1]
			}
		}
	}
}

// parents appends the parents of a commit, in its order.
func (h *history) parents(to []uint32, n uint32) []uint32 {
	if n < h.base() {
		return h.graph.parents(to, n)
	}
	return append(to, h.edges[n-h.base()]...)
}

// reach notes what commits reach.
func (h *history) reach(starts []uint32) {
	h.reached = make([]uint64, (h.count()+63)/64)
	stack := starts
	var parents []uint32
	for len(stack) > 0 {
		n := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if h.reached[n/64]&(1<<(n%64)) != 0 {
			continue
		}
		h.reached[n/64] |= 1 << (n % 64)
		parents = h.parents(parents[:0], n)
		stack = append(stack, parents...)
	}
}

// reaches reports whether the refs reach a commit, and returns its number.
func (h *history) reaches(id string) (uint32, bool) {
	n, ok := h.find(id)
	return n, ok && h.reached[n/64]&(1<<(n%64)) != 0
}

// Reaches reports whether the refs of the repository reach a commit.
func (r *Repository) Reaches(id string) (bool, error) {
	for _, ref := range r.refs.List {
		if ref.Peeled == id || ref.Peeled == "" && ref.ID == id {
			return true, nil
		}
	}
	h, err := r.history()
	if err != nil {
		return false, err
	}
	_, reached := h.reaches(id)
	return reached, nil
}

// minAbbreviation is how many digits of an id name a commit.
const minAbbreviation = 7

// abbreviated returns the commit whose id begins so, if the refs reach exactly one.
func (r *Repository) abbreviated(prefix string) (string, error) {
	if len(prefix) < minAbbreviation || strings.Trim(prefix, "0123456789abcdef") != "" {
		return "", fmt.Errorf("%w: no ref %.200q", ErrNotFound, prefix)
	}
	h, err := r.history()
	if err != nil {
		return "", err
	}
	found := ""
	first, _ := strconv.ParseUint(prefix[:2], 16, 8)
	consider := func(id string) bool {
		if _, ok := h.reaches(id); ok && strings.HasPrefix(id, prefix) && id != found {
			if found != "" {
				return false
			}
			found = id
		}
		return true
	}
	one := true
	if h.graph != nil {
		h.graph.eachOf(byte(first), prefix, func(id string) bool { one = one && consider(id); return one })
	}
	for _, n := range h.loose {
		one = one && consider(n.id)
	}
	if found == "" || !one {
		return "", fmt.Errorf("%w: no ref and not one commit %.200q", ErrNotFound, prefix)
	}
	return found, nil
}
