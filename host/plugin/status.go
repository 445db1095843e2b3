package plugin

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"talon/host"
	"talon/host/plugin/guest"
	"talon/host/plugin/sidecar"
)

// Status is what an operator sees of one plugin.
type Status struct {
	Name string       `json:"name"` // of the file, without .wasm
	Mode sidecar.Mode `json:"mode"`

	// LeftOut is true for a policy that does not decide because the operator's choice
	// (Options.Policy) does not name it, whatever its mode.
	LeftOut bool `json:"left_out,omitempty"`

	// Running is nil for a plugin that is off, or that never passed its checks.
	Running *Running `json:"running,omitempty"`

	// Required is true for a policy without which nothing that it would judge is
	// decided. Missing says why it does not run, empty if it does.
	Required bool   `json:"required,omitempty"`
	Missing  string `json:"missing,omitempty"`

	// Quarantine says why what lies in the folder does not run. What ran before
	// goes on.
	Quarantine *Quarantine `json:"quarantine,omitempty"`

	// Earlier are the generations that a rollback can return to, newest first.
	Earlier []Earlier `json:"earlier,omitempty"`

	Calls         uint64    `json:"calls"`
	Failures      uint64    `json:"failures"`
	LastFailure   string    `json:"last_failure,omitempty"`
	BreakerOpen   bool      `json:"resting"`           // failed for too many: it is asked once a second
	Refused       int       `json:"refused,omitempty"` // connections, authors, networks and relays for which it failed, refused for a while
	StateBytes    int64     `json:"state_bytes"`
	Disagreements []Dispute `json:"disagreements,omitempty"` // in shadow mode, counted by what was said
}

// Running is the generation of a plugin that decides, or that runs in shadow.
type Running struct {
	Generation   int64     `json:"generation"` // counts from 1 for each name
	Since        time.Time `json:"since"`
	SHA256       string    `json:"sha256"` // of the file
	Manifest     string    `json:"manifest"`
	Version      string    `json:"version"`
	Summary      string    `json:"summary"`
	Worlds       []string  `json:"worlds"`
	Place        int       `json:"place"`
	Functions    []string  `json:"functions"`    // that it exports and the host calls
	Capabilities []string  `json:"capabilities"` // that it imports
	Fuel         int64     `json:"fuel"`         // of one call
	Memory       int64     `json:"memory"`       // bytes, most of one instance
	Instances    int       `json:"instances"`
	MemoryUsed   int64     `json:"memory_used"` // bytes, of all instances
	Sets         []Set     `json:"sets,omitempty"`

	SignedBy string   `json:"signed_by,omitempty"` // npub; empty: nobody had to sign it
	Program  *Program `json:"program,omitempty"`   // that runs instead of a module: then SHA256, Fuel and Memory mean nothing
}

// Program is how a program runs that decides in the place of a module.
type Program struct {
	Path      string `json:"path"`
	TimeoutMS int64  `json:"timeout_ms"` // of one decision
	Processes int    `json:"processes"`  // at most
	OnAccept  string `json:"on_accept"`  // accept or pass
}

// Set is one list that a plugin can look things up in.
type Set struct {
	Name    string `json:"name"`
	From    string `json:"from"`
	Members int    `json:"members"`
	Problem string `json:"problem,omitempty"`
}

// Quarantine is a file that was refused.
type Quarantine struct {
	SHA256 string    `json:"sha256,omitempty"` // of the module; empty if it could not be read
	At     time.Time `json:"at"`
	Reason string    `json:"reason"` // one sentence
}

// Earlier is a generation that ran before.
type Earlier struct {
	Generation int64     `json:"generation"`
	SHA256     string    `json:"sha256"` // of the module; empty for a program
	Version    string    `json:"version"`
	Until      time.Time `json:"until"`
}

// Dispute counts events about which a plugin in shadow mode and the chain disagreed.
type Dispute struct {
	Shadow string `json:"shadow"` // action and rule, such as "reject deny-word"
	Chain  string `json:"chain"`  // module, action and rule
	Count  uint64 `json:"count"`
}

// Disagreement is one such event.
type Disagreement struct {
	Event  string    `json:"event"` // id
	At     time.Time `json:"at"`
	Plugin string    `json:"plugin"`
	Shadow Said      `json:"shadow"`
	Chain  Said      `json:"chain"`
}

// Said is one opinion.
type Said struct {
	Plugin     string `json:"plugin"`
	Generation int64  `json:"generation"`
	Action     string `json:"action"`
	Rule       string `json:"rule"`
	Reason     string `json:"reason,omitempty"`
	Fuel       int64  `json:"fuel"`
}

