package plugin

import (
	"cmp"
	"log/slog"
	"runtime"
	"time"

	"talon/host"
	"talon/host/bundle"
	"talon/host/plugin/guest"
	"talon/host/plugin/state"
)

// Options says where plugins are, and what they may use.
type Options struct {
	Dir     string // the operator's folder, with NAME.wasm and NAME.toml
	History string // folder of the last good generations; empty: none are kept

	// Policy names the policies that decide, in their order; each other one is off. Nil:
	// all that run decide, by their places.
	Policy []string

	// CacheDir keeps compiled code between starts. Empty: none is kept.
	CacheDir string

	// Compiler is a command that does what [guest.ServeCompile] does, for modules that are
	// not in the cache yet. Nil: they are compiled in this process.
	Compiler []string

	// Bundled are the modules that came with the program, and their compiled code, which is
	// trusted like the program. Nil: there are none.
	Bundled *bundle.Bundle

	// AllowExec lets side-cars name programs, which then run with all our rights.
	AllowExec bool

	// Signers are keys of which one must have signed a module; empty: nobody must,
	// if its side-car names nobody.
	Signers [][32]byte

	Limits guest.Limits // what one module may use at most

	Disk       state.Disk // where state is kept; nil: in memory alone
	StateQuota int64      // bytes that one plugin may remember, if its side-car does not say

	Facts host.Facts     // for what is asked outside of the pipeline, and for sets
	Held  host.HeldFacts // events in purgatory, where facts have none; nil: there are none
	Git   guest.Git      // repositories; nil: there are none

	// Known reports whether a key is one of a known person, for the set "known". Nil: there is no
	// such set.
	Known func(host.PubKey) bool

	// Allowed reports whether the operator excepts a member from the rules of modules, for the set
	// "allowed". See [talon/host/moderation.Log.Allowed]. Nil: there is no such set.
	Allowed func(member []byte) bool

	Service host.Service // how the relay is reached from outside, for every plugin

	Decisions int // that Why remembers
	Instances int // concurrent calls of one module; default GOMAXPROCS

	// Watch follows changes of the folder in Run.
	Watch bool

	// Nodes are the servers that run the same plugins. The folder is then a proposal
	// to all of them if Watch is set, and else only if nothing runs yet. Nil: there are no
	// others.
	Nodes Nodes

	Log *slog.Logger
	Now func() time.Time
}

func (o *Options) setDefaults() {
	o.Instances = max(cmp.Or(o.Instances, runtime.GOMAXPROCS(0)), 1)
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	if o.Now == nil {
		o.Now = time.Now
	}
}
