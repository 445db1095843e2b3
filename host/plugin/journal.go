package plugin

import (
	"cmp"
	"context"
	"encoding/binary"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"talon/host"
)

// journal remembers the last decisions about events, to answer why. Entries are numbered
// from 1 in the order in which they came; the last maxEntries are in the ring.
//
// Who looks for an event follows the entries of its bucket back, from the newest, until
// one is older than all in the ring. So nothing is removed when an entry is overwritten.
type journal struct {
	maxEntries uint64
	key        uint64 // random: who sends events chooses their ids, and must not choose their buckets

	mu      sync.Mutex // guards the fields below
	ring    []entry    // entry n stands at (n-1) % maxEntries; grows up to there
	newest  uint64
	buckets []uint64                        // by hash: the newest entry, or 0; made with the first entry
	last    [host.RequireAuth + 1]*decision // by action: which the next entries may share
}

// entry is the last decision about an event.
type entry struct {
	event host.ID
	at    int64 // unix seconds
	fuel  int64
	*decision
	older uint64 // the entry before it in its bucket, or 0
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
		len(d.opinions)+len(other.opinions) == 0 && sameNames(d.asked, other.asked)
}

// sameNames compares names, which are most often those of the same active set.
func sameNames(a, b []string) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0] || slices.Equal(a, b))
}

func newJournal(limit int) *journal {
	return &journal{maxEntries: uint64(limit), key: rand.Uint64() | 1}
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
	j.mu.Lock()
	defer j.mu.Unlock()
	shared := j.last[d.ruling.Action]
	if shared == nil || !shared.equal(&d) {
		kept := d // only here does it move to the heap
		shared = &kept
		j.last[d.ruling.Action] = shared
	}
	bucket := j.bucket(event)
	if e := j.lookup(*bucket, event); e != nil {
		e.at, e.fuel, e.decision = q.now, q.fuel, shared
		return
	}
	e := entry{*event, q.now, q.fuel, shared, *bucket}
	if at := j.newest % j.maxEntries; at == uint64(len(j.ring)) {
		j.ring = append(j.ring, e)
	} else {
		j.ring[at] = e
	}
	j.newest++
	*bucket = j.newest
}

// bucket returns the newest entry of the bucket of an event. REQUIRES: mu.
func (j *journal) bucket(event *host.ID) *uint64 {
	width := bits.Len64(j.maxEntries) // about one entry a bucket
	if j.buckets == nil {
		j.buckets = make([]uint64, 1<<width)
	}
	return &j.buckets[binary.LittleEndian.Uint64(event[:])*j.key>>(64-width)]
}

// lookup returns the entry of an event, nil if there is none, in the bucket that begins
// with entry n. REQUIRES: mu.
func (j *journal) lookup(n uint64, event *host.ID) *entry {
	for n != 0 && n+j.maxEntries > j.newest {
		e := &j.ring[(n-1)%j.maxEntries]
		if e.event == *event {
			return e
		}
		n = e.older
	}
	return nil
}

// keepDecisions is how long a decision can be looked up, if newer ones do not
// displace it.
const keepDecisions = 24 * time.Hour

// keepReason bounds what a module can make the journal hold.
const keepReason = 200

// find returns the last decision about an event that is remembered.
func (j *journal) find(event host.ID, now time.Time) (Why, bool) {
	j.mu.Lock()
	var e entry
	found := j.lookup(*j.bucket(&event), &event)
	if found != nil {
		e = *found
	}
	j.mu.Unlock()
	if found == nil || now.Sub(time.Unix(e.at, 0)) > keepDecisions {
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
		var ruling host.Ruling
		fuel, err := l.ask(ctx, q, facts, &ruling)
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
