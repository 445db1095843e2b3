package plugin

import (
	"slices"
	"strings"
	"time"

	"talon/host"
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
	Resting       bool      `json:"resting"`           // failed for too many: it is asked once a second
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

// describe says what is known of a name. REQUIRES: looking.
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
		st.Resting, st.Refused = g.breaker.isOpen(), g.breaker.refused()
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
		Place:        g.place,
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
