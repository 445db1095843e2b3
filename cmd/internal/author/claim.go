package author

import (
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"talon/host"
	"talon/host/plugin/claim"
	"talon/host/plugin/sidecar"
)

// maxSidecar is how long a side-car may be that a relay reads.
const maxSidecar = 1 << 20

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

// ClaimSidecar returns an event for an operator to sign: that this side-car, by its hash,
// is meant.
func ClaimSidecar(path string) (*host.Event, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open the side-car: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxSidecar+1))
	if err != nil {
		return nil, fmt.Errorf("read the side-car: %w", err)
	}
	if len(text) > maxSidecar {
		return nil, fmt.Errorf("%s has more than %d bytes", path, maxSidecar)
	}
	if _, err := sidecar.Parse(text); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	tags := host.Tags{{"x", fmt.Sprintf("%x", sha256.Sum256(text))}, {"m", "application/toml"}, {"size", strconv.Itoa(len(text))}, {"name", filepath.Base(path)}}
	return &host.Event{Kind: claim.Kind, Tags: tags}, nil
}

// Verify reads a claim and checks that it is signed and speaks of this module: its
// hash and its capabilities. It returns who signed it.
func (s *Source) Verify(text []byte) (*host.Event, error) {
	return claim.Verify(text, s.SHA256, s.Manifest.Capabilities)
}
