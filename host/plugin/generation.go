package plugin

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"talon/host"
	"talon/host/plugin/guest"
	"talon/host/plugin/sets"
	"talon/host/plugin/sidecar"
	"talon/sdk/abi/manifest"
)

// programVersion is the version of every program.
const programVersion = "exec"

// generation is a plugin that has passed every check: a loaded module, or a program,
// with its settings. It never changes; a change of any of its files makes another.
type generation struct {
	name     string
	number   int64
	since    time.Time
	key      key
	position int
	file     *sidecar.File
	module   *guest.Module
	sets     *sets.Sets // nil if it has none
	counters *counters  // of the name

	program *processPool // in the place of a module, which is nil then
	breaker breaker
	meters  *metrics
	busy    *waves // of the registry

	signer string // npub of who signed the module; empty: nobody had to

	refusal host.Ruling // the answer to a client when the module fails

	required bool
	absent   bool // it stands for a policy that does not run: it refuses
	hidden   bool // decides only where another has failed
	leftOut  bool // a policy that the operator's choice of them does not name
	off      bool // by its side-car, or because it is left out and nothing else

	users int // active sets and reducers that hold it; guarded by Registry.refs
}

// refusalOf returns the answer to a client when a plugin fails.
func refusalOf(name string) host.Ruling {
	return host.Ruling{
		Action: host.Reject, Rule: "failed", Module: name,
		Reason: "error: policy " + name + " failed, try again later",
	}
}

// compare orders generations as they are asked.
func (g *generation) compare(other *generation) int {
	return cmp.Or(cmp.Compare(g.position, other.position), strings.Compare(g.name, other.name))
}

// calls reports whether the plugin is asked by the function.
func (g *generation) calls(f guest.Func) bool {
	if g.program != nil || g.absent {
		return f == guest.Admit
	}
	return g.module.Calls(f)
}

// about is what the plugin says about the relay.
func (g *generation) about() host.Description {
	if g.program != nil || g.absent {
		return host.Description{}
	}
	return g.module.About()
}

// version is what the plugin calls this state of itself.
func (g *generation) version() string {
	if g.program != nil {
		return programVersion
	}
	if g.module == nil {
		return "" // it is off
	}
	return g.module.Manifest().Release
}

// serves reports whether the module is for a world.
func (g *generation) serves(world string) bool {
	if g.program != nil || g.absent {
		return world == manifest.WorldPolicy
	}
	return slices.Contains(g.module.Manifest().Worlds, world)
}

// shadow reports whether what it says has no effect.
func (g *generation) shadow() bool { return g.file.Mode == sidecar.Shadow }

// decides reports whether it is a policy that enforces.
func (g *generation) decides() bool {
	return !g.off && !g.leftOut && !g.shadow() && g.serves(manifest.WorldPolicy)
}

// close releases the module or the program, which nobody calls any more.
func (g *generation) close() error {
	if g.program != nil {
		return g.program.close()
	}
	if g.module == nil {
		return nil
	}
	return g.module.Close(context.Background())
}
