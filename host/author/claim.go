package author

import (
	"slices"
	"strconv"

	"talon/host"
	"talon/host/plugin/claim"
)

// Claim returns an event for the author to sign: that this file, by its hash, is the
// module of this name and version, and asks for these capabilities and no others.
// url is where it can be had, empty if that is not said.
func (s *Source) Claim(url string) *host.Event {
	man := s.Manifest
	tags := host.Tags{{"x", s.SHA256}, {"m", "application/wasm"}, {"size", strconv.Itoa(len(s.Wasm))}, {"name", man.Name}, {"version", man.Release}}
	if url != "" {
		tags = append(tags, host.Tag{"url", url})
	}
	for _, world := range man.Worlds {
		tags = append(tags, host.Tag{"world", world})
	}
	for _, capability := range slices.Sorted(slices.Values(man.Capabilities)) {
		tags = append(tags, host.Tag{"capability", capability})
	}
	return &host.Event{Kind: claim.Kind, Tags: tags, Content: man.Summary}
}

// Verify reads a claim and checks that it is signed and speaks of this module: its
// hash and its capabilities. It returns who signed it.
func (s *Source) Verify(text []byte) (*host.Event, error) {
	return claim.Verify(text, s.SHA256, s.Manifest.Capabilities)
}
