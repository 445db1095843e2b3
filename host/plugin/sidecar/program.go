package sidecar

import (
	"path/filepath"
	"strconv"
	"strings"
)

// Program is a program that decides in the place of a module: a plugin of strfry.
type Program struct {
	Path      string // absolute
	TimeoutMS int64  // milliseconds, of one decision
	Processes int    // of the program, at once

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
	t.only("mode", "place", "on-failure", "exec", "timeout", "processes", "on-accept")
	p := &Program{Path: t.oneLine("exec", maxPath), TimeoutMS: defaultTimeout, Processes: 1}
	if !filepath.IsAbs(p.Path) || filepath.Clean(p.Path) != p.Path {
		t.wrong("exec", "the absolute path of a program, without arguments, such as \"/usr/local/lib/strfry/spam.py\"")
	}
	if value, ok := t.get("timeout"); ok {
		text, _ := value.(string)
		if p.TimeoutMS, ok = parseTime(text); !ok || p.TimeoutMS < minTimeout || p.TimeoutMS > maxTimeout {
			t.wrong("timeout", "a time from 10ms to 10s, such as \"500ms\" or \"2s\"")
		}
	}
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

// parseTime reads whole milliseconds or seconds.
func parseTime(text string) (ms int64, ok bool) {
	unit := int64(1)
	digits, ok := strings.CutSuffix(text, "ms")
	if !ok {
		unit = 1000
		if digits, ok = strings.CutSuffix(text, "s"); !ok {
			return 0, false
		}
	}
	n, err := strconv.ParseUint(digits, 10, 16)
	return int64(n) * unit, err == nil
}
