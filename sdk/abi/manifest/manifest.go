// Package manifest reads the manifest of a module, without running it, and checks an operator's
// configuration against it.
//
// A manifest is a JSON object whose first key is "talon_manifest", somewhere in
// the module's data segments: any language puts it there with a constant.
//
//	{
//	  "talon_manifest": 1,
//	  "name": "sizes",
//	  "version": "1.0.0",
//	  "summary": "Refuses large events.",
//	  "worlds": ["policy"],
//	  "functions": ["admit", "query"],
//	  "place": 60,
//	  "capabilities": ["log"],
//	  "config": [
//	    {"key": "max_bytes", "type": "int", "default": 65536, "min": 0, "help": "Largest content in bytes."}
//	  ],
//	  "budgets": {"fuel": 100000, "memory_bytes": 8388608},
//	  "vectors": [
//	    {
//	      "name": "a large note", "function": "admit", "config": {"max_bytes": 3}, "event": {"kind": 1, "content": "four"},
//	      "want": {"action": "reject", "rule": "too-large", "reason": "blocked: the content is too large"}
//	    }
//	  ]
//	}
//
// "functions" is the list of functions that the host calls, only "admit" if it is absent. A
// toolchain may export more than a module implements: sdk/policy always exports all five functions
// of a policy, and a call that only says "pass" still takes a microsecond.
//
// "audience" belongs to the function of that name: about which events it is asked. See
// [Candidates].
//
// "vectors" are tests that a host runs before the module decides about anything,
// and that the author runs with go test: see [Vector]. Policies and throttles have
// them.
//
// Invariants:
//
//  1. Reading takes bounded time and memory and does not panic, for any bytes.
//  2. [Manifest.Resolve] returns a value for every setting, each within its
//     limits, or an error that names key, value and what is allowed.
//  3. Unknown fields of the JSON are ignored: fields can be added for years. But not
//     those of a throttle's vectors, about which this host could not ask.
//  4. The vectors of a parsed manifest can be encoded, and their configuration
//     resolves.
//
// Hosts and native tests use the package; guests do not import it.
package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Version is the value of "talon_manifest" that this package reads.
const Version = 1

// WorldPolicy is the world of modules that decide which events are accepted.
const WorldPolicy = "policy"

// Manifest is a module's description of itself.
type Manifest struct {
	Version int      `json:"talon_manifest"`
	Name    string   `json:"name"`    // a-z 0-9 - _, at most 32
	Release string   `json:"version"` // of the module; at most 32 bytes
	Summary string   `json:"summary"` // one sentence
	Worlds  []string `json:"worlds"`

	// Functions are those that the host calls. The module must export each of them. The host calls
	// no others. If absent: admit of a policy, and every function of the other worlds.
	Functions []string `json:"functions"`

	// Place is where in the chain of policies the module fits: 0 is asked first,
	// 1000 last. Absent: DefaultPlace.
	Place int `json:"place"`

	// Audience says about which events the function audience is asked. It is there if functions
	// names that.
	Audience *Candidates `json:"audience"`

	Capabilities []string `json:"capabilities"`

	// Sets are the names of the sets that a module with the capability sets.contains reads.
	// Absent: any name.
	Sets []string `json:"sets"`

	Config  []Setting `json:"config"`
	Budgets Budgets   `json:"budgets"`
	Vectors []Vector  `json:"vectors"` // tests of the module by itself
}

// DefaultPlace is the place of a module that names none.
const DefaultPlace = 50

// Budgets are the budgets that a module asks for. Zero leaves the choice to the host. The host's
// own limits are never exceeded.
type Budgets struct {
	Fuel        int64 `json:"fuel"` // for one decision
	MemoryBytes int64 `json:"memory_bytes"`
	OutputBytes int64 `json:"output_bytes"` // of one verdict
}

const (
	maxText     = 256 << 10 // of the JSON
	maxSettings = 256
	maxPlace    = 1000
	maxList     = 64 // worlds, capabilities
)

// Parse reads the JSON object at the start of text, and ignores the rest.
func Parse(text []byte) (*Manifest, error) {
	cut := text[:min(len(text), maxText)]
	dec := json.NewDecoder(bytes.NewReader(cut))
	dec.UseNumber()
	m := &Manifest{Place: DefaultPlace}
	if err := dec.Decode(m); err != nil {
		if len(text) > maxText && (errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF)) {
			return nil, fmt.Errorf("the manifest is longer than %d bytes", maxText)
		}
		return nil, fmt.Errorf("parse the manifest: %w", inWords(err))
	}
	if err := m.validate(); err != nil {
		return nil, fmt.Errorf("the manifest is wrong: %w", err)
	}
	return m, nil
}

