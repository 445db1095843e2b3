package author

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"talon/host"
	"talon/host/plugin"
	"talon/host/plugin/guest"
	"talon/host/plugin/sidecar"
	"talon/internal/smallfile"
	"talon/sdk/abi/manifest"
)

// Inspection describes a module: its manifest, its exports and its capabilities.
type Inspection struct {
	Name         string             `json:"name"`
	Version      string             `json:"version"`
	Summary      string             `json:"summary"`
	SHA256       string             `json:"sha256"`
	SDK          string             `json:"sdk,omitempty"` // that it is built with, and its version
	Size         int                `json:"size"`          // bytes
	Worlds       []string           `json:"worlds"`
	Functions    []string           `json:"functions"` // that a relay calls
	Place        int                `json:"place"`
	Capabilities []string           `json:"capabilities"` // that its manifest asks for
	Imports      []string           `json:"imports"`      // of them, those that it can use
	Fuel         int64              `json:"fuel"`         // of one call
	Memory       int64              `json:"memory"`       // of one instance, bytes
	Vectors      int                `json:"vectors"`
	Settings     []manifest.Setting `json:"settings"`

	// Problem is why a relay would refuse the module, as it is and with its side-car. If it
	// is empty, a relay accepts the module at least until it asks the module something.
	Problem string `json:"problem,omitempty"`
}

// Inspect describes a module of any world. Nothing of it runs but its start.
func (s *Source) Inspect(ctx context.Context) (*Inspection, error) {
	man := s.Manifest
	wasm, err := guest.Decompress(s.Wasm)
	if err != nil {
		return nil, err
	}
	in := &Inspection{
		Name: man.Name, Version: man.Release, Summary: man.Summary, SHA256: s.SHA256, SDK: manifest.SDK(wasm), Size: len(s.Wasm),
		Worlds: man.Worlds, Functions: man.Functions, Place: man.Place, Capabilities: slices.Sorted(slices.Values(man.Capabilities)),
		Fuel: man.Budgets.Fuel, Memory: man.Budgets.MemoryBytes, Vectors: len(man.Vectors), Settings: man.Config,
	}
	err = withCache(func(dir string) error {
		o := guest.Options{
			Name: man.Name, Grants: s.Sidecar.Grants, Config: s.Sidecar.Config, Service: manifestService, CacheDir: dir, Instances: 1,
		}
		m, err := guest.Load(ctx, s.Wasm, o)
		if err != nil {
			in.Problem = err.Error()
			// The side-car may be to blame, and the module can be seen without it.
			o.Grants, o.Config = nil, nil
			if m, err = guest.Load(ctx, s.Wasm, o); err != nil {
				return ctx.Err()
			}
		}
		in.Imports, in.Fuel, in.Memory = m.Imports(), m.Fuel(), m.MemoryLimit()
		return m.Close(context.WithoutCancel(ctx))
	})
	return in, err
}

// Row is one line of an inspection.
type Row struct{ Label, Value string }

// Rows returns the lines of the inspection, in the order in which they are shown. bytes
// writes a size.
func (in *Inspection) Rows(bytes func(int64) string) []Row {
	rows := []Row{
		{"name", in.Name},
		{"version", in.Version},
		{"summary", in.Summary},
		{"sha256", in.SHA256},
		{"sdk", cmp.Or(in.SDK, "none that is known")},
		{"size", bytes(int64(in.Size))},
		{"worlds", list(in.Worlds)},
		{"functions", list(in.Functions)},
		{"place", fmt.Sprint(in.Place)},
		{"capabilities", list(in.Capabilities)},
	}
	if unused := without(in.Capabilities, in.Imports); len(unused) > 0 && in.Memory > 0 {
		rows = append(rows, Row{"not used", list(unused)})
	}
	rows = append(rows,
		Row{"fuel", budget(in.Fuel, fmt.Sprintf("%d a call", in.Fuel))},
		Row{"memory", budget(in.Memory, bytes(in.Memory)+" an instance")},
		Row{"vectors", fmt.Sprint(in.Vectors)})
	if in.Problem != "" {
		rows = append(rows, Row{"problem", "a relay refuses it: " + in.Problem})
	}
	for i := range in.Settings {
		rows = append(rows, Row{"setting " + in.Settings[i].Key, setting(&in.Settings[i])})
	}
	return rows
}

// setting says what a setting takes: "a whole number, at least 1; default 20".
func setting(s *manifest.Setting) string {
	text := s.Want()
	if s.Default != nil {
		text += fmt.Sprintf("; default %.100v", s.Default)
	}
	if s.Help != "" {
		text += ". " + s.Help
	}
	return text
}

func budget(n int64, text string) string {
	if n == 0 {
		return "the relay's default"
	}
	return text
}

func list(words []string) string {
	if len(words) == 0 {
		return "none"
	}
	return strings.Join(words, " ")
}

// without returns the words of a that are not in b.
func without(a, b []string) (rest []string) {
	for _, word := range a {
		if !slices.Contains(b, word) {
			rest = append(rest, word)
		}
	}
	return rest
}

// Change is a row that differs between two inspections; a value is empty where the row is
// absent.
type Change struct{ Label, Before, After string }

// Changes returns the rows that differ between two modules.
func Changes(before, after []Row) (changes []Change) {
	for _, row := range before {
		if now := find(after, row.Label); now != row.Value {
			changes = append(changes, Change{row.Label, row.Value, now})
		}
	}
	for _, row := range after {
		if find(before, row.Label) == "" && row.Value != "" {
			changes = append(changes, Change{row.Label, "", row.Value})
		}
	}
	return changes
}

func find(rows []Row, label string) string {
	for _, row := range rows {
		if row.Label == label {
			return row.Value
		}
	}
	return ""
}

// maxSidecar is how long a side-car may be that a relay reads.
const maxSidecar = 1 << 20

// Claim returns an event for the author to sign. It states that the file with this hash
// is the module of this name and version, and asks for these capabilities and no others.
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
	return &host.Event{Kind: plugin.SignatureKind, Tags: tags, Content: man.Summary}
}

// ClaimSidecar returns an event for an operator to sign. It states the hash of the
// side-car.
func ClaimSidecar(path string) (*host.Event, error) {
	text, err := smallfile.Read(path, maxSidecar)
	if err != nil {
		return nil, fmt.Errorf("read the side-car: %w", err)
	}
	if _, err := sidecar.Parse(text); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	tags := host.Tags{{"x", fmt.Sprintf("%x", sha256.Sum256(text))}, {"m", "application/toml"}, {"size", strconv.Itoa(len(text))}, {"name", filepath.Base(path)}}
	return &host.Event{Kind: plugin.SignatureKind, Tags: tags}, nil
}

// Verify parses a claim and checks its signature and that it names this module's hash and
// capabilities. It returns who signed it.
func (s *Source) Verify(text []byte) (*host.Event, error) {
	return plugin.VerifySignature(text, s.SHA256, s.Manifest.Capabilities)
}
