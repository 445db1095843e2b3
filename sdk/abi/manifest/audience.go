package manifest

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"talon/sdk/abi"
)

// Candidates are the events about which the function audience is asked: those of one of the kinds,
// and those with one of the tags. The function is not asked about others, which are for everybody
// as far as this module is concerned.
//
// A kind is a number, a range, or "@" and the key of a setting of the type strings, whose values are
// numbers and ranges. So the operator's settings choose the candidates:
//
//	"audience": {"kinds": ["@private_kinds", "30617"], "tags": ["-"]}
type Candidates struct {
	Kinds []string `json:"kinds"`
	Tags  []string `json:"tags"` // names
}

// KindRange is a range of kinds, both ends included.
type KindRange struct{ First, Last uint16 }

const maxAudience = 64 // kinds, and tags

func (m *Manifest) checkAudience() error {
	c := m.Audience
	switch named := slices.Contains(m.Functions, "audience"); {
	case named && c == nil:
		return errors.New("it is missing: it says about which kinds and tags the function audience is asked")
	case !named && c != nil:
		return errors.New("functions does not name audience")
	case c == nil:
		return nil
	case len(c.Kinds)+len(c.Tags) == 0:
		return errors.New("want kinds or tags")
	case len(c.Kinds) > maxAudience, len(c.Tags) > maxCandidates:
		return fmt.Errorf("kinds or tags has more than %d entries", maxAudience)
	}
	for _, kind := range c.Kinds {
		if key, ok := strings.CutPrefix(kind, "@"); ok {
			i := slices.IndexFunc(m.Config, func(s Setting) bool { return s.Key == key })
			if i < 0 || m.Config[i].Type != "strings" {
				return fmt.Errorf("kinds: %.70q: config has no setting of this key and the type strings", kind)
			}
			continue
		}
		if _, err := parseKinds(kind); err != nil {
			return fmt.Errorf("kinds: %w", err)
		}
	}
	return nil
}

// Candidates returns the kinds and the names of tags of [Manifest.Audience], with the settings that
// Resolve returns. Without a function audience there are none.
func (m *Manifest) Candidates(settings []abi.Setting) (kinds []KindRange, tags []string, err error) {
	if m.Audience == nil {
		return nil, nil, nil
	}
	for _, kind := range m.Audience.Kinds {
		values := []string{kind}
		if key, ok := strings.CutPrefix(kind, "@"); ok {
			values = nil
			for i := range settings {
				if settings[i].Key == key {
					values = settings[i].Strings
				}
			}
		}
		for _, v := range values {
			r, err := parseKinds(v)
			if err != nil {
				return nil, nil, fmt.Errorf("config %.70q: %w", strings.TrimPrefix(kind, "@"), err)
			}
			kinds = append(kinds, r)
		}
	}
	return kinds, m.Audience.Tags, nil
}

func parseKinds(text string) (r KindRange, err error) {
	first, last, isRange := strings.Cut(strings.TrimSpace(text), "-")
	if !isRange {
		last = first
	}
	a, errA := strconv.ParseUint(first, 10, 16)
	b, errB := strconv.ParseUint(last, 10, 16)
	if errA != nil || errB != nil || a > b {
		return r, fmt.Errorf("%.40q: want a kind from 0 to 65535, or a range such as 30000-39999", text)
	}
	return KindRange{uint16(a), uint16(b)}, nil
}