func (m *Manifest) validate() error {
	switch {
	case m.Version != Version:
		return fmt.Errorf("talon_manifest is %d, this host reads %d", m.Version, Version)
	case !isName(m.Name, 32):
		return fmt.Errorf("name %.40q: want a-z, 0-9, - and _, at most 32", m.Name)
	case len(m.Release) > 32:
		return fmt.Errorf("version is longer than 32 bytes")
	case len(m.Worlds) == 0:
		return errors.New("worlds is empty")
	case len(m.Worlds) > maxList, len(m.Capabilities) > maxList, len(m.Sets) > maxList:
		return fmt.Errorf("worlds, capabilities or sets has more than %d entries", maxList)
	case len(m.Config) > maxSettings:
		return fmt.Errorf("config has more than %d settings", maxSettings)
	case m.Budgets.Fuel < 0, m.Budgets.MemoryBytes < 0, m.Budgets.OutputBytes < 0:
		return errors.New("a budget is negative")
	case m.Place < 0, m.Place > maxPlace:
		return fmt.Errorf("place is %d: want 0 to %d", m.Place, maxPlace)
	case len(m.Vectors) > maxVectors:
		return fmt.Errorf("vectors has more than %d entries", maxVectors)
	}
	if err := m.checkFunctions(); err != nil {
		return err
	}
	for i := range m.Config {
		s := &m.Config[i]
		if err := s.validate(); err != nil {
			return fmt.Errorf("config %.40q: %w", s.Key, err)
		}
		if slices.ContainsFunc(m.Config[:i], func(o Setting) bool { return o.Key == s.Key }) {
			return fmt.Errorf("config %q is there twice", s.Key)
		}
	}
	if err := m.checkAudience(); err != nil {
		return fmt.Errorf("audience: %w", err)
	}
	for i := range m.Vectors {
		if err := m.checkVector(i); err != nil {
			return fmt.Errorf("vector %q: %w", m.Vectors[i].Name, err)
		}
	}
	return nil
}

// checkFunctions fills in the functions, and checks that they and the worlds
// belong together.
func (m *Manifest) checkFunctions() error {
	if m.Functions == nil {
		for _, world := range m.Worlds {
			if world == WorldPolicy {
				m.Functions = append(m.Functions, "admit")
			} else {
				m.Functions = append(m.Functions, Functions(world)...)
			}
		}
		return nil
	}
	var known []string
	for _, world := range m.Worlds {
		of := Functions(world)
		if of != nil && !slices.ContainsFunc(of, func(f string) bool { return slices.Contains(m.Functions, f) }) {
			return fmt.Errorf("functions names none of the world %s: %s", world, strings.Join(of, ", "))
		}
		known = append(known, of...)
	}
	for i, f := range m.Functions {
		switch {
		case !slices.Contains(known, f):
			return fmt.Errorf("functions: %.40q: want one of %s", f, strings.Join(known, ", "))
		case slices.Contains(m.Functions[:i], f):
			return fmt.Errorf("functions names %q twice", f)
		}
	}
	return nil
}

// checkVector checks the parts of a vector that refer to the rest of the manifest.
func (m *Manifest) checkVector(i int) error {
	v := &m.Vectors[i]
	switch {
	case slices.ContainsFunc(m.Vectors[:i], func(o Vector) bool { return o.Name == v.Name }):
		return errors.New("there are two of this name")
	case !slices.Contains(m.Functions, v.Function):
		return fmt.Errorf("it tests %s, which functions does not name", v.Function)
	case v.Then && i == 0:
		return errors.New("then goes on where the vector before ended, and there is none")
	case v.Then && v.Policy() != m.Vectors[i-1].Policy():
		return errors.New("then goes on where the vector before ended, and that is of another world")
	case v.Then && (v.Config != nil || v.Service != nil):
		return errors.New("then goes on with config and service of the vector before: leave them out")
	}
	_, err := m.Resolve(v.Config)
	return err
}

// Story returns the vectors from the one that begins with a new instance to the one at
// index i, which may be the same.
func (m *Manifest) Story(i int) []*Vector {
	var story []*Vector
	for begins := false; !begins; i-- {
		story = append(story, &m.Vectors[i])
		begins = !m.Vectors[i].Then
	}
	slices.Reverse(story)
	return story
}

func isName(s string, limit int) bool {
	for i := 0; i < len(s); i++ {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' && c != '-' {
			return false
		}
	}
	return s != "" && len(s) <= limit
}

// capabilitySets is the capability of modules that read sets.
const capabilitySets = "sets.contains"

// CheckNamedSets returns an error for a value of the configuration that names a set which is not
// there. Names are those of the side-car. The host has more.
func (m *Manifest) CheckNamedSets(values map[string]any, names []string, exists func(name string) bool) error {
	settings, err := m.Resolve(values)
	if err != nil {
		return err
	}
	for i := range m.Config {
		prefix := m.Config[i].SetPrefix
		if prefix == "" {
			continue
		}
		for _, value := range settings[i].Strings {
			name, ok := strings.CutPrefix(value, prefix)
			if !ok || slices.Contains(names, name) || exists(name) {
				continue
			}
			there := "none"
			if len(names) > 0 {
				there = strings.Join(names, ", ")
			}
			return &ConfigError{Key: m.Config[i].Key, Value: value, Want: fmt.Sprintf("the name of a set; the sets are: %s", there)}
		}
	}
	return nil
}

// CheckSet returns an error for the name of a set that the module never reads.
func (m *Manifest) CheckSet(name string) error {
	switch {
	case !slices.Contains(m.Capabilities, capabilitySets):
		return fmt.Errorf("set %q: the module reads no sets", name)
	case len(m.Sets) > 0 && !slices.Contains(m.Sets, name):
		return fmt.Errorf("set %q: the module reads the sets %s", name, strings.Join(m.Sets, ", "))
	}
	return nil
}
