package sidecar

import (
	"cmp"
	"path/filepath"
)

// Program is a program that decides in the place of a module: a plugin of strfry.
type Program struct {
	Path      string // absolute
	TimeoutMS int64  // milliseconds, of one decision
	Processes int    // of the program, at the same time

	// Accepts says what accept means: true, that the event is stored; false, that the
	// program has nothing against it, and the next plugin decides.
	Accepts bool
}

// Bounds and defaults of a program. Those who decide wait for it, so its time is
// short.
const (
	defaultTimeout = 1000 // milliseconds
	minTimeout     = 10
	maxTimeout     = 10_000
	maxProcesses   = 64
)

// readProgram reads a side-car that names a program. A module's keys mean nothing to
// one.
func (f *File) readProgram(t table) {
	t.only("mode", "required", "place", "on-failure", "exec", "timeout", "processes", "on-accept")
	p := &Program{Path: t.oneLine("exec", maxPath), Processes: 1}
	if !filepath.IsAbs(p.Path) || filepath.Clean(p.Path) != p.Path {
		t.wrong("exec", "the absolute path of a program, without arguments, such as \"/usr/local/lib/strfry/spam.py\"")
	}
	p.TimeoutMS = cmp.Or(t.time("timeout", minTimeout, maxTimeout, "a time from 10ms to 10s, such as \"500ms\" or \"2s\""), defaultTimeout)
	if _, ok := t.keys["processes"]; ok {
		p.Processes = int(t.number("processes", 1, maxProcesses))
	}
	if value, ok := t.get("on-accept"); ok {
		if value != "accept" && value != "pass" {
			t.wrong("on-accept", "accept or pass")
		}
		p.Accepts = value == "accept"
	}
	f.Program = p
}
