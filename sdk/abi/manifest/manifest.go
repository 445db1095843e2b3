package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
)

// Version is the value of "talon_manifest" that this package reads.
const Version = 1

// WorldPolicy is the world of modules that decide which events are accepted.
const WorldPolicy = "policy"

// Manifest is what a module says about itself.
type Manifest struct {
	Version      int       `json:"talon_manifest"`
	Name         string    `json:"name"`    // a-z 0-9 - _, at most 32
	Release      string    `json:"version"` // of the module; at most 32 bytes
	Summary      string    `json:"summary"` // one sentence
	Worlds       []string  `json:"worlds"`
	Capabilities []string  `json:"capabilities"`
	Config       []Setting `json:"config"`
	Budgets      Budgets   `json:"budgets"`
}

// Budgets is what a module asks for. Zero leaves it to the host; the host's
// own limits are never exceeded.
type Budgets struct {
	Fuel        int64 `json:"fuel"` // for one decision
	MemoryBytes int64 `json:"memory_bytes"`
	OutputBytes int64 `json:"output_bytes"` // of one verdict
}

const (
	maxText     = 64 << 10 // of the JSON
	maxSettings = 256
	maxList     = 64 // worlds, capabilities
)

// Parse reads the JSON object at the start of text. What follows it is ignored.
func Parse(text []byte) (*Manifest, error) {
	cut := text[:min(len(text), maxText)]
	dec := json.NewDecoder(bytes.NewReader(cut))
	dec.UseNumber()
	m := new(Manifest)
	if err := dec.Decode(m); err != nil {
		if len(text) > maxText && (errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF)) {
			return nil, fmt.Errorf("the manifest is longer than %d bytes", maxText)
		}
		return nil, fmt.Errorf("parse the manifest: %w", err)
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
	case len(m.Worlds) > maxList, len(m.Capabilities) > maxList:
		return fmt.Errorf("worlds or capabilities has more than %d entries", maxList)
	case len(m.Config) > maxSettings:
		return fmt.Errorf("config has more than %d settings", maxSettings)
	case m.Budgets.Fuel < 0, m.Budgets.MemoryBytes < 0, m.Budgets.OutputBytes < 0:
		return errors.New("a budget is negative")
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
	return nil
}

func isName(s string, most int) bool {
	for i := 0; i < len(s); i++ {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' && c != '-' {
			return false
		}
	}
	return s != "" && len(s) <= most
}
