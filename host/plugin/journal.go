package plugin

import (
	"cmp"
	"context"
	"encoding/binary"
	"slices"
	"strings"
	"sync"
	"time"

	"talon/host"
)

// journal remembers the last decisions about events, to answer why.
type journal struct {
	mu         sync.Mutex // guards the fields below
	maxEntries int
	ring       []entry // grows up to most
	next       int     // where the oldest is, once the ring is full
	where      map[uint64]uint32
	last       map[host.Action]*decision // which the next entries may share
}

// entry is the last decision about an event.
type entry struct {
	event host.ID
	at    int64 // unix seconds
	fuel  int64
	*decision
}

// decision is immutable: most entries share that of an earlier one.
type decision struct {
	source   string
	ruling   host.Ruling
	number   int64    // of the generation that decided; 0: none did
	asked    []string // shared by all entries of an active set
	opinions []Said   // nil for most
}

func (d *decision) equal(other *decision) bool {
	return d.source == other.source && d.ruling == other.ruling && d.number == other.number &&
		len(d.opinions)+len(other.opinions) == 0 && slices.Equal(d.asked, other.asked)
}

func newJournal(limit int) *journal {
	return &journal{maxEntries: limit, where: make(map[uint64]uint32), last: make(map[host.Action]*decision)}
}

// add notes a decision. One that is taken again takes the place of the first.
func (j *journal) add(event *host.ID, q *question, opinions []opinion) {
	if j.maxEntries == 0 {
		return
	}
	d := decision{source: q.source, ruling: q.ruling}
	names, asked := q.names()
	d.asked = names[:asked]
	if len(d.ruling.Reason) > keepReason {
		d.ruling.Reason = strings.ToValidUTF8(strings.Clone(d.ruling.Reason[:keepReason]), "")
	}
	if q.by != nil {
		d.number = q.by.number
	}
	for i := range opinions {
		d.opinions = append(d.opinions, opinions[i].said())
	}
	short := shorten(event)
	j.mu.Lock()
	defer j.mu.Unlock()
	shared := j.last[d.ruling.Action]
	if shared == nil || !shared.equal(&d) {
		kept := d // only here does it move to the heap
		shared = &kept
		j.last[d.ruling.Action] = shared
	}
	e := entry{*event, q.now, q.fuel, shared}
	if at, ok := j.where[short]; ok && j.ring[at].event == *event {
		j.ring[at] = e
		return
	}
	at := j.next
	if len(j.ring) < j.maxEntries {
		at = len(j.ring)
		j.ring = append(j.ring, e)
	} else {
		old := shorten(&j.ring[at].event)
		if j.where[old] == uint32(at) {
			delete(j.where, old)
		}
		j.ring[at] = e
		j.next = (at + 1) % j.maxEntries
	}
	j.where[short] = uint32(at)
}

// keepDecisions is how long a decision can be looked up, if newer ones do not
// displace it.
const keepDecisions = 24 * time.Hour

// keepReason bounds what a module can make the journal hold.
const keepReason = 200

// find returns the last decision about an event that is remembered.
func (j *journal) find(event host.ID, now time.Time) (Why, bool) {
	j.mu.Lock()
	at, ok := j.where[shorten(&event)]
	var e entry
	if ok {
		e = j.ring[at]
	}
	j.mu.Unlock()
	if !ok || e.event != event || now.Sub(time.Unix(e.at, 0)) > keepDecisions {
		return Why{}, false
	}
	return Why{
		Event:  event.String(),
		At:     time.Unix(e.at, 0),
		Source: e.source,
		Ruling: Said{
			Plugin: e.ruling.Module, Generation: e.number, Action: e.ruling.Action.String(),
			Rule: e.ruling.Rule, Reason: e.ruling.Reason, Fuel: e.fuel,
		},
		Asked:  e.asked,
		Shadow: e.opinions,
	}, true
}

// shorten is what decisions are found by. An id is a hash: two that begin alike
// do not happen, and if they did, one would be forgotten.
func shorten(id *host.ID) uint64 { return binary.LittleEndian.Uint64(id[:]) }

// opinion is what a plugin in shadow mode said.
type opinion struct {
	by     *generation
	ruling host.Ruling
	fuel   int64
}

// runShadow asks the plugins in shadow mode whose turn came, after the decision:
// what they say has no effect. It notes where they disagree, and returns what
// they said. event is nil where the question is not about one.
func (q *question) runShadow(ctx context.Context, event *host.ID) []opinion {
	facts := q.facts
	// What a shadow reads must not make the decision older.
	if recorded, ok := facts.(host.Recorder); ok {
		facts = recorded.WithoutRecording()
	}
	var said []opinion
	for i := range q.chain.links {
		l := q.chain.links[i]
		if !l.shadow {
			continue
		}
		if len(said) == q.shadows {
			break
		}
		ruling, fuel, err := l.ask(ctx, q, facts)
		if err != nil {
			ruling = host.Ruling{Action: host.Pass, Rule: "failed", Module: l.name}
		}
		q.heard(l.name, ruling)
		o := opinion{l.generation, ruling, fuel}
		if o.disagrees(q) {
			l.counters.disputes.add(event, q.now, &o, q)
		}
		said = append(said, o)
	}
	return said
}

// disagrees reports whether an opinion would have changed what became of the
// event. Two refusals differ only in their words.
func (o *opinion) disagrees(with *question) bool {
	return o.ruling.Action != host.Pass && o.ruling.Action != with.ruling.Action
}

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

func actionRuleOf(r host.Ruling) actionRule { return actionRule{r.Action.String(), r.Rule} }

func (d *disputes) add(event *host.ID, at int64, o *opinion, q *question) {
	pair := dispute{actionRuleOf(o.ruling), actionRuleOf(q.ruling).String()}
	if q.by != nil {
		pair.chain = q.by.name + " " + pair.chain
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
	if event == nil {
		return
	}
	seen := Disagreement{Event: event.String(), At: time.Unix(at, 0), Plugin: o.by.name, Shadow: o.said(), Chain: q.said()}
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

func (o *opinion) said() Said { return saidBy(o.by, o.ruling, o.fuel) }

func (q *question) said() Said { return saidBy(q.by, q.ruling, q.fuel) }

// saidBy is a ruling as an operator sees it; by is nil if no plugin gave it.
func saidBy(by *generation, ruling host.Ruling, fuel int64) Said {
	s := Said{Action: ruling.Action.String(), Rule: ruling.Rule, Reason: ruling.Reason, Fuel: fuel}
	if by != nil {
		s.Plugin, s.Generation = by.name, by.number
	}
	return s
}
