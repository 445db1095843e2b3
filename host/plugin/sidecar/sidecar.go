// Package sidecar reads NAME.toml. In this file an operator configures the plugin
// NAME.wasm, or names a program that runs instead.
//
// Invariants:
//
//  1. Reading takes bounded time and memory, whatever the bytes.
//  2. A key that does not exist is an error, never ignored: a limit that is
//     spelled wrong is a limit that is not there.
//  3. An error is one sentence with the line, the key, the value and what is
//     wanted.
//  4. [SetMode] changes no byte but those of the mode, and [Assign] none but those of the keys that it
//     is given, or of a table within braces that has them.
//
// The package opens no file, and does not know what the module is.
package sidecar

import (
	"fmt"
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

// Modes of a plugin.
const (
	Enforce Mode = "enforce" // it decides
	Shadow  Mode = "shadow"  // it is asked, what it says has no effect
	Off     Mode = "off"     // it is not loaded
)

// OnFailure says what happens when a plugin fails: it trapped, ran out of fuel,
// answered garbage, or its breaker is open.
type OnFailure string

// Actions when a plugin fails.
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
