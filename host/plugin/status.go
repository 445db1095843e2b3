package plugin

import (
	"time"

	"talon/host/plugin/sidecar"
)

// Status is what an operator sees of one plugin.
type Status struct {
	Name string       `json:"name"` // of the file, without .wasm
	Mode sidecar.Mode `json:"mode"`

	// Origin says where the module comes from.
	Origin Origin `json:"origin,omitempty"`

	// Unused is true for a bundled module that no side-car has asked for.
	Unused bool `json:"unused,omitempty"`

	// LeftOut is true for a policy that does not decide because the operator's choice
	// (Options.Policy) does not name it, whatever its mode.
	LeftOut bool `json:"left_out,omitempty"`

	// Running is nil for a plugin that is off, or that never passed its checks.
	Running *Running `json:"running,omitempty"`

	// Required is true for a policy without which nothing that it would judge is
	// decided. Missing says why it does not run, empty if it does.
	Required bool   `json:"required,omitempty"`
	Missing  string `json:"missing,omitempty"`

	// Quarantine says why the file in the folder does not run. The previous generation
	// keeps running.
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
	Shadow Opinion   `json:"shadow"`
	Chain  Opinion   `json:"chain"`
}

// Opinion is what one plugin decided.
type Opinion struct {
	Plugin     string `json:"plugin"`
	Generation int64  `json:"generation"`
	Action     string `json:"action"`
	Rule       string `json:"rule"`
	Reason     string `json:"reason,omitempty"`
	Audience   string `json:"audience,omitempty"` // of an event that not everybody receives
	Wake       string `json:"wake,omitempty"`     // of an event that is held until another one matches this filter
	Fuel       int64  `json:"fuel"`
}

// Why is the decision about one event.
type Why struct {
	Event  string    `json:"event"`
	At     time.Time `json:"at"`
	Source string    `json:"source"` // client, import or sync
	Ruling Opinion   `json:"ruling"`

	// Limits bound what the author may take here; nil: nothing. The server checks them when it stores
	// the event.
	Limits *AllowedBytes `json:"limits,omitempty"`

	// Refused is the reason with which the server refused the event that the plugins accepted; "": it
	// did not refuse it.
	Refused string `json:"refused,omitempty"`

	// Asked are the plugins that were asked, in order, the one that decided last.
	Asked []string `json:"asked"`

	// Shadow are the opinions of plugins in shadow mode.
	Shadow []Opinion `json:"shadow,omitempty"`

	// Audience is who may receive the event; nil: everybody, or it was not accepted.
	Audience *Opinion `json:"audience,omitempty"`
}

// AllowedBytes are the limits of a ruling, in bytes; 0 is no limit.
type AllowedBytes struct {
	Author     int64 `json:"author,omitempty"`     // events and git data of an author
	Repository int64 `json:"repository,omitempty"` // git data of a repository
}
