package author

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"talon/host/plugin/guest"
	"talon/sdk/abi/manifest"
)

// Inspection is what a module says of itself and what it can do.
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

	// Problem is why a relay would refuse the module, as it is and with the side-car
	// beside it. Empty: it would not, before it asks the module anything.
	Problem string `json:"problem,omitempty"`
}

// Inspect looks at a module of any world. Nothing of it runs but its start.
func (s *Source) Inspect(ctx context.Context) (*Inspection, error) {
	man := s.Manifest
	in := &Inspection{
		Name: man.Name, Version: man.Release, Summary: man.Summary, SHA256: s.SHA256, SDK: manifest.SDK(s.Wasm), Size: len(s.Wasm),
		Worlds: man.Worlds, Functions: man.Functions, Place: man.Place, Capabilities: slices.Sorted(slices.Values(man.Capabilities)),
		Fuel: man.Budgets.Fuel, Memory: man.Budgets.MemoryBytes, Vectors: len(man.Vectors), Settings: man.Config,
	}
	c, err := openCache()
	if err != nil {
		return nil, err
	}
	o := guest.Options{
		Name: man.Name, Grants: s.Sidecar.Grants, Config: s.Sidecar.Config, Service: manifestService, CacheDir: c.dir, Instances: 1,
	}
	err = c.hold(func() error {
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
	return in, cmpErr(err, c.close())
}

// Row is one line of an inspection.
type Row struct{ Label, Value string }

// Rows are what there is to see, in the order in which it is shown. bytes writes a
// size.
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

// Change is a row that two inspections do not have alike; empty where it is not
// there.
type Change struct{ Label, Before, After string }

// Changes returns what is not the same in two modules.
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
