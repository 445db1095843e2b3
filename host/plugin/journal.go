package plugin

import (
	"encoding/binary"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"talon/host"
	"talon/host/plugin/guest"
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

// counters is what an operator wants to know of a name, over all its generations.
type counters struct {
	calls    atomic.Uint64
	failures atomic.Uint64
	disputes disputes

	mu   sync.Mutex // guards the field below
	last string
}

func (t *counters) failed(f error) {
	t.failures.Add(1)
	t.mu.Lock()
	t.last = f.Error()
	t.mu.Unlock()
}

func (t *counters) lastFailure() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.last
}

// counterSet are those of all names.
type counterSet struct {
	mu sync.Mutex // guards the field below
	by map[string]*counters
}

// of returns the tally of a name, always the same.
func (t *counterSet) of(name string) *counters {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.by == nil {
		t.by = make(map[string]*counters)
	}
	if t.by[name] == nil {
		t.by[name] = new(counters)
	}
	return t.by[name]
}

// forget drops a name that is gone.
func (t *counterSet) forget(name string) {
	t.mu.Lock()
	delete(t.by, name)
	t.mu.Unlock()
}

// metrics are those of generations; what happens within a module is in
// guest.Metrics.
type metrics struct {
	guests     *guest.Metrics
	registry   *Registry
	changes    *prometheus.CounterVec // plugin, result
	refusals   *prometheus.CounterVec // plugin, by
	generation *prometheus.Desc
	disputes   *prometheus.Desc
	state      *prometheus.Desc
	refused    *prometheus.Desc
}

func newMetrics(r *Registry) *metrics {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(prometheus.BuildFQName("talon", "plugin", name), help, append([]string{"module"}, labels...), nil)
	}
	return &metrics{
		guests:   guest.NewMetrics(),
		registry: r,
		changes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "talon", Subsystem: "plugin", Name: "changes_total",
			Help: "Changes of a plugin's files, by what became of them: accepted, refused, removed.",
		}, []string{"module", "result"}),
		refusals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "talon", Subsystem: "plugin", Name: "breaker_refusals_total",
			Help: "Questions that a plugin was not asked because it had failed for the same connection, author, network or relay, or for too many (all).",
		}, []string{"module", "by"}),
		generation: desc("generation", "Number of the generation that runs.", "mode"),
		disputes:   desc("shadow_disagreements_total", "Questions about which a plugin in shadow mode and the chain disagreed, by what the plugin said.", "action", "rule"),
		state:      desc("state_bytes", "What a plugin remembers."),
		refused:    desc("quarantined", "1 if what lies in the folder was refused."),
	}
}

func (m *metrics) change(name, result string) { m.changes.WithLabelValues(name, result).Inc() }

func (m *metrics) refuse(name string, by causeKind) {
	m.refusals.WithLabelValues(name, causeKinds[by]).Inc()
}

// forget drops the series of a name that is gone.
func (m *metrics) forget(name string) {
	m.guests.Forget(name)
	m.refusals.DeletePartialMatch(prometheus.Labels{"module": name})
	for _, result := range []string{"accepted", "refused"} {
		m.changes.DeleteLabelValues(name, result)
	}
}

// Collectors returns the metrics of all plugins.
func (r *Registry) Collectors() []prometheus.Collector {
	return append(r.metrics.guests.Collectors(), r.metrics.changes, r.metrics.refusals, r.metrics)
}

// Describe implements prometheus.Collector for what is read when it is asked
// for.
func (m *metrics) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.generation, m.disputes, m.state, m.refused} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (m *metrics) Collect(to chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	m.registry.inspecting.Lock()
	defer m.registry.inspecting.Unlock()
	for name, s := range m.registry.slots {
		if g := s.running; g != nil {
			gauge(m.generation, float64(g.number), name, string(g.file.Mode))
			for said, n := range g.counters.disputes.byOpinion() {
				to <- prometheus.MustNewConstMetric(m.disputes, prometheus.CounterValue, float64(n), name, said.action, said.rule)
			}
		}
		gauge(m.state, float64(m.registry.state.Bytes(name)), name)
		quarantined := 0.0
		if s.refused != nil {
			quarantined = 1
		}
		gauge(m.refused, quarantined, name)
	}
}
