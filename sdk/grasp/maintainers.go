package grasp

// Graph says who maintains whose repository, among the announcements of one
// identifier. Building it and asking it take time linear in what the
// announcements list. It does not change once it is built.
type Graph struct {
	keys    []PubKey
	index   map[PubKey]int32
	lists   [][]int32 // by key: whom its announcement lists
	listers [][]int32 // by key: whose announcements list it
	owners  int32     // the first keys are those with an announcement
}

// NewGraph takes the announcements of one identifier, stored and held. Of two by
// the same author the newer counts. Those of other identifiers than the first
// one's are left out.
func NewGraph(announcements []*Announcement) *Graph {
	g := &Graph{index: make(map[PubKey]int32, len(announcements))}
	var newest []*Announcement
	for _, a := range announcements {
		if a.Identifier != announcements[0].Identifier {
			continue
		}
		i, ok := g.index[a.PubKey]
		if !ok {
			g.add(a.PubKey)
			newest = append(newest, a)
		} else if a.Newer(&newest[i].Stamp) {
			newest[i] = a
		}
	}
	g.owners = int32(len(newest))
	for i, a := range newest {
		list := make([]int32, 0, len(a.Maintainers))
		for _, key := range a.Maintainers {
			j, ok := g.index[key]
			if !ok {
				j = g.add(key)
			}
			list = append(list, j)
			g.listers[j] = append(g.listers[j], int32(i))
		}
		g.lists[i] = list
	}
	return g
}

func (g *Graph) add(key PubKey) int32 {
	i := int32(len(g.keys))
	g.index[key] = i
	g.keys = append(g.keys, key)
	g.lists = append(g.lists, nil)
	g.listers = append(g.listers, nil)
	return i
}

// Maintainers returns the recursive maintainer set of the owner's repository: the
// owner first, then whom the announcement lists, whom theirs list, and so on,
// depth-first, each once. A listed maintainer counts without an announcement.
// The set is empty if the owner has no announcement.
func (g *Graph) Maintainers(owner PubKey) []PubKey {
	i, ok := g.index[owner]
	if !ok || i >= g.owners {
		return nil
	}
	var set []PubKey
	for _, j := range reach(i, g.lists) {
		set = append(set, g.keys[j])
	}
	return set
}

// Owners returns those with an announcement in whose recursive maintainer set the
// author is, an author with an announcement included. The order is that of the
// announcements.
func (g *Graph) Owners(author PubKey) []PubKey {
	i, ok := g.index[author]
	if !ok {
		return nil
	}
	found := make([]bool, len(g.keys))
	for _, j := range reach(i, g.listers) {
		found[j] = true
	}
	var owners []PubKey
	for j := range g.owners {
		if found[j] {
			owners = append(owners, g.keys[j])
		}
	}
	return owners
}

// reach returns what can be reached from start, depth-first.
func reach(start int32, next [][]int32) (order []int32) {
	seen := make([]bool, len(next))
	stack := []int32{start}
	for len(stack) > 0 {
		i := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if seen[i] {
			continue
		}
		seen[i] = true
		order = append(order, i)
		for k := len(next[i]) - 1; k >= 0; k-- {
			if j := next[i][k]; !seen[j] {
				stack = append(stack, j)
			}
		}
	}
	return order
}
