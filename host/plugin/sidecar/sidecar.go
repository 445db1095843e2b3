// Package sidecar reads NAME.toml, the file beside NAME.wasm with which an
// operator says how a plugin runs; or which names a program that runs instead.
//
// Invariants:
//
//  1. Whatever the bytes, reading them takes bounded time and memory.
//  2. A key that does not exist is an error, never ignored: a limit that is
//     spelled wrong is a limit that is not there.
//  3. An error is one sentence with the line, the key, the value and what is
//     wanted.
//  4. [SetMode] changes no byte but those of the mode.
//
// The package opens no file, and does not know what the module is.
package sidecar

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"talon/sdk/nip19"
)

// IsName reports whether a plugin may have this name.
func IsName(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_' {
			return false
		}
	}
	return s != "" && len(s) <= 64
}

// Mode says what a plugin's opinions do.
type Mode string

// Modes of a plugin.
const (
	Enforce Mode = "enforce" // it decides
	Shadow  Mode = "shadow"  // it is asked, what it says has no effect
	Off     Mode = "off"     // it is not loaded
)

// UnmarshalText takes only the modes that exist.
func (m *Mode) UnmarshalText(text []byte) error {
	switch mode := Mode(text); mode {
	case Enforce, Shadow, Off:
		*m = mode
		return nil
	}
	return fmt.Errorf("mode %.40q: want enforce, shadow or off", text)
}

// OnFailure says what happens when a plugin fails: it trapped, ran out of fuel,
// answered garbage, or its breaker is open.
type OnFailure string

// What can happen when a plugin fails.
const (
	Closed  OnFailure = "closed"  // refuse, so that the client can try again
	Open    OnFailure = "open"    // go on as if it had no opinion
	Bundled OnFailure = "bundled" // take the default of the world
)

// UnmarshalText takes only the choices that exist.
func (o *OnFailure) UnmarshalText(text []byte) error {
	switch choice := OnFailure(text); choice {
	case Closed, Open, Bundled:
		*o = choice
		return nil
	}
	return fmt.Errorf("on-failure %.40q: want closed, open or bundled", text)
}

// File is what a side-car says.
type File struct {
	Mode         Mode
	Required     bool                 // nothing that it would judge is decided without it
	Place        *int                 // in the chain, 0 to 1000; nil: the manifest's
	SHA256       string               // of the module, lower-case hex; empty: any module
	Signers      [][32]byte           // one of these keys must have signed the module; nil: nobody must
	Capabilities []string             // names or groups; nil: all that the host has
	OnFailure    map[string]OnFailure // by world; see [File.Failure]
	Budgets      Budgets
	Config       map[string]any // for the module; its manifest says what is right
	Sets         []Set          // sorted by name
	Program      *Program       // that runs instead of a module; nil: there is none
}

// Budgets limit one module. Zero leaves a budget to the manifest, or to the host.
type Budgets struct {
	Fuel     int64 // of one call
	Memory   int64 // bytes of one instance
	Output   int64 // bytes that one call returns
	LogLines int   // of one call
	LogRate  int   // lines per second
	State    int64 // bytes that the plugin keeps

	TimeMS    int64 // of one call, its reads included
	Reads     int   // of store, purgatory and repositories in one call
	Bytes     int64 // that host functions move in one call
	HostCalls int   // calls of any host function in one call
}

// Set is a list that the host keeps for the module. It has either a file or a
// nostr list.
type Set struct {
	Name string
	File string // path
	List string // reference to the list
}

// Grants says whether the module may import the capability.
func (f *File) Grants(capability string) bool {
	if f.Capabilities == nil {
		return true
	}
	return slices.Contains(f.Capabilities, capability) || slices.Contains(f.Capabilities, group(capability))
}

// Failure says what happens when the module fails in a world.
func (f *File) Failure(world string) OnFailure {
	if choice, ok := f.OnFailure[world]; ok {
		return choice
	}
	if world == "policy" {
		return Closed
	}
	return Bundled
}

// SetMode changes the mode in the text of a side-car, or adds it at the top, and
// keeps everything else. It refuses a text that is still wrong then.
func SetMode(text []byte, mode Mode) ([]byte, error) {
	if err := new(Mode).UnmarshalText([]byte(mode)); err != nil {
		return nil, err
	}
	list, err := scan(text)
	if err != nil {
		return nil, err
	}
	value := fmt.Sprintf("%q", mode)
	var out []byte
	if st := findMode(list); st != nil {
		out = slices.Concat(text[:st.start], []byte(value), text[st.end:])
	} else {
		rest, marked := bytes.CutPrefix(text, bom)
		if marked {
			out = append(out, bom...)
		}
		out = append(out, "mode = "+value+newline(text)...)
		out = append(out, rest...)
	}
	f, err := Parse(out)
	if err != nil {
		return nil, err
	}
	if f.Mode != mode {
		return nil, errors.New("the mode stands in the side-car in a way that cannot be changed here: write mode = " + value + " by hand")
	}
	return out, nil
}

// findMode returns the statement with the mode. After the first header of a
// table, a key belongs to that table.
func findMode(list []statement) *statement {
	for i := range list {
		switch st := &list[i]; {
		case st.header:
			return nil
		case st.key == "mode", st.key == `"mode"`, st.key == "'mode'":
			return st
		}
	}
	return nil
}

// newline returns how the lines of text end.
func newline(text []byte) string {
	if i := bytes.IndexByte(text, '\n'); i > 0 && text[i-1] == '\r' {
		return "\r\n"
	}
	return "\n"
}

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

const maxSigners = 64

// readSigners reads who may have signed the module.
func (f *File) readSigners(t table) {
	value, ok := t.get("signers")
	if !ok {
		return
	}
	list, ok := value.([]any)
	if !ok || len(list) == 0 || len(list) > maxSigners {
		t.wrong("signers", fmt.Sprintf("a list of 1 to %d keys, such as [\"npub1…\"]", maxSigners))
		return
	}
	for _, item := range list {
		text, _ := item.(string)
		key, err := nip19.ParsePubKey(text)
		if err != nil {
			// A secret key in the wrong place must not end in a log.
			if strings.HasPrefix(strings.ToLower(strings.TrimSpace(text)), "nsec") {
				item = "nsec…"
			}
			t.wrongItem("signers", item, "an npub, or 64 lower-case hex digits")
			return
		}
		f.Signers = append(f.Signers, key)
	}
}