// Why is the decision about one event.
type Why struct {
	Event  string    `json:"event"`
	At     time.Time `json:"at"`
	Source string    `json:"source"` // client, import or sync
	Ruling Said      `json:"ruling"`

	// Asked are the plugins that were asked, in order, the one that decided last.
	Asked []string `json:"asked"`

	// Shadow are the opinions of plugins in shadow mode.
	Shadow []Said `json:"shadow,omitempty"`
}

// Describe returns what the plugins that decide say about the relay, in their
// order. It changes with the plugins.
func (r *Registry) Describe() []host.Description {
	l := r.acquireSet()
	defer l.release()
	return slices.Clone(l.about)
}

// List returns all plugins by name.
func (r *Registry) List() []Status {
	r.inspecting.Lock()
	defer r.inspecting.Unlock()
	list := make([]Status, 0, len(r.slots)+len(r.problems))
	for name, s := range r.slots {
		list = append(list, r.describe(name, s))
	}
	for name, reason := range r.problems {
		if r.slots[name] == nil {
			list = append(list, Status{Name: name, Mode: sidecar.Off, Quarantine: &Quarantine{Reason: reason}})
		}
	}
	slices.SortFunc(list, func(a, b Status) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// Disagreements returns events about which a plugin in shadow mode and the chain
// disagreed, the newest first.
func (r *Registry) Disagreements(name string, limit int) []Disagreement {
	r.inspecting.Lock()
	known := r.slots[name] != nil
	r.inspecting.Unlock()
	if !known {
		return nil
	}
	return r.counters.of(name).disputes.list(limit)
}

func (r *Registry) status(name string) Status {
	r.inspecting.Lock()
	defer r.inspecting.Unlock()
	return r.describe(name, r.slots[name])
}

// describe says what is known of a name. REQUIRES: inspecting.
func (r *Registry) describe(name string, s *slot) Status {
	t := r.counters.of(name)
	st := Status{
		Name:          name,
		Mode:          sidecar.Enforce,
		Calls:         t.calls.Load(),
		Failures:      t.failures.Load(),
		LastFailure:   t.lastFailure(),
		LeftOut:       s.leftOut,
		Required:      r.requires(name, s),
		Missing:       r.missing(name, s),
		StateBytes:    r.state.Bytes(name),
		Disagreements: t.disputes.summary(),
	}
	if s.off {
		st.Mode = sidecar.Off
	}
	if g := s.running; g != nil {
		st.Mode = g.file.Mode
		st.BreakerOpen, st.Refused = g.breaker.isOpen(), g.breaker.refused()
		st.Running = g.describe()
	}
	if s.refused != nil {
		st.Quarantine = &Quarantine{At: s.refused.at, Reason: s.refused.reason}
		if s.refused.key != (key{}) && !s.refused.key.program {
			st.Quarantine.SHA256 = s.refused.key.sha256()
		}
	}
	for _, e := range s.record.Earlier {
		sum := e.Wasm
		if sum == emptySum {
			sum = ""
		}
		st.Earlier = append(st.Earlier, Earlier{Generation: e.Number, SHA256: sum, Version: e.Version, Until: e.Until})
	}
	return st
}

func (g *generation) describe() *Running {
	if g.program != nil {
		return g.describeProgram()
	}
	m := g.module.Manifest()
	running := &Running{
		Generation:   g.number,
		Since:        g.since,
		SHA256:       g.key.sha256(),
		SignedBy:     g.signer,
		Manifest:     m.Name,
		Version:      m.Release,
		Summary:      m.Summary,
		Worlds:       m.Worlds,
		Place:        g.position,
		Functions:    g.module.Functions(),
		Capabilities: g.module.Imports(),
		Fuel:         g.module.Fuel(),
		Memory:       g.module.MemoryLimit(),
		Instances:    g.module.Instances(),
		MemoryUsed:   g.module.MemoryUsed(),
	}
	if g.sets != nil {
		for _, s := range g.sets.Status() {
			running.Sets = append(running.Sets, Set(s))
		}
	}
	return running
}

// oneLine makes a reason of an error: one line of bounded length.
func oneLine(err error) string {
	text := strings.Join(strings.FieldsFunc(err.Error(), func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
	if len(text) > maxReason {
		text = strings.ToValidUTF8(text[:maxReason], "") + "…"
	}
	return text
}

const maxReason = 1 << 10

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

// of returns the counters of a name, always the same.
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
	return append(r.metrics.guests.Collectors(), r.metrics.changes, r.metrics.refusals, r.metrics, r.panics.Collector())
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
