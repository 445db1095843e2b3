package plugin

import (
	"cmp"
	"slices"
	"sync"
)

const (
	maxDisagreements = 1000 // kept of one plugin, the newest
	maxDisputes      = 256  // pairs of opinions that are counted apart
)

// disputes are the disagreements of one plugin with the chain.
type disputes struct {
	mu     sync.Mutex // guards the fields below
	counts map[dispute]uint64
	total  uint64
	kept   []Disagreement // a ring once it is full
	next   int
}

// dispute is a pair of opinions; chain is "plugin action rule".
type dispute struct {
	shadow actionRule
	chain  string
}

// actionRule is what a plugin says without its reason.
type actionRule struct{ action, rule string }

func (v actionRule) String() string {
	if v.rule == "" {
		return v.action
	}
	return v.action + " " + v.rule
}

// add notes that a plugin in shadow mode disagrees with a decision. One that is about no event is
// only counted.
func (d *disputes) add(seen Disagreement) {
	pair := dispute{actionRule{seen.Shadow.Action, seen.Shadow.Rule}, actionRule{seen.Chain.Action, seen.Chain.Rule}.String()}
	if seen.Chain.Plugin != "" {
		pair.chain = seen.Chain.Plugin + " " + pair.chain
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.total++
	if d.counts == nil {
		d.counts = make(map[dispute]uint64)
	}
	if _, known := d.counts[pair]; !known && len(d.counts) >= maxDisputes {
		pair = dispute{actionRule{pair.shadow.action, "other"}, "other"}
	}
	d.counts[pair]++
	if seen.Event == "" {
		return
	}
	if len(d.kept) < maxDisagreements {
		d.kept = append(d.kept, seen)
		return
	}
	d.kept[d.next] = seen
	d.next = (d.next + 1) % maxDisagreements
}

// clear forgets the disagreements of a plugin that has changed.
func (d *disputes) clear() {
	d.mu.Lock()
	d.counts, d.kept, d.next, d.total = nil, nil, 0, 0
	d.mu.Unlock()
}

// list returns the disagreements, the newest first.
func (d *disputes) list(limit int) []Disagreement {
	d.mu.Lock()
	defer d.mu.Unlock()
	list := make([]Disagreement, 0, min(limit, len(d.kept)))
	for i := range len(d.kept) {
		if len(list) == limit {
			break
		}
		at := (d.next - 1 - i + 2*len(d.kept)) % len(d.kept)
		list = append(list, d.kept[at])
	}
	return list
}

// summary returns the counts, the highest first.
func (d *disputes) summary() []Dispute {
	d.mu.Lock()
	defer d.mu.Unlock()
	list := make([]Dispute, 0, len(d.counts))
	for pair, n := range d.counts {
		list = append(list, Dispute{Shadow: pair.shadow.String(), Chain: pair.chain, Count: n})
	}
	slices.SortFunc(list, func(a, b Dispute) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Shadow, b.Shadow), cmp.Compare(a.Chain, b.Chain))
	})
	return list
}

// byOpinion returns the counts by what the plugin said.
func (d *disputes) byOpinion() map[actionRule]uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	by := make(map[actionRule]uint64, len(d.counts))
	for pair, n := range d.counts {
		by[pair.shadow] += n
	}
	return by
}
