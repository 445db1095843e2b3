package guest

import (
	"slices"

	"talon/host"
	"talon/sdk/abi"
	"talon/sdk/abi/manifest"
)

// Candidates are the events about which a module is asked who may receive them. They follow from
// its manifest and settings. Nil has none.
type Candidates struct {
	kinds [1 << 16 / 64]uint64 // a bit for each
	tags  []string

	ranges []manifest.KindRange
}

// newCandidates returns those of a module, nil if it decides about no audiences.
func newCandidates(m *manifest.Manifest, settings []abi.Setting) (*Candidates, error) {
	kinds, tags, err := m.Candidates(settings)
	if err != nil || len(kinds)+len(tags) == 0 {
		return nil, err
	}
	c := &Candidates{tags: tags, ranges: kinds}
	for _, r := range kinds {
		for kind := int(r.First); kind <= int(r.Last); kind++ {
			c.kinds[kind/64] |= 1 << (kind % 64)
		}
	}
	return c, nil
}

// Has reports whether the module is asked about the event.
func (c *Candidates) Has(e *host.Event) bool {
	if c == nil {
		return false
	}
	if c.kinds[e.Kind/64]&(1<<(e.Kind%64)) != 0 {
		return true
	}
	return len(c.tags) > 0 && slices.ContainsFunc(e.Tags, func(tag host.Tag) bool {
		return len(tag) > 0 && slices.Contains(c.tags, tag[0])
	})
}

// Kinds returns the kinds as ranges, and whether tags make events of other kinds candidates.
func (c *Candidates) Kinds() (ranges []manifest.KindRange, more bool) {
	return c.ranges, len(c.tags) > 0
}
